//! A service under failures for some minutes: every request accounted for, and memory flat.
//!
//! `cargo run --release -p gswarm-exec --example soak -- SECONDS`

use gswarm_core::input::{ClusterSpec, Source, read_config, read_requests};
use gswarm_core::instance::{Cluster, Instance, Mode};
use gswarm_core::policy::{BuildContext, PolicyKind};
use gswarm_core::{ModelId, Span};
use gswarm_exec::backend::{Backend, BackendError, EmulatedBackend, Replica};
use gswarm_exec::call::Call;
use gswarm_exec::clock::Clock;
use gswarm_exec::drive::Patience;
use gswarm_exec::fleet::{Fleet, Member};
use gswarm_exec::forward::{Forward, Piece};
use gswarm_exec::journal::Durability;
use gswarm_exec::service::{Client, Refusal, Service, ServiceBeliefs, ServiceLimits, with_direct_workflows};
use gswarm_exec::wire::RequestState;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CONFIG: &str = "
models:
  a: {name: A, memory_gb: 14, gpus_required: 1, load_time_seconds: 4, inference_time_mean: 1, batching: {max_batch: 8, slowdown: [[1, 1.0], [8, 1.3]]}}
  b: {name: B, memory_gb: 7, gpus_required: 1, load_time_seconds: 2, inference_time_mean: 0.5}
  c: {name: C, memory_gb: 30, gpus_required: 2, load_time_seconds: 6, inference_time_mean: 1}
workflows:
  w:
    name: w
    nodes: [{id: x, model: a}, {id: y, model: b}, {id: z, model: c}]
    edges: [{from: x, to: y}, {from: x, to: z}]
";

/// Emulated servers that fail now and then: calls, loads and, for moments, as a whole.
struct Faulty {
    inner: EmulatedBackend,
    asked: AtomicU64,
}

/// Faults that were made.
static FAULTS: AtomicU64 = AtomicU64::new(0);

impl Faulty {
    fn stumbles(&self) -> Result<(), BackendError> {
        let fault = match self.asked.fetch_add(1, Ordering::Relaxed) % 1009 {
            0 => BackendError::Gone("it fell over".to_owned()),
            part if part % 37 == 0 => BackendError::Failed("it stumbled".to_owned()),
            _ => return Ok(()),
        };
        FAULTS.fetch_add(1, Ordering::Relaxed);
        Err(fault)
    }
}

#[async_trait::async_trait]
impl Backend for Faulty {
    async fn load(&self, replica: Replica, expected: Span) -> Result<(), BackendError> {
        self.inner.load(replica, expected).await?;
        self.stumbles()
    }
    async fn unload(&self, replica: Replica) -> Result<(), BackendError> {
        self.inner.unload(replica).await
    }
    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        let answer = self.inner.call(replica, call).await?;
        self.stumbles()?;
        Ok(answer)
    }
    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    let seconds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(120);
    let scenario = read_config(Source { name: "config", bytes: CONFIG.as_bytes() }).scenario.expect("valid");
    let scenario = Arc::new(with_direct_workflows(scenario));
    let cluster =
        Cluster::from_spec(&ClusterSpec { gpus: Some(8), ..ClusterSpec::default() }).expect("valid");
    let instance = Instance::build(&scenario, cluster, Mode::Online).expect("it fits");
    let clock = Clock::at_speed(100.0);
    let fleet = Fleet::new((0..2).map(|half| member(half, &instance, &clock)).collect());
    let folder = tempfile::tempdir().expect("a folder");
    let limits = ServiceLimits { keep: Some(Span(60_000_000)), ..ServiceLimits::default() };
    let settings = (Durability::Process, Patience { max_attempts: 5, ..Patience::default() }, limits);
    let begun = Service::begin(
        scenario,
        instance.clone(),
        fleet,
        clock,
        folder.path(),
        settings,
        ServiceBeliefs::default(),
    );
    let (service, client) = begun.expect("a ledger");
    let instance: &'static Instance = Box::leak(Box::new(instance));
    let service = tokio::spawn(async move {
        let mut policy = PolicyKind::Adaptive.build(instance, &BuildContext::default());
        service.run(policy.as_mut()).await
    });
    let tally = Arc::new(Tally::default());
    let begun = Instant::now();
    let mut number = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        number += 1;
        bring(&client, number, &tally).await;
        if number.is_multiple_of(20_000) {
            println!(
                "{:>4.0} s: {} brought, {} open, {:.0} MiB",
                begun.elapsed().as_secs_f64(),
                number,
                tally.open(),
                resident()
            );
        }
        // No more than the servers can do.
        while tally.open() > 500 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    while tally.open() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(seconds + 60), "{} requests never ended", tally.open());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let [brought, completed, failed, cancelled] = tally.all();
    println!(
        "{brought} brought: {completed} completed, {failed} failed, {cancelled} cancelled; {} faults; {:.0} MiB",
        FAULTS.load(Ordering::Relaxed),
        resident()
    );
    assert_eq!(brought, completed + failed + cancelled, "every request is accounted for");
    client.stop();
    service.await.expect("it does not panic").expect("it ends well");
}

fn member(half: u32, instance: &Instance, clock: &Clock) -> Member {
    let slowdown = instance.models.iter().map(|model| model.slowdown.clone()).collect();
    let inner = EmulatedBackend::new(clock.clone(), slowdown);
    let backend = Arc::new(Faulty { inner, asked: AtomicU64::new(u64::from(half) * 500 + 1) });
    let gpus = gswarm_core::Gpus::new(half * 4, 4);
    Member { name: format!("half {half}"), backend, gpus, reach: gpus.count, models: None }
}

/// How many requests came to which end.
#[derive(Default)]
struct Tally([AtomicU64; 4]);

impl Tally {
    fn all(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|at| self.0[at].load(Ordering::Relaxed))
    }

    fn add(&self, at: usize) {
        self.0[at].fetch_add(1, Ordering::Relaxed);
    }

    fn open(&self) -> u64 {
        let [brought, completed, failed, cancelled] = self.all();
        brought - completed - failed - cancelled
    }
}

/// A workflow, a call, or one of either that is taken back, in turns.
async fn bring(client: &Client, number: u64, tally: &Arc<Tally>) {
    tally.add(0);
    let (client, tally) = (client.clone(), Arc::clone(tally));
    if number.is_multiple_of(3) {
        tokio::spawn(async move {
            let at = call(&client, ModelId((number % 2) as u32), number.is_multiple_of(15)).await;
            tally.add(at);
        });
        return;
    }
    let id = format!("r{number}");
    let body = json!({"request_id": id, "workflow_id": "w"}).to_string();
    let reading =
        read_requests(&client.scenario, Source { name: &id, bytes: body.as_bytes() }, Mode::Offline);
    let spec = reading.scenario.expect("valid").requests.remove(0);
    client.submit(Arc::new(spec), body).await.expect("it is accepted");
    tokio::spawn(async move {
        if number.is_multiple_of(10) {
            client.cancel(id.clone()).await;
        }
        client.wait(id.clone()).await;
        let record = client.records.request(&id).expect("a ledger").expect("a record");
        tally.add(match record.status {
            RequestState::Completed => 1,
            RequestState::Failed => 2,
            RequestState::Cancelled => 3,
            other => panic!("{id}: {other:?}"),
        });
    });
}

async fn call(client: &Client, model: ModelId, hangs_up: bool) -> usize {
    let body = Map::from_iter([("model".to_owned(), Value::from("a"))]);
    let forward = Forward { path: "/v1/completions", body, kind: None, estimate: Span(500_000), raw: None };
    let mut ticket = match client.call(model, forward, 0).await {
        Ok(ticket) => ticket,
        Err(Refusal::Full { .. }) => return 2,
        Err(other) => panic!("{other}"),
    };
    if hangs_up {
        client.hang_up(ticket.number);
        return 3;
    }
    match ticket.answering.head.await {
        Ok(Ok(_)) => {
            while let Some(Piece::Data(_)) = ticket.answering.pieces.recv().await {}
            1
        }
        _ => 2,
    }
}

/// Memory of this process, in MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<f64>().ok()).unwrap_or(f64::NAN)
        / 1024.0
}
