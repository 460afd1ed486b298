//! A service without an end, under a virtual clock: requests are taken in while others run, numbers are used again, and what
//! happened is kept under numbers of its own, so that the checker can look at all of it.

use gswarm_core::check::{ViolationCode, check_log};
use gswarm_core::engine::{Driver, Effect, Engine, Event, Rejected};
use gswarm_core::instance::NewRequest;
use gswarm_core::log::{ExecutionLog, Status};
use gswarm_core::policy::Policy;
use gswarm_core::sim::Sharing;
use gswarm_core::{GpuId, Instance, RequestId, TaskId, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

pub struct Machine {
    pub engine: Engine<'static>,
    policy: Option<Box<dyn Policy>>,
    /// Loads and wakes that are under way; a load that was cut short has another number by then.
    agenda: BinaryHeap<Reverse<(Time, Event, u32)>>,
    cut_short: Vec<u32>,
    batches: Vec<Sharing<TaskId>>,
    /// Every request that ever came in, each with a number of its own.
    whole: Instance,
    log: ExecutionLog,
    /// Requests that are open, and the number of each in `whole`.
    open: BTreeMap<RequestId, RequestId>,
    free: BTreeSet<RequestId>,
    withdrawn: BTreeSet<String>,
    /// Executions that ended by themselves; some of them fail.
    ended: u32,
    /// Times that a model was taken off because nobody wanted it.
    unloads: u32,
    now: Time,
}

/// One execution in so many fails.
const FAILS: u32 = 40;

impl Machine {
    pub fn new(instance: Instance, policy: Box<dyn Policy>) -> Machine {
        let gpus = instance.cluster.gpus as usize;
        Machine {
            whole: instance.clone(),
            engine: Engine::for_stream(instance, 3),
            policy: Some(policy),
            agenda: BinaryHeap::new(),
            cut_short: vec![0; gpus],
            batches: vec![Sharing::default(); gpus],
            log: ExecutionLog::default(),
            open: BTreeMap::new(),
            free: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            ended: 0,
            unloads: 0,
            now: Time::ZERO,
        }
    }

    /// Requests that are not over.
    pub fn open(&self) -> Vec<RequestId> {
        self.open.keys().copied().collect()
    }

    pub fn arrive(&mut self, request: NewRequest) {
        self.collect();
        let instance = self.engine.view().instance();
        let same = |id: &&RequestId| instance.requests[**id].workflow == request.workflow;
        let reuse = self.free.iter().find(same).copied();
        reuse.map(|id| self.free.remove(&id));
        let number = self.whole.push_request(request.clone());
        let id = self.engine.admit(request, reuse);
        self.open.insert(id, number);
        self.handle(Event::Arrived(id));
    }

    pub fn withdraw(&mut self, request: RequestId) {
        self.withdrawn.insert(self.engine.view().instance().requests[request].name.clone());
        self.handle(Event::Withdrawn(request));
        self.retire();
    }

    pub fn handle(&mut self, event: Event) {
        Driver::handle(self, self.now, event);
    }

    /// Runs until `until`, or until nothing is open.
    pub fn run(&mut self, until: Time) {
        while let Some(at) = self.next_time().filter(|&at| at <= until) {
            self.now = at;
            while let Some(event) = self.next_at(at) {
                self.handle(event);
            }
            self.ask();
        }
        if until != Time::NEVER {
            self.now = until;
        }
    }

    /// Tells the policy what is new and does what it decides.
    pub fn ask(&mut self) {
        let mut policy = self.policy.take().unwrap();
        Driver::ask(self, policy.as_mut()).unwrap_or_else(|why| panic!("at {}: {why}", self.now));
        self.policy = Some(policy);
        self.retire();
    }

    /// Everything can happen to a node, and everything that happened passes the checker. Nodes of withdrawn requests need not have run.
    pub fn assert_sound(mut self) {
        assert!(self.unloads >= 20, "{} unloads", self.unloads);
        assert!(self.engine.is_done(), "{} nodes are left", self.engine.open_tasks());
        self.collect();
        for status in [Status::Completed, Status::Failed, Status::Lost, Status::Cancelled] {
            let found = self.log.executions.iter().filter(|one| one.status == status).count();
            assert!(found >= 20, "{found} {}", status.name());
        }
        self.log.loads.sort_by_key(|load| (load.end, load.gpus));
        let withdrawn =
            |name: &Option<String>| name.as_ref().is_some_and(|name| self.withdrawn.contains(name));
        let violations = check_log(&self.whole, &self.log, None);
        let faults = violations
            .iter()
            .filter(|found| !(found.code == ViolationCode::NodeMissing && withdrawn(&found.place.request)));
        assert_eq!(faults.collect::<Vec<_>>(), Vec::<&gswarm_core::check::Violation>::new());
    }

    fn retire(&mut self) {
        let engine = &self.engine;
        let over: Vec<_> = self.open.keys().copied().filter(|&id| engine.may_retire(id)).collect();
        if over.is_empty() {
            return;
        }
        self.collect();
        for id in over {
            self.open.remove(&id);
            self.free.insert(id);
        }
    }

    /// Writes down what happened since the last time, while the numbers still mean what they did.
    fn collect(&mut self) {
        let mut log = self.engine.take_log();
        let instance = self.engine.view().instance();
        for one in &mut log.executions {
            let number = self.open[&instance.request_of(one.task)];
            one.task = TaskId(self.whole.requests[number].first_task.0 + instance.node_of(one.task));
        }
        self.log.executions.append(&mut log.executions);
        self.log.loads.append(&mut log.loads);
        self.log.losses.append(&mut log.losses);
        self.log.unloads.append(&mut log.unloads);
    }

    fn next_end(&self) -> Option<(Time, TaskId, usize)> {
        let instance = self.engine.view().instance();
        let ends = self.batches.iter().enumerate().filter_map(|(lead, batch)| {
            let model = instance.model_of(batch.members().next()?);
            batch.next_end(&instance.models[model].slowdown).map(|(at, task)| (at, task, lead))
        });
        ends.min()
    }

    fn next_time(&mut self) -> Option<Time> {
        while let Some(&Reverse((_, Event::Loaded(GpuId(lead)), stamp))) = self.agenda.peek()
            && self.cut_short[lead as usize] != stamp
        {
            self.agenda.pop();
        }
        let planned = self.agenda.peek().map(|&Reverse((at, ..))| at);
        planned.into_iter().chain(self.next_end().map(|(at, ..)| at)).min()
    }

    fn next_at(&mut self, at: Time) -> Option<Event> {
        if self.next_time() != Some(at) {
            return None;
        }
        if let Some((end, task, lead)) = self.next_end()
            && end == at
        {
            let instance = self.engine.view().instance();
            self.batches[lead].leave(at, task, &instance.models[instance.model_of(task)].slowdown);
            self.ended += 1;
            return Some(if self.ended.is_multiple_of(FAILS) {
                Event::Failed(task)
            } else {
                Event::Finished(task)
            });
        }
        self.agenda.pop().map(|Reverse((_, event, _))| event)
    }
}

impl Driver<'static> for Machine {
    type Error = Rejected;

    fn engine(&mut self) -> &mut Engine<'static> {
        &mut self.engine
    }

    fn rejected(&mut self, why: Rejected) -> Rejected {
        why
    }

    fn carry_out(&mut self, effect: Effect) {
        let instance = self.engine.view().instance();
        let slowdown = |task: TaskId| &instance.models[instance.model_of(task)].slowdown;
        match effect {
            Effect::Load { gpus, span, .. } => {
                let stamp = self.cut_short[gpus.first.index()];
                self.agenda.push(Reverse((self.now + span, Event::Loaded(gpus.first), stamp)));
            }
            Effect::Execute { task, gpus } => {
                let batch = &mut self.batches[gpus.first.index()];
                batch.join(self.now, task, instance.execution(task), slowdown(task));
            }
            Effect::AbortTask { task, gpus } => {
                self.batches[gpus.first.index()].leave(self.now, task, slowdown(task));
            }
            Effect::AbortLoad { gpus } => self.cut_short[gpus.first.index()] += 1,
            Effect::Unload { .. } => self.unloads += 1,
            Effect::Wake { at } => self.agenda.push(Reverse((at, Event::Woken, 0))),
        }
    }
}
