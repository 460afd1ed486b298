//! Among schedules of a cell of about the same length, prefers one whose requests end sooner.
//!
//! A search for the makespan alone keeps a model for all that waits for it, so that most requests end near the end of the
//! run. Here short requests begin first, and only so many are under way at once. That takes more loads, which the time up to
//! the latest moment has to pay for: how many requests are under way is chosen by trial.

use super::anneal::{Effort, anneal};
use super::cell::{Cell, Goal, Outcome, Scratch};
use super::cell_search::Held;
use super::decode::SwitchTable;
use super::dispatch::{Begins, Rule, Style};
use super::tune::{Tuned, tune};
use std::cmp::Reverse;

/// Requests under way at once, as parts of all.
const PARTS: [usize; 6] = [1, 2, 3, 4, 8, 16];

/// What a second after the latest moment counts, in seconds of mean latency: little at first, so that what is sooner is found,
/// then so much that it comes to end in time.
const LATE: [f64; 3] = [20.0, 100.0, 1_000.0];

/// Tasks that are dispatched while parts are tried, tasks for changes of the best style, and tasks that are decoded while the
/// best schedule is varied, over the whole problem.
const TRIED: usize = 400_000;
const TUNED: usize = 400_000;
const ANNEALED: usize = 4_000_000;

/// What is tried at the least, so that the largest problems get something too.
const FEWEST: usize = 2;

/// Takes over a choice that ends by `latest`, and whose requests end sooner. `tasks` are those of the whole problem.
pub(super) fn improve(held: &mut Held, table: &SwitchTable, latest: u64, tasks: usize, seed: u64) {
    let cell = held.cell.clone();
    let goal = |late: f64| Goal::Sooner { latest, late };
    let effort = |work: usize, late: f64| Effort {
        iterations: (work / tasks.max(1)) as u64,
        goal: goal(late),
        stop: &|| false,
    };
    let mut scratch = Scratch::default();
    let styles = styles(&cell, &held.tuned.style);
    let count = (TRIED / tasks.max(1)).clamp(FEWEST, styles.len());
    let step = styles.len().div_ceil(count);
    let tried = styles.into_iter().step_by(step);
    let tried: Vec<Tuned> = tried.filter_map(|style| Tuned::of(&cell, table, style, &mut scratch)).collect();
    let most = *LATE.last().unwrap_or(&0.0);
    for late in LATE {
        let Some(best) = least(&tried, goal(late), |one| one.solution.outcome) else { return };
        let tuned = tune(&cell, table, best.clone(), seed, effort(TUNED, late));
        let tuned = tune(&cell, table, tuned, !seed, effort(TUNED, most)).solution;
        let annealed = anneal(&cell, table, &tuned, seed, effort(ANNEALED, most));
        let found = [best.solution.clone(), tuned, annealed];
        for one in found {
            if one.outcome.makespan <= latest && one.outcome.latency < held.best.outcome.latency {
                held.best = one;
            }
        }
    }
}

fn least<T>(all: &[T], goal: Goal, of: impl Fn(&T) -> Outcome) -> Option<&T> {
    all.iter().min_by(|one, other| goal.energy(of(one)).total_cmp(&goal.energy(of(other))))
}

/// Styles to begin with: the one that the search for the makespan came to, with requests in an order of their own.
fn styles(cell: &Cell, from: &Style) -> Vec<Style> {
    let mut styles = Vec::new();
    let longest_tail = Rule::LongestTail.urgency(cell);
    for part in PARTS {
        for order in orders(cell) {
            let mut place = vec![0i64; cell.requests.len()];
            (0..).zip(&order).for_each(|(at, &request)| place[request as usize] = at);
            let by_order: Vec<i64> = cell.request.iter().map(|&request| -place[request as usize]).collect();
            let under_way = cell.requests.len().div_ceil(part).max(1);
            let begins = Begins { order: order.into(), under_way };
            for urgency in [by_order, longest_tail.clone()] {
                styles.push(Style { urgency, begins: Some(begins.clone()), defers: false, ..from.clone() });
            }
        }
    }
    styles
}

/// The requests by their work, least first; and those before others for which the cell need not be cleared.
fn orders(cell: &Cell) -> [Vec<u32>; 2] {
    let work = |request: u32| -> u64 {
        let tasks = cell.first_of[request as usize]..cell.first_of[request as usize + 1];
        tasks.map(|task| cell.execution[task as usize] * u64::from(cell.width_of(task))).sum()
    };
    let clears = |request: u32| {
        let tasks = cell.first_of[request as usize]..cell.first_of[request as usize + 1];
        tasks.into_iter().any(|task| cell.fills[cell.model[task as usize] as usize])
    };
    let by = |key: &dyn Fn(u32) -> (bool, u64)| {
        let mut order: Vec<u32> = (0..cell.requests.len() as u32).collect();
        order.sort_by_key(|&request| (key(request), Reverse(cell.requests[request as usize])));
        order
    };
    [by(&|request| (false, work(request))), by(&|request| (clears(request), work(request)))]
}
