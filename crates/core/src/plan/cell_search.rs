//! The search over cells: each is dispatched in a better and better style and annealed, on all cores, and requests are
//! exchanged between cells that end late and cells that end early.

use super::anneal::{Effort, Solution, anneal};
use super::cell::{Cell, Goal, Scratch};
use super::cells;
use super::decode::SwitchTable;
use super::exchange::exchange;
use super::portfolio;
use super::sooner;
use super::tune::{PLAIN, Tuned, best_plain, try_rules, tune};
use super::{Plan, search::SearchLimits};
use crate::instance::Instance;
use rayon::prelude::*;

/// A cell, the best style for it, and the best of all that was found for it.
#[derive(Clone)]
pub(super) struct Held {
    pub cell: std::sync::Arc<Cell>,
    pub tuned: Tuned,
    pub best: Solution,
}

impl Held {
    pub fn makespan(&self) -> u64 {
        self.best.outcome.makespan
    }

    /// Takes over what is better.
    pub fn offer(&mut self, solution: &Solution) {
        if solution.outcome.energy() < self.best.outcome.energy() {
            self.best = solution.clone();
        }
    }
}

pub(super) struct CellSearch<'i> {
    instance: &'i Instance,
    table: SwitchTable,
    cells: Vec<Held>,
    seed: u64,
}

impl<'i> CellSearch<'i> {
    /// The plainest dispatch of every cell; `None` where a cell of this size cannot run what is dealt to it.
    pub fn new(instance: &'i Instance, size: u32, seed: u64) -> Option<CellSearch<'i>> {
        let table = SwitchTable::new(instance);
        let gpus = cells::cut(instance, size);
        let dealt = cells::deal(instance, &gpus);
        let parts: Vec<_> = gpus.into_iter().zip(dealt).collect();
        let used = parts.into_par_iter().filter(|(_, requests)| !requests.is_empty());
        let cells: Vec<Cell> = used.map(|(gpus, requests)| Cell::new(instance, requests, gpus)).collect();
        if !cells.iter().all(Cell::holds_all) {
            return None;
        }
        let plain = if cells.len() < MANY { PLAIN } else { best_plain(&cells[0], &table) };
        let begun = cells.into_par_iter().map(|cell| {
            let tuned = Tuned::first(&cell, &table, plain)?;
            Some(Held { cell: cell.into(), best: tuned.solution.clone(), tuned })
        });
        let cells: Option<Vec<Held>> = begun.collect();
        Some(CellSearch { instance, cells: cells?, table, seed })
    }

    pub fn makespan(&self) -> u64 {
        self.cells.iter().map(Held::makespan).max().unwrap_or(0)
    }

    /// The whole problem's plan.
    pub fn plan(&self) -> Plan {
        let schedules = self.cells.par_iter().map(|held| {
            let mut scratch = Scratch::default();
            held.cell.decode(&self.table, &held.best.choice, &mut scratch);
            held.cell.schedule(&held.best.choice, &scratch)
        });
        portfolio::merge(schedules.collect())
    }

    /// Improves the cells that end late, then exchanges requests between them and others.
    pub fn round(&mut self, round: u64, limits: &SearchLimits<'_>) {
        let seed = self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(round << 8);
        let mean = self.cells.iter().map(Held::makespan).sum::<u64>() / self.cells.len().max(1) as u64;
        let table = &self.table;
        // A few cells are each improved in several ways at once, so that all cores have work.
        let lanes = (LANES / self.cells.len().max(1)).max(1) as u64;
        self.cells.par_iter_mut().enumerate().for_each(|(at, held)| {
            if round == 0 {
                let effort = Effort { iterations: 0, goal: Goal::Shortest, stop: limits.stop };
                held.tuned = try_rules(&held.cell, table, held.tuned.clone(), effort);
                held.offer(&held.tuned.solution.clone());
            } else if held.makespan() >= mean {
                let seeds: Vec<u64> = (0..lanes).map(|lane| seed ^ lane ^ (at as u64) << 32).collect();
                let from = &*held;
                let tried: Vec<Held> =
                    seeds.into_par_iter().map(|seed| improved(from, table, seed, limits)).collect();
                let best = |one: &Held| one.best.outcome.energy();
                if let Some(best) = tried.into_iter().min_by(|a, b| best(a).total_cmp(&best(b))) {
                    *held = best;
                }
            }
        });
        if round > 0 {
            self.rebalance(seed, limits);
        }
    }

    /// Choices whose requests end sooner, where every cell still ends by `latest`.
    pub fn sooner(&mut self, latest: u64, seed: u64) {
        let tasks = self.instance.tasks();
        let table = &self.table;
        self.cells.par_iter_mut().for_each(|held| sooner::improve(held, table, latest, tasks, seed));
    }

    /// Pairs of worst and best, second worst and second best, ..., exchange requests: each pair on its own thread.
    fn rebalance(&mut self, seed: u64, limits: &SearchLimits<'_>) {
        self.cells.sort_by_key(|held| (std::cmp::Reverse(held.makespan()), held.cell.gpus.first));
        let half = self.cells.len() / 2;
        let (late, early) = self.cells.split_at_mut(half);
        let (instance, table) = (self.instance, &self.table);
        let pairs = late.par_iter_mut().zip(early.par_iter_mut().rev());
        pairs.for_each(|(late, early)| {
            let seed = seed ^ u64::from(late.cell.gpus.first.0) << 20;
            exchange(instance, table, late, early, seed, limits);
        });
    }
}

/// With so many cells a few trials on one of them take little of the time that all of them take.
const MANY: usize = 16;

/// As many ways to improve are tried at once at the least.
const LANES: usize = 4;

/// Tunes and anneals a cell for a while.
fn improved(from: &Held, table: &SwitchTable, seed: u64, limits: &SearchLimits<'_>) -> Held {
    let mut held = from.clone();
    let count = held.cell.len().max(1) as u64;
    let effort = |work: u64| {
        let iterations = (work / count).max(4);
        Effort { iterations, goal: Goal::Shortest, stop: limits.stop }
    };
    held.tuned = tune(&held.cell, table, held.tuned, seed, effort(20_000));
    held.offer(&held.tuned.solution.clone());
    let annealed = anneal(&held.cell, table, &held.best, seed, effort(200_000));
    held.offer(&annealed);
    held
}
