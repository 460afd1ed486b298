//! Partition: where the widest model does not divide the GPUs, some GPUs can never serve it. The blocks that can are kept
//! for it from a moment on; the others, and until then the blocks too, do all that it waits for.
//!
//! A [`Rule`] says when each block turns, how many requests are under way at once and in which order they begin; a run
//! through time turns it into a schedule. The search tries a grid of rules and then varies the best of them.

mod dispatch;
mod layout;
mod rule;
mod work;

use super::Plan;
use super::decode::SwitchTable;
use super::search::SearchLimits;
use crate::id::{Gpus, TaskId};
use crate::instance::Instance;
use dispatch::{Run, Schedule, Setting, dispatch};
use layout::Layout;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use rule::{Rule, Scale, grid};
use work::{Demands, Work};

/// Searches that go on side by side; each varies a rule of its own.
const CHAINS: usize = 8;
/// Variations of each in a round, at most.
const MOST_STEPS: u64 = 16;
/// A dispatch takes about as long as there are tasks times GPUs: this many make up the steps of a chain in a round,
const ROUND_EFFORT: u64 = 10_000_000;
/// this many the grid, a second or two,
const GRID_EFFORT: u64 = 100_000_000;
/// and beyond this many a grid is out of reach.
const MOST_EFFORT: u64 = 12_000_000;
/// With more blocks than this, GPUs that cannot serve the widest model are few, and cells do better.
const MOST_BLOCKS: usize = 32;
/// The same for a chain that looks for a schedule whose requests end sooner.
const SOONER_EFFORT: u64 = 3_000_000;
const MOST_SOONER: u64 = 60;
/// A second after the latest moment counts as much as so many seconds of mean latency.
const LATE: f64 = 100.0;
/// What a chain puts up with for a step, as a part of its energy.
const HEAT: f64 = 0.000_01;

/// A rule that a chain has come to.
#[derive(Clone)]
struct State {
    rule: Rule,
    energy: f64,
}

/// A division of the GPUs and what is known of it.
struct Division {
    layout: Layout,
    demands: Demands,
    scale: Scale,
}

pub(super) struct Partition<'i> {
    instance: &'i Instance,
    work: Work,
    table: SwitchTable,
    divisions: Vec<Division>,
    chains: Vec<(usize, State)>,
    best: Best,
    /// Tasks times GPUs.
    size: u64,
    seed: u64,
}

/// The schedule that ends first.
struct Best {
    end: u64,
    runs: Vec<Run>,
}

impl Best {
    fn take(&mut self, found: impl Into<Best>) {
        let found = found.into();
        if found.end < self.end {
            *self = found;
        }
    }
}

impl From<Schedule> for Best {
    fn from(schedule: Schedule) -> Best {
        Best { end: schedule.end, runs: schedule.runs }
    }
}

impl<'i> Partition<'i> {
    /// `None` where every GPU can serve the widest model, where the problem is too large, or where the search was stopped
    /// before there was a schedule.
    pub fn begin(instance: &'i Instance, bound: u64, limits: &SearchLimits<'_>) -> Option<Partition<'i>> {
        let tiles = layout::tiles(instance);
        let covered: u32 = tiles.iter().map(|tile| tile.count).sum();
        let size = instance.tasks() as u64 * u64::from(instance.cluster.gpus);
        if covered == instance.cluster.gpus || tiles.len() > MOST_BLOCKS || size > MOST_EFFORT {
            return None;
        }
        let work = Work::new(instance);
        let most = tiles.len();
        let counts = (most.saturating_sub(1).max(1)..=most).rev();
        let divisions: Vec<Division> =
            counts.filter_map(|count| Division::new(instance, &work, &tiles[..count], bound)).collect();
        let mut partition = Partition {
            instance,
            work,
            table: SwitchTable::new(instance),
            divisions,
            chains: Vec::new(),
            best: Best { end: u64::MAX, runs: Vec::new() },
            size,
            seed: limits.seed,
        };
        partition.try_grid(limits.stop);
        (partition.best.end < u64::MAX).then_some(partition)
    }

    fn setting(&self, division: usize) -> Setting<'_> {
        let Division { layout, demands, .. } = &self.divisions[division];
        Setting { work: &self.work, layout, demands, table: &self.table, gpus: self.instance.cluster.gpus }
    }

    /// Tries rules of the grid, as many as is reasonable for the size of the problem, and begins the chains with the best.
    fn try_grid(&mut self, stop: &(dyn Fn() -> bool + Sync)) {
        let rules = self.divisions.iter().enumerate().flat_map(|(at, division)| {
            grid(&division.demands, &division.scale).into_iter().map(move |rule| (at, rule))
        });
        let rules: Vec<(usize, Rule)> = rules.collect();
        let apart = (rules.len() as u64 * self.size).div_ceil(GRID_EFFORT).max(1);
        let mut rules = rules.into_iter().step_by(apart as usize).peekable();
        while rules.peek().is_some() {
            // A few at a time: only the best schedule is kept.
            let some: Vec<_> = rules.by_ref().take(2 * CHAINS).collect();
            let tried = some.into_par_iter().filter_map(|(at, rule)| {
                let schedule = dispatch(&self.setting(at), &rule, stop)?;
                Some((at, State { rule, energy: schedule.energy }, schedule))
            });
            let tried: Vec<_> = tried.collect();
            for (at, state, schedule) in tried {
                self.best.take(schedule);
                self.chains.push((at, state));
            }
        }
        self.chains.sort_by(|a, b| a.1.energy.total_cmp(&b.1.energy));
        self.chains.dedup_by(|a, b| a.1.energy == b.1.energy);
        self.chains.truncate(CHAINS);
    }

    /// Varies the rule of every chain; those that fall behind go on from the best.
    pub fn round(&mut self, round: u64, stop: &(dyn Fn() -> bool + Sync)) {
        let seed = self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(round);
        let chains = std::mem::take(&mut self.chains);
        let walked = chains.into_par_iter().enumerate().map(|(at, (division, state))| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (at as u64) << 40);
            let (state, best) = self.walk(division, state, &mut rng, stop);
            ((division, state), best)
        });
        let walked: Vec<_> = walked.collect();
        for (chain, best) in walked {
            self.chains.push(chain);
            self.best.take(best);
        }
        self.chains.sort_by(|a, b| a.1.energy.total_cmp(&b.1.energy));
        if round % 4 == 3 {
            let leading = self.chains.len().div_ceil(2);
            let (leading, behind) = self.chains.split_at_mut(leading);
            behind.iter_mut().zip(leading.iter()).for_each(|(behind, leading)| behind.clone_from(leading));
        }
    }

    fn walk(
        &self,
        division: usize,
        mut state: State,
        rng: &mut ChaCha8Rng,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> (State, Best) {
        let setting = self.setting(division);
        let heat = HEAT * state.energy;
        let mut best = Best { end: self.best.end, runs: Vec::new() };
        for _ in 0..(ROUND_EFFORT / self.size).clamp(1, MOST_STEPS) {
            let rule = state.rule.varied(&self.divisions[division].scale, rng);
            let Some(schedule) = dispatch(&setting, &rule, stop) else { break };
            if schedule.energy <= state.energy - heat * rng.random::<f64>().ln() {
                state = State { rule, energy: schedule.energy };
            }
            best.take(schedule);
        }
        (state, best)
    }

    /// A plan whose requests end sooner, and that ends by `latest`: rules with fewer requests under way, or others first.
    pub fn sooner(&mut self, latest: u64) -> Option<Plan> {
        let late = |schedule: &Schedule| schedule.latency + LATE * schedule.end.saturating_sub(latest) as f64;
        let chains = self.chains.clone();
        let walked = chains.into_par_iter().enumerate().map(|(at, (division, state))| {
            let mut rng = ChaCha8Rng::seed_from_u64(self.seed ^ (at as u64) << 40 ^ 1 << 60);
            let setting = self.setting(division);
            let scale = &self.divisions[division].scale;
            let mut best: Option<Schedule> = None;
            let mut energy = f64::INFINITY;
            let mut rule = state.rule;
            for step in 0..(SOONER_EFFORT / self.size).clamp(1, MOST_SOONER) {
                let tried = if step == 0 { rule.clone() } else { rule.varied(scale, &mut rng) };
                let Some(schedule) = dispatch(&setting, &tried, &|| false) else { break };
                if late(&schedule) < energy {
                    (rule, energy) = (tried, late(&schedule));
                }
                let better = best.as_ref().is_none_or(|best| schedule.latency < best.latency);
                if schedule.end <= latest && better {
                    best = Some(schedule);
                }
            }
            best
        });
        let found: Vec<Schedule> = walked.flatten().collect();
        let best = found.into_iter().min_by(|one, other| one.latency.total_cmp(&other.latency))?;
        Some(self.plan_of(&best.runs))
    }

    /// How much shorter than another schedule the best is, as a part of it; negative where it is longer.
    pub fn lead_over(&self, other: u64) -> f64 {
        other as f64 / (self.best.end as f64).max(1.0) - 1.0
    }

    /// The best plan so far.
    pub fn plan(&self) -> Plan {
        self.plan_of(&self.best.runs)
    }

    fn plan_of(&self, runs: &[Run]) -> Plan {
        let gpus =
            |task: u32, first| Gpus::new(first, self.work.width[self.work.model[task as usize] as usize]);
        let runs = runs.iter().map(|&(_, _, task, first)| (TaskId(task), gpus(task, first)));
        Plan(runs.collect())
    }
}

impl Division {
    fn new(instance: &Instance, work: &Work, blocks: &[Gpus], bound: u64) -> Option<Division> {
        let layout = Layout::new(instance, blocks)?;
        let demands = Demands::new(work, &layout);
        let covered: u32 = blocks.iter().map(|block| block.count).sum();
        let narrow: f64 = demands.requests.iter().map(|demand| demand.before + demand.after).sum();
        let elsewhere = bound as f64 * f64::from(instance.cluster.gpus - covered);
        let load = instance.models.iter().map(|model| model.load_seconds).fold(f64::INFINITY, f64::min);
        let scale = Scale {
            spare: ((narrow - elsewhere) / f64::from(covered)).max(0.0),
            lead: demands.lead(work, &layout, blocks.len() + 2) as f64 + load * 1e6,
            blocks: blocks.len(),
        };
        Some(Division { layout, demands, scale })
    }
}
