//! The search over recipes.

use super::compose::Compose;
use super::ground::Ground;
use super::moves::Moves;
use super::portfolio::beginnings;
use super::recipe::Recipe;
use crate::bound::Bound;
use crate::engine::Policy;
use crate::id::GpuId;
use crate::instance::Instance;
use crate::log::ExecutionLog;
use crate::plan::FollowSteps;
use crate::plan::search::{Planned, Report, SearchLimits};
use crate::plan::{Proof, Steps, portfolio};
use crate::sim::{SimOptions, simulate};
use crate::time::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Walks that go on side by side. Their number does not depend on the machine, so that the result does not either.
const WALKS: u64 = 8;

/// Plans a batch: the best of every policy, then recipes until a limit is reached.
pub(in crate::plan) fn improve(
    instance: &Instance,
    limits: &SearchLimits<'_>,
    report: Report<'_>,
) -> Planned {
    let mut best = Best { instance, bound: limits.bound(instance), planned: None, gap: limits.gap };
    for (rule, log) in portfolio::logs(instance, limits.seed, limits.stop) {
        best.offer(&log, rule.info.name, report);
    }
    if !best.is_enough() && !(limits.stop)() {
        search(&Ground::new(instance), limits, &mut best, report);
    }
    best.planned.expect("some policy finishes every problem")
}

fn search(ground: &Ground<'_>, limits: &SearchLimits<'_>, best: &mut Best<'_>, report: Report<'_>) {
    let mut found = beginnings(ground, WALKS as usize, limits.stop);
    if found.is_empty() {
        return;
    }
    let moves = Moves::new(ground);
    for round in 0..=limits.rounds {
        if let Some(log) = run(ground, &found[0].recipe) {
            best.offer(&log, "search", report);
        }
        if round == limits.rounds || best.is_enough() || (limits.stop)() {
            return;
        }
        let seed = limits.seed.wrapping_mul(0x9e37_79b9).wrapping_add(round) << 8;
        let iterations = (60_000 / ground.instance.tasks().max(1) as u64).clamp(8, 100);
        found = (0..WALKS)
            .into_par_iter()
            .map(|walk| {
                // The best is followed by half of the walks, the others have a beginning each.
                let from = &found[if walk < WALKS / 2 { 0 } else { walk as usize % found.len() }];
                anneal(ground, &moves, from, seed ^ walk, iterations, limits.stop)
            })
            .collect();
        found.sort_by(|a, b| a.energy().total_cmp(&b.energy()));
    }
}

/// The best plan so far.
struct Best<'i> {
    instance: &'i Instance,
    bound: Bound,
    planned: Option<Planned>,
    gap: f64,
}

impl Best<'_> {
    /// Takes what a run did as a plan if it is better than what there is.
    fn offer(&mut self, log: &ExecutionLog, found_by: &str, report: &mut dyn FnMut(&Planned)) {
        let is_better =
            |makespan: Span| self.planned.as_ref().is_none_or(|planned| makespan < planned.makespan);
        let reached = Outcome::of(self.instance, log).makespan;
        if !is_better(reached) {
            return;
        }
        let mut steps = Steps::from_log(log);
        let mut makespan = self.followed(&steps);
        if makespan.is_none_or(|makespan| makespan > reached) {
            // Something was put off on purpose; now the plan says until when.
            steps = Steps::with_times(log);
            makespan = self.followed(&steps);
        }
        let Some(makespan) = makespan.filter(|&makespan| is_better(makespan)) else { return };
        let (plan, bound, found_by) = (steps.plan(), self.bound.clone(), found_by.to_owned());
        let proof = (makespan == bound.value).then_some(Proof::Bound);
        let planned = Planned { plan, makespan, bound, found_by, steps: Some(steps), proof };
        report(&planned);
        self.planned = Some(planned);
    }

    fn followed(&self, steps: &Steps) -> Option<Span> {
        let log = simulated(self.instance, &mut FollowSteps::new(self.instance, steps))?;
        Some(Outcome::of(self.instance, &log).makespan)
    }

    fn is_enough(&self) -> bool {
        self.planned.as_ref().is_some_and(|planned| planned.gap() <= self.gap)
    }
}

/// What a schedule comes to.
#[derive(Clone, Copy)]
struct Outcome {
    makespan: Span,
    /// The mean of the GPUs' last ends: what is left to gain where the makespan stands still.
    mean_end: f64,
}

impl Outcome {
    fn of(instance: &Instance, log: &ExecutionLog) -> Outcome {
        let mut ends = vec![Time::ZERO; instance.cluster.gpus as usize];
        // In order of their ends: the later one stands.
        for execution in &log.executions {
            execution.gpus.iter().for_each(|gpu: GpuId| ends[gpu.index()] = execution.end);
        }
        let makespan = ends.iter().copied().max().unwrap_or(Time::ZERO).since(Time::ZERO);
        let sum: f64 = ends.iter().map(|end| end.seconds()).sum();
        Outcome { makespan, mean_end: sum / ends.len().max(1) as f64 }
    }
}

/// A recipe and what it comes to.
#[derive(Clone)]
pub(super) struct Found {
    pub recipe: Recipe,
    outcome: Outcome,
}

impl Found {
    /// What the search lowers: mostly the makespan, a little the rest.
    pub fn energy(&self) -> f64 {
        self.outcome.makespan.seconds() + 0.25 * self.outcome.mean_end
    }
}

fn simulated(instance: &Instance, policy: &mut dyn Policy) -> Option<ExecutionLog> {
    simulate(instance, policy, &SimOptions::default(), &mut |_| {}).ok()
}

fn run(ground: &Ground<'_>, recipe: &Recipe) -> Option<ExecutionLog> {
    simulated(ground.instance, &mut Compose::new(ground, recipe))
}

/// Tries a recipe out; `None` where it does not come to an end.
pub(super) fn tried(ground: &Ground<'_>, recipe: Recipe) -> Option<Found> {
    let log = run(ground, &recipe)?;
    Some(Found { outcome: Outcome::of(ground.instance, &log), recipe })
}

/// Anneals from `from`; never returns anything worse.
fn anneal(
    ground: &Ground<'_>,
    moves: &Moves,
    from: &Found,
    seed: u64,
    iterations: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Found {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut best, mut now) = (from.clone(), from.clone());
    let hot = 0.002 * from.outcome.makespan.seconds();
    for iteration in 0..iterations {
        if stop() {
            break;
        }
        let heat = hot * (1.0 - iteration as f64 / iterations as f64).powi(2);
        let mut recipe = now.recipe.clone();
        moves.change(ground, &mut recipe, &mut rng);
        let Some(next) = tried(ground, recipe) else { continue };
        let rise = next.energy() - now.energy();
        if rise <= 0.0 || heat > 0.0 && rng.random::<f64>() < (-rise / heat).exp() {
            now = next;
            if now.energy() < best.energy() {
                best = now.clone();
            }
        }
    }
    best
}
