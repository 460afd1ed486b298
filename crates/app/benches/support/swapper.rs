//! Agents that call four models in turns, served by `gswarm serve`'s machine and by a swapper that follows llama-swap's published
//! rule: calls are taken strictly in the order in which they come; one for another model of a group waits until what runs in the
//! group has ended, and swaps. Both have the same emulated servers, under a clock that jumps.

use gswarm_core::input::{Scenario, Source, read_config};
use gswarm_core::instance::{Cluster, Instance, Mode};
use gswarm_core::policy::{Adaptive, AdaptiveParams};
use gswarm_core::{Gpus, ModelId, Span};
use gswarm_exec::backend::{Backend, BackendError, EmulatedBackend, Replica};
use gswarm_exec::call::Call;
use gswarm_exec::clock::Clock;
use gswarm_exec::drive::Patience;
use gswarm_exec::fleet::Fleet;
use gswarm_exec::forward::{Forward, Piece};
use gswarm_exec::journal::Durability;
use gswarm_exec::service::{Client, Service, ServiceBeliefs, ServiceLimits, with_direct_workflows};
use gswarm_import::llama_swap;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, Semaphore};

/// Three models that push one another out, and one that stays.
const FILE: &str = "
models:
  planner: {cmd: 'llama-server --port ${PORT} -m planner.gguf -np 4'}
  coder: {cmd: 'llama-server --port ${PORT} -m coder.gguf -np 4'}
  critic: {cmd: 'llama-server --port ${PORT} -m critic.gguf -np 4'}
  finder: {cmd: 'llama-server --port ${PORT} -m finder.gguf --embeddings -np 4'}
groups:
  large: {swap: true, members: [planner, coder, critic]}
  small: {swap: false, exclusive: false, persistent: true, members: [finder]}
";
/// The group of each model: those of one push one another out.
const GROUPS: [usize; 4] = [0, 0, 0, 1];
/// Calls at once, and what they cost one another.
const SLOTS: usize = 4;
const SLOWDOWN: [(u32, f64); 3] = [(1, 1.0), (2, 1.2), (4, 1.6)];
const LOADS: Span = Span(10_000_000);
/// What a call of each model takes alone.
const CALLS: [Span; 4] = [Span(3_000_000), Span(5_000_000), Span(2_000_000), Span(200_000)];
/// Planner, coder, critic, again and again, and the finder before each round.
const SESSION: [usize; 8] = [3, 0, 1, 2, 3, 0, 1, 2];
const SESSIONS: usize = 6;
const THINKS: Span = Span(500_000);
/// The turns of calls that nobody waits for before the next is brought.
const TURNS: [usize; 3] = [0, 1, 2];

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// So many calls, of the three large models in turns, a fixed time apart.
    Turns {
        /// How many.
        calls: usize,
        /// How far apart.
        every: Span,
    },
    /// Agents that do their sessions one after the other, all at the same time.
    Agents(usize),
}

/// What came of it.
#[derive(Debug)]
pub struct Served {
    pub loads: u64,
    pub calls: usize,
    /// Seconds.
    pub mean: f64,
    pub p99: f64,
    /// When the last call ended.
    pub took: f64,
}

/// Emulated servers that take as long to load whatever is expected, and count loads.
struct Servers {
    inner: EmulatedBackend,
    clock: Clock,
    loads: AtomicU64,
}

#[async_trait::async_trait]
impl Backend for Servers {
    async fn load(&self, _: Replica, _: Span) -> Result<(), BackendError> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        self.clock.sleep(LOADS).await;
        Ok(())
    }
    async fn unload(&self, replica: Replica) -> Result<(), BackendError> {
        self.inner.unload(replica).await
    }
    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        self.inner.call(replica, call).await
    }
    fn abilities(&self, model: ModelId) -> gswarm_exec::backend::CallAbilities {
        self.inner.abilities(model)
    }
    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// The problem as `serve --from` has it.
fn problem() -> (Arc<Scenario>, Instance) {
    let made = llama_swap(Source { name: "llama-swap.yaml", bytes: FILE.as_bytes() }).expect("it is valid");
    let config = Source { name: "config", bytes: made.config.as_bytes() };
    let mut scenario = read_config(config).scenario.expect("it is valid");
    for model in &mut scenario.models {
        let slowdown = SLOWDOWN.to_vec();
        model.batching = Some(gswarm_core::input::BatchingSpec { max_batch: SLOTS as u32, slowdown });
    }
    let cluster = Cluster::from_spec(&scenario.cluster).expect("it is valid");
    let scenario = Arc::new(with_direct_workflows(scenario));
    let instance = Instance::build(&scenario, cluster, Mode::Online).expect("it fits");
    (scenario, instance)
}

fn servers(instance: &Instance, clock: &Clock) -> Arc<Servers> {
    let slowdown = instance.models.iter().map(|model| model.slowdown.clone()).collect();
    let inner = EmulatedBackend::new(clock.clone(), slowdown);
    Arc::new(Servers { inner, clock: clock.clone(), loads: AtomicU64::new(0) })
}

/// Everything that agents wait for, by the front door's machine.
pub async fn by_gswarm(load: Load) -> Served {
    let (scenario, instance) = problem();
    let clock = Clock::virtual_clock();
    let servers = servers(&instance, &clock);
    let fleet = Fleet::of(Arc::clone(&servers) as Arc<dyn Backend>, instance.cluster.gpus);
    let folder = tempfile::tempdir().expect("a folder");
    let settings = (Durability::Process, Patience::default(), ServiceLimits::default());
    let begun = Service::begin(
        scenario,
        instance.clone(),
        fleet,
        clock.clone(),
        folder.path(),
        settings,
        ServiceBeliefs::default(),
    );
    let (service, client) = begun.expect("a ledger");
    // As `serve` has it.
    let params = AdaptiveParams { max_collate_wait: Some(Span(30_000_000)), ..AdaptiveParams::default() };
    let mut policy = Adaptive::new(&instance, &params);
    let names: Vec<String> = instance.models.iter().map(|model| model.name.clone()).collect();
    let call = |model: usize| direct(client.clone(), names[model].clone(), CALLS[model]);
    let served = tokio::select! {
        biased;
        ended = service.run(&mut policy) => panic!("the service ends: {ended:?}"),
        served = bring(load, &clock, &call) => served,
    };
    Served { loads: servers.loads.load(Ordering::Relaxed), ..served }
}

async fn direct(client: Client, name: String, estimate: Span) {
    let model = client.model(&name).expect("it is there");
    let body: Map<String, Value> = Map::from_iter([("model".to_owned(), json!(name))]);
    let forward = Forward { path: "/v1/completions", body, kind: None, estimate, raw: None };
    let mut ticket = client.call(model, forward, 0).await.expect("it is taken on");
    ticket.answering.head.await.expect("it is answered").expect("well");
    while !matches!(ticket.answering.pieces.recv().await, None | Some(Piece::End)) {}
}

/// The same, by the swapper.
pub async fn by_swapper(load: Load) -> Served {
    let (_, instance) = problem();
    let clock = Clock::virtual_clock();
    let servers = servers(&instance, &clock);
    let swapper = Arc::new(Swapper {
        servers: Arc::clone(&servers),
        groups: [Group::default(), Group::default()],
        slots: std::array::from_fn(|_| Semaphore::new(SLOTS)),
    });
    let call = |model: usize| {
        let swapper = Arc::clone(&swapper);
        async move { swapper.call(model).await }
    };
    let served = clock.run(bring(load, &clock, &call)).await;
    Served { loads: servers.loads.load(Ordering::Relaxed), ..served }
}

/// Models that push one another out.
#[derive(Default)]
struct Group {
    /// The model that is there. Whoever holds it is the first in line; the others wait in the order in which they came.
    current: tokio::sync::Mutex<Option<usize>>,
    runs: Mutex<usize>,
    ended: Notify,
}

struct Swapper {
    servers: Arc<Servers>,
    groups: [Group; 2],
    slots: [Semaphore; 4],
}

impl Swapper {
    async fn call(&self, model: usize) {
        let replica = Replica { model: ModelId::from(model), gpus: Gpus::new(0, 1) };
        let group = &self.groups[GROUPS[model]];
        {
            let mut current = group.current.lock().await;
            if *current != Some(model) {
                while *group.runs.lock().expect("nobody panics") > 0 {
                    group.ended.notified().await;
                }
                self.servers.load(replica, LOADS).await.expect("it loads");
                *current = Some(model);
            }
            *group.runs.lock().expect("nobody panics") += 1;
        }
        let slot = self.slots[model].acquire().await.expect("it is open");
        let call = Call {
            name: "call".to_owned(),
            inputs: Map::new(),
            config: Map::new(),
            kind: None,
            estimate: CALLS[model],
        };
        self.servers.call(replica, &call).await.expect("it answers");
        drop(slot);
        *group.runs.lock().expect("nobody panics") -= 1;
        group.ended.notify_one();
    }
}

async fn bring<F: Future<Output = ()>>(load: Load, clock: &Clock, call: &impl Fn(usize) -> F) -> Served {
    let took: Mutex<Vec<f64>> = Mutex::default();
    let asks = |model: usize| {
        let took = &took;
        async move {
            let asked = clock.now();
            call(model).await;
            took.lock().expect("nobody panics").push(clock.now().since(asked).seconds());
        }
    };
    let asks = &asks;
    match load {
        Load::Turns { calls, every } => {
            let one = |number: usize| async move {
                clock.sleep(Span(every.0 * number as u64)).await;
                asks(TURNS[number % TURNS.len()]).await;
            };
            futures_util::future::join_all((0..calls).map(one)).await;
        }
        Load::Agents(agents) => {
            let agent = |number: usize| async move {
                // They do not begin in step.
                clock.sleep(Span(1_700_000 * number as u64)).await;
                for model in SESSION.repeat(SESSIONS) {
                    asks(model).await;
                    clock.sleep(THINKS).await;
                }
            };
            futures_util::future::join_all((0..agents).map(agent)).await;
        }
    }
    let mut took = took.into_inner().expect("nobody panics");
    took.sort_by(f64::total_cmp);
    let mean = took.iter().sum::<f64>() / took.len() as f64;
    let p99 = took[(took.len() - 1) * 99 / 100];
    Served { loads: 0, calls: took.len(), mean, p99, took: clock.now().seconds() }
}
