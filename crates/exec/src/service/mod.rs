//! A service for a stream without an end: the live state machine, a ledger of accepted requests, and a client to submit
//! them.

mod accepting;
mod calls;
mod client;
mod ending;
mod events;
mod idle;
mod ledger;
mod open_requests;
mod shares;
mod status;
mod turns;

pub use client::{Accepted, Client, Refusal, Ticket};
pub use events::EventSender;
pub use ledger::{Records, StorageFault, StorageTrouble};
pub use shares::Shares;
pub use status::ServiceView;

use crate::chronicle::is_tried_again;
use crate::clock::Clock;
use crate::drive::{LiveError, Machine, Patience};
use crate::fleet::Fleet;
use crate::forward::Forward;
use crate::journal::{Durability, JournalError};
use crate::telemetry::SpanSender;
use crate::work::Direct;
use accepting::Admission;
use client::Command;
use gswarm_core::belief::Learner;
use gswarm_core::check::StreamCheck;
use gswarm_core::cost::default_execution;
use gswarm_core::engine::{Engine, Event};
use gswarm_core::input::{ModelSpec, NodeSpec, RequestSpec, Scenario, Source, WorkflowSpec, read_requests};
use gswarm_core::instance::{Mode, NewRequest};
use gswarm_core::log::ExecutionLog;
use gswarm_core::policy::Policy;
use gswarm_core::spans::{RequestEnd, SpanMaker, operations};
use gswarm_core::{Instance, ModelId, RequestId, Span, Time, WorkflowId};
use idle::Idle;
use ledger::{Ledger, Left};
use open_requests::{Open, OpenRequests, Requester, is_complete, unix_micros};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How much a service takes on.
#[derive(Clone, Debug)]
pub struct ServiceLimits {
    /// Requests that may be open at once; more are refused.
    pub open: usize,
    /// How long what is under way may go on once the service is told to stop.
    pub drain: Span,
    /// How long the ledger remembers what has ended; for ever where `None`.
    pub keep: Option<Span>,
    /// How long models stay that nobody uses; others stay until their memory is needed.
    pub ttl: BTreeMap<ModelId, Span>,
}

impl Default for ServiceLimits {
    fn default() -> ServiceLimits {
        let keep = Some(Span(7 * 86_400_000_000));
        ServiceLimits { open: 100_000, drain: Span(30_000_000), keep, ttl: BTreeMap::new() }
    }
}

/// A service under way.
pub struct Service {
    machine: Machine<'static, OpenRequests>,
    commands: mpsc::UnboundedReceiver<Command>,
    limits: ServiceLimits,
    /// The one-node workflow of each model, for requests that call it directly.
    direct: Vec<WorkflowId>,
    /// Numbers of requests that have ended, by workflow, to be used again.
    free: Vec<Vec<RequestId>>,
    tickets: u64,
    expect: Option<Expect>,
    events: Vec<Event>,
    /// Requests that the ledger has, and that are to be done.
    written: mpsc::UnboundedReceiver<Admission>,
    to_be_written: mpsc::UnboundedSender<Admission>,
    /// Those that it has not yet.
    accepting: usize,
    replies: Vec<Box<dyn FnOnce() + Send>>,
    stops_at: Option<Time>,
    pruned_at: Time,
    rules: StreamCheck,
    idle: Idle,
    spans: Option<Spans>,
}

/// What a service believes of run times, beside what its configuration says.
#[derive(Default)]
pub struct ServiceBeliefs {
    /// Asked for nodes whose requests give no time, and for direct calls.
    pub expect: Option<Expect>,
    /// Watches what executions take.
    pub learner: Option<Box<dyn Learner>>,
}

/// What a node of a request is expected to take, where the request does not say.
pub type Expect = Box<dyn Fn(&Scenario, &RequestSpec, usize) -> Option<Span> + Send>;

/// The problem of a service: the configuration's models and workflows, and for each model a workflow of one node, so that a
/// direct call is a request like any other.
#[must_use]
pub fn with_direct_workflows(mut scenario: Scenario) -> Scenario {
    scenario.requests.clear();
    let call = |model| {
        let (inputs, outputs, config_options) = (Vec::new(), Vec::new(), Vec::new());
        NodeSpec { id: calls::NODE.to_owned(), model, inputs, outputs, config_options }
    };
    let direct = scenario.models.iter().enumerate().map(|(at, model)| WorkflowSpec {
        id: format!("model:{}", model.id),
        name: model.name.clone(),
        nodes: vec![call(ModelId::from(at))],
        edges: Vec::new(),
    });
    let direct: Vec<WorkflowSpec> = direct.collect();
    scenario.workflows.extend(direct);
    scenario
}

/// Commands that are taken in before the policy is asked again.
const TOGETHER: usize = 256;
/// The ledger is pruned this often.
const PRUNED_EVERY: Span = Span(600_000_000);

impl Service {
    /// A service over a problem [with direct workflows](with_direct_workflows) and no requests, and its client. What the
    /// ledger in `folder` holds as open is taken up again. `beliefs` are what is believed of run times.
    pub fn begin(
        scenario: Arc<Scenario>,
        instance: Instance,
        fleet: Fleet,
        clock: Clock,
        folder: &Path,
        settings: (Durability, Patience, ServiceLimits),
        beliefs: ServiceBeliefs,
    ) -> Result<(Service, Client), JournalError> {
        let (durability, patience, limits) = settings;
        let idle = Idle { ttl: limits.ttl.clone(), ..Idle::default() };
        let (ledger, left) = Ledger::open(folder, durability)?;
        let models = scenario.models.len();
        let workflows = scenario.workflows.len();
        let told = EventSender::default();
        let (sender, commands) = mpsc::unbounded_channel();
        let records = ledger.records();
        let abilities = instance.models.keys().map(|model| fleet.abilities(model)).collect();
        let client =
            Client::new(Arc::clone(&scenario), instance.clone(), abilities, sender, told.clone(), records);
        let (to_be_written, written) = mpsc::unbounded_channel();
        let desk = OpenRequests::new(scenario, ledger, told);
        let mut engine = Engine::for_stream(instance, patience.max_attempts);
        if let Some(learner) = beliefs.learner {
            engine.learn_with(learner);
        }
        let mut service = Service {
            machine: Machine::new(engine, desk, fleet, clock, patience),
            commands,
            limits,
            direct: (workflows - models..workflows).map(WorkflowId::from).collect(),
            free: vec![Vec::new(); workflows],
            tickets: 0,
            expect: beliefs.expect,
            events: Vec::new(),
            written,
            to_be_written,
            accepting: 0,
            replies: Vec::new(),
            stops_at: None,
            pruned_at: Time::ZERO,
            rules: StreamCheck::default(),
            idle,
            spans: None,
        };
        service.take_up_all(left)?;
        service.prune();
        service.machine.book.ledger.commit();
        Ok((service, client))
    }

    /// Sends what happens as spans, too.
    #[must_use]
    pub fn with_spans(mut self, sender: SpanSender) -> Service {
        let epoch = u64::try_from(unix_micros()).unwrap_or(0).saturating_sub(self.machine.clock.now().0);
        let operations = operations(&self.machine.book.scenario.models);
        self.spans = Some(Spans { maker: SpanMaker { run: epoch, epoch, operations }, sender });
        self
    }

    /// Serves until it is told to stop, and then until what is under way has ended.
    pub async fn run(mut self, policy: &mut dyn Policy) -> Result<(), LiveError> {
        self.serve(policy).await?;
        Ok(self.machine.book.ledger.close()?)
    }

    async fn serve(&mut self, policy: &mut dyn Policy) -> Result<(), LiveError> {
        loop {
            if !self.events.is_empty() || !self.replies.is_empty() {
                self.step(policy)?;
            }
            if self.stops_at.is_some() && self.machine.book.open.is_empty() {
                return Ok(());
            }
            let until = self.stops_at.unwrap_or(Time::NEVER).min(self.pruned_at + PRUNED_EVERY);
            let until = until.min(self.next_dismissal());
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.obey_all(command),
                    // Nobody is left who could ask for anything.
                    None => self.stop(),
                },
                // The service holds a sender itself.
                Some(admission) = self.written.recv() => self.admits(admission),
                waited = self.machine.wait(until) => waited?,
            }
            let now = self.machine.clock.now();
            if self.stops_at.is_some_and(|at| at <= now) {
                self.machine.stop();
                return Ok(());
            }
            if self.pruned_at + PRUNED_EVERY <= now {
                self.prune();
            }
            self.step(policy)?;
        }
    }

    fn step(&mut self, policy: &mut dyn Policy) -> Result<(), LiveError> {
        let mut happened = self.machine.happened();
        happened.extend(self.events.drain(..).map(Into::into));
        if self.stops_at.is_some() {
            // Before the policy is asked, so that it starts nothing of them.
            happened.extend(self.put_off(&happened).into_iter().map(Into::into));
        }
        self.machine.step(happened, policy)?;
        self.note_executions();
        self.close_what_ended();
        let book = &mut self.machine.book;
        // Who waits is told once it is written.
        self.replies.drain(..).for_each(|reply| book.ledger.then(reply));
        for waiter in book.to_tell.drain(..) {
            // Whoever waited may have gone.
            book.ledger.then(move || waiter.send(()).unwrap_or_default());
        }
        book.ledger.commit();
        metrics::gauge!("gswarm_open_requests").set(self.machine.book.open.len() as f64);
        metrics::gauge!("gswarm_waiting_nodes").set(self.machine.book.ready.len() as f64);
        // What has become idle by now may have been so for long enough.
        let dismissals = self.dismissals();
        self.events.extend(dismissals);
        if self.stops_at.is_some() {
            let put_off = self.put_off(&[]);
            self.events.extend(put_off);
        }
        Ok(())
    }

    fn obey_all(&mut self, first: Command) {
        self.obey(first);
        for _ in 1..TOGETHER {
            match self.commands.try_recv() {
                Ok(command) => self.obey(command),
                Err(_) => break,
            }
        }
    }

    fn obey(&mut self, command: Command) {
        // Whoever was told that a request is accepted finds it here.
        while let Ok(admission) = self.written.try_recv() {
            self.admits(admission);
        }
        match command {
            Command::Direct { model, forward, priority, caller, reply } => {
                self.direct(model, forward, (priority, caller), reply)
            }
            Command::Submit { spec, body, caller, reply } => self.submit(spec, body, caller, reply),
            Command::Hangup { ticket } => {
                if let Some(&request) = self.machine.book.by_ticket.get(&ticket) {
                    self.withdraw(request);
                }
            }
            Command::Cancel { id, reply } => {
                let found = self.machine.book.by_name.get(id.as_str()).copied();
                found.into_iter().for_each(|request| self.withdraw(request));
                let reply = move || {
                    let _ = reply.send(found.is_some());
                };
                self.replies.push(Box::new(reply));
            }
            Command::Wait { id, reply } => {
                let book = &mut self.machine.book;
                let open = book.by_name.get(id.as_str()).and_then(|request| book.open.get_mut(request));
                match open {
                    Some(open) => open.waiters.push(reply),
                    // It may have ended, and its end not be written yet.
                    None => self.replies.push(Box::new(move || reply.send(()).unwrap_or_default())),
                }
            }
            Command::Unload { models, reply } => {
                let leaving = self.unload(models);
                let _ = reply.send(leaving);
            }
            Command::Ask(question) => question(&self.standing()),
            Command::Stop => self.stop(),
        }
    }

    fn standing(&self) -> ServiceView<'_> {
        ServiceView { machine: &self.machine, stopping: self.stops_at.is_some(), ttl: &self.idle.ttl }
    }

    fn refuses(&self, caller: &str) -> Option<Refusal> {
        if self.stops_at.is_some() {
            return Some(Refusal::Stopping);
        }
        let (open, shares) = (self.machine.book.open.len() + self.accepting, &self.machine.book.shares);
        if open >= self.limits.open {
            return Some(Refusal::Full { open });
        }
        let places = self.limits.open - self.accepting;
        (!shares.may_take(caller, places)).then(|| Refusal::Share { mine: shares.of(caller) })
    }

    fn direct(
        &mut self,
        model: ModelId,
        forward: Forward,
        (priority, caller): (i32, Arc<str>),
        reply: oneshot::Sender<Result<Ticket, Refusal>>,
    ) {
        if let Some(refusal) = self.refuses(&caller) {
            return drop(reply.send(Err(refusal)));
        }
        self.tickets += 1;
        let ticket = self.tickets;
        let name: Arc<str> = format!("call-{ticket}").into();
        let workflow = self.direct[model.index()];
        let predicted = self.expect.as_ref().and_then(|expect| {
            expect(&self.machine.book.scenario, &calls::as_request(&name, workflow, &forward), 0)
        });
        let new = NewRequest {
            name: name.to_string(),
            workflow,
            arrival: self.machine.book.turns.arrival(&caller, self.machine.clock.now()),
            priority,
            deadline: None,
            executions: vec![predicted.unwrap_or(forward.estimate)],
        };
        self.machine.book.chronicle.arrived(&new);
        let (direct, answering) = Direct::new(forward);
        // Whoever asked has gone before being answered: then it is as if nothing had been asked.
        if reply.send(Ok(Ticket { number: ticket, answering })).is_err() {
            return;
        }
        let requester = Requester::Direct { direct, ticket };
        self.admit(new, name, caller, requester, unix_micros());
    }

    fn new_request(&self, spec: &RequestSpec, arrival: Time, deadline: Option<Span>) -> NewRequest {
        let scenario = &self.machine.book.scenario;
        let nodes = scenario.workflows[usize::from(spec.workflow)].nodes.iter().enumerate();
        let takes = |(at, node): (usize, &NodeSpec)| {
            let given = spec.times.get(at).copied().flatten();
            let expected = || self.expect.as_ref().and_then(|expect| expect(scenario, spec, at));
            given.or_else(expected).unwrap_or_else(|| usual(&scenario.models[usize::from(node.model)]))
        };
        NewRequest {
            name: spec.id.clone(),
            workflow: spec.workflow,
            arrival,
            priority: spec.priority,
            deadline,
            executions: nodes.map(takes).collect(),
        }
    }

    fn admit(
        &mut self,
        new: NewRequest,
        name: Arc<str>,
        caller: Arc<str>,
        requester: Requester,
        accepted: i64,
    ) -> RequestId {
        let (workflow, arrival) = (new.workflow, new.arrival);
        let nodes = new.executions.len();
        let reuse = self.free[workflow.index()].pop();
        let id = self.machine.engine.admit(new, reuse);
        let outputs = vec![None; nodes];
        let (trouble, waiters) = (None, Vec::new());
        let opened = self.machine.clock.now();
        let (cancelled, put_off) = (false, false);
        let open = Open {
            name,
            workflow,
            caller,
            requester,
            accepted,
            arrival,
            opened,
            outputs,
            trouble,
            cancelled,
            put_off,
            waiters,
        };
        self.machine.book.opens(id, open);
        self.events.push(Event::Arrived(id));
        id
    }

    fn withdraw(&mut self, request: RequestId) {
        if let Some(open) = self.machine.book.open.get_mut(&request)
            && !std::mem::replace(&mut open.cancelled, true)
        {
            self.events.push(Event::Withdrawn(request));
            self.machine.book.touched.push(request);
        }
    }

    /// The requests that an earlier service has accepted and not ended. Where the configuration has changed so that some no
    /// longer fit, nothing is touched: what was accepted is not given up behind anybody's back.
    fn take_up_all(&mut self, left: Vec<Left>) -> Result<(), JournalError> {
        let mut fits = Vec::new();
        let mut wrong: Option<(usize, String, String)> = None;
        for request in left {
            let source = Source { name: &request.id, bytes: request.body.as_bytes() };
            let reading = read_requests(&self.machine.book.scenario, source, Mode::Offline);
            match reading.scenario.and_then(|mut scenario| scenario.requests.pop()) {
                Some(spec) => fits.push((request, spec)),
                None => {
                    let why = reading.diagnostics.first().map_or(String::new(), |one| one.message.clone());
                    wrong.get_or_insert((0, request.id, why)).0 += 1;
                }
            }
        }
        if let Some((count, first, why)) = wrong {
            return Err(JournalError::OtherConfiguration { count, first, why });
        }
        fits.into_iter().for_each(|(request, spec)| self.take_up(request, spec));
        Ok(())
    }

    fn take_up(&mut self, left: Left, spec: RequestSpec) {
        let name = left.id.clone();
        let waited = Span((unix_micros() - left.accepted).max(0) as u64);
        let deadline = spec.deadline.map(|deadline| Span(deadline.0.saturating_sub(waited.0).max(1)));
        let new = self.new_request(&spec, Time::ZERO, deadline);
        let workflow = spec.workflow;
        let requester = Requester::Submitted(Arc::new(spec));
        let id = self.admit(new, name.into(), left.caller.into(), requester, left.accepted);
        let engine = &mut self.machine.engine;
        let nodes = engine.view().instance().workflows[workflow].nodes.clone();
        let tasks: Vec<_> = engine.view().instance().tasks_of(id).collect();
        for (node, value) in left.outputs {
            let Some(place) = nodes.iter().position(|known| *known == node) else { continue };
            engine.recall(tasks[place]);
            if let Some(open) = self.machine.book.open.get_mut(&id) {
                open.outputs[place] = Some(value);
            }
        }
        self.machine.book.touched.push(id);
    }

    fn close_what_ended(&mut self) {
        let mut touched = std::mem::take(&mut self.machine.book.touched);
        touched.sort_unstable();
        touched.dedup();
        for request in touched {
            if !self.machine.book.open.contains_key(&request) || !self.machine.engine.may_retire(request) {
                continue;
            }
            let view = self.machine.engine.view();
            let completed = is_complete(&view, view.instance(), request);
            let workflow = view.instance().requests[request].workflow;
            let now = view.now();
            self.rules.forget(view.instance().tasks_of(request));
            if let Some((spans, open)) = self.spans.as_ref().zip(self.machine.book.open.get(&request)) {
                let ended = RequestEnd { arrival: open.opened, end: now, completed };
                let workflow = &view.instance().workflows[workflow].name;
                spans.sender.send(spans.maker.request(&open.name, workflow, ended));
            }
            self.machine.book.closes(now, request, completed);
            self.free[workflow.index()].push(request);
        }
    }

    fn prune(&mut self) {
        self.pruned_at = self.machine.clock.now();
        self.machine.book.ledger.prune(self.limits.keep.map(|keep| Duration::from_micros(keep.0)));
    }

    /// Holds what was executed against the rules: whatever breaks one is a fault of this program, and is told.
    fn check(&mut self, log: &ExecutionLog) {
        let view = self.machine.engine.view();
        let found = self.rules.check(view.instance(), log);
        for violation in &found {
            tracing::error!("internal error: the log of this service fails its check: {violation}");
            metrics::counter!("gswarm_log_violations_total", "rule" => violation.code.code()).increment(1);
        }
        self.machine.book.chronicle.breaks(found.len() as u64);
    }

    /// What was executed is measured and forgotten, but for what is kept of it to be shown.
    fn note_executions(&mut self) {
        let log = self.machine.engine.take_log();
        self.check(&log);
        let view = self.machine.engine.view();
        let instance = view.instance();
        let chronicle = &mut self.machine.book.chronicle;
        for execution in &log.executions {
            let model = instance.models[instance.model_of(execution.task)].name.clone();
            let took = (execution.end - execution.start).seconds();
            let waited = execution.start.since(execution.ready).seconds();
            metrics::histogram!("gswarm_execution_seconds", "model" => model.clone()).record(took);
            metrics::histogram!("gswarm_waiting_seconds", "model" => model).record(waited);
            chronicle.executed(instance, execution, is_tried_again(&view, execution.task));
            let open = self.machine.book.open.get(&instance.request_of(execution.task));
            if let Some((spans, open)) = self.spans.as_ref().zip(open) {
                spans.sender.send(spans.maker.execution(instance, &open.name, execution));
            }
        }
        chronicle.waiting(view.now(), self.machine.book.ready.len());
    }
}

/// Where spans go, and how they are made.
struct Spans {
    maker: SpanMaker,
    sender: SpanSender,
}

/// What a node of a model is expected to take where nothing is said.
fn usual(model: &ModelSpec) -> Span {
    default_execution(model).unwrap_or(Span(1_000_000))
}
