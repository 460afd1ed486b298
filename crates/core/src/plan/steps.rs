//! Plans that say more than an order: how large a batch may be when a task joins it, which models are brought over ahead of
//! need and, where the same order would otherwise lead to something else, the moment before which nothing is done.

use super::Plan;
use crate::id::{Gpus, ModelId, TaskId};
use crate::instance::{Instance, Residency};
use crate::log::{ExecutionLog, Status};
use crate::time::Time;

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Run a task.
    Run {
        /// The task.
        task: TaskId,
        /// Where.
        gpus: Gpus,
        /// Not before the replica runs fewer than this many others plus itself; `None` where the model's limit is enough.
        batch_at_most: Option<u32>,
        /// Not before this moment.
        not_before: Time,
    },
    /// Bring a model over.
    Load {
        /// The model.
        model: ModelId,
        /// Where to.
        gpus: Gpus,
        /// Not before this moment.
        not_before: Time,
    },
}

impl Step {
    /// The GPUs it concerns.
    #[must_use]
    pub fn gpus(&self) -> Gpus {
        match *self {
            Step::Run { gpus, .. } | Step::Load { gpus, .. } => gpus,
        }
    }

    /// The moment before which it is not done.
    pub(crate) fn not_before(&self) -> Time {
        match *self {
            Step::Run { not_before, .. } | Step::Load { not_before, .. } => not_before,
        }
    }

    /// The same, and not before this moment.
    pub(crate) fn held_until(mut self, moment: Time) -> Step {
        match &mut self {
            Step::Run { not_before, .. } | Step::Load { not_before, .. } => *not_before = moment,
        }
        self
    }
}

/// What a step waits for besides its inputs and its GPUs: something that another step, by its place, comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wait {
    /// The load that the step begins with is over.
    Loaded(u32),
    /// The step has ended.
    Ended(u32),
}

/// Something that a run did, as a step that nothing holds back.
pub(crate) struct PastStep {
    pub step: Step,
    pub begun: Time,
    /// When its own load was over, where it had one.
    pub loaded: Option<Time>,
    pub ended: Time,
    /// When what it reads was there.
    pub ready: Time,
}

/// All that was completed, in the order in which it was begun. What begins at the same moment: executions first, so that no
/// load takes off what one of them needs.
pub(crate) fn deeds(log: &ExecutionLog) -> Vec<PastStep> {
    let done = log.executions.iter().filter(|one| one.status == Status::Completed);
    let runs = done.map(|one| {
        let begun = Time(one.start.0.saturating_sub(one.switch.0));
        let loaded = (one.switch.0 > 0).then_some(one.start);
        let step = Step::Run {
            task: one.task,
            gpus: one.gpus,
            batch_at_most: Some(one.batch),
            not_before: Time::ZERO,
        };
        let past = PastStep { step, begun, loaded, ended: one.end, ready: one.ready };
        ((begun, false, one.start, one.task.0), past)
    });
    let loads = log.loads.iter().filter(|load| load.status == Status::Completed).map(|one| {
        let step = Step::Load { model: one.model, gpus: one.gpus, not_before: Time::ZERO };
        let deed = PastStep { step, begun: one.start, loaded: None, ended: one.end, ready: Time::ZERO };
        ((one.start, true, one.end, one.gpus.first.0), deed)
    });
    let mut keyed: Vec<_> = runs.chain(loads).collect();
    keyed.sort_unstable_by_key(|&(key, _)| key);
    keyed.into_iter().map(|(_, deed)| deed).collect()
}

/// Steps in an order in which inputs come before what needs them. Each GPU does its steps in this order, each as soon as it
/// can be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps(pub Vec<Step>);

impl Steps {
    /// What a run did, in the order in which it was begun.
    pub(crate) fn from_log(log: &ExecutionLog) -> Steps {
        Steps(deeds(log).into_iter().map(|deed| deed.step).collect())
    }

    /// The same, with nothing done sooner than it was.
    #[must_use]
    pub fn with_times(log: &ExecutionLog) -> Steps {
        Steps(deeds(log).into_iter().map(|deed| deed.step.held_until(deed.begun)).collect())
    }

    /// The same without loads whose model executes nothing before another takes its place.
    #[must_use]
    pub fn without_idle_loads(mut self, instance: &Instance) -> Steps {
        let single = instance.cluster.residency == Residency::Single;
        // From the end on: per GPU the models that a load would find in use. With one model a GPU only the next one counts.
        let mut used: Vec<Vec<ModelId>> = vec![Vec::new(); instance.cluster.gpus as usize];
        let mut kept = Vec::with_capacity(self.0.len());
        while let Some(step) = self.0.pop() {
            match step {
                Step::Run { task, gpus, .. } => {
                    let model = instance.model_of(task);
                    for here in &mut used[gpus.range()] {
                        here.retain(|&other| !single && other != model);
                        here.push(model);
                    }
                }
                Step::Load { model, gpus, .. } => {
                    if !used[gpus.range()].iter().all(|here| here.contains(&model)) {
                        continue;
                    }
                    // What an earlier load of the same model would bring is replaced, or there already.
                    used[gpus.range()].iter_mut().for_each(|here| here.retain(|&other| other != model));
                }
            }
            kept.push(step);
        }
        kept.reverse();
        Steps(kept)
    }

    /// The tasks alone, in the same order.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let run = |step: &Step| match *step {
            Step::Run { task, gpus, .. } => Some((task, gpus)),
            Step::Load { .. } => None,
        };
        Plan(self.0.iter().filter_map(run).collect())
    }
}
