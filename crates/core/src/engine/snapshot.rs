//! The present state of a run as a separate engine, to simulate it forward under other rules.
//!
//! A snapshot holds the open requests only, with the times that are expected of them now, and requests that may come. So its
//! size depends on what is open, not on how long the run has lasted. Nothing in it says when a request really arrives or how
//! long an execution really takes.

use super::onward::left_of;
use super::state::{Gpu, LoadState, Member, News, Progress, Run, TaskState};
use super::{Engine, View};
use crate::belief::Belief;
use crate::id::{GpuId, Gpus, IdVec, RequestId, TaskId};
use crate::instance::{Instance, NewRequest};
use crate::log::ExecutionLog;
use crate::time::{Span, Time};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// The present of a run.
pub(crate) struct Snapshot {
    engine: Engine<'static>,
    /// Executions under way, and the work that is left of each.
    pub under_way: Vec<(TaskId, Gpus, Span)>,
    /// First GPUs of the windows onto which models are being loaded, and when each load is expected to end.
    pub loads: Vec<(GpuId, Time)>,
    /// Ready tasks in the order in which they became ready.
    ready: Vec<TaskId>,
    /// Requests from this one on have not arrived.
    pub first_to_come: RequestId,
}

impl Snapshot {
    /// The present, with the requests of `open` as they stand and those that may come; `None` where something is under way
    /// that belongs to none of them.
    pub fn of(
        view: &View<'_>,
        open: &[RequestId],
        to_come: impl Iterator<Item = NewRequest>,
    ) -> Option<Snapshot> {
        let (engine, whole) = (view.engine, view.instance());
        let mut instance = whole.without_requests();
        instance.models.iter_mut().for_each(|model| model.spread = 0.0);
        let mut tasks: IdVec<TaskId, Progress> = IdVec::new();
        let mut numbers: FxHashMap<RequestId, RequestId> = FxHashMap::default();
        let mut ready: Vec<(Time, TaskId)> = Vec::new();
        let mut left = 0;
        for &old in open {
            let request = &whole.requests[old];
            let new = instance.push_request(NewRequest {
                name: String::new(),
                workflow: request.workflow,
                arrival: request.arrival,
                priority: request.priority,
                deadline: request.deadline,
                executions: whole.tasks_of(old).map(|task| view.expected(task)).collect(),
            });
            numbers.insert(old, new);
            for (task, to) in whole.tasks_of(old).zip(instance.tasks_of(new)) {
                let mut progress = engine.tasks[task];
                if progress.state == TaskState::Held {
                    progress.state = TaskState::Ready;
                }
                if progress.state == TaskState::Ready {
                    ready.push((progress.ready_at, to));
                }
                left += usize::from(!matches!(progress.state, TaskState::Done | TaskState::GivenUp));
                tasks.push(progress);
            }
        }
        let first_to_come = RequestId::from(instance.requests.len());
        for request in to_come {
            let workflow = request.workflow;
            instance.push_request(request);
            let missing = instance.workflows[workflow].predecessor_counts();
            left += instance.workflows[workflow].nodes.len();
            tasks.extend(missing.map(Progress::waiting_for));
        }
        ready.sort_unstable();
        let renumber = |task: TaskId| {
            let request = numbers.get(&whole.request_of(task))?;
            Some(TaskId(instance.requests[*request].first_task.0 + whole.node_of(task)))
        };
        let mut under_way = Vec::new();
        for one in view.under_way() {
            let task = renumber(one.task)?;
            if one.began.is_some() {
                under_way.push((task, one.gpus, left_of(view, view.now(), &one)));
            }
        }
        let mut runs: IdVec<GpuId, Run> = IdVec::with_capacity(engine.runs.len());
        for run in &engine.runs {
            let mut copy = run.copy();
            for member in &mut copy.members {
                member.task = renumber(member.task)?;
            }
            runs.push(copy);
        }
        let loads = view.loads().map(|(_, gpus, _, end)| (gpus.first, end.max(view.now()))).collect();
        let engine = Engine {
            tasks,
            open: left,
            runs,
            loads: engine.loads.iter().map(|load| load.as_ref().map(LoadState::copy)).collect(),
            ..engine.shell(Cow::Owned(instance))
        };
        let ready = ready.into_iter().map(|(_, task)| task).collect();
        Some(Snapshot { engine, under_way, loads, ready, first_to_come })
    }

    /// The problem: open requests, and those that may come.
    pub fn instance(&self) -> &Instance {
        &self.engine.instance
    }

    /// When it was taken.
    pub fn now(&self) -> Time {
        self.engine.now
    }

    /// Tasks that are neither finished nor given up, those of requests to come included.
    pub fn open_tasks(&self) -> usize {
        self.engine.open
    }

    /// Of each request, the tasks that are neither finished nor given up.
    pub fn tasks_left(&self) -> IdVec<RequestId, u32> {
        let is_left =
            |task: &TaskId| !matches!(self.engine.tasks[*task].state, TaskState::Done | TaskState::GivenUp);
        let instance = self.instance();
        instance.requests.keys().map(|id| instance.tasks_of(id).filter(is_left).count() as u32).collect()
    }

    /// An engine that stands where the run stood. Its news are the tasks that are ready.
    pub fn engine(&self) -> Engine<'_> {
        Engine {
            tasks: self.engine.tasks.clone(),
            open: self.engine.open,
            runs: self.engine.runs.iter().map(Run::copy).collect(),
            loads: self.engine.loads.iter().map(|load| load.as_ref().map(LoadState::copy)).collect(),
            news: self.ready.iter().map(|&task| News::Ready(task)).collect(),
            ..self.engine.shell(Cow::Borrowed(self.instance()))
        }
    }
}

impl Engine<'_> {
    /// The same GPUs with no tasks: what is expected of times is part of the problem, and nobody learns.
    fn shell<'a>(&self, instance: Cow<'a, Instance>) -> Engine<'a> {
        Engine {
            now: self.now,
            max_attempts: self.max_attempts,
            gpus: self.gpus.iter().map(Gpu::copy).collect(),
            alive: self.alive.clone(),
            idle: self.idle.clone(),
            empty: self.empty.clone(),
            holding: self.holding.clone(),
            joinable: self.joinable.clone(),
            slots_count: self.slots_count,
            is_certain: true,
            beliefs: vec![Belief::NONE; self.holding.len()].into(),
            instance,
            tasks: IdVec::new(),
            tries: FxHashMap::default(),
            open: 0,
            runs: IdVec::new(),
            loads: IdVec::new(),
            learner: None,
            prepared: FxHashMap::default(),
            log: ExecutionLog::default(),
            effects: Vec::new(),
            news: Vec::new(),
        }
    }
}

impl Gpu {
    fn copy(&self) -> Gpu {
        Gpu { residents: self.residents.clone(), ..*self }
    }
}

impl Run {
    fn copy(&self) -> Run {
        Run { members: self.members.iter().map(Member::copy).collect(), ..*self }
    }
}

impl Member {
    /// Without what only the log asks for.
    fn copy(&self) -> Member {
        Member { evicted: Box::default(), expected: None, ..*self }
    }
}

impl LoadState {
    fn copy(&self) -> LoadState {
        LoadState { ahead_of: None, evicted: Box::default(), ..*self }
    }
}
