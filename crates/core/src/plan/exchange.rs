//! Requests exchanged between a cell that ends late and one that ends early.

use super::anneal::{Effort, Solution, anneal};
use super::barter::{self, Swap};
use super::cell::{Cell, Goal, Scratch};
use super::cell_search::Held;
use super::cells;
use super::decode::SwitchTable;
use super::dispatch::Style;
use super::search::SearchLimits;
use super::tune::Tuned;
use crate::id::RequestId;
use crate::instance::Instance;

/// Swaps that are tried for a pair of cells, of each sort.
const TRIES: usize = 4;

/// Cells that end this near to each other, in microseconds, have nothing to exchange.
const NEAR: u64 = 20_000;

/// Swaps requests so that the later of the two cells ends sooner, where such a swap is found.
pub(super) fn exchange(
    instance: &Instance,
    table: &SwitchTable,
    late: &mut Held,
    early: &mut Held,
    seed: u64,
    limits: &SearchLimits<'_>,
) {
    let apart = late.makespan().saturating_sub(early.makespan());
    if apart < NEAR || late.cell.requests.len() < 2 {
        return;
    }
    let difference = apart * u64::from(late.cell.gpus.count.min(early.cell.gpus.count));
    for (gives, takes) in swaps(instance, &late.cell, &early.cell, difference) {
        if (limits.stop)() {
            return;
        }
        let (out, into) = (late.cell.requests[gives], takes.map(|takes| early.cell.requests[takes]));
        let worst = late.makespan();
        let Some(less) = replaced(instance, table, late, Some(gives), into, seed, limits) else { continue };
        if less.makespan() >= worst {
            continue;
        }
        let Some(more) = replaced(instance, table, early, takes, Some(out), !seed, limits) else { continue };
        if more.makespan() < worst {
            (*late, *early) = (less, more);
            return;
        }
    }
}

/// Swaps worth trying: of requests of the same workflow, which hardly change a schedule, then of any.
fn swaps(instance: &Instance, late: &Cell, early: &Cell, difference: u64) -> Vec<Swap> {
    let needs = |cell: &Cell| -> Vec<(u64, RequestId)> {
        cell.requests.iter().map(|&request| (cells::area(instance, request), request)).collect()
    };
    let (full, other) = (needs(late), needs(early));
    let workflow = |request: RequestId| instance.requests[request].workflow;
    let mut found = Vec::new();
    for (id, _) in instance.workflows.iter_enumerated() {
        let of = |all: &[(u64, RequestId)]| -> (Vec<usize>, Vec<(u64, RequestId)>) {
            let same = all.iter().copied().enumerate().filter(|(_, (_, request))| workflow(*request) == id);
            same.unzip()
        };
        let ((full_at, full), (other_at, other)) = (of(&full), of(&other));
        let swaps = barter::ranked(&full, &other, difference, TRIES).into_iter();
        let swaps = swaps.filter_map(|(gives, takes)| Some((full_at[gives], Some(other_at[takes?]))));
        found.extend(swaps.take(TRIES));
    }
    found.extend(barter::ranked(&full, &other, difference, TRIES));
    found
}

/// A cell with one request in the place of another, or with one more, or with one less.
fn replaced(
    instance: &Instance,
    table: &SwitchTable,
    held: &Held,
    out: Option<usize>,
    into: Option<RequestId>,
    seed: u64,
    limits: &SearchLimits<'_>,
) -> Option<Held> {
    let old = &held.cell;
    let mut requests = old.requests.clone();
    match (out, into) {
        (Some(out), Some(into)) => requests[out] = into,
        (Some(out), None) => drop(requests.remove(out)),
        (None, into) => requests.extend(into),
    }
    let cell = Cell::new(instance, requests, old.gpus);
    if !cell.holds_all() {
        return None;
    }
    let urgency = urgency(old, &held.tuned.style.urgency, &cell, out);
    let style = Style { urgency, begins: None, ..held.tuned.style.clone() };
    let tuned = Tuned::of(&cell, table, style, &mut Scratch::default())?;
    let mut new = Held { best: tuned.solution.clone(), cell: cell.into(), tuned };
    if new.cell.first_of == old.first_of && new.cell.model == old.model {
        // Of the same workflow: it takes the other's place everywhere.
        let choice = held.best.choice.clone();
        let outcome = new.cell.decode(table, &choice, &mut Scratch::default());
        new.offer(&Solution { choice, outcome });
    }
    let iterations = (20_000 / new.cell.len().max(1) as u64).max(4);
    let effort = Effort { iterations, goal: Goal::Shortest, stop: limits.stop };
    let annealed = anneal(&new.cell, table, &new.best, seed, effort);
    new.offer(&annealed);
    Some(new)
}

/// The old urgencies for the tasks that stayed; a newcomer has those of the request whose place it takes, as far as they go.
fn urgency(old: &Cell, urgency: &[i64], new: &Cell, out: Option<usize>) -> Vec<i64> {
    let mut result = Vec::with_capacity(new.len());
    let removed = out.filter(|_| new.requests.len() < old.requests.len());
    for (place, tasks) in new.first_of.windows(2).enumerate() {
        let from = place + usize::from(removed.is_some_and(|removed| removed <= place));
        let count = (tasks[1] - tasks[0]) as usize;
        let old_tasks = match old.first_of.get(from..from + 2) {
            Some(ends) => &urgency[ends[0] as usize..ends[1] as usize],
            None => &[],
        };
        let fill = old_tasks.last().copied().unwrap_or(0);
        result.extend(old_tasks.iter().copied().chain(std::iter::repeat(fill)).take(count));
    }
    result
}
