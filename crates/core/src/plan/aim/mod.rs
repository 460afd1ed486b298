//! Plans for objectives other than the makespan: every policy, requests ranked by size, then a local search over orders
//! of tasks.

mod order;
mod ranked;
mod walk;

use super::objective::{ObjectiveValues, PlanObjective};
use super::search::{Planned, SearchLimits};
use super::{Plan, Proof, Steps, decode, portfolio};
use crate::bound::Bound;
use crate::engine::Policy;
use crate::instance::Instance;
use crate::log::ExecutionLog;
use crate::plan::planned::carry_out;
use crate::plan::{Follow, FollowSteps};
use crate::sim::{SimOptions, simulate};
use crate::time::{Span, Time};
use order::Decoder;
use ranked::Ranked;

/// A plan, and how well it serves its objective.
#[derive(Clone, Debug)]
pub struct Aimed {
    /// The plan.
    pub planned: Planned,
    /// What it comes to.
    pub values: ObjectiveValues,
    /// The objective's value.
    pub cost: f64,
    /// What no schedule's value can be below.
    pub bound: f64,
}

impl Aimed {
    /// How far above the bound, as a fraction; infinite above a bound of zero.
    #[must_use]
    pub fn gap(&self) -> f64 {
        if self.cost <= self.bound { 0.0 } else { self.cost / self.bound - 1.0 }
    }
}

/// Orders with more entries than this (tasks x GPUs) are not searched: one try would take too long.
const MOST_ENTRIES: u64 = 200_000_000;

/// Tries for each round, over the number of tasks.
const TRIES_PER_ROUND: u64 = 200_000;

/// Plans for an objective: the best of every policy and of our own orders, then a search until a limit is reached.
#[must_use]
pub fn aim(
    instance: &Instance,
    objective: &PlanObjective,
    limits: &SearchLimits<'_>,
    report: &mut dyn FnMut(&Aimed),
) -> Aimed {
    let bound = limits.bound(instance);
    let limits = &SearchLimits { bound: Some(&bound), ..*limits };
    let least = objective.cost(&ObjectiveValues::least(instance, &bound));
    let mut best = Best { instance, objective, least, bound: bound.clone(), aimed: None, report };
    for (rule, log) in portfolio::logs(instance, limits.seed, limits.stop) {
        best.follow(&log, rule.info.name);
    }
    for rank in ranked::RANKS {
        for keeps in [false, true] {
            let mut policy = Ranked::new(instance, rank, keeps);
            if let Some(log) = run(instance, &mut policy) {
                best.follow(&log, rank.name());
            }
        }
    }
    // A short schedule is often good in other ways too.
    let short = super::exact::improve(
        instance,
        &SearchLimits { rounds: limits.rounds.min(2), sooner: false, ..*limits },
        &mut |_| {},
    );
    if let Some(log) = run(instance, &mut *carry_out(instance, &short)) {
        best.offer(&log, short.plan, short.steps, "search for the makespan");
    }
    let entries = instance.tasks() as u64 * u64::from(instance.cluster.gpus);
    if decode::is_exact(instance) && entries <= MOST_ENTRIES {
        search(instance, objective, limits, &mut best);
    }
    best.aimed.expect("some policy finishes every problem")
}

fn search(
    instance: &Instance,
    objective: &PlanObjective,
    limits: &SearchLimits<'_>,
    best: &mut Best<'_, '_>,
) {
    let decoder = Decoder::new(instance);
    let tries = (TRIES_PER_ROUND / instance.tasks().max(1) as u64).clamp(50, 5_000);
    for round in 0..limits.rounds {
        if best.gap() <= limits.gap || (limits.stop)() {
            break;
        }
        let seed = limits.seed.wrapping_mul(0x9e37_79b9).wrapping_add(round);
        let from = best.aimed.as_ref().map(|aimed| aimed.planned.plan.clone()).unwrap_or_default();
        let effort = walk::Effort { tries, stop: limits.stop, seed };
        let plan = walk::walk(&decoder, objective, &from, effort);
        if let Some(log) = plan.and_then(|plan| run(instance, &mut Follow::new(instance, &plan))) {
            best.offer(&log, Plan::from_log(&log), None, "search");
        }
    }
}

fn run(instance: &Instance, policy: &mut dyn Policy) -> Option<ExecutionLog> {
    simulate(instance, policy, &SimOptions::default(), &mut |_| {}).ok()
}

/// The best so far.
struct Best<'a, 'r> {
    instance: &'a Instance,
    objective: &'a PlanObjective,
    least: f64,
    bound: Bound,
    aimed: Option<Aimed>,
    report: &'r mut dyn FnMut(&Aimed),
}

impl Best<'_, '_> {
    fn gap(&self) -> f64 {
        self.aimed.as_ref().map_or(f64::INFINITY, Aimed::gap)
    }

    /// The same order with every switch made as early as it can be; where models batch or share GPUs, the same steps at
    /// the same times.
    fn follow(&mut self, log: &ExecutionLog, found_by: &str) {
        let plan = Plan::from_log(log);
        let steps = (!decode::is_exact(self.instance))
            .then(|| Steps::with_times(log).without_idle_loads(self.instance));
        let followed = match &steps {
            Some(steps) => run(self.instance, &mut FollowSteps::new(self.instance, steps)),
            None => run(self.instance, &mut Follow::new(self.instance, &plan)),
        };
        if let Some(log) = followed {
            self.offer(&log, plan, steps, found_by);
        }
    }

    fn offer(&mut self, log: &ExecutionLog, plan: Plan, steps: Option<Steps>, found_by: &str) {
        if plan.0.len() < self.instance.tasks() {
            return;
        }
        let values = ObjectiveValues::of(self.instance, log);
        let cost = self.objective.cost(&values);
        if self.aimed.as_ref().is_some_and(|best| best.cost <= cost) {
            return;
        }
        let ends = log.executions.iter().map(|execution| execution.end.since(Time::ZERO)).max();
        let makespan = ends.unwrap_or(Span::ZERO);
        let planned = Planned {
            plan,
            makespan,
            proof: (makespan == self.bound.value).then_some(Proof::Bound),
            bound: self.bound.clone(),
            found_by: found_by.to_owned(),
            steps,
        };
        let aimed = Aimed { planned, values, cost, bound: self.least };
        (self.report)(&aimed);
        self.aimed = Some(aimed);
    }
}
