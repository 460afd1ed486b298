//! The search: a first plan at once, then better ones, while every policy is tried beside it.

use super::batched;
use super::cell_search::CellSearch;
use super::cells;
use super::decode::{TimedPlan, is_exact};
use super::partition::Partition;
use super::portfolio;
use super::{Plan, Proof, Steps};
use crate::bound::{Bound, best_bound};
use crate::instance::Instance;
use crate::log::ExecutionLog;
use crate::rules::Rule;
use crate::time::{Span, Time};

/// When a search ends, and what it is given.
#[derive(Clone, Copy)]
pub struct SearchLimits<'a> {
    /// Rounds of improvement; each round anneals every cell once.
    pub rounds: u64,
    /// Asked now and then; `true` ends the search with the best so far.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// A gap to the bound at which to stop, as a fraction.
    pub gap: f64,
    /// For every random choice.
    pub seed: u64,
    /// The problem's [best bound](best_bound), where it is known already.
    pub bound: Option<&'a Bound>,
    /// Whether, of plans about as short, one is taken whose requests end sooner: see `LONGER`.
    pub sooner: bool,
}

/// How much longer a plan may take so that requests end sooner: a part of the gap to the bound, and at least and at most so
/// much of the makespan.
const LONGER: (f64, f64, f64) = (0.4, 0.000_1, 0.001);

/// Problems of at most so many tasks may be proved, and are to be as short as can be.
const MAY_BE_PROVED: usize = 64;

impl Default for SearchLimits<'_> {
    fn default() -> Self {
        SearchLimits { rounds: 8, stop: &|| false, gap: 0.0, seed: 0, bound: None, sooner: true }
    }
}

impl SearchLimits<'_> {
    /// The problem's best bound, computed only where it is not known.
    pub(super) fn bound(&self, instance: &Instance) -> Bound {
        self.bound.cloned().unwrap_or_else(|| best_bound(instance))
    }
}

/// A plan and how good it is.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// How long it takes.
    pub makespan: Span,
    /// The lower bound, and why it holds.
    pub bound: Bound,
    /// The method that found it.
    pub found_by: String,
    /// What the plan says beyond the order, where models batch or share GPUs.
    pub steps: Option<Steps>,
    /// Why no schedule is shorter, where that is known.
    pub proof: Option<Proof>,
}

impl Planned {
    /// What no schedule is shorter than: the bound; or the plan itself, where it was proved to be the shortest.
    #[must_use]
    pub fn lower_bound(&self) -> Span {
        if self.proof.is_some() { self.makespan } else { self.bound.value }
    }

    /// How far above that, as a fraction.
    #[must_use]
    pub fn gap(&self) -> f64 {
        if self.lower_bound() == Span::ZERO {
            return 0.0;
        }
        self.makespan.seconds() / self.lower_bound().seconds() - 1.0
    }
}

const SOME_POLICY: &str = "some policy finishes every problem";

/// Called with every improvement.
pub type Report<'a> = &'a mut dyn FnMut(&Planned);

/// Plans a batch: the best of a search, until a limit is reached, and of every policy that there is time for.
#[must_use]
pub fn improve(instance: &Instance, limits: &SearchLimits<'_>, report: Report<'_>) -> Planned {
    if !is_exact(instance) {
        return batched::improve(instance, limits, report);
    }
    let mut best = Best {
        instance,
        bound: limits.bound(instance),
        gap: limits.gap,
        planned: None,
        others: Vec::new(),
        shortest_rule: None,
    };
    let Some(mut search) = begin(instance, limits.seed) else {
        best.offer_policies(portfolio::logs(instance, limits.seed, limits.stop), report);
        return best.planned.expect(SOME_POLICY);
    };
    if best.offer(Found::by_search(&search), report) {
        return best.planned.expect(SOME_POLICY);
    }
    let mut partition: Option<Partition<'_>> = None;
    std::thread::scope(|scope| {
        let mut policies = Some(scope.spawn(|| portfolio::logs(instance, limits.seed, limits.stop)));
        partition = Partition::begin(instance, best.bound.value.0, limits);
        let mut done = partition.as_ref().is_some_and(|found| best.offer(Found::by_partition(found), report));
        for round in 0..limits.rounds {
            if done || (limits.stop)() {
                break;
            }
            let ahead = partition.as_ref().map_or(0.0, |partition| partition.lead_over(search.makespan()));
            if round < BOTH_ROUNDS || ahead < FAR_BEHIND {
                search.round(round, limits);
                done |= best.offer(Found::by_search(&search), report);
            }
            if let Some(partition) = partition.as_mut().filter(|_| round < BOTH_ROUNDS || ahead > -FAR_BEHIND)
            {
                partition.round(round, limits.stop);
                done |= best.offer(Found::by_partition(partition), report);
            }
            // With a number of rounds given, what is found must not depend on which thread is faster.
            if limits.rounds == u64::MAX
                && let Some(ended) = policies.take_if(|policies| policies.is_finished())
            {
                done |= best.offer_policies(ended.join().expect(NO_PANIC), report);
            }
        }
        if let Some(policies) = policies {
            best.offer_policies(policies.join().expect(NO_PANIC), report);
        }
    });
    if limits.sooner
        && let Some(latest) = best.may_end()
    {
        search.sooner(latest, limits.seed);
        best.offer_sooner(Found::by_search(&search), latest);
        if let Some(found) = partition.as_mut().and_then(|partition| partition.sooner(latest)) {
            best.offer_sooner(Found { plan: found, found_by: "partition".to_owned() }, latest);
        }
        for other in std::mem::take(&mut best.others) {
            best.offer_sooner(other, latest);
        }
    }
    best.planned.expect(SOME_POLICY)
}

/// A first plan, as fast as can be: the GPUs cut into cells, the requests dealt out, each cell run by the plainest rules.
/// `None` where no cell can run what is dealt to it, or where only the engine can tell what a plan leads to.
#[must_use]
pub fn first(instance: &Instance) -> Option<(Plan, Span)> {
    let search = is_exact(instance).then(|| begin(instance, 0)).flatten()?;
    Some((search.plan(), Span(search.makespan())))
}

fn begin(instance: &Instance, seed: u64) -> Option<CellSearch<'_>> {
    let sizes = cells::sizes(instance).into_iter();
    sizes.filter_map(|size| CellSearch::new(instance, size, seed)).min_by_key(CellSearch::makespan)
}

/// How far behind the other a way to search is, as a part of the makespan, when there is no use in going on with it.
const FAR_BEHIND: f64 = 0.005;
/// For so many rounds both go on in any case: the first plan of the cells is a plain one.
const BOTH_ROUNDS: u64 = 4;

const NO_PANIC: &str = "policies do not panic";

/// A plan that the search offers.
#[derive(Clone)]
struct Found {
    plan: Plan,
    found_by: String,
}

impl Found {
    fn by_search(search: &CellSearch<'_>) -> Found {
        Found { plan: search.plan(), found_by: "search".to_owned() }
    }

    fn by_partition(partition: &Partition<'_>) -> Found {
        Found { plan: partition.plan(), found_by: "partition".to_owned() }
    }
}

/// The best plan so far.
struct Best<'i> {
    instance: &'i Instance,
    bound: Bound,
    gap: f64,
    planned: Option<Planned>,
    /// Plans of policies that take hardly longer.
    others: Vec<Found>,
    /// The shortest makespan of a policy: no plan may take longer, however soon its requests end.
    shortest_rule: Option<u64>,
}

impl Best<'_> {
    /// Takes over what is better; `true` when it is good enough.
    fn offer(&mut self, found: Found, report: &mut dyn FnMut(&Planned)) -> bool {
        let Found { plan, found_by } = found;
        // What following it leads to, which can be sooner than what the search reckons with.
        let makespan = TimedPlan::of(self.instance, &plan).makespan.since(Time::ZERO);
        if self.planned.as_ref().is_none_or(|best| makespan < best.makespan) {
            let bound = self.bound.clone();
            let proof = (makespan == bound.value).then_some(Proof::Bound);
            let planned = Planned { plan, makespan, bound, found_by, steps: None, proof };
            report(&planned);
            self.planned = Some(planned);
        }
        self.planned.as_ref().is_some_and(|best| best.gap() <= self.gap)
    }

    /// When plans may end that are better in other ways.
    fn may_end(&self) -> Option<u64> {
        let found = self.planned.as_ref()?.makespan.0;
        let is_small = self.instance.tasks() <= MAY_BE_PROVED || found == self.bound.value.0;
        let (part, least, most) = LONGER;
        let gap = found as f64 / self.bound.value.0.max(1) as f64 - 1.0;
        let longer = if is_small { 0 } else { (found as f64 * (part * gap).clamp(least, most)) as u64 };
        Some((found + longer).min(self.shortest_rule.unwrap_or(u64::MAX)))
    }

    /// Takes over what ends in time, and its requests sooner.
    fn offer_sooner(&mut self, found: Found, latest: u64) {
        let Some(best) = &mut self.planned else { return };
        let (before, now) =
            (TimedPlan::of(self.instance, &best.plan), TimedPlan::of(self.instance, &found.plan));
        let makespan = now.makespan.since(Time::ZERO);
        if makespan.0 <= latest && now.ends(self.instance) < before.ends(self.instance) {
            best.proof = (makespan == best.bound.value).then_some(Proof::Bound);
            (best.plan, best.found_by, best.makespan) = (found.plan, found.found_by, makespan);
        }
    }

    fn offer_policies(&mut self, logs: Vec<(&Rule, ExecutionLog)>, report: &mut dyn FnMut(&Planned)) -> bool {
        let mut done = false;
        for (rule, log) in logs {
            let found = Found { plan: Plan::from_log(&log), found_by: rule.info.name.to_owned() };
            let end = log.executions.iter().map(|execution| execution.end).max().unwrap_or(Time::ZERO);
            self.shortest_rule = Some(self.shortest_rule.map_or(end.0, |shortest| shortest.min(end.0)));
            let best = self.planned.as_ref().map_or(f64::INFINITY, |best| best.makespan.0 as f64);
            if (end.0 as f64) <= best * (1.0 + 2.0 * LONGER.2) {
                self.others.push(found.clone());
            }
            done |= self.offer(found, report);
        }
        done
    }
}
