//! Models that leave their GPUs although nothing takes their place: after their time to live, or because somebody wants it.

use crate::service::{Running, begin, chat};
use crate::support::*;
use gswarm_core::{ModelId, Time};
use gswarm_exec::forward::Piece;
use std::collections::BTreeMap;

/// Asks a model and reads its whole answer.
async fn call(running: &Running, model: &str) -> ModelId {
    let id = running.client.model(model).unwrap();
    let mut ticket = running.client.call(id, chat(model, false), 0).await.unwrap();
    assert_eq!(ticket.answering.head.await.unwrap().unwrap().status, 200);
    while !matches!(ticket.answering.pieces.recv().await, Some(Piece::End)) {}
    id
}

/// The models on GPUs, and the service's time.
async fn there(running: &Running) -> (Vec<String>, Time) {
    let look = |view: &gswarm_exec::service::ServiceView<'_>| {
        let scene = view.scene();
        let models = scene.models().into_iter().filter(|model| !model.resident_on.is_empty());
        (models.map(|model| model.name).collect(), scene.now)
    };
    running.client.ask(look).await.unwrap()
}

/// Waits until none of these is there, and gives the time.
async fn gone(running: &Running, models: &[&str]) -> Time {
    let wait = async {
        loop {
            let (found, now) = there(running).await;
            if !found.iter().any(|model| models.contains(&model.as_str())) {
                return now;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(gswarm_testing::LIMIT, wait).await.expect("models leave")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_nobody_uses_leaves_after_its_time_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let ttl = Span(300_000_000);
    // Models have the numbers of the configuration: the writer is its first.
    let limits = ServiceLimits { ttl: BTreeMap::from([(ModelId(0), ttl)]), ..ServiceLimits::default() };
    let running = begin(folder.path(), emulated, limits);
    call(&running, "painter").await;
    for _ in 0..2 {
        assert_eq!(call(&running, "writer").await, ModelId(0));
        let (_, answered) = there(&running).await;
        let left = gone(&running, &["writer"]).await;
        // It was last used at most a call's two seconds and a look before its answer was read here.
        assert!(left.since(answered) + Span(60_000_000) >= ttl, "{answered} to {left}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_unloaded_when_somebody_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let running = begin(folder.path(), emulated, ServiceLimits::default());
    let (writer, painter) = (call(&running, "writer").await, call(&running, "painter").await);
    assert_eq!(running.client.unload(vec![writer]).await.unwrap(), [writer]);
    gone(&running, &["writer"]).await;
    call(&running, "painter").await;
    assert_eq!(running.client.unload(vec![writer, painter]).await.unwrap(), [painter], "the other is gone");
    gone(&running, &["writer", "painter"]).await;
    // One that executes is not cut off: it leaves once its calls have ended.
    let ticket = running.client.call(writer, chat("writer", false), 0).await.unwrap();
    let loads = async {
        while running.client.unload(vec![writer]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(gswarm_testing::LIMIT, loads).await.expect("it loads");
    assert_eq!(ticket.answering.head.await.unwrap().unwrap().status, 200);
    gone(&running, &["writer"]).await;
    running.stop().await;
}
