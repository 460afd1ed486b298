//! The batch cut into waves: tasks that policies with a plan carry through together, level by level.
//!
//! One wave is the whole batch where the widest model divides the cluster. Where it does not, doing all levels before the
//! wide tasks would leave the GPUs beside the blocks without work later. Then the first wave, on all GPUs, is what the
//! blocks need to begin with. Each further one is as large as the GPUs left over can carry through while the blocks are
//! busy; if they cannot keep up, a wave twice as large runs on all GPUs. What waits for wide tasks joins the first wave that
//! finds it ready. Requests without wide tasks are the last wave, on all GPUs again.

use super::division::Division;
use super::sketch::Sketch;
use crate::id::{RequestId, TaskId};
use crate::instance::Instance;

pub(super) enum Waves {
    /// All tasks at once.
    Whole(Option<Vec<TaskId>>),
    Cut(Box<Cut>),
}

pub(super) struct Cut {
    division: Division,
    /// Requests that were begun, in the order of the division.
    begun: usize,
    /// Narrow work of the wave before, in GPU-seconds.
    before: f64,
    /// Tasks of these requests that wait for wide ones and are not planned yet, inputs before what needs them.
    behind: Vec<TaskId>,
}

impl Waves {
    pub fn new(instance: &Instance) -> Waves {
        match Division::of(instance) {
            Some(division) => {
                Waves::Cut(Box::new(Cut { division, begun: 0, before: 0.0, behind: Vec::new() }))
            }
            None => Waves::Whole(Some(instance.task_ids().collect())),
        }
    }

    /// Batches for each replica into which the tasks of a model are cut, where they are kept together.
    pub fn pieces(&self) -> usize {
        match self {
            Waves::Whole(_) => 1,
            Waves::Cut(_) => PIECES,
        }
    }

    /// The tasks to plan next, behind what is planned already; sets the windows that they may use.
    pub fn next(&mut self, plan: &mut Sketch<'_>) -> Option<Vec<TaskId>> {
        match self {
            Waves::Whole(all) => all.take(),
            Waves::Cut(cut) => cut.next(plan),
        }
    }
}

/// The share of the blocks' work in which a wave is to be through: its wide tasks are ready at its end.
const IN_TIME: f64 = 0.85;
/// The part of the wave before that the GPUs left over have time for, below which they do not keep up.
const LAGS: f64 = 0.25;
/// Batches for each replica: large ones would end at different times, and other waves wait for them.
const PIECES: usize = 4;

impl Cut {
    fn next(&mut self, plan: &mut Sketch<'_>) -> Option<Vec<TaskId>> {
        let (instance, division) = (plan.instance(), &self.division);
        let left = &division.order[self.begun..];
        let has_wide = |request: &RequestId| division.demands[*request].wide_tasks > 0;
        let feeds = left.first().is_some_and(has_wide);
        let backlog = plan.backlog(&division.blocks, &division.rest);
        let lags = backlog < LAGS * self.before;
        let room = match self.begun {
            0 => division.head_start(instance),
            _ if lags => 2.0 * self.before,
            _ => IN_TIME * backlog,
        };
        let (mut narrow, mut wide, mut begun) = (0.0, 0, 0);
        for request in left {
            let demand = division.demands[*request];
            if has_wide(request) != feeds || feeds && narrow > room && wide >= division.blocks.len() as u32 {
                break;
            }
            (narrow, wide, begun) = (narrow + demand.narrow, wide + demand.wide_tasks, begun + 1);
        }
        plan.set_windows(division.windows(instance, feeds && self.begun > 0 && !lags));
        let requests = left[..begun].to_vec();
        self.begun += begun;
        self.before = narrow;
        // Where nothing is begun any more, what is left is planned, whenever it will be ready.
        let by = feeds.then(|| plan.first_free(&self.division.rest));
        let comes = |task: TaskId| by.is_none_or(|by| plan.is_ready_by(task, by));
        let (mut wave, behind) = self.behind.iter().partition(|&&task| comes(task));
        self.behind = behind;
        requests.into_iter().for_each(|request| self.begin(instance, request, by.is_none(), &mut wave));
        (!wave.is_empty()).then_some(wave)
    }

    /// Puts the tasks of a request into a wave, all of them or those that wait for no wide one.
    fn begin(&mut self, instance: &Instance, request: RequestId, all: bool, wave: &mut Vec<TaskId>) {
        let first = instance.requests[request].first_task.0;
        let workflow = &instance.workflows[instance.requests[request].workflow];
        let mut waits = vec![false; workflow.nodes.len()];
        for &node in &workflow.order {
            let behind_wide = |&before: &u32| {
                waits[before as usize] || self.division.is_wide[workflow.models[before as usize]]
            };
            waits[node as usize] = !all && workflow.predecessors(node).iter().any(behind_wide);
            let to = if waits[node as usize] { &mut self.behind } else { &mut *wave };
            to.push(TaskId(first + node));
        }
    }
}
