//! A recipe: everything that the search may choose. A [`Compose`](super::compose::Compose) makes a schedule of it.

use super::ground::Ground;
use crate::gpuset::GpuSet;
use crate::id::{IdVec, ModelId, TaskId};
use crate::instance::Deployment;
use std::cmp::Reverse;

/// What to do, short of naming times.
#[derive(Clone)]
pub(super) struct Recipe {
    /// Per task: smaller first among the ready tasks of a model.
    pub keys: IdVec<TaskId, u32>,
    /// Per kind: smaller first where GPUs are free.
    pub rank: Vec<u32>,
    /// Per kind: the first GPUs of the windows on which it may run.
    pub windows: Vec<GpuSet>,
    pub habits: IdVec<ModelId, Habit>,
}

/// How a model is dealt with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Habit {
    /// Most executions at once on a replica.
    pub cap: u32,
    /// A further replica is loaded when each would have ready work of this many times what loading takes.
    pub open: f64,
    /// As `open`, for a window that has to be cleared of less urgent work first; infinite where that is not done.
    pub clear: f64,
    /// Whether the model is brought over before anything of it is ready.
    pub ahead: bool,
}

/// Orders in which ready tasks can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As in the file.
    File,
    /// The longest way to the end of their request first.
    ToGo,
    /// The longest first.
    Longest,
    /// The shortest first: what needs them can begin soonest.
    Shortest,
}

/// Which kinds come first where GPUs are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precedence {
    /// Those with most work behind them.
    ToGo,
    /// Those at the end of their workflow: requests are finished before others are begun.
    Deep,
    /// The widest models.
    Wide,
    /// The narrowest models.
    Narrow,
}

pub(super) const ORDERS: [Order; 4] = [Order::ToGo, Order::Longest, Order::File, Order::Shortest];
pub(super) const PRECEDENCES: [Precedence; 4] =
    [Precedence::ToGo, Precedence::Deep, Precedence::Wide, Precedence::Narrow];

impl Recipe {
    /// Every window for every kind, and the same habit for every model.
    pub fn new(ground: &Ground<'_>, order: Order, precedence: Precedence, habit: Habit) -> Recipe {
        let models = ground.instance.models.iter();
        let habits = models.map(|model| Habit { cap: habit.cap.min(model.max_batch()).max(1), ..habit });
        let starts = |model: ModelId| {
            let mut starts = GpuSet::empty(ground.instance.cluster.gpus);
            ground.tiles[model].iter().for_each(|window| starts.insert(window.first));
            starts
        };
        Recipe {
            keys: keys(ground, order),
            rank: ranks(ground, precedence),
            windows: ground.kinds.iter().map(|kind| starts(kind.model)).collect(),
            habits: habits.collect(),
        }
    }
}

/// Where narrow models may go beside the widest.
impl Recipe {
    /// Keeps the first `gpus` GPUs for the widest models alone and, if `apart`, those models off the others; `None` where a
    /// kind would have no window.
    pub fn reserve(mut self, ground: &Ground<'_>, gpus: u32, apart: bool) -> Option<Recipe> {
        for kind in ground.used() {
            let model = ground.kinds[kind as usize].model;
            let is_wide = ground.instance.models[model].gpus == ground.widest;
            let windows = &mut self.windows[kind as usize];
            for tile in &ground.tiles[model] {
                if is_wide && apart && tile.first.0 >= gpus || !is_wide && tile.first.0 < gpus {
                    windows.remove(tile.first);
                }
            }
            if windows.is_empty() {
                return None;
            }
        }
        Some(self)
    }

    /// Every model only where a permanent deployment would put it; `None` where a kind would have no window.
    pub fn deployed(mut self, ground: &Ground<'_>, deployment: &Deployment) -> Option<Recipe> {
        for kind in ground.used() {
            let model = ground.kinds[kind as usize].model;
            let windows = &mut self.windows[kind as usize];
            *windows = GpuSet::empty(ground.instance.cluster.gpus);
            deployment.windows(model).for_each(|window| windows.insert(window.first));
            if windows.is_empty() {
                return None;
            }
        }
        Some(self)
    }
}

fn keys(ground: &Ground<'_>, order: Order) -> IdVec<TaskId, u32> {
    let instance = ground.instance;
    let mut tasks: Vec<TaskId> = instance.task_ids().collect();
    match order {
        Order::File => {}
        Order::ToGo => tasks.sort_by_key(|&task| Reverse(ground.to_go[task])),
        Order::Longest => tasks.sort_by_key(|&task| Reverse(instance.execution(task))),
        Order::Shortest => tasks.sort_by_key(|&task| instance.execution(task)),
    }
    let mut keys: IdVec<TaskId, u32> = vec![0; tasks.len()].into();
    (0..).zip(tasks).for_each(|(place, task)| keys[task] = place);
    keys
}

fn ranks(ground: &Ground<'_>, precedence: Precedence) -> Vec<u32> {
    let mut behind = vec![0u128; ground.kinds.len()];
    for (task, &kind) in ground.kind_of.iter_enumerated() {
        behind[kind as usize] += u128::from(ground.to_go[task].0);
    }
    let mean = |kind: u32| behind[kind as usize] / u128::from(ground.kinds[kind as usize].tasks.max(1));
    let level = |kind: u32| ground.kinds[kind as usize].level;
    let width = |kind: u32| ground.instance.models[ground.kinds[kind as usize].model].gpus;
    let mut kinds: Vec<u32> = (0..ground.kinds.len() as u32).collect();
    kinds.sort_by_key(|&kind| match precedence {
        Precedence::ToGo => (0, Reverse(mean(kind))),
        Precedence::Deep => (u32::MAX - level(kind), Reverse(mean(kind))),
        Precedence::Wide => (u32::MAX - width(kind), Reverse(mean(kind))),
        Precedence::Narrow => (width(kind), Reverse(mean(kind))),
    });
    let mut ranks = vec![0; kinds.len()];
    (0..).zip(kinds).for_each(|(place, kind)| ranks[kind as usize] = place);
    ranks
}
