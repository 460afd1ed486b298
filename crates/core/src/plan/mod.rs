//! The planner: the best schedule of a batch that it can find, and a bound on its distance from the optimum.
//!
//! A [`Plan`] says which task runs where, in which order, and holds no times: [`Follow`] runs it in the
//! engine, here and under the real clock. Plans come from a portfolio (every policy, and orders of our own) and are improved
//! by a search that cuts the GPUs into cells, each with requests of its own, and looks for better ways to run each. Small
//! problems are searched exactly as well, and the best plan proved where that can be done.

mod aim;
mod anneal;
mod barter;
mod batched;
mod cell;
mod cell_search;
mod cells;
mod decode;
mod deviation;
mod dispatch;
mod exact;
mod exchange;
pub mod file;
mod follow;
mod follow_steps;
mod objective;
mod partition;
pub mod planned;
mod portfolio;
mod search;
mod sooner;
mod steps;
mod tune;

pub use aim::{Aimed, aim};
pub use decode::TimedPlan;
pub use exact::improve;
pub use follow::Follow;
pub use follow_steps::FollowSteps;
pub use objective::{ObjectiveValues, PlanObjective, TERMS};
/// The search alone, without the proofs of small problems, which nobody waits for in the middle of a run.
pub(crate) use search::improve as search_only;
pub use search::{Planned, Report, SearchLimits, first};
pub use steps::{Step, Steps};
pub(crate) use steps::{Wait, deeds};

use crate::id::{Gpus, TaskId};
use crate::log::{ExecutionLog, Status};

/// Tasks and where they run, in an order in which inputs come before what needs them: a plan cannot deadlock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan(pub Vec<(TaskId, Gpus)>);

named! {
    /// Why no schedule is shorter.
    pub enum Proof {
        /// It is as short as the bound.
        Bound = "bound",
        /// Every other schedule was excluded. There is no shorter way to check this than to search again.
        Search = "search",
    }
}

impl Plan {
    /// What a run did, as a plan: in order of starts.
    pub(crate) fn from_log(log: &ExecutionLog) -> Plan {
        let done = log.executions.iter().filter(|execution| execution.status == Status::Completed);
        let mut order: Vec<_> =
            done.map(|execution| (execution.start, execution.end, execution.task, execution.gpus)).collect();
        order.sort_unstable();
        Plan(order.into_iter().map(|(_, _, task, gpus)| (task, gpus)).collect())
    }
}
