//! Open requests: their callers, the outputs of their nodes, and the listeners for their end.

use super::events::EventSender;
use super::ledger::Ledger;
use super::shares::Shares;
use super::turns::Turns;
use crate::call::{Outputs, call_of, named};
use crate::chronicle::{Chronicle, End, KEPT, USUAL, numbers};
use crate::drive::{Book, Trouble};
use crate::journal::JournalError;
use crate::wire::ServiceEvent;
use crate::work::{Direct, ReplicaCall};
use gswarm_core::engine::{Decision, Event, News, View};
use gswarm_core::input::{RequestSpec, Scenario};
use gswarm_core::{Instance, RequestId, TaskId, Time, WorkflowId};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;

/// Whose request it is.
pub(super) enum Requester {
    /// Somebody holds the line.
    Direct { direct: Arc<Direct>, ticket: u64 },
    /// It was accepted, and is in the ledger.
    Submitted(Arc<RequestSpec>),
}

/// A request that has not ended.
pub(super) struct Open {
    pub name: Arc<str>,
    pub workflow: WorkflowId,
    /// On whose behalf.
    pub caller: Arc<str>,
    pub requester: Requester,
    /// In microseconds since 1970.
    pub accepted: i64,
    /// When it counts as having come, by the service's own clock.
    pub arrival: Time,
    /// When this service took it on.
    pub opened: Time,
    /// What each node has written.
    pub outputs: Vec<Option<Map<String, Value>>>,
    /// The last thing that went wrong.
    pub trouble: Option<String>,
    /// Somebody took it back.
    pub cancelled: bool,
    /// The service stops: what is left of it is for the next one.
    pub put_off: bool,
    pub waiters: Vec<oneshot::Sender<()>>,
}

/// All of them.
pub(super) struct OpenRequests {
    pub scenario: Arc<Scenario>,
    pub ledger: Ledger,
    pub told: EventSender,
    pub open: FxHashMap<RequestId, Open>,
    pub by_name: FxHashMap<Arc<str>, RequestId>,
    pub by_ticket: FxHashMap<u64, RequestId>,
    /// How many each caller has open.
    pub shares: Shares,
    pub turns: Turns,
    /// Requests of which a task has come to its end since they were looked at last.
    pub touched: Vec<RequestId>,
    /// Those who wait for a request that has ended: they are told once that is written.
    pub to_tell: Vec<oneshot::Sender<()>>,
    /// Since when a task that is ready waits.
    pub ready: FxHashMap<TaskId, Time>,
    /// What happened of late.
    pub chronicle: Chronicle,
}

impl OpenRequests {
    pub fn new(scenario: Arc<Scenario>, ledger: Ledger, told: EventSender) -> OpenRequests {
        OpenRequests {
            scenario,
            ledger,
            told,
            open: FxHashMap::default(),
            by_name: FxHashMap::default(),
            by_ticket: FxHashMap::default(),
            shares: Shares::default(),
            turns: Turns::default(),
            touched: Vec::new(),
            to_tell: Vec::new(),
            ready: FxHashMap::default(),
            chronicle: Chronicle::new(KEPT, USUAL),
        }
    }

    /// A request is open from here on.
    pub fn opens(&mut self, id: RequestId, open: Open) {
        match &open.requester {
            Requester::Direct { ticket, .. } => self.by_ticket.insert(*ticket, id),
            Requester::Submitted(_) => self.by_name.insert(Arc::clone(&open.name), id),
        };
        self.shares.add(&open.caller);
        self.turns.opens(&open.caller, open.arrival, id);
        self.open.insert(id, open);
    }

    /// A request has come to its end: it is written down. Where the service only puts it off, the ledger keeps it as open.
    pub fn closes(&mut self, now: Time, id: RequestId, completed: bool) {
        let Some(open) = self.open.remove(&id) else { return };
        self.shares.remove(&open.caller);
        self.turns.closes(&open.caller, open.arrival, id);
        let end = match (completed, open.cancelled) {
            (true, _) => End::Completed,
            (false, true) => End::Cancelled,
            (false, false) => End::GivenUp,
        };
        match &open.requester {
            Requester::Direct { direct, ticket } => {
                self.by_ticket.remove(ticket);
                let trouble = || open.trouble.clone().unwrap_or_else(|| "it was cancelled".to_owned());
                direct.fails(if completed { String::new() } else { trouble() });
            }
            Requester::Submitted(_) => {
                self.by_name.remove(&open.name);
                if !open.put_off || completed {
                    self.ledger.end(&open.name, end, unix_micros(), open.trouble.as_deref());
                }
            }
        }
        if !open.put_off || completed {
            // Of calls only those that come to nothing are told one by one: there may be thousands in a second.
            let is_told = matches!(open.requester, Requester::Submitted(_)) || end == End::GivenUp;
            let named = is_told.then(|| (Arc::clone(&open.name), open.trouble.as_deref()));
            self.chronicle.ended(now, now.since(open.opened), end, open.workflow, named);
            let took = (unix_micros() - open.accepted) as f64 / 1e6;
            let status = end.state();
            metrics::counter!("gswarm_requests_ended_total", "status" => status.name()).increment(1);
            metrics::histogram!("gswarm_request_seconds", "status" => status.name()).record(took);
            self.told.tell(|| ServiceEvent::RequestEnded {
                request: open.name.to_string(),
                status,
                seconds: took,
                why: open.trouble,
            });
        }
        self.to_tell.extend(open.waiters);
    }

    /// The names of a task's request and node.
    fn named(&self, view: &View<'_>, task: TaskId) -> (Option<String>, String) {
        let instance = view.instance();
        let node = instance.workflow_of(task).nodes[instance.node_of(task) as usize].clone();
        (self.open.get(&instance.request_of(task)).map(|open| open.name.to_string()), node)
    }

    fn tell_of_start(&mut self, view: &View<'_>, decision: Decision) {
        let instance = view.instance();
        match decision {
            Decision::Start { task, gpus } => {
                let (request, node) = self.named(view, task);
                let model = instance.models[instance.model_of(task)].name.clone();
                self.told.tell(|| ServiceEvent::NodeStarted { request, node, model, gpus: numbers(gpus) });
            }
            Decision::Load { model, gpus, .. } => {
                let model = instance.models[model].name.clone();
                self.told.tell(|| ServiceEvent::LoadAhead { model, gpus: numbers(gpus) });
            }
            Decision::Wake { .. } => {}
        }
    }

    fn tell_of_event(&mut self, view: &View<'_>, event: Event, why: Option<&str>) {
        if !self.told.anybody_listens() {
            return;
        }
        let why = why.map(str::to_owned);
        let told = match event {
            Event::Finished(task) => {
                let (request, node) = self.named(view, task);
                ServiceEvent::NodeFinished { request, node }
            }
            Event::Failed(task) | Event::Refused(task) | Event::Deferred(task) | Event::Abandoned(task) => {
                let (request, node) = self.named(view, task);
                ServiceEvent::NodeFailed { request, node, why }
            }
            Event::Loaded(lead) => {
                let model = view.being_loaded(lead).map(|model| view.instance().models[model].name.clone());
                ServiceEvent::LoadEnded { gpu: lead.0, model }
            }
            Event::LoadFailed(lead) | Event::LoadDeferred(lead) => {
                ServiceEvent::LoadFailed { gpu: lead.0, why }
            }
            Event::Dismissed(model) => {
                ServiceEvent::ModelUnloaded { model: view.instance().models[model].name.clone() }
            }
            Event::Lost(gpu) => ServiceEvent::GpuLost { gpu: gpu.0 },
            Event::Returned(gpu) => ServiceEvent::GpuReturned { gpu: gpu.0 },
            Event::Held(_)
            | Event::Released(_)
            | Event::Arrived(_)
            | Event::Withdrawn(_)
            | Event::Reopened(_)
            | Event::Woken => {
                return;
            }
        };
        self.told.tell(|| told);
    }
}

impl Book for OpenRequests {
    fn work(&self, view: &View<'_>, task: TaskId) -> ReplicaCall {
        let instance = view.instance();
        let open = &self.open[&instance.request_of(task)];
        match &open.requester {
            Requester::Direct { direct, .. } => ReplicaCall::Direct(Arc::clone(direct)),
            Requester::Submitted(spec) => {
                let first = instance.requests[instance.request_of(task)].first_task;
                let outputs = NodeOutputs { first, outputs: &open.outputs };
                ReplicaCall::Node(Arc::new(call_of(&self.scenario, instance, spec, &outputs, task)))
            }
        }
    }

    fn answered(&mut self, view: &View<'_>, task: TaskId, answer: Value) -> Result<(), JournalError> {
        let instance = view.instance();
        let Some(open) = self.open.get_mut(&instance.request_of(task)) else { return Ok(()) };
        if let Requester::Direct { .. } = open.requester {
            open.trouble = answer.get("broken").map(|why| why.as_str().unwrap_or_default().to_owned());
            return Ok(());
        }
        let value = named(&self.scenario, instance, task, answer);
        let place = instance.node_of(task) as usize;
        self.ledger.output(&open.name, &instance.workflow_of(task).nodes[place], &value)?;
        open.outputs[place] = Some(value);
        Ok(())
    }

    fn event(
        &mut self,
        view: &View<'_>,
        at: Time,
        event: Event,
        trouble: Option<Trouble<'_>>,
    ) -> Result<(), JournalError> {
        self.chronicle.event(view, at, event, trouble.map(|trouble| trouble.why));
        self.tell_of_event(view, event, trouble.map(|trouble| trouble.why));
        let instance = view.instance();
        for &task in trouble.map_or(&[][..], |trouble| trouble.fails) {
            let why = trouble.map_or("", |trouble| trouble.why);
            let node = &instance.workflow_of(task).nodes[instance.node_of(task) as usize];
            if let Some(open) = self.open.get_mut(&instance.request_of(task)) {
                open.trouble = Some(why.to_owned());
                if let Requester::Submitted(_) = open.requester {
                    self.ledger.failure(&open.name, node, unix_micros(), why);
                }
            }
            let model = instance.models[instance.model_of(task)].name.clone();
            metrics::counter!("gswarm_failed_calls_total", "model" => model).increment(1);
        }
        match event {
            Event::Finished(task) => self.touched.push(instance.request_of(task)),
            Event::Deferred(task) => {
                if let Some(open) = self.open.get_mut(&instance.request_of(task)) {
                    open.trouble = trouble.map(|trouble| trouble.why.to_owned());
                }
            }
            Event::Loaded(lead) => {
                let model =
                    view.being_loaded(lead).map_or("", |model| &instance.models[model].name).to_owned();
                metrics::counter!("gswarm_loads_total", "model" => model).increment(1);
            }
            Event::LoadFailed(_) | Event::LoadDeferred(_) => {
                metrics::counter!("gswarm_failed_loads_total").increment(1)
            }
            _ => {}
        }
        Ok(())
    }

    fn decision(&mut self, view: &View<'_>, at: Time, decision: Decision) -> Result<(), JournalError> {
        self.chronicle.decision(view, at, decision);
        if let Decision::Start { task, .. } = decision {
            self.ready.remove(&task);
        }
        if self.told.anybody_listens() {
            self.tell_of_start(view, decision);
        }
        Ok(())
    }

    fn news(&mut self, view: &View<'_>, news: News) {
        match news {
            News::Ready(task) => drop(self.ready.insert(task, view.now())),
            News::GivenUp(task) => {
                self.ready.remove(&task);
                self.touched.push(view.instance().request_of(task));
            }
            News::Freed(_) | News::Lost(_) | News::Returned(_) => {}
        }
    }

    fn backend(&mut self, name: &str, trouble: Option<&str>) {
        let (backend, why) = (name.to_owned(), trouble.map(str::to_owned));
        self.told.tell(|| match why {
            Some(_) => ServiceEvent::BackendDown { backend, why },
            None => ServiceEvent::BackendUp { backend, why },
        });
    }

    fn commit(&mut self) -> Result<(), JournalError> {
        self.ledger.commit();
        Ok(())
    }
}

struct NodeOutputs<'o> {
    first: TaskId,
    outputs: &'o [Option<Map<String, Value>>],
}

impl Outputs for NodeOutputs<'_> {
    fn of(&self, task: TaskId) -> Option<&Map<String, Value>> {
        self.outputs.get((task.0 - self.first.0) as usize)?.as_ref()
    }
}

/// Whether every node of a request has finished.
pub(super) fn is_complete(view: &View<'_>, instance: &Instance, request: RequestId) -> bool {
    let done = |task| view.state(task) == gswarm_core::engine::TaskState::Done;
    instance.tasks_of(request).all(done)
}

pub(super) fn unix_micros() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}
