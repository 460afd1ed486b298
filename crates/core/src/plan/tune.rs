//! Tunes styles: change a few settings, dispatch, and keep what is not worse.

use super::anneal::{Effort, Solution};
use super::cell::{Cell, Goal, Scratch};
use super::decode::SwitchTable;
use super::dispatch::{Rule, Style, dispatch};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A style and what it leads to.
#[derive(Clone)]
pub(super) struct Tuned {
    pub style: Style,
    pub solution: Solution,
}

impl Tuned {
    pub fn of(cell: &Cell, table: &SwitchTable, style: Style, scratch: &mut Scratch) -> Option<Tuned> {
        let choice = dispatch(cell, table, &style)?;
        let outcome = cell.decode(table, &choice, scratch);
        Some(Tuned { style, solution: Solution { choice, outcome } })
    }

    /// The default style, before anything else is tried.
    pub fn first(cell: &Cell, table: &SwitchTable, (rule, defers): (Rule, bool)) -> Option<Tuned> {
        Tuned::of(cell, table, Style::plain(cell, rule, 0.0, defers), &mut Scratch::default())
    }

    pub fn energy(&self, goal: Goal) -> f64 {
        goal.energy(self.solution.outcome)
    }
}

/// What to begin with where nothing was tried.
pub(super) const PLAIN: (Rule, bool) = (Rule::Longest, false);

/// The plain style that does best on a cell: where there are many, what is good for one is good for the others.
pub(super) fn best_plain(cell: &Cell, table: &SwitchTable) -> (Rule, bool) {
    let styles = [Rule::Longest, Rule::Shallowest].map(|rule| [(rule, false), (rule, true)]);
    let makespan = |&style: &(Rule, bool)| {
        Tuned::first(cell, table, style).map_or(u64::MAX, |tuned| tuned.solution.outcome.makespan)
    };
    styles.into_iter().flatten().min_by_key(makespan).unwrap_or(PLAIN)
}

/// What each rule leads to, with more or less patience, deferring or not; never worse than `from`.
pub(super) fn try_rules(cell: &Cell, table: &SwitchTable, from: Tuned, effort: Effort<'_>) -> Tuned {
    let mut best = from;
    let mut scratch = Scratch::default();
    let settings = [(0.0, false), (1.0, false), (3.0, false), (0.0, true), (1.0, true)];
    for (rule, (patience, defers)) in Rule::ALL.into_iter().flat_map(|rule| settings.map(|set| (rule, set))) {
        if (effort.stop)() {
            break;
        }
        let style = Style::plain(cell, rule, patience, defers);
        let tried = Tuned::of(cell, table, style, &mut scratch);
        if let Some(tried) = tried.filter(|tried| tried.energy(effort.goal) < best.energy(effort.goal)) {
            best = tried;
        }
    }
    best
}

/// Changes settings at random; never returns anything worse than `from`.
pub(super) fn tune(cell: &Cell, table: &SwitchTable, from: Tuned, seed: u64, effort: Effort<'_>) -> Tuned {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut best = from;
    let mut scratch = Scratch::default();
    for _ in 0..effort.iterations {
        if (effort.stop)() {
            break;
        }
        let tried = Tuned::of(cell, table, changed(cell, &best.style, &mut rng), &mut scratch);
        if let Some(tried) = tried.filter(|tried| tried.energy(effort.goal) <= best.energy(effort.goal)) {
            best = tried;
        }
    }
    best
}

fn changed(cell: &Cell, style: &Style, rng: &mut ChaCha8Rng) -> Style {
    let mut style = style.clone();
    let models = style.weight.len();
    for _ in 0..rng.random_range(1..=2) {
        match rng.random_range(0..models + 4) {
            0 => style.patience = if rng.random::<f64>() < 0.3 { 0.0 } else { 5.0 * rng.random::<f64>() },
            1 => style.thrift = 2.0 * rng.random::<f64>(),
            2 => style.urgency = Rule::ALL[rng.random_range(0..Rule::ALL.len())].urgency(cell),
            3 => style.defers = !style.defers,
            other => style.weight[other - 4] *= (3.0 * (rng.random::<f64>() - 0.5)).exp(),
        }
    }
    if rng.random::<f64>() < 0.5 {
        nudge(&mut style.urgency, rng);
    }
    if let Some(begins) = &mut style.begins
        && rng.random::<f64>() < 0.5
    {
        begins.under_way = ((begins.under_way as f64 * (rng.random::<f64>() - 0.5).exp()) as usize).max(1);
    }
    style
}

/// Makes a few tasks more or less urgent, by seconds or by minutes.
fn nudge(urgency: &mut [i64], rng: &mut ChaCha8Rng) {
    let reach = if rng.random::<f64>() < 0.5 { 15e6 } else { 150e6 };
    for _ in 0..urgency.len().div_ceil(50) {
        let task = rng.random_range(0..urgency.len());
        urgency[task] += (reach * (2.0 * rng.random::<f64>() - 1.0)) as i64;
    }
}
