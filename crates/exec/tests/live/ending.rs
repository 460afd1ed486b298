//! How a service ends.

use crate::service::{begin, chat};
use crate::support::*;
use gswarm_core::Instance;
use gswarm_exec::service::Refusal;
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_stops_ends_its_calls_and_leaves_the_rest_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let running = begin(
        folder.path(),
        emulated,
        ServiceLimits { drain: Span(3_600_000_000), ..ServiceLimits::default() },
    );
    for at in 0..20 {
        running.submit(&format!("r{at}"), "picture").await.unwrap();
    }
    let client = running.client.clone();
    let model = client.model("painter").unwrap();
    let ticket = client.call(model, chat("painter", false), 0).await.unwrap();
    client.stop();
    assert_eq!(running.submit("late", "text").await, Err(Refusal::Stopping));
    assert_eq!(ticket.answering.head.await.unwrap().unwrap().status, 200);
    running.service.await.unwrap();
    let next = begin(folder.path(), emulated, ServiceLimits::default());
    for at in 0..20 {
        assert_eq!(next.result(&format!("r{at}")).await["status"], "completed");
    }
    next.stop().await;
}

/// Counts the calls that were begun; each waits until it may end.
struct Counting(Arc<AtomicU32>, Arc<tokio::sync::Semaphore>);

#[async_trait::async_trait]
impl Backend for Counting {
    async fn load(&self, _: Replica, _: Span) -> Result<(), BackendError> {
        Ok(())
    }

    async fn unload(&self, _: Replica) -> Result<(), BackendError> {
        Ok(())
    }

    async fn call(&self, _: Replica, _: &Call) -> Result<Value, BackendError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.acquire().await.unwrap().forget();
        Ok(json!({"text": "x"}))
    }

    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// A node that runs when the service stops ends; the one after it is left to the next service.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_started_once_a_service_stops() {
    let folder = tempfile::tempdir().unwrap();
    let (begun, go) = (Arc::new(AtomicU32::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
    let counting = || {
        let counting = Arc::new(Counting(Arc::clone(&begun), Arc::clone(&go)));
        move |instance: &Instance, _: &Clock| Fleet::of(counting, instance.cluster.gpus)
    };
    let limits = || ServiceLimits { drain: Span(3_600_000_000), ..ServiceLimits::default() };
    let running = begin(folder.path(), counting(), limits());
    running.submit("r", "picture").await.unwrap();
    gswarm_testing::until("a node runs", || begun.load(Ordering::SeqCst) > 0);
    running.client.stop();
    // Commands are obeyed in their order.
    assert!(running.client.ask(|standing| standing.not_ready()).await.unwrap().is_some());
    go.add_permits(100);
    running.service.await.unwrap();
    assert_eq!(begun.load(Ordering::SeqCst), 1, "only what ran was ended");
    let next = begin(folder.path(), counting(), limits());
    assert_eq!(next.result("r").await["status"], "completed");
    assert_eq!(begun.load(Ordering::SeqCst), 4, "what had ended is not done again");
    next.stop().await;
}
