//! The search: a portfolio first, then cells annealed on all cores, then requests moved between cells.

use super::anneal::{Effort, Solution, anneal};
use super::cell::{Cell, Choice, Scratch};
use super::cells;
use super::decode::{SwitchTable, Timed, is_exact};
use super::portfolio;
use super::{Plan, Proof};
use crate::bound::{Bound, best_bound};
use crate::instance::Instance;
use crate::policy::PolicyKind;
use crate::time::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// When a search ends.
pub struct Limits<'a> {
    /// Rounds of improvement; each round anneals every cell once.
    pub rounds: u64,
    /// Asked now and then; `true` ends the search with the best so far.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// A gap to the bound at which to stop, as a fraction.
    pub gap: f64,
    /// For every random choice.
    pub seed: u64,
}

/// A plan and how good it is.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// How long it takes.
    pub makespan: Span,
    /// What no plan can go below, and why.
    pub bound: Bound,
    /// What found it.
    pub found_by: String,
    /// The policy to run in its place, with its seed, where that does better than following the plan.
    pub policy: Option<(PolicyKind, u64)>,
    /// Why no schedule is shorter, where that is known.
    pub proof: Option<Proof>,
}

impl Planned {
    /// How far above the bound, as a fraction.
    #[must_use]
    pub fn gap(&self) -> f64 {
        if self.bound.value == Span::ZERO {
            return 0.0;
        }
        self.makespan.seconds() / self.bound.value.seconds() - 1.0
    }
}

const SOME_POLICY: &str = "some policy finishes every problem";

/// Called with every improvement.
pub type Report<'a> = &'a mut dyn FnMut(&Planned);

/// Plans a batch: the best of every policy, then a search until a limit is reached.
#[must_use]
pub fn improve(instance: &Instance, limits: &Limits<'_>, report: Report<'_>) -> Planned {
    let bound = best_bound(instance);
    let exact = is_exact(instance);
    let mut best: Option<Planned> = None;
    let mut offer = |found: Found, report: &mut dyn FnMut(&Planned)| {
        // What following it leads to, which can be sooner than what the search reckons with.
        let timed = if exact { Timed::of(instance, &found.plan).makespan } else { found.makespan };
        let makespan = timed.since(Time::ZERO);
        if best.as_ref().is_none_or(|best| makespan < best.makespan) {
            let Found { plan, found_by, policy, .. } = found;
            let proof = (makespan == bound.value).then_some(Proof::Bound);
            let planned = Planned { plan, makespan, bound: bound.clone(), found_by, policy, proof };
            report(&planned);
            best = Some(planned);
        }
        best.as_ref().is_some_and(|best| best.gap() <= limits.gap)
    };
    for (kind, log) in portfolio::logs(instance, limits.seed) {
        let plan = Plan::from_log(&log);
        let found_by = kind.name().to_owned();
        let makespan = log.executions.iter().map(|execution| execution.end).max().unwrap_or(Time::ZERO);
        let found = if exact {
            // The same order with every switch made as early as it can be.
            Found { makespan, plan, found_by, policy: None }
        } else {
            Found { makespan, plan, found_by, policy: Some((kind, limits.seed)) }
        };
        offer(found, report);
    }
    if exact && !(limits.stop)() {
        let sizes = cells::sizes(instance).into_iter();
        let begun = sizes.filter_map(|size| CellSearch::new(instance, size, limits.seed));
        let Some(mut search) = begun.min_by_key(CellSearch::makespan) else {
            return best.expect(SOME_POLICY);
        };
        for round in 0..limits.rounds {
            let done = offer(search.merged(), report);
            if done || (limits.stop)() {
                break;
            }
            search.round(round, limits.stop);
        }
        offer(search.merged(), report);
    }
    best.expect(SOME_POLICY)
}

/// A plan that the search offers.
struct Found {
    plan: Plan,
    makespan: Time,
    found_by: String,
    policy: Option<(PolicyKind, u64)>,
}

struct CellSearch<'i> {
    instance: &'i Instance,
    table: SwitchTable,
    cells: Vec<(Cell, Solution)>,
    seed: u64,
}

impl<'i> CellSearch<'i> {
    /// `None` where a cell of this size cannot run what is dealt to it.
    fn new(instance: &'i Instance, size: u32, seed: u64) -> Option<CellSearch<'i>> {
        let table = SwitchTable::new(instance);
        let gpus = cells::cut(instance, size);
        let dealt = cells::deal(instance, &gpus);
        let parts: Vec<_> = gpus.into_iter().zip(dealt).collect();
        let used = parts.into_par_iter().filter(|(_, requests)| !requests.is_empty());
        let begun = used.map(|(gpus, requests)| {
            let cell = Cell::new(instance, requests, gpus);
            if !cell.holds_all() {
                return None;
            }
            let solution = portfolio::begin(instance, &cell, &table, seed)?;
            Some((cell, solution))
        });
        let cells: Option<Vec<_>> = begun.collect();
        Some(CellSearch { instance, cells: cells?, table, seed })
    }

    fn makespan(&self) -> u64 {
        self.cells.iter().map(|(_, solution)| solution.outcome.makespan).max().unwrap_or(0)
    }

    fn merged(&self) -> Found {
        let schedules = self.cells.iter().map(|(cell, solution)| {
            let mut scratch = Scratch::default();
            cell.decode(&self.table, &solution.choice, &mut scratch);
            cell.schedule(&scratch)
        });
        let plan = portfolio::merge(schedules.collect());
        Found { plan, makespan: Time(self.makespan()), found_by: "search".to_owned(), policy: None }
    }

    /// Anneals every cell that is near the worst, then swaps requests between the worst and others.
    fn round(&mut self, round: u64, stop: &(dyn Fn() -> bool + Sync)) {
        let seed = self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(round);
        let worst = self.makespan();
        let table = &self.table;
        let iterations = |cell: &Cell| (400_000 / cell.len().max(1) as u64).clamp(200, 20_000);
        self.cells.par_iter_mut().enumerate().for_each(|(at, (cell, solution))| {
            // A cell that ends well before the worst has nothing to gain.
            if solution.outcome.makespan as f64 >= worst as f64 * 0.995 {
                let effort = Effort { iterations: iterations(cell), stop };
                *solution = anneal(cell, table, solution, seed ^ (at as u64) << 32, effort);
            }
        });
        self.rebalance(seed, stop);
    }

    /// Moves a request from the worst cell to another, or swaps two, and keeps it if the worse of the two gets better.
    fn rebalance(&mut self, seed: u64, stop: &(dyn Fn() -> bool + Sync)) {
        let count = self.cells.len();
        if count < 2 {
            return;
        }
        // Pairs of worst and best, second worst and second best, ...: each pair on its own thread.
        let mut ranked: Vec<usize> = (0..count).collect();
        ranked.sort_by_key(|&at| std::cmp::Reverse(self.cells[at].1.outcome.makespan));
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut slots: Vec<Option<(Cell, Solution)>> = self.cells.drain(..).map(Some).collect();
        let mut pairs = Vec::new();
        let half = count / 2;
        let turn = rng.random_range(0..half.max(1));
        for place in 0..half {
            let other = half + (place + turn) % (count - half);
            let (a, b) = (ranked[place], ranked[other]);
            if let (Some(first), Some(second)) = (slots[a].take(), slots[b].take()) {
                pairs.push((a, first, b, second));
            }
        }
        let (instance, table) = (self.instance, &self.table);
        let improved: Vec<_> = pairs
            .into_par_iter()
            .map(|(a, first, b, second)| {
                let (first, second) = exchange(instance, table, first, second, seed ^ (a as u64) << 20, stop);
                (a, first, b, second)
            })
            .collect();
        for (a, first, b, second) in improved {
            (slots[a], slots[b]) = (Some(first), Some(second));
        }
        self.cells = slots.into_iter().flatten().collect();
    }
}

type Held = (Cell, Solution);

/// Tries exchanges between a full cell and an emptier one.
fn exchange(
    instance: &Instance,
    table: &SwitchTable,
    mut full: Held,
    mut other: Held,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> (Held, Held) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for attempt in 0..8 {
        if stop() || full.0.requests.len() < 2 || full.1.outcome.makespan <= other.1.outcome.makespan {
            break;
        }
        let gives = full.0.requests[rng.random_range(0..full.0.requests.len())];
        let takes = if attempt % 3 == 0 || other.0.requests.is_empty() {
            None
        } else {
            Some(other.0.requests[rng.random_range(0..other.0.requests.len())])
        };
        let swap = |requests: &[crate::id::RequestId], out, into: Option<_>| {
            let kept = requests.iter().copied().filter(|&request| Some(request) != out);
            kept.chain(into).collect::<Vec<_>>()
        };
        let new_full = Cell::new(instance, swap(&full.0.requests, Some(gives), takes), full.0.gpus);
        let new_other = Cell::new(instance, swap(&other.0.requests, takes, Some(gives)), other.0.gpus);
        if !new_full.holds_all() || !new_other.holds_all() {
            continue;
        }
        let worst = full.1.outcome.makespan.max(other.1.outcome.makespan);
        if new_full.area().max(new_other.area()) >= worst {
            continue;
        }
        let rebuilt = |old: &Held, new: &Cell, seed: u64| {
            let order = transplant(&old.0, &old.1.choice.order, new);
            let choice = Choice {
                order,
                windows: new.windows_like(&old.0, &old.1.choice),
                thrift: old.1.choice.thrift,
            };
            let mut scratch = Scratch::default();
            let outcome = new.decode(table, &choice, &mut scratch);
            let start = Solution { choice, outcome };
            let iterations = (60_000 / new.len().max(1) as u64).clamp(50, 3_000);
            anneal(new, table, &start, seed, Effort { iterations, stop })
        };
        let (first, second) =
            (rebuilt(&full, &new_full, seed ^ attempt), rebuilt(&other, &new_other, !seed ^ attempt));
        if first.outcome.makespan.max(second.outcome.makespan) < worst {
            full = (new_full, first);
            other = (new_other, second);
        }
    }
    (full, other)
}

/// The old order on the new set of requests: those that stayed keep their places, newcomers are spread evenly among them.
fn transplant(old: &Cell, order: &[u32], new: &Cell) -> Vec<u32> {
    let mut number = rustc_hash::FxHashMap::default();
    new.tasks.iter().enumerate().for_each(|(at, &task)| {
        number.insert(task, at as u32);
    });
    let total = order.len().max(1) as f64;
    let mut keyed: Vec<(f64, u32)> = Vec::with_capacity(new.len());
    let mut placed = vec![false; new.len()];
    for (at, &task) in order.iter().enumerate() {
        if let Some(&now) = number.get(&old.tasks[task as usize]) {
            keyed.push((at as f64 / total, now));
            placed[now as usize] = true;
        }
    }
    let strangers: Vec<u32> = (0..new.len() as u32).filter(|&task| !placed[task as usize]).collect();
    let count = strangers.len() as f64;
    keyed.extend(strangers.into_iter().enumerate().map(|(at, task)| ((at as f64 + 0.5) / count, task)));
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    topological(new, keyed.into_iter().map(|(_, task)| task).collect())
}

/// The order, with every task put behind its inputs where it stood before one.
fn topological(cell: &Cell, order: Vec<u32>) -> Vec<u32> {
    let mut result = Vec::with_capacity(order.len());
    let mut done = vec![false; order.len()];
    let mut stack = Vec::new();
    for task in order {
        stack.push(task);
        while let Some(&top) = stack.last() {
            match cell.inputs(top).iter().find(|&&input| !done[input as usize]) {
                Some(&input) => stack.push(input),
                None => {
                    stack.pop();
                    if !std::mem::replace(&mut done[top as usize], true) {
                        result.push(top);
                    }
                }
            }
        }
    }
    result
}
