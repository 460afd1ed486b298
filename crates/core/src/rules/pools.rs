//! A queue's rule on a cluster that the widest model does not divide: one pool of GPUs for the widest models, one for the
//! others, each under the same rule.
//!
//! Blocks go to the wide pool when wide tasks are ready for them, and stay with it until the wide work is done, or until they
//! wait for it while others wait for GPUs. Requests are
//! begun in waves, those with wide tasks first: a wave when the GPUs of the other pool run out of work, as large as they can
//! carry through while the blocks are busy. To the rule itself, GPUs of the other pool are GPUs that are lost.
//!
//! Where the widest model divides the cluster, for streams, and once a GPU is really lost, the rule has all GPUs.

use super::Policy;
use super::division::Division;
use crate::engine::{Decision, Part, View};
use crate::gpuset::GpuSet;
use crate::id::{GpuId, Gpus, IdVec, RequestId, TaskId};
use crate::instance::{Instance, Mode};
use crate::time::Time;

/// What a rule is for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Pool {
    Wide,
    Others,
}

/// A rule that has all GPUs, or one pool of them beside another.
pub(super) struct Pools<P> {
    /// The rule for everything, or for what runs anywhere.
    rule: P,
    split: Option<Box<Split<P>>>,
}

struct Split<P> {
    division: Division,
    wide_rule: P,
    wide: Part,
    others: Part,
    /// Per block: whether it belongs to the wide pool.
    taken: Vec<bool>,
    /// Whether the GPUs left over wander through the cluster, so that all GPUs do both kinds of work.
    wanders: bool,
    /// Blocks, from the last on, that have made room for them.
    moved: usize,
    /// Since when they are where they are, and how busy they had been by then.
    here_since: (Time, f64),
    /// How long each of them stays idle in one place before the next block moves.
    idles_for: f64,
    admitted: IdVec<RequestId, bool>,
    /// Requests admitted, in the order of the division.
    begun: usize,
    stages: IdVec<TaskId, Stage>,
    waiting: Waiting,
    /// Wide tasks that have not started.
    wide_left: usize,
    /// GPU-seconds of tasks that are not wide and were started.
    started: f64,
    /// How many of them there have to be before blocks are taken.
    before_wide: f64,
    /// What is made in advance, in the same unit.
    head_start: f64,
}

/// How far a task has come.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    New,
    /// Ready, and its request has not begun.
    Held,
    /// Handed to a rule.
    Waits,
    /// Started, or given up.
    Gone,
}

/// What was handed to the rules and has not started.
#[derive(Default)]
struct Waiting {
    wide: usize,
    others: usize,
    /// GPU-seconds of the wide ones.
    wide_work: f64,
}

impl<P: Policy> Pools<P> {
    /// `rule` makes the rule, for the wide pool or for all others.
    pub fn new(instance: &Instance, wanders: bool, rule: impl Fn(Pool) -> P) -> Pools<P> {
        let division = (instance.mode == Mode::Offline).then(|| Division::of(instance)).flatten();
        let split =
            division.map(|division| Box::new(Split::new(instance, division, wanders, rule(Pool::Wide))));
        Pools { rule: rule(Pool::Others), split }
    }
}

impl<P: Policy> Split<P> {
    fn new(instance: &Instance, division: Division, wanders: bool, wide_rule: P) -> Split<P> {
        let gpus = instance.cluster.gpus;
        // They can wander where any GPUs will do, and those left over are the last.
        let anywhere = instance.models.iter().all(|model| model.starts.len() + model.gpus == gpus + 1);
        let head_start = division.head_start(instance);
        let is_last = division.rest.iter().all(|gpu| gpu.0 >= gpus - division.rest.len());
        Split {
            wide_rule,
            wide: Part::new(GpuSet::empty(gpus)),
            others: Part::new(GpuSet::full(gpus)),
            taken: vec![false; division.blocks.len()],
            wanders: wanders && anywhere && is_last,
            moved: 0,
            admitted: vec![false; instance.requests.len()].into(),
            begun: 0,
            stages: vec![Stage::New; instance.tasks()].into(),
            waiting: Waiting::default(),
            wide_left: division.demands.iter().map(|demand| demand.wide_tasks as usize).sum(),
            here_since: (Time::ZERO, 0.0),
            idles_for: division.idle_left_over(instance, head_start) / (division.blocks.len() + 1) as f64,
            started: 0.0,
            before_wide: head_start,
            head_start,
            division,
        }
    }

    fn is_wide(&self, view: &View<'_>, task: TaskId) -> bool {
        self.division.is_wide[view.instance().model_of(task)]
    }

    fn work(view: &View<'_>, task: TaskId) -> f64 {
        let instance = view.instance();
        instance.execution(task).seconds() * f64::from(instance.models[instance.model_of(task)].gpus)
    }

    fn moves_on(&mut self, view: &View<'_>, task: TaskId, to: Stage) {
        let from = std::mem::replace(&mut self.stages[task], to);
        let (wide, work) = (self.is_wide(view, task), Self::work(view, task));
        let count = if wide { &mut self.waiting.wide } else { &mut self.waiting.others };
        *count = *count + usize::from(to == Stage::Waits) - usize::from(from == Stage::Waits);
        if wide {
            let signs = |stage| f64::from(u8::from(stage == Stage::Waits));
            self.waiting.wide_work += work * (signs(to) - signs(from));
            self.wide_left =
                self.wide_left + usize::from(from == Stage::Gone) - usize::from(to == Stage::Gone);
        }
    }

    fn ready(&mut self, rule: &mut P, task: TaskId, view: &View<'_>) {
        if self.is_wide(view, task) {
            self.moves_on(view, task, Stage::Waits);
            self.wide_rule.ready(task, &view.within(&self.wide));
        } else if self.admitted[view.instance().request_of(task)] {
            self.moves_on(view, task, Stage::Waits);
            rule.ready(task, &view.within(&self.others));
        } else {
            self.moves_on(view, task, Stage::Held);
        }
    }

    /// Begins the next requests, if any are left.
    fn admit(&mut self, rule: &mut P, view: &View<'_>) -> bool {
        let (blocks, rest) = (self.division.blocks.len(), f64::from(self.division.rest.len()));
        let covered = f64::from(view.instance().cluster.gpus) - rest;
        let first = self.begun == 0;
        let room = if first { self.head_start } else { self.waiting.wide_work / covered * rest };
        let (mut narrow, mut wide, begun) = (0.0, 0, self.begun);
        while let Some(&request) = self.division.order.get(self.begun) {
            let demand = self.division.demands[request];
            let feeds = demand.wide_tasks > 0;
            if feeds && narrow > room && wide >= blocks || !feeds && wide > 0 {
                break;
            }
            (narrow, wide) = (narrow + demand.narrow, wide + demand.wide_tasks as usize);
            self.begun += 1;
            self.admitted[request] = true;
            for task in view.instance().tasks_of(request) {
                if self.stages[task] == Stage::Held {
                    self.ready(rule, task, view);
                }
            }
        }
        self.begun > begun
    }

    /// Gives blocks to the wide pool that it has tasks for, and all back when nothing wide is left.
    fn share_out(&mut self, rule: &mut P, view: &View<'_>) {
        if self.wide_left == 0 {
            let ended = |block: &usize| view.idle().contains_all(self.division.blocks[*block]);
            let ended: Vec<usize> = (0..self.taken.len()).filter(ended).collect();
            ended.into_iter().for_each(|block| self.hand_over(rule, view, block, false));
            return;
        }
        if self.waiting.wide == 0 {
            self.lend(rule, view);
            return;
        }
        if self.started < self.before_wide && self.waiting.others > 0 {
            return;
        }
        let owned = || self.division.blocks.iter().zip(&self.taken).filter(|(_, taken)| **taken);
        let at_work = owned().filter(|(block, _)| !view.idle().contains_all(**block)).count();
        let (owned, needed) = (owned().count(), (self.waiting.wide + at_work).min(self.taken.len()));
        for _ in owned..needed {
            let free = |block: &usize| {
                let gpus = self.division.blocks[*block].iter();
                gpus.map(|gpu| view.free_at(gpu)).max().unwrap_or(Time::ZERO)
            };
            let open = (0..self.taken.len()).filter(|&block| !self.taken[block]);
            let Some(block) = open.min_by_key(free) else { return };
            self.hand_over(rule, view, block, true);
        }
    }

    /// Blocks that wait for wide tasks while other tasks wait for GPUs help out: the GPUs left over do not keep up, so that
    /// twice as much is made in advance from now on.
    fn lend(&mut self, rule: &mut P, view: &View<'_>) {
        if self.waiting.others == 0 || !view.within(&self.others).idle().is_empty() {
            return;
        }
        let blocks = self.division.blocks.iter().zip(&self.taken).enumerate();
        let idle = blocks.filter(|(_, (block, taken))| **taken && view.idle().contains_all(**block));
        let idle: Vec<usize> = idle.map(|(at, _)| at).collect();
        if !idle.is_empty() && self.started >= self.before_wide {
            self.head_start *= 2.0;
            self.before_wide = self.started + self.head_start;
        }
        idle.into_iter().for_each(|block| self.hand_over(rule, view, block, false));
    }

    fn hand_over(&mut self, rule: &mut P, view: &View<'_>, block: usize, to_wide: bool) {
        if std::mem::replace(&mut self.taken[block], to_wide) != to_wide {
            self.move_gpus(rule, view, self.division.blocks[block].iter(), to_wide);
        }
    }

    fn move_gpus(&mut self, rule: &mut P, view: &View<'_>, gpus: impl Iterator<Item = GpuId>, to_wide: bool) {
        for gpu in gpus {
            let (from, to) =
                if to_wide { (&mut self.others, &mut self.wide) } else { (&mut self.wide, &mut self.others) };
            from.remove(gpu);
            to.insert(gpu);
            self.look(view);
            let (wide, others) = (view.within(&self.wide), view.within(&self.others));
            if to_wide {
                rule.lost(gpu, &others);
                self.wide_rule.returned(gpu, &wide);
            } else {
                self.wide_rule.lost(gpu, &wide);
                rule.returned(gpu, &others);
            }
        }
    }

    /// The GPUs left over begin as the last. When they have been idle for their share,
    /// the next block moves up by as many GPUs.
    fn wander(&mut self, rule: &mut P, view: &View<'_>) {
        let blocks = self.division.blocks.len();
        if !self.wanders || self.moved == blocks || self.taken.contains(&false) {
            return;
        }
        let (since, had_done) = self.here_since;
        let gpus = f64::from(self.division.rest.len());
        let done = |split: &Self| split.division.rest.iter().map(|gpu| view.busy(gpu).seconds()).sum::<f64>();
        let idle = view.now().since(since).seconds() - (done(self) - had_done) / gpus;
        if idle <= self.idles_for || self.idles_for <= 0.0 {
            return;
        }
        self.moved += 1;
        let block = self.division.blocks[blocks - self.moved];
        let by = self.division.rest.len();
        let moved = Gpus::new(block.first.0 + by, block.count);
        self.division.blocks[blocks - self.moved] = moved;
        self.move_gpus(rule, view, Gpus::new(block.first.0, by).iter(), false);
        self.move_gpus(rule, view, Gpus::new(block.first.0 + block.count, by).iter(), true);
        let mut rest = GpuSet::empty(view.instance().cluster.gpus);
        rest.insert_all(Gpus::new(block.first.0, by));
        self.division.rest = rest;
        self.here_since = (view.now(), done(self));
    }

    fn look(&mut self, view: &View<'_>) {
        self.wide.look(view);
        self.others.look(view);
    }

    fn decide(&mut self, rule: &mut P, view: &View<'_>) -> Option<Decision> {
        loop {
            self.share_out(rule, view);
            self.wander(rule, view);
            self.look(view);
            let decision = self.wide_rule.decide(&view.within(&self.wide));
            if let Some(decision) = decision.or_else(|| rule.decide(&view.within(&self.others))) {
                if let Decision::Start { task, .. } = decision {
                    self.start(view, task);
                }
                return Some(decision);
            }
            let out_of_work = self.waiting.others == 0 && !view.within(&self.others).idle().is_empty();
            if !(out_of_work && self.admit(rule, view)) {
                return None;
            }
        }
    }

    fn start(&mut self, view: &View<'_>, task: TaskId) {
        self.moves_on(view, task, Stage::Gone);
        if !self.is_wide(view, task) {
            self.started += Self::work(view, task);
        }
    }

    /// Every task that waits goes to the one rule.
    fn dissolve(mut self, rule: &mut P, view: &View<'_>) {
        for block in 0..self.taken.len() {
            self.hand_over(rule, view, block, false);
        }
        for task in view.instance().task_ids() {
            let waits = self.stages[task] == Stage::Waits && self.is_wide(view, task);
            if waits || self.stages[task] == Stage::Held {
                rule.ready(task, view);
            }
        }
    }
}

impl<P: Policy> Policy for Pools<P> {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        match &mut self.split {
            Some(split) => split.ready(&mut self.rule, task, view),
            None => self.rule.ready(task, view),
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        match &mut self.split {
            Some(split) => split.decide(&mut self.rule, view),
            None => self.rule.decide(view),
        }
    }

    fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        let Some(split) = &mut self.split else { return self.rule.freed(gpus, view) };
        split.look(view);
        split.wide_rule.freed(gpus, &view.within(&split.wide));
        self.rule.freed(gpus, &view.within(&split.others));
    }

    fn lost(&mut self, gpu: GpuId, view: &View<'_>) {
        if let Some(split) = self.split.take() {
            split.dissolve(&mut self.rule, view);
        }
        self.rule.lost(gpu, view);
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        self.rule.returned(gpu, view);
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        let Some(split) = &mut self.split else { return self.rule.given_up(task, view) };
        split.moves_on(view, task, Stage::Gone);
        match split.is_wide(view, task) {
            true => split.wide_rule.given_up(task, &view.within(&split.wide)),
            false => self.rule.given_up(task, &view.within(&split.others)),
        }
    }
}
