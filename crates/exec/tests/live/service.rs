//! A service: requests that keep coming, are taken back, fail, and outlive the process.

use crate::support::*;
use gswarm_core::ModelId;
use gswarm_core::belief::{Belief, Learner, Observation};
use gswarm_core::input::{ClusterSpec, Source, read_requests};
use gswarm_core::instance::{Cluster, Instance};
use gswarm_exec::forward::{Forward, Piece};
use gswarm_exec::journal::JournalError;
use gswarm_exec::service::{Client, Refusal, Service, ServiceBeliefs, with_direct_workflows};
use serde_json::{Map, json};
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A service in a task of its own, as fast as everything emulated can go.
pub struct Running {
    pub client: Client,
    pub service: JoinHandle<()>,
}

pub fn begin(
    folder: &Path,
    fleet: impl FnOnce(&Instance, &Clock) -> Fleet,
    limits: ServiceLimits,
) -> Running {
    begin_with(folder, fleet, limits, ServiceBeliefs::default(), None)
}

/// `call_limit` is what a call may take where that is not what is usual.
fn begin_with(
    folder: &Path,
    fleet: impl FnOnce(&Instance, &Clock) -> Fleet,
    limits: ServiceLimits,
    beliefs: ServiceBeliefs,
    call_limit: Option<Span>,
) -> Running {
    let scenario = Arc::new(with_direct_workflows(scenario(1, true)));
    let cluster = Cluster::from_spec(&ClusterSpec { gpus: Some(4), ..ClusterSpec::default() }).unwrap();
    let instance = Instance::build(&scenario, cluster, Mode::Online).unwrap();
    let clock = Clock::at_speed(2000.0);
    let patience = Patience { backoff: Span(1_000_000), call_limit, ..Patience::default() };
    let fleet = fleet(&instance, &clock);
    let settings = (Durability::Process, patience, limits);
    let begun = Service::begin(scenario, instance.clone(), fleet, clock, folder, settings, beliefs);
    let (service, client) = begun.unwrap();
    let instance: &'static Instance = Box::leak(Box::new(instance));
    let service = tokio::spawn(async move {
        let mut policy = PolicyKind::Adaptive.build(instance, &BuildContext::default());
        service.run(policy.as_mut()).await.unwrap();
    });
    Running { client, service }
}

impl Running {
    pub async fn submit(&self, id: &str, workflow: &str) -> Result<(), Refusal> {
        let body = json!({"request_id": id, "workflow_id": workflow, "input_data": {"wish": id}}).to_string();
        let source = Source { name: id, bytes: body.as_bytes() };
        let reading = read_requests(&self.client.scenario, source, Mode::Offline);
        let spec = reading.scenario.unwrap_or_else(|| panic!("{:?}", reading.diagnostics)).requests.remove(0);
        self.client.submit(Arc::new(spec), body).await.map(drop)
    }

    pub async fn result(&self, id: &str) -> Value {
        self.client.wait(id.to_owned()).await;
        serde_json::to_value(self.client.records.request(id).unwrap()).unwrap()
    }

    pub async fn stop(self) {
        self.client.stop();
        self.service.await.unwrap();
    }
}

pub fn chat(model: &str, stream: bool) -> Forward {
    let body = json!({"model": model, "messages": [{"role": "user", "content": "hello"}], "stream": stream});
    let Value::Object(body) = body else { unreachable!() };
    Forward {
        path: "/v1/chat/completions",
        body,
        kind: Some("llm".to_owned()),
        estimate: Span(2_000_000),
        raw: None,
    }
}

/// Asks a model, and gives the status and all of the answer.
async fn ask(client: &Client, forward: Forward) -> Result<(u16, String), String> {
    let model = client.model(forward.body["model"].as_str().unwrap()).unwrap();
    let mut ticket = client.call(model, forward, 0).await.map_err(|refusal| refusal.to_string())?;
    let head = ticket.answering.head.await.map_err(|_| "the service ended".to_owned())??;
    let mut text = String::new();
    loop {
        match ticket.answering.pieces.recv().await {
            Some(Piece::Data(data)) => text.push_str(std::str::from_utf8(&data).unwrap()),
            Some(Piece::End) => return Ok((head.status, text)),
            None => return Err(format!("broke off after {text}")),
        }
    }
}

/// Servers that know no API for several texts are called for each.
#[tokio::test(flavor = "multi_thread")]
async fn each_text_of_a_request_has_its_answer() {
    let folder = tempfile::tempdir().unwrap();
    let running = begin(folder.path(), emulated, ServiceLimits::default());
    let texts = |path, name: &str, kind: &str| {
        let body = json!({"model": "writer", name: ["one", "two words", "one"]});
        let body = body.as_object().unwrap().clone();
        Forward { path, body, kind: Some(kind.to_owned()), estimate: Span(3_000_000), raw: None }
    };
    let answer = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let (status, text) = ask(&running.client, texts("/v1/embeddings", "input", "embedding")).await.unwrap();
    let (list, vector) = (answer(text), |list: &Value, at: usize| list["data"][at]["embedding"].clone());
    assert_eq!(
        (status, list["data"].as_array().unwrap().len(), &list["data"][2]["index"]),
        (200, 3, &json!(2))
    );
    assert_eq!(vector(&list, 0), vector(&list, 2));
    assert_ne!(vector(&list, 0), vector(&list, 1));
    assert_eq!(list["usage"], json!({"prompt_tokens": 4, "total_tokens": 4}));
    let (_, text) = ask(&running.client, texts("/v1/completions", "prompt", "llm")).await.unwrap();
    assert_eq!(answer(text)["choices"].as_array().unwrap().len(), 3);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workflows_and_calls_share_the_gpus_and_all_end() {
    let folder = tempfile::tempdir().unwrap();
    let running = begin(folder.path(), emulated, ServiceLimits::default());
    let names: Vec<String> = (0..30).map(|at| format!("r{at}")).collect();
    for (at, name) in names.iter().enumerate() {
        running.submit(name, if at % 2 == 0 { "picture" } else { "text" }).await.unwrap();
    }
    let calls =
        (0..20).map(|at| ask(&running.client, chat(["writer", "painter", "judge"][at % 3], at % 2 == 0)));
    for answer in futures(calls).await {
        let (status, text) = answer.unwrap();
        assert_eq!(status, 200);
        assert!(text.contains("\"emulated\":true"), "{text}");
    }
    for (at, name) in names.iter().enumerate() {
        let result = running.result(name).await;
        assert_eq!(result["status"], "completed", "{result}");
        let nodes = result["outputs"].as_object().unwrap().len();
        assert_eq!(nodes, if at % 2 == 0 { 4 } else { 1 });
    }
    // An answer reaches whoever asked before the service has heard that it is whole.
    let closed = async {
        while running.client.ask(|standing| standing.open()).await != Some(0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(gswarm_testing::LIMIT, closed).await.expect("nothing stays open");
    running.stop().await;
}

/// Writes down what it sees.
struct Witness(Arc<Mutex<Vec<(Span, Span)>>>);

impl Learner for Witness {
    fn observe(&mut self, _: &Instance, seen: &Observation) {
        self.0.lock().unwrap().push((seen.estimated, seen.took));
    }

    fn belief(&self, _: ModelId, _: Option<Gpus>) -> Belief {
        Belief::NONE
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nodes_take_is_predicted_and_what_they_took_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let seen: Arc<Mutex<Vec<(Span, Span)>>> = Arc::default();
    let beliefs = ServiceBeliefs {
        expect: Some(Box::new(|_, request, node| {
            Some(Span(request.id.len() as u64 * 1_000_000 + node as u64))
        })),
        learner: Some(Box::new(Witness(Arc::clone(&seen)))),
    };
    let running = begin_with(folder.path(), emulated, ServiceLimits::default(), beliefs, None);
    running.submit("four", "picture").await.unwrap();
    assert_eq!(running.result("four").await["status"], "completed");
    running.stop().await;
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    let estimated: Vec<u64> = seen.iter().map(|(estimated, _)| estimated.0).collect();
    assert_eq!(
        estimated,
        [4_000_000, 4_000_001, 4_000_002, 4_000_003],
        "a name of four letters, node by node"
    );
    // What is emulated takes what it is expected to take, or a little longer where the machine is busy.
    assert!(seen.iter().all(|(_, took)| took.0 >= 3_900_000), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_direct_calls_take_is_predicted_from_what_they_ask_for() {
    let folder = tempfile::tempdir().unwrap();
    let seen: Arc<Mutex<Vec<(Span, Span)>>> = Arc::default();
    let beliefs = ServiceBeliefs {
        expect: Some(Box::new(|scenario, request, node| {
            let node = &scenario.workflows[usize::from(request.workflow)].nodes[node];
            let model = scenario.models[usize::from(node.model)].id.as_str();
            let letters = request.input_data.values().flat_map(|texts| texts.as_array().unwrap());
            let letters: usize = letters.map(|text| text.as_str().unwrap().len()).sum();
            let tokens = request.node_configs[&node.id]["max_tokens"].as_u64()?;
            (model == "writer").then_some(Span(letters as u64 * 1_000_000 + tokens))
        })),
        learner: Some(Box::new(Witness(Arc::clone(&seen)))),
    };
    let running = begin_with(folder.path(), emulated, ServiceLimits::default(), beliefs, None);
    let parts = json!([{"role": "system", "content": "abc"},
        {"role": "user", "content": [{"type": "text", "text": "de"}, {"type": "image_url", "image_url": {"url": "data:"}}]}]);
    for (key, tokens, model) in
        [("max_tokens", 70, "writer"), ("max_completion_tokens", 80, "writer"), ("max_tokens", 90, "judge")]
    {
        let mut forward = chat(model, false);
        forward.body.insert("messages".to_owned(), parts.clone());
        forward.body.insert(key.to_owned(), tokens.into());
        assert_eq!(ask(&running.client, forward).await.unwrap().0, 200);
    }
    running.stop().await;
    let mut estimated: Vec<u64> = seen.lock().unwrap().iter().map(|(estimated, _)| estimated.0).collect();
    estimated.sort_unstable();
    // The judge's is what the call brought with it: nothing was predicted of it.
    assert_eq!(estimated, [2_000_000, 5_000_070, 5_000_080], "five letters, and the tokens");
}

/// All of them at once.
async fn futures<T: Send + 'static>(work: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    futures_util::future::join_all(work).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_accepted_outlives_the_process_and_is_done_once() {
    let folder = tempfile::tempdir().unwrap();
    let calls: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut accepted = Vec::new();
    // Each service is cut off, without a word, after a little while; the last one is left alone.
    for round in 0..8 {
        let counting = |instance: &Instance, clock: &Clock| counted(instance, clock, &calls);
        let running = begin(folder.path(), counting, ServiceLimits::default());
        for at in 0..6 {
            let name = format!("r{round}-{at}");
            running.submit(&name, "picture").await.unwrap();
            accepted.push(name);
        }
        let wanted = accepted[round * 4].clone();
        running.result(&wanted).await;
        // As if the process died: nothing more is written, whatever was under way.
        running.service.abort();
        assert!(running.service.await.unwrap_err().is_cancelled());
    }
    let counting = |instance: &Instance, clock: &Clock| counted(instance, clock, &calls);
    let running = begin(folder.path(), counting, ServiceLimits::default());
    for name in &accepted {
        let result = running.result(name).await;
        assert_eq!(result["status"], "completed", "{result}");
        assert_eq!(result["outputs"].as_object().unwrap().len(), 4);
    }
    running.stop().await;
    // Every node was answered, and only what was under way when a service died was asked for anew.
    let mut calls = calls.lock().unwrap().clone();
    let all = calls.len();
    calls.sort_unstable();
    calls.dedup();
    assert_eq!(calls.len(), accepted.len() * 4);
    assert!(all - calls.len() <= 8 * AT_ONCE, "{all} answers for {} nodes", calls.len());
}

/// Calls that may be under way at once on four GPUs: one of them may have been answered, and the answer not been read.
const AT_ONCE: usize = 16;

/// Emulated servers that note which calls have been answered.
fn counted(instance: &Instance, clock: &Clock, calls: &Arc<Mutex<Vec<String>>>) -> Fleet {
    let inner = crate::support::emulated_backend(instance, clock);
    Fleet::of(Arc::new(Counted { inner, calls: Arc::clone(calls) }), instance.cluster.gpus)
}

struct Counted {
    inner: gswarm_exec::backend::EmulatedBackend,
    calls: Arc<Mutex<Vec<String>>>,
}

#[async_trait::async_trait]
impl Backend for Counted {
    async fn load(&self, replica: Replica, expected: Span) -> Result<(), BackendError> {
        self.inner.load(replica, expected).await
    }
    async fn unload(&self, replica: Replica) -> Result<(), BackendError> {
        self.inner.unload(replica).await
    }
    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        let answer = self.inner.call(replica, call).await?;
        self.calls.lock().unwrap().push(call.name.clone());
        Ok(answer)
    }
    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// A server that answers no call until the test says so.
struct Gated {
    inner: EmulatedBackend,
    is_open: watch::Receiver<bool>,
}

#[async_trait::async_trait]
impl Backend for Gated {
    async fn load(&self, replica: Replica, expected: Span) -> Result<(), BackendError> {
        self.inner.load(replica, expected).await
    }
    async fn unload(&self, replica: Replica) -> Result<(), BackendError> {
        self.inner.unload(replica).await
    }
    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        let _ = self.is_open.clone().wait_for(|is_open| *is_open).await;
        self.inner.call(replica, call).await
    }
    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_taken_back_wherever_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let (gate, is_open) = watch::channel(false);
    let gated = |instance: &Instance, clock: &Clock| {
        let inner = emulated_backend(instance, clock);
        Fleet::of(Arc::new(Gated { inner, is_open }), instance.cluster.gpus)
    };
    let (limits, beliefs) = (ServiceLimits::default(), ServiceBeliefs::default());
    let running = begin_with(folder.path(), gated, limits, beliefs, Some(Span(86_400_000_000 * 365)));
    for at in 0..40 {
        running.submit(&format!("r{at}"), "picture").await.unwrap();
    }
    for at in (0..40).step_by(2) {
        assert!(running.client.cancel(format!("r{at}")).await);
        assert!(!running.client.cancel(format!("r{at}")).await, "it is not open any more");
    }
    gate.send_replace(true);
    for at in 0..40 {
        let result = running.result(&format!("r{at}")).await;
        assert_eq!(result["status"], if at % 2 == 0 { "cancelled" } else { "completed" });
    }
    // Whoever hangs up frees the place that their call had.
    gate.send_replace(false);
    let model = running.client.model("writer").unwrap();
    let ticket = running.client.call(model, chat("writer", false), 0).await.unwrap();
    running.client.hang_up(ticket.number);
    assert!(ticket.answering.head.await.unwrap().is_err());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_the_limit_is_refused_and_so_is_a_name_that_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let running = begin(folder.path(), emulated, ServiceLimits { open: 3, ..ServiceLimits::default() });
    for at in 0..3 {
        running.submit(&format!("r{at}"), "picture").await.unwrap();
    }
    assert_eq!(running.submit("r9", "picture").await, Err(Refusal::Full { open: 3 }));
    for at in 0..3 {
        running.result(&format!("r{at}")).await;
    }
    assert_eq!(running.submit("r1", "picture").await, Err(Refusal::Taken));
    assert!(matches!(another(folder.path()), Err(JournalError::InUse)), "one service a folder");
    running.stop().await;
}

fn another(folder: &Path) -> Result<(), JournalError> {
    let scenario = Arc::new(with_direct_workflows(scenario(1, false)));
    let cluster = Cluster::from_spec(&ClusterSpec { gpus: Some(4), ..ClusterSpec::default() }).unwrap();
    let instance = Instance::build(&scenario, cluster, Mode::Online).unwrap();
    let clock = Clock::real();
    let fleet = emulated(&instance, &clock);
    let settings = (Durability::Process, Patience::default(), ServiceLimits::default());
    Service::begin(scenario, instance, fleet, clock, folder, settings, ServiceBeliefs::default()).map(drop)
}

/// A server of which every third call fails, and some answers break off half-way.
struct Shaky {
    calls: AtomicU32,
}

#[async_trait::async_trait]
impl Backend for Shaky {
    async fn load(&self, _: Replica, _: Span) -> Result<(), BackendError> {
        Ok(())
    }
    async fn unload(&self, _: Replica) -> Result<(), BackendError> {
        Ok(())
    }
    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        if call.inputs.values().any(|value| value == "poison") {
            return Err(BackendError::Failed("it cannot swallow that".to_owned()));
        }
        match self.calls.fetch_add(1, Ordering::Relaxed) % 3 {
            1 => Err(BackendError::Failed("it stumbled".to_owned())),
            _ => Ok(json!({"text": format!("from {}", replica.gpus)})),
        }
    }
    async fn forward(
        &self,
        _: Replica,
        forward: &Forward,
        relay: &mut gswarm_exec::forward::Relay,
    ) -> Result<(), BackendError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        if number.is_multiple_of(2) {
            return Err(BackendError::Failed("it stumbled".to_owned()));
        }
        relay.head(200, "text/plain");
        relay.piece("half").await;
        if forward.streams() {
            return Err(BackendError::Failed("it fell".to_owned()));
        }
        relay.piece(" and half").await;
        Ok(())
    }
    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_fail_are_tried_again_and_poison_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let shaky = |instance: &Instance, _: &Clock| {
        Fleet::of(Arc::new(Shaky { calls: AtomicU32::new(0) }), instance.cluster.gpus)
    };
    let running = begin(folder.path(), shaky, ServiceLimits::default());
    running.submit("poison", "text").await.unwrap();
    running.submit("wholesome", "picture").await.unwrap();
    let poisoned = running.result("poison").await;
    assert_eq!((&poisoned["status"], &poisoned["why"]), (&json!("failed"), &json!("it cannot swallow that")));
    assert_eq!(poisoned["failures"].as_array().unwrap().len(), 3);
    assert_eq!(running.result("wholesome").await["status"], "completed");
    assert_eq!(ask(&running.client, chat("writer", false)).await, Ok((200, "half and half".to_owned())));
    let broken = ask(&running.client, chat("writer", true)).await;
    assert_eq!(broken, Err("broke off after half".to_owned()), "half an answer is not asked for anew");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_says_who_waits_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let running =
        begin(folder.path(), hanging, ServiceLimits { drain: Span::ZERO, ..ServiceLimits::default() });
    for at in 0..12 {
        running.submit(&format!("r{at}"), "picture").await.unwrap();
    }
    let queue = running.client.ask(|standing| standing.queue(0, 5)).await.unwrap();
    assert_eq!((queue.open, queue.requests.len()), (12, 5));
    let last = &queue.requests[0].nodes[3];
    assert_eq!(last.why.as_deref(), Some("it needs the output of paint, paint2"));
    let one = running.client.ask(|standing| standing.request("r11")).await.unwrap().unwrap();
    assert_eq!(one.request_id, "r11");
    let gpus = running.client.ask(|standing| standing.gpus()).await.unwrap();
    assert_eq!(gpus.len(), 4);
    running.stop().await;
}

/// Servers whose loads never end.
fn hanging(instance: &Instance, _: &Clock) -> Fleet {
    struct Hanging;
    #[async_trait::async_trait]
    impl Backend for Hanging {
        async fn load(&self, _: Replica, _: Span) -> Result<(), BackendError> {
            std::future::pending().await
        }
        async fn unload(&self, _: Replica) -> Result<(), BackendError> {
            Ok(())
        }
        async fn call(&self, _: Replica, _: &Call) -> Result<Value, BackendError> {
            std::future::pending().await
        }
        async fn reset(&self) -> Result<(), BackendError> {
            Ok(())
        }
    }
    Fleet::of(Arc::new(Hanging), instance.cluster.gpus)
}

#[test]
fn a_model_that_can_never_fit_is_said_so_with_the_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = Arc::new(with_direct_workflows(scenario(1, false)));
    let spec = ClusterSpec { gpus: Some(1), gpu_memory_gb: Some(10.0), ..ClusterSpec::default() };
    let instance = Instance::build(&scenario, Cluster::from_spec(&spec).unwrap(), Mode::Online).unwrap();
    let clock = Clock::real();
    let fleet = emulated(&instance, &clock);
    let settings = (Durability::Process, Patience::default(), ServiceLimits::default());
    let (_service, client) =
        Service::begin(scenario, instance, fleet, clock, folder.path(), settings, ServiceBeliefs::default())
            .unwrap();
    let why = |model: u32| client.cannot_run(ModelId(model));
    assert_eq!(why(0).unwrap(), "model `writer` needs 14 GB on each of its GPUs, but a GPU has 10 GB");
    assert_eq!(why(1), None);
    assert_eq!(why(2).unwrap(), "model `judge` needs 2 consecutive GPUs, but the cluster has 1");
    let estimate = |tokens: u64| {
        client.estimate(ModelId(0), &Map::from_iter([("max_tokens".to_owned(), tokens.into())]))
    };
    assert_eq!(estimate(100), Span(2_000_000));
}

/// The disk is slow: whoever brings a request waits for it, and calls go on meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_disk_holds_up_promises_and_no_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let running = begin(folder.path(), emulated, ServiceLimits::default());
    running.submit("before", "text").await.unwrap();
    // Nothing can be written until this lets go.
    let disk = rusqlite::Connection::open(folder.path().join("requests.db")).unwrap();
    disk.busy_timeout(gswarm_testing::LIMIT).unwrap();
    disk.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut submitted = Box::pin(running.submit("held up", "text"));
    let calls = async {
        for _ in 0..5 {
            assert_eq!(ask(&running.client, chat("writer", false)).await.unwrap().0, 200);
        }
    };
    tokio::select! {
        biased;
        () = calls => {}
        _ = &mut submitted => panic!("it was promised before it was written"),
    }
    disk.execute_batch("ROLLBACK").unwrap();
    submitted.await.unwrap();
    assert_eq!(running.result("held up").await["status"], "completed");
    running.stop().await;
}
