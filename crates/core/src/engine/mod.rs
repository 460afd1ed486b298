//! The state machine of a run: which tasks wait, which run where, what is loaded. It has no clock, no files and no
//! threads.
//!
//! A driver tells it what happened ([`Engine::handle`]), a policy proposes what to do next ([`Engine::apply`]), and the
//! engine answers with [`Effect`]s that the driver carries out: under a virtual clock in [`crate::sim`], under the real
//! one in a live run. A proposal that cannot be carried out is [`Rejected`], never repaired.

mod dismiss;
mod driver;
mod learn;
mod load;
mod loss;
mod memory;
mod onward;
mod policy;
mod possible;
mod snapshot;
mod state;
mod stream;
mod view;

pub use driver::Driver;
pub use onward::Continuation;
pub use policy::Policy;
pub(crate) use snapshot::Snapshot;
pub use state::{Decision, Effect, Event, News, Rejected, TaskState};
pub(crate) use view::Part;
pub use view::{RunningTask, View};

use crate::belief::{Belief, Learner};
use crate::gpuset::GpuSet;
use crate::id::{GpuId, Gpus, IdVec, ModelId, RequestId, TaskId};
use crate::instance::{Instance, Residency};
use crate::log::{Execution, ExecutionLog, Load, Status};
use crate::time::{Span, Time};
use rustc_hash::FxHashMap;
use state::{Gpu, LoadState, Member, Progress, Resident, Run};
use std::borrow::Cow;

/// The state of a run.
pub struct Engine<'i> {
    /// Lent for a batch that is known beforehand; owned where requests come in while it runs.
    instance: Cow<'i, Instance>,
    now: Time,
    max_attempts: u32,
    tasks: IdVec<TaskId, Progress>,
    /// Attempts already made and failures among them, of the few tasks that have any.
    tries: FxHashMap<TaskId, Tries>,
    /// Tasks that are neither finished nor given up.
    open: usize,
    gpus: IdVec<GpuId, Gpu>,
    /// By the first GPU of the window.
    runs: IdVec<GpuId, Run>,
    /// By the first GPU of the window.
    loads: IdVec<GpuId, Option<LoadState>>,
    alive: GpuSet,
    idle: GpuSet,
    empty: GpuSet,
    holding: IdVec<ModelId, GpuSet>,
    joinable: IdVec<ModelId, GpuSet>,
    /// Whether executions take memory beside the weights that models share: else nothing of it needs to be reckoned.
    slots_count: bool,
    /// Who watches what executions take, and what is believed of each model by it.
    learner: Option<Box<dyn Learner + 'i>>,
    beliefs: IdVec<ModelId, Belief>,
    is_certain: bool,
    /// Loads that were made ahead of a task that has not started.
    prepared: FxHashMap<TaskId, Load>,
    log: ExecutionLog,
    effects: Vec<Effect>,
    news: Vec<News>,
}

#[derive(Clone, Copy, Default)]
struct Tries {
    made: u32,
    failed: u32,
}

impl<'i> Engine<'i> {
    /// Nothing has arrived, and GPUs hold what the problem specifies at its start. A task that fails `max_attempts` times is
    /// given up.
    #[must_use]
    pub fn new(instance: &'i Instance, max_attempts: u32) -> Engine<'i> {
        Engine::over(Cow::Borrowed(instance), max_attempts)
    }

    fn over(instance: Cow<'i, Instance>, max_attempts: u32) -> Engine<'i> {
        let (tasks, gpus) = (instance.tasks(), instance.cluster.gpus);
        let no_gpu = GpuSet::empty(gpus);
        let mut progress = IdVec::with_capacity(tasks);
        for request in &instance.requests {
            let missing = instance.workflows[request.workflow].predecessor_counts();
            progress.extend(missing.map(Progress::waiting_for));
        }
        let models = instance.models.len();
        let slots_count = instance.cluster.residency == Residency::Memory
            && instance.models.iter().any(|model| model.slot_per_gpu > 0);
        let is_certain = instance.is_certain();
        let mut engine = Engine {
            instance,
            now: Time::ZERO,
            max_attempts: max_attempts.max(1),
            tasks: progress,
            tries: FxHashMap::default(),
            open: tasks,
            gpus: (0..gpus).map(|_| Gpu::default()).collect(),
            runs: (0..gpus).map(|_| Run::default()).collect(),
            loads: (0..gpus).map(|_| None).collect(),
            alive: GpuSet::full(gpus),
            idle: GpuSet::full(gpus),
            empty: GpuSet::full(gpus),
            holding: vec![no_gpu.clone(); models].into(),
            joinable: vec![no_gpu; models].into(),
            slots_count,
            is_certain,
            learner: None,
            beliefs: vec![Belief::NONE; models].into(),
            prepared: FxHashMap::default(),
            log: ExecutionLog { executions: Vec::with_capacity(tasks), ..ExecutionLog::default() },
            effects: Vec::new(),
            news: Vec::new(),
        };
        engine.put_what_is_there();
        engine
    }

    /// What the GPUs hold before anything has happened.
    fn put_what_is_there(&mut self) {
        for &(gpu, model) in &self.instance.start.resident {
            self.holding[model].insert(gpu);
            self.gpus[gpu].residents.push(Resident { model, last_used: Time::ZERO, has_executed: true });
            self.empty.remove(gpu);
        }
    }

    /// Has `learner` watch what executions take from now on.
    pub fn learn_with(&mut self, learner: Box<dyn Learner + 'i>) {
        for (model, belief) in self.beliefs.iter_mut_enumerated() {
            *belief = learner.belief(model, None);
        }
        self.learner = Some(learner);
        self.is_certain = false;
    }

    /// What a policy may see.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View::new(self)
    }

    /// Whether every task is finished or given up.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.open == 0
    }

    /// How many tasks are neither finished nor given up.
    #[must_use]
    pub fn open_tasks(&self) -> usize {
        self.open
    }

    /// The log so far; consumes the engine.
    #[must_use]
    pub fn into_log(mut self) -> ExecutionLog {
        self.log.loads.extend(self.prepared.into_values());
        self.log.loads.sort_by_key(|load| (load.end, load.gpus));
        self.log
    }

    /// What the driver has to do next; empties the list.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// News for the policy, in the order of events; empties the list.
    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Something happened at `at`, which is never before what happened last.
    pub fn handle(&mut self, at: Time, event: Event) {
        debug_assert!(at >= self.now, "time runs forward");
        self.now = at;
        match event {
            Event::Finished(task) => self.finished(task),
            Event::Failed(task) => self.failed(task),
            Event::Refused(task) => self.refused(task),
            Event::Deferred(task) => self.deferred(task),
            Event::LoadDeferred(lead) => self.load_deferred(lead),
            Event::Abandoned(task) => self.abandoned(task),
            Event::Held(task) => self.held(task),
            Event::Released(task) => self.released(task),
            Event::Loaded(lead) => self.loaded(lead),
            Event::LoadFailed(lead) => self.load_failed(lead),
            Event::Lost(gpu) => self.lose(gpu),
            Event::Returned(gpu) => self.returned(gpu),
            Event::Withdrawn(request) => self.withdrawn(request),
            Event::Reopened(request) => self.reopened(request),
            Event::Dismissed(model) => self.dismissed(model),
            Event::Arrived(request) => self.arrived(request),
            Event::Woken => {}
        }
    }

    /// Applies a policy's decision. If it is rejected, nothing changes.
    pub fn apply(&mut self, decision: Decision) -> Result<(), Rejected> {
        match decision {
            Decision::Start { task, gpus } => self.start(task, gpus),
            Decision::Load { model, gpus, ahead_of } => self.load_ahead(model, gpus, ahead_of),
            Decision::Wake { at } if at > self.now => {
                self.effects.push(Effect::Wake { at });
                Ok(())
            }
            Decision::Wake { at } => Err(Rejected::WakeInThePast { at, now: self.now }),
        }
    }

    /// What was under way before the run began goes on; no policy has anything to decide of it. Returns its tasks.
    pub(crate) fn take_up(&mut self) -> Result<Vec<TaskId>, Rejected> {
        let running = self.instance.start.running.clone();
        for &(task, gpus) in &running {
            self.apply(Decision::Start { task, gpus })?;
        }
        let tasks = &self.tasks;
        self.news
            .retain(|news| !matches!(news, News::Ready(task) if tasks[*task].state == TaskState::Running));
        Ok(running.into_iter().map(|(task, _)| task).collect())
    }

    fn arrived(&mut self, request: RequestId) {
        for task in self.instance.tasks_of(request) {
            if self.tasks[task].is_free_to_start() {
                self.becomes_ready(task);
            }
        }
    }

    fn becomes_ready(&mut self, task: TaskId) {
        self.tasks[task].becomes_ready(self.now);
        self.news.push(News::Ready(task));
    }

    fn start(&mut self, task: TaskId, gpus: Gpus) -> Result<(), Rejected> {
        if self.tasks.get(task).is_none_or(|progress| progress.state != TaskState::Ready) {
            return Err(Rejected::NotReady { task });
        }
        let model = self.instance.model_of(task);
        self.check_window(model, gpus)?;
        let lead = gpus.first;
        let run = &self.runs[lead];
        if run.is_active() && run.gpus == gpus && run.model == model {
            if run.members.len() as u32 >= self.instance.models[model].max_batch() {
                return Err(Rejected::BatchFull { task, gpus });
            }
            self.check_slot(model, gpus, run.members.len() as u64 + 1)?;
            self.join(task, gpus, Span::ZERO, Box::default());
            return Ok(());
        }
        if let Some(gpu) = gpus.iter().find(|&gpu| self.gpus[gpu].run.is_some()) {
            return Err(Rejected::Busy { gpu });
        }
        let (switch, evicted) = if self.holding[model].contains_all(gpus) {
            if let Some(gpu) = self.clashing_load(model, gpus) {
                return Err(Rejected::Loading { gpu });
            }
            self.check_slot(model, gpus, 1)?;
            self.take_prepared(task, gpus)
        } else {
            self.begin_load(model, gpus, true, None)?
        };
        for gpu in gpus.iter() {
            self.gpus[gpu].run = Some(lead);
            self.gpus[gpu].busy_from = self.now;
            self.idle.remove(gpu);
            let there = self.gpus[gpu].residents.iter_mut().find(|resident| resident.model == model);
            there.into_iter().for_each(|resident| resident.has_executed = true);
        }
        let run = &mut self.runs[lead];
        (run.model, run.gpus) = (model, gpus);
        run.loading = self.loads[lead].as_ref().is_some_and(|load| load.for_run);
        run.expected_end = self.now + switch;
        self.join(task, gpus, switch, evicted);
        Ok(())
    }

    /// Puts a task into the batch of a replica; it executes at once, or when the replica's load has ended.
    fn join(&mut self, task: TaskId, gpus: Gpus, switch: Span, evicted: Box<[ModelId]>) {
        let lead = gpus.first;
        let expected = self.expected_on(task, gpus);
        let (model, run) = (&self.instance.models[self.runs[lead].model], &mut self.runs[lead]);
        let ready = self.tasks[task].ready_at;
        if self.learner.is_some() && !run.loading {
            run.advance(self.now, &model.slowdown);
        }
        let begun = run.progress;
        run.members.push(Member {
            task,
            ready,
            switch,
            start: self.now,
            begun,
            batch: 0,
            evicted,
            expected: None,
        });
        let takes = model.at_batch(expected, run.members.len() as u32);
        let begins = if run.loading { run.expected_load_end.max(self.now) } else { self.now };
        run.expected_end = run.expected_end.max(begins + takes);
        let progress = &mut self.tasks[task];
        (progress.state, progress.lead) = (TaskState::Running, lead);
        if !run.loading {
            run.count_batch(self.now);
            self.effects.push(Effect::Execute { task, gpus });
            self.note_expected(lead);
        }
        self.update_joinable(lead);
    }

    fn update_joinable(&mut self, lead: GpuId) {
        let run = &self.runs[lead];
        let room = self.instance.models[run.model].max_batch() as usize;
        if room == 1 {
            return;
        }
        let (model, count) = (run.model, run.members.len());
        let opens =
            run.is_active() && count < room && self.check_slot(model, run.gpus, count as u64 + 1).is_ok();
        let open = &mut self.joinable[model];
        if opens { open.insert(lead) } else { open.remove(lead) }
    }

    fn finished(&mut self, task: TaskId) {
        self.leave(task, Status::Completed);
        self.tasks[task].state = TaskState::Done;
        self.open -= 1;
        let Engine { instance, tasks, news, now, .. } = self;
        for after in instance.successors(task) {
            tasks[after].missing -= 1;
            if tasks[after].is_free_to_start() {
                tasks[after].becomes_ready(*now);
                news.push(News::Ready(after));
            }
        }
    }

    fn failed(&mut self, task: TaskId) {
        self.leave_load_behind(self.tasks[task].lead);
        self.leave(task, Status::Failed);
        self.try_again_or_give_up(task);
    }

    fn try_again_or_give_up(&mut self, task: TaskId) {
        let tries = self.tries.entry(task).or_default();
        tries.failed += 1;
        if tries.failed < self.max_attempts {
            self.becomes_ready(task);
            return;
        }
        self.give_up(task);
    }

    /// Neither a task nor anything that needs its result can run any more.
    fn give_up(&mut self, task: TaskId) {
        let mut given_up = vec![task];
        while let Some(task) = given_up.pop() {
            if self.tasks[task].state != TaskState::GivenUp {
                self.tasks[task].state = TaskState::GivenUp;
                self.open -= 1;
                self.news.push(News::GivenUp(task));
                given_up.extend(self.instance.successors(task));
            }
        }
    }

    /// Takes a task out of its replica and writes its record; the last one frees the GPUs.
    fn leave(&mut self, task: TaskId, status: Status) {
        debug_assert_eq!(self.tasks[task].state, TaskState::Running, "only running tasks end");
        let lead = self.tasks[task].lead;
        if self.learner.is_some() {
            self.learn(task, lead, status);
        }
        let run = &mut self.runs[lead];
        let place = run
            .members
            .iter()
            .position(|member| member.task == task)
            .expect("a running task is in its replica");
        let member = run.members.swap_remove(place);
        let gpus = run.gpus;
        let attempt = self.tries.get(&task).map_or(0, |tries| tries.made) + 1;
        if status != Status::Completed {
            self.tries.entry(task).or_default().made = attempt;
        }
        self.log.executions.push(Execution {
            task,
            gpus,
            attempt,
            batch: member.batch,
            status,
            ready: member.ready,
            switch: member.switch,
            start: member.start,
            end: self.now,
            evicted: member.evicted,
            expected: member.expected,
        });
        // Who starts in the moment in which another leaves does not run beside it.
        if self.loads[lead].as_ref().is_none_or(|load| !load.for_run) {
            self.runs[lead].count_batch(self.now);
        }
        self.update_joinable(lead);
        if !self.runs[lead].is_active() {
            self.release(gpus);
        }
        self.news.push(News::Freed(gpus));
    }

    fn release(&mut self, gpus: Gpus) {
        let model = self.runs[gpus.first].model;
        for gpu in gpus.iter() {
            let state = &mut self.gpus[gpu];
            state.run = None;
            state.busy += self.now - state.busy_from;
            state.idle_since = self.now;
            if let Some(resident) = state.residents.iter_mut().find(|resident| resident.model == model) {
                resident.last_used = self.now;
            }
            if state.load.is_none() && self.alive.contains(gpu) {
                self.idle.insert(gpu);
            }
        }
    }

    fn check_window(&self, model: ModelId, gpus: Gpus) -> Result<(), Rejected> {
        let spec = &self.instance.models[model];
        if gpus.count != spec.gpus
            || gpus.first.0 >= self.instance.cluster.gpus
            || !spec.starts.contains(gpus.first)
        {
            return Err(Rejected::IllegalWindow { model, gpus });
        }
        match gpus.iter().find(|&gpu| !self.alive.contains(gpu)) {
            Some(gpu) => Err(Rejected::GpuLost { gpu }),
            None => Ok(()),
        }
    }
}
