//! Chooses a rule by look-ahead: simulates open requests and resampled recent arrivals under each rule, from the
//! present state.
//!
//! A look takes a snapshot of the present and plays it to its end under one candidate after the other. The score of a
//! candidate is how far it is behind the best of the look, in the latency that the objective names; a little of its scores in
//! earlier looks counts too, because arrivals that are drawn are only likely ones. The rule is changed where another is
//! better by a margin.
//!
//! What may be played is bounded by a budget: so many starts at first, and so many more for each start of the run. It is
//! counted in starts, not in time, so that the same inputs and seed give the same run. Candidates that are far behind are
//! played in one look of six, and any candidate is stopped once its latencies are far above the best. A look that takes more
//! than a few thousand starts is spread over several questions, so that no dispatch of a live run waits long for it.

use super::candidates::Candidate;
use super::forecast::History;
use super::placement;
use super::score::{Figures, Score};
use super::{LatencyTarget, Objective};
use crate::engine::{Policy, Snapshot, TaskState, View};
use crate::id::{RequestId, TaskId};
use crate::instance::Deployment;
use crate::sim::play;
use crate::time::Time;
use std::collections::BTreeMap;

/// Starts that may be played at first.
const FIRST_BUDGET: f64 = 40_000.0;

/// Starts that may be saved up.
const MOST_BUDGET: f64 = 80_000.0;

/// Starts that may be played for each start of the run.
const BUDGET_PER_START: f64 = 15.0;

/// Starts that may be played before the run goes on.
const AT_ONCE: f64 = 4_000.0;

/// What setting up an engine and a rule costs, in starts.
const SET_UP: f64 = 30.0;

/// Open nodes beyond which nothing is played.
const MOST_OPEN: usize = 4_000;

/// Nodes of a request that has not arrived, for the budget.
const USUAL_NODES: usize = 4;

/// A candidate whose score is so far behind the best is played in one look of `SELDOM`.
const FAR_BEHIND: f64 = 0.2;
const SELDOM: u64 = 6;

/// How an objective looks ahead.
struct Settings {
    /// Arrivals before the first look, and between looks.
    first: u64,
    every: u64,
    /// Arrivals that are drawn.
    horizon: usize,
    /// The weight of earlier looks in a score.
    past: f64,
    /// How much better another rule has to be.
    margin: f64,
    /// How much better than the objective's own rule, beside that.
    own: f64,
    /// How far above the best the latencies of a candidate may come before it is stopped.
    stop_at: f64,
    /// Whether looks are spaced so that the budget lasts, instead of made while it does.
    paced: bool,
}

impl Settings {
    fn of(objective: Objective) -> Settings {
        let mean = Settings {
            first: 5,
            every: 3,
            horizon: 60,
            past: 0.1,
            margin: 0.02,
            own: 0.0,
            stop_at: 1.2,
            paced: true,
        };
        match objective {
            Objective::Mean => mean,
            // A tail says less than a mean: more has to be drawn, and earlier looks count more.
            Objective::P99 => Settings {
                first: 8,
                every: 6,
                horizon: 80,
                past: 0.2,
                margin: 0.01,
                own: 0.0,
                stop_at: 2.0,
                paced: false,
            },
            // Its own rule makes few loads, which a look is too short to be worth.
            Objective::Balanced => Settings { own: 0.05, ..Settings::of(Objective::P99) },
        }
    }
}

/// Watches a run and chooses its rule.
pub(super) struct Lookahead {
    settings: Settings,
    score: Score,
    seed: u64,
    candidates: Vec<Candidate>,
    /// Of each candidate, how far it is behind the best, as the logarithm of the ratio.
    scores: Vec<f64>,
    current: usize,
    /// Requests that have arrived and may have something left, with their arrivals: a number may be used again.
    open: BTreeMap<RequestId, Time>,
    /// How many were open when those that had ended were sorted out last.
    open_before: usize,
    history: History,
    arrivals: u64,
    next_look: u64,
    looks: u64,
    /// Starts that may be played, and how many the next look needs at least.
    budget: f64,
    needed: f64,
    under_way: Option<Look>,
    /// The placement to steer for, and how many had arrived when it was worked out.
    placement: Option<Deployment>,
    placed_at: u64,
    /// Starts of the run.
    starts: f64,
}

/// A look that is under way: one candidate after the other is played from the same present.
struct Look {
    present: Snapshot,
    /// The candidates that are played, in this order.
    order: Vec<usize>,
    /// Of those that have been played, what came of it; `None` where it did not come to its end.
    found: Vec<Option<Figures>>,
    /// The least latencies together so far, in seconds.
    least: f64,
}

impl Lookahead {
    pub fn new(objective: Objective, target: Option<LatencyTarget>, seed: u64) -> Lookahead {
        let candidates = Candidate::all(objective);
        let settings = Settings::of(objective);
        Lookahead {
            score: Score::of(objective, target),
            seed,
            scores: vec![0.0; candidates.len()],
            candidates,
            current: 0,
            open: BTreeMap::new(),
            open_before: 0,
            history: History::default(),
            arrivals: 0,
            next_look: settings.first,
            settings,
            looks: 0,
            budget: FIRST_BUDGET,
            needed: 0.0,
            under_way: None,
            placement: None,
            placed_at: 0,
            starts: 0.0,
        }
    }

    /// A task is ready; its request may have just arrived.
    pub fn ready(&mut self, task: TaskId, view: &View<'_>) {
        let id = view.instance().request_of(task);
        let arrival = view.instance().requests[id].arrival;
        if self.open.insert(id, arrival) != Some(arrival) {
            self.arrivals += 1;
            self.history.arrived(view, id);
            if self.open.len() > 2 * self.open_before + 64 {
                self.forget_what_is_over(view);
            }
        }
        self.history.asked(view.instance().model_of(task), view.now());
    }

    /// The run has started a task.
    pub fn started(&mut self) {
        self.starts += 1.0;
        self.budget = (self.budget + BUDGET_PER_START).min(MOST_BUDGET);
    }

    /// The rule to follow from now on, where it is another.
    pub fn look(&mut self, view: &View<'_>) -> Option<Box<dyn Policy>> {
        if self.under_way.is_none() && self.begin(view) {
            self.current = 0;
            return Some(self.take_over(view));
        }
        let look = self.under_way.as_mut()?;
        let mut at_once = AT_ONCE;
        while let Some(&candidate) = look.order.get(look.found.len()) {
            if at_once < 0.0 {
                return None;
            }
            let engine = look.present.engine();
            let mut rule = self.candidates[candidate].taking_over(
                &engine.view(),
                &self.history,
                self.placement.as_ref(),
            );
            let played = play(&look.present, &mut *rule, self.settings.stop_at * look.least);
            let starts = played.as_ref().map_or(look.present.open_tasks(), |played| played.starts);
            let cost = starts as f64 + SET_UP;
            (at_once, self.budget) = (at_once - cost, self.budget - cost);
            let ended = played.filter(|played| played.ended);
            look.least = ended.as_ref().map_or(look.least, |played| look.least.min(played.total));
            look.found.push(ended.as_ref().map(|played| self.score.figures(played)));
        }
        let look = self.under_way.take()?;
        let best = self.best(&look);
        if best == self.current {
            return None;
        }
        self.current = best;
        Some(self.take_over(view))
    }

    fn forget_what_is_over(&mut self, view: &View<'_>) {
        let is_over = |task| matches!(view.state(task), TaskState::Done | TaskState::GivenUp);
        self.open.retain(|&request, _| !view.instance().tasks_of(request).all(is_over));
        self.open_before = self.open.len();
    }

    /// Takes a snapshot, where a look is due and can be paid for. Whether so much is open that the objective's own rule has to
    /// be followed without a look.
    fn begin(&mut self, view: &View<'_>) -> bool {
        if self.arrivals < self.next_look || self.budget < self.needed {
            return false;
        }
        self.forget_what_is_over(view);
        let nodes = |&request: &RequestId| view.instance().tasks_of(request).count();
        let open: usize = self.open.keys().map(nodes).sum();
        if open == 0 || open > MOST_OPEN {
            self.next_look = self.arrivals + self.settings.every;
            return open > 0 && self.current > 0;
        }
        if self.placed_at == 0 || self.arrivals > self.placed_at + (self.placed_at / 2).clamp(4, 128) {
            self.placement = placement::target(view, &self.history);
            self.placed_at = self.arrivals;
        }
        let order = self.worth_playing();
        self.needed = (order.len() * (open + USUAL_NODES * self.settings.horizon)) as f64;
        self.needed = self.needed.min(MOST_BUDGET);
        if self.budget < self.needed {
            return false;
        }
        self.looks += 1;
        // What is left, and what comes in, is to last for as many arrivals again as there were.
        let arrived = self.arrivals as f64;
        let to_spend = self.budget + BUDGET_PER_START * self.starts;
        let pause = if self.settings.paced { (self.needed * arrived / to_spend) as u64 } else { 0 };
        self.needed = 0.0;
        self.next_look = self.arrivals + pause.max(self.settings.every);
        let open: Vec<RequestId> = self.open.keys().copied().collect();
        let to_come =
            self.history.resample(view.now(), self.settings.horizon, self.seed ^ (self.looks << 32));
        self.under_way = Snapshot::of(view, &open, to_come.into_iter()).map(|present| Look {
            present,
            order,
            found: Vec::new(),
            least: f64::INFINITY,
        });
        false
    }

    /// The candidates to be played in the next look, those that did best first. Rules that know no deadlines are left out
    /// where requests have some.
    fn worth_playing(&self) -> Vec<usize> {
        let deadlines = self.history.has_deadlines();
        let may = |one: usize| {
            (!deadlines || self.candidates[one].keeps_deadlines())
                && (self.placement.is_some() || !self.candidates[one].needs_placement())
        };
        let scores = (0..self.candidates.len()).filter(|&one| may(one)).map(|one| self.scores[one]);
        let best = scores.fold(f64::INFINITY, f64::min);
        let is_worth = |&one: &usize| {
            let is_due = (one as u64 + self.looks).is_multiple_of(SELDOM);
            one == self.current || may(one) && (self.scores[one] < best + FAR_BEHIND || is_due)
        };
        let mut order: Vec<usize> = (0..self.candidates.len()).filter(is_worth).collect();
        order.sort_by(|&a, &b| self.scores[a].total_cmp(&self.scores[b]));
        order
    }

    /// The candidate to follow after a look.
    fn best(&mut self, look: &Look) -> usize {
        for (&candidate, now) in look.order.iter().zip(self.score.behind(&look.found)) {
            let past = if self.looks == 1 { 0.0 } else { self.settings.past };
            self.scores[candidate] = past * self.scores[candidate] + (1.0 - past) * now;
        }
        let score = |one: usize| self.scores[one] - if one == 0 { self.settings.own } else { 0.0 };
        let best = look.order.iter().copied().min_by(|&a, &b| score(a).total_cmp(&score(b)));
        let enough = |&best: &usize| score(best) < score(self.current) - self.settings.margin;
        best.filter(enough).unwrap_or(self.current)
    }

    /// The rule that is current now, told of all that is ready.
    fn take_over(&self, view: &View<'_>) -> Box<dyn Policy> {
        let mut rule =
            self.candidates[self.current].taking_over(view, &self.history, self.placement.as_ref());
        let tasks = self.open.keys().flat_map(|&request| view.instance().tasks_of(request));
        let ready = tasks.filter(|&task| view.state(task) == TaskState::Ready);
        let mut ready: Vec<(Time, TaskId)> = ready.map(|task| (view.ready_at(task), task)).collect();
        ready.sort_unstable();
        ready.into_iter().for_each(|(_, task)| rule.ready(task, view));
        rule
    }
}
