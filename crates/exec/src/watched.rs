//! A run that somebody else drives, or drove: what its journal or its log says goes into an engine that only watches.

use crate::chronicle::{Chronicle, End, is_tried_again};
use crate::journal::{JournalEntry, JournalError, replay};
use crate::scene::Scene;
use gswarm_core::engine::{Decision, Engine, Event, News, TaskState};
use gswarm_core::instance::Residency;
use gswarm_core::log::{Execution, ExecutionLog, Status};
use gswarm_core::report::Stats;
use gswarm_core::{GpuId, Gpus, IdVec, Instance, ModelId, RequestId, Span, TaskId, Time};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Things that are kept of a run that is looked at from outside: more than of a service, which has other things to do.
const KEPT: usize = 200_000;
/// Stretches of time that the counts of a run that is over are parted into at most.
const STRETCHES: u64 = 180;

/// How a request stands.
#[derive(Clone, Debug, Default)]
pub struct Stand {
    /// When it came, where it has.
    pub arrived: Option<Time>,
    /// When and how it ended, where it has.
    pub ended: Option<(Time, End)>,
    /// The last thing that went wrong.
    pub trouble: Option<String>,
}

/// A run that is watched.
pub struct Watched {
    engine: Engine<'static>,
    chronicle: Chronicle,
    ready: FxHashMap<TaskId, Time>,
    requests: IdVec<RequestId, Stand>,
    last: Time,
    /// Requests of which a task has come to its end since the last entry.
    touched: Vec<RequestId>,
}

impl Watched {
    /// A run of which nothing is known yet.
    #[must_use]
    pub fn new(instance: Instance, max_attempts: u32) -> Watched {
        let requests = vec![Stand::default(); instance.requests.len()].into();
        Watched {
            chronicle: Chronicle::new(KEPT, crate::chronicle::USUAL),
            engine: Engine::for_stream(instance, max_attempts),
            ready: FxHashMap::default(),
            requests,
            last: Time::ZERO,
            touched: Vec::new(),
        }
    }

    /// A run that is over, from its log.
    #[must_use]
    pub fn of_log(mut instance: Instance, log: &ExecutionLog) -> Watched {
        let ends = log.executions.iter().map(|one| one.end).chain(log.loads.iter().map(|one| one.end));
        let last = ends.max().unwrap_or(Time::ZERO);
        let each = Span((last.0 / STRETCHES + 1).max(crate::chronicle::USUAL.0));
        let mut chronicle = Chronicle::new(KEPT, each);
        let past = Past::of(&instance, log);
        let requests = past.tell(&instance, log, &mut chronicle);
        instance.start.resident = past.resident;
        let (ready, touched) = (FxHashMap::default(), Vec::new());
        Watched { engine: Engine::for_stream(instance, 1), chronicle, ready, requests, last, touched }
    }

    /// Takes in what a journal says next.
    pub fn take(&mut self, at: Time, entry: JournalEntry, note: Option<&str>) -> Result<(), JournalError> {
        replay::could_follow(&self.engine, at, entry)?;
        self.last = at;
        match entry {
            JournalEntry::Event(event) => {
                self.note_event(at, event, note);
                self.engine.handle(at, event);
            }
            JournalEntry::Decision(decision) => {
                self.chronicle.decision(&self.engine.view(), at, decision);
                if let Decision::Start { task, .. } = decision {
                    self.ready.remove(&task);
                }
                replay::decide_again(&mut self.engine, at, decision)?;
            }
        }
        self.settle(at);
        Ok(())
    }

    fn note_event(&mut self, at: Time, event: Event, note: Option<&str>) {
        let view = self.engine.view();
        let instance = view.instance();
        self.chronicle.event(&view, at, event, note);
        match event {
            Event::Arrived(request) => {
                let spec = &instance.requests[request];
                // Latency counts from when it was to come, as in the report of the run.
                self.requests[request].arrived = Some(spec.arrival.min(at));
                self.chronicle.accepted(at, spec.name.as_str().into(), spec.workflow);
            }
            Event::Finished(task) => self.touched.push(instance.request_of(task)),
            Event::Failed(task) | Event::Refused(task) | Event::Deferred(task) | Event::Abandoned(task) => {
                self.requests[instance.request_of(task)].trouble = note.map(str::to_owned);
            }
            Event::LoadFailed(lead) | Event::LoadDeferred(lead) => {
                for task in view.waiting_at(lead) {
                    self.requests[instance.request_of(task)].trouble = note.map(str::to_owned);
                }
            }
            _ => {}
        }
    }

    /// What follows from an entry.
    fn settle(&mut self, at: Time) {
        let news = self.engine.take_news();
        // Whoever drives the run has done what there was to do.
        self.engine.take_effects();
        let log = self.engine.take_log();
        let view = self.engine.view();
        for one in &log.executions {
            self.chronicle.executed(view.instance(), one, is_tried_again(&view, one.task));
        }
        for one in news {
            match one {
                News::Ready(task) => drop(self.ready.insert(task, at)),
                News::GivenUp(task) => {
                    self.ready.remove(&task);
                    self.touched.push(view.instance().request_of(task));
                }
                News::Freed(_) | News::Lost(_) | News::Returned(_) => {}
            }
        }
        for request in std::mem::take(&mut self.touched) {
            let stand = &mut self.requests[request];
            if stand.ended.is_some() || !self.engine.may_retire(request) {
                continue;
            }
            let done = |task| view.state(task) == TaskState::Done;
            let completed = view.instance().tasks_of(request).all(done);
            let end = if completed { End::Completed } else { End::GivenUp };
            stand.ended = Some((at, end));
            let name: Arc<str> = view.instance().requests[request].name.as_str().into();
            let took = at.since(stand.arrived.unwrap_or(at));
            let workflow = view.instance().requests[request].workflow;
            self.chronicle.ended(at, took, end, workflow, Some((name, stand.trouble.as_deref())));
        }
        self.chronicle.waiting(at, self.ready.len());
    }

    /// How it stands at `now`.
    #[must_use]
    pub fn scene(&self, now: Time) -> Scene<'_> {
        Scene { view: self.engine.view(), now, ready: &self.ready, unserved: None }
    }

    /// What happened.
    #[must_use]
    pub fn chronicle(&self) -> &Chronicle {
        &self.chronicle
    }

    /// The requests.
    #[must_use]
    pub fn requests(&self) -> &IdVec<RequestId, Stand> {
        &self.requests
    }

    /// Requests that have come and not ended, in the order in which they came.
    #[must_use]
    pub fn open(&self) -> Vec<RequestId> {
        let open = self.requests.iter_enumerated().filter(|(_, stand)| stand.ended.is_none());
        let mut open: Vec<_> = open.filter_map(|(id, stand)| Some((stand.arrived?, id))).collect();
        open.sort_unstable();
        open.into_iter().map(|(_, id)| id).collect()
    }

    /// Whether every request has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.requests.iter().all(|stand| stand.ended.is_some())
    }

    /// The latency of all requests that completed, by the rule of every report.
    #[must_use]
    pub fn latency(&self) -> Stats {
        let took = self.requests.iter().filter_map(|stand| match (stand.arrived, stand.ended) {
            (Some(arrived), Some((at, End::Completed))) => Some(at.since(arrived)),
            _ => None,
        });
        Stats::of(took.collect())
    }

    /// When something happened last.
    #[must_use]
    pub fn last(&self) -> Time {
        self.last
    }
}

/// A load that an execution bore, or that was made ahead.
struct PastLoad {
    start: Time,
    end: Time,
    gpus: Gpus,
    model: ModelId,
    /// What went wrong.
    why: Option<&'static str>,
    evicted: Box<[ModelId]>,
}

/// A log, put in order.
struct Past {
    loads: Vec<PastLoad>,
    /// What is on the GPUs in the end.
    resident: Vec<(GpuId, ModelId)>,
    /// What left which GPUs for what, and when.
    evicted: Vec<(Time, ModelId, Gpus, ModelId)>,
}

impl Past {
    fn of(instance: &Instance, log: &ExecutionLog) -> Past {
        let why = |cut_short: bool| cut_short.then_some("it was cut short");
        let borne = log.executions.iter().filter(|one| one.switch > Span::ZERO).map(|one| {
            let start = Time(one.start.0.saturating_sub(one.switch.0));
            let cut_short = one.status != Status::Completed && one.start == one.end;
            PastLoad {
                start,
                end: one.start,
                gpus: one.gpus,
                model: instance.model_of(one.task),
                why: why(cut_short),
                evicted: one.evicted.clone(),
            }
        });
        let ahead = log.loads.iter().map(|one| {
            let cut_short = one.status != Status::Completed;
            PastLoad {
                start: one.start,
                end: one.end,
                gpus: one.gpus,
                model: one.model,
                why: why(cut_short),
                evicted: one.evicted.clone(),
            }
        });
        let mut loads: Vec<_> = borne.chain(ahead).collect();
        loads.sort_by_key(|load| (load.start, load.end, load.gpus));
        let mut past = Past { loads, resident: Vec::new(), evicted: Vec::new() };
        past.replay(instance, log);
        past
    }

    /// Follows what each GPU holds.
    fn replay(&mut self, instance: &Instance, log: &ExecutionLog) {
        let mut holds: Vec<Vec<ModelId>> = vec![Vec::new(); instance.cluster.gpus as usize];
        let mut losses = log.losses.iter().peekable();
        for PastLoad { start, gpus, model, why, evicted, .. } in &self.loads {
            while let Some(loss) = losses.next_if(|loss| loss.at <= *start) {
                holds.get_mut(loss.gpu.index()).into_iter().for_each(Vec::clear);
            }
            let mut left: Vec<ModelId> = Vec::new();
            for held in holds.get_mut(gpus.range()).into_iter().flatten() {
                let goes = |one: &ModelId| match instance.cluster.residency {
                    Residency::Single => one != model,
                    Residency::Memory => evicted.contains(one),
                };
                left.extend(held.extract_if(.., |one| goes(one)));
                held.retain(|one| one != model);
                if why.is_none() {
                    held.push(*model);
                }
            }
            left.sort_unstable();
            left.dedup();
            self.evicted.extend(left.into_iter().map(|one| (*start, one, *gpus, *model)));
        }
        losses.for_each(|loss| holds.get_mut(loss.gpu.index()).into_iter().for_each(Vec::clear));
        let held = (0..).map(GpuId).zip(holds);
        self.resident =
            held.flat_map(|(gpu, held)| held.into_iter().map(move |model| (gpu, model))).collect();
    }

    /// Tells all that happened in the order of time.
    fn tell(
        &self,
        instance: &Instance,
        log: &ExecutionLog,
        chronicle: &mut Chronicle,
    ) -> IdVec<RequestId, Stand> {
        let mut requests: IdVec<RequestId, Stand> = vec![Stand::default(); instance.requests.len()].into();
        let mut nodes_left: IdVec<RequestId, usize> =
            instance.requests.keys().map(|id| instance.tasks_of(id).count()).collect();
        let mut tells: Vec<(Time, Tell<'_>)> = Vec::with_capacity(log.executions.len() * 3);
        for (id, request) in instance.requests.iter_enumerated() {
            tells.push((request.arrival, Tell::Arrived(id)));
        }
        for one in &log.executions {
            tells.push((one.ready, Tell::Waits(1)));
            tells.push((one.start, Tell::Waits(-1)));
            tells.push((one.end, Tell::Executed(one)));
        }
        tells.extend((0..).zip(&self.loads).map(|(number, load)| (load.end, Tell::Loaded(number))));
        tells.extend((0..).zip(&self.evicted).map(|(number, one)| (one.0, Tell::Evicted(number))));
        tells.sort_by_key(|&(at, _)| at);
        let retried = log.executions.iter().filter(|one| one.attempt > 1);
        let mut attempts: FxHashMap<TaskId, u32> = FxHashMap::default();
        for one in retried {
            let last = attempts.entry(one.task).or_default();
            *last = one.attempt.max(*last);
        }
        let mut waiting = 0i64;
        for (at, tell) in tells {
            match tell {
                Tell::Arrived(id) => {
                    requests[id].arrived = Some(at);
                    let spec = &instance.requests[id];
                    chronicle.accepted(at, spec.name.as_str().into(), spec.workflow);
                }
                Tell::Waits(more) => {
                    waiting += more;
                    chronicle.waiting(at, waiting.max(0) as usize);
                }
                Tell::Evicted(number) => {
                    let (_, left, gpus, came) = self.evicted[number];
                    chronicle.evicted(at, left, gpus, came);
                }
                Tell::Loaded(number) => {
                    let &PastLoad { start, end, gpus, model, why, .. } = &self.loads[number];
                    chronicle.loaded(model, gpus, (start, end), why);
                }
                Tell::Executed(one) => {
                    let id = instance.request_of(one.task);
                    let again = attempts.get(&one.task).is_some_and(|&last| last > one.attempt);
                    chronicle.executed(instance, one, again);
                    if one.status != Status::Completed {
                        continue;
                    }
                    nodes_left[id] -= 1;
                    if nodes_left[id] == 0 {
                        requests[id].ended = Some((at, End::Completed));
                        let took = at.since(instance.requests[id].arrival);
                        let name: Arc<str> = instance.requests[id].name.as_str().into();
                        chronicle.ended(
                            at,
                            took,
                            End::Completed,
                            instance.requests[id].workflow,
                            Some((name, None)),
                        );
                    }
                }
            }
        }
        give_up_the_rest(instance, log, chronicle, &mut requests);
        requests
    }
}

/// Requests that a log leaves unfinished: the run ended without them.
fn give_up_the_rest(
    instance: &Instance,
    log: &ExecutionLog,
    chronicle: &mut Chronicle,
    requests: &mut IdVec<RequestId, Stand>,
) {
    let last = log.executions.iter().map(|one| one.end).max().unwrap_or(Time::ZERO);
    for (id, stand) in requests.iter_mut_enumerated().filter(|(_, stand)| stand.ended.is_none()) {
        stand.ended = Some((last, End::GivenUp));
        let name: Arc<str> = instance.requests[id].name.as_str().into();
        let took = last.since(instance.requests[id].arrival);
        chronicle.ended(last, took, End::GivenUp, instance.requests[id].workflow, Some((name, None)));
    }
}

#[derive(Clone, Copy)]
enum Tell<'l> {
    Arrived(RequestId),
    Waits(i64),
    Evicted(usize),
    Loaded(usize),
    Executed(&'l Execution),
}
