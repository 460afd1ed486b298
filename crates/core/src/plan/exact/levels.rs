//! The search by levels: all states with one task placed, then all with two, and so on. Every state is held against all
//! others with the same tasks placed before any of them is grown, in both directions, so that far fewer are grown than in
//! [`super::tree`]; but a level must fit into memory, and schedules are found at the very end only. It is for proofs, once the
//! best schedule is as good as known.
//!
//! A state may be left out where another is as good in every time and in its last start. The steps of a state begin no earlier
//! than its last task, so a state whose last task starts later could delay what the other can start sooner, unless there is
//! nothing that it could start before: then its last start does not count ([`Level::delays`]).

use super::bounds::Bounds;
use super::pack::{Packed, unpack};
use super::problem::{MOST_MODELS, Problem, State, Step, bits};
use super::symmetry::Canonical;
use super::tree::Ended;
use rustc_hash::FxHashMap;

/// Numbers of 32 bits that a level may take: two levels are there at a time.
const MOST_WORDS: usize = 96 << 20;

/// A search, and what it may use.
pub(super) struct Levels<'a> {
    pub problem: &'a Problem,
    /// Only schedules that end before this are of interest.
    pub target: u64,
    /// States that may still be looked at.
    pub states: u64,
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told of every schedule that ends before the target, with its steps; answers with the new target.
    pub found: &'a mut dyn FnMut(u64, &[Step]) -> u64,
}

/// Where a state comes from: the one that it was grown from, by its place in its level, and the task and window.
type Origin = (u32, u8, u8);

impl Levels<'_> {
    /// Looks at all schedules, level by level.
    pub fn search(mut self) -> Ended {
        // Times are kept as numbers of 32 bits.
        if self.target / self.problem.unit >= u64::from(u32::MAX / 8) {
            return Ended::Stopped;
        }
        let mut bounds = Bounds::new();
        let root = State::empty();
        if bounds.exceed(self.problem, &root, self.problem.latest_before(self.target)) {
            return Ended::Exhausted;
        }
        let mut origins: Vec<Vec<Origin>> = Vec::new();
        let mut level = Level::new(self.problem);
        level.states.push(self.problem, &root);
        level.dead.push(false);
        for _ in 0..self.problem.tasks.len() {
            let Some((next, from)) = self.grow(&level, &origins, &mut bounds) else {
                return Ended::Stopped;
            };
            level = next;
            origins.push(from);
        }
        Ended::Exhausted
    }

    /// The level after `level`; `None` where states or memory are used up.
    fn grow<'p>(
        &mut self,
        level: &Level<'p>,
        origins: &[Vec<Origin>],
        bounds: &mut Bounds,
    ) -> Option<(Level<'p>, Vec<Origin>)> {
        let mut next = Level::new(level.problem);
        let (mut from, mut steps, mut canonical) = (Vec::new(), Vec::new(), Canonical::default());
        let mut state = State::empty();
        for place in (0..level.dead.len()).filter(|&place| !level.dead[place]) {
            unpack(self.problem, level.states.get(place), &mut state);
            if self.problem.steps(&state, self.target, &mut steps).is_none() {
                continue;
            }
            for &step in &steps {
                let task = &self.problem.tasks[step.task];
                if step.start + task.execution + task.tail >= self.target {
                    continue;
                }
                if self.states == 0 || self.states.is_multiple_of(1024) && (self.stop)() {
                    return None;
                }
                self.states -= 1;
                let mut grown = state.clone();
                self.problem.place(&mut grown, step);
                if grown.placed == self.problem.all() {
                    let way = self.way_to(origins, place, step);
                    // Times are counted anew: what was packed has lost those of tasks that nothing waits for.
                    let mut whole = State::empty();
                    way.iter().for_each(|&step| self.problem.place(&mut whole, step));
                    self.target = (self.found)(whole.makespan(self.problem), &way);
                    continue;
                }
                if bounds.exceed(self.problem, &grown, self.problem.latest_before(self.target)) {
                    continue;
                }
                canonical.set(self.problem, &grown);
                if next.admits(&grown, &canonical) {
                    from.push((place as u32, step.task as u8, step.window as u8));
                    if next.words() > MOST_WORDS {
                        return None;
                    }
                }
            }
        }
        next.seen.clear();
        Some((next, from))
    }

    /// The steps that lead to a state of the last level, and one more.
    fn way_to(&self, origins: &[Vec<Origin>], mut place: usize, last: Step) -> Vec<Step> {
        let mut names = vec![(last.task, last.window)];
        for level in origins.iter().rev() {
            let (before, task, window) = level[place];
            names.push((usize::from(task), usize::from(window)));
            place = before as usize;
        }
        let mut state = State::empty();
        let timed = |(task, window): (usize, usize)| {
            let model = &self.problem.models[self.problem.tasks[task].model];
            let loaded = self.problem.loaded(&state, model, window);
            let step = Step { start: self.problem.ready(&state, task).max(loaded), task, window };
            self.problem.place(&mut state, step);
            step
        };
        names.into_iter().rev().map(timed).collect()
    }
}

/// States with the same number of tasks placed.
struct Level<'p> {
    problem: &'p Problem,
    states: Packed,
    /// By state: whether it was left out after all.
    dead: Vec<bool>,
    /// By state: whether [`Level::delays`], where that is known.
    delays: Vec<Option<bool>>,
    /// By the tasks that are placed: place, models held (two numbers), last start and times of each state, without names, one
    /// behind the other.
    seen: FxHashMap<u64, Vec<u32>>,
    seen_words: usize,
    hops: Vec<u32>,
    longest_load: u32,
}

/// Numbers of a state in [`Level::seen`] before its times.
const HEAD: usize = 4;

impl<'p> Level<'p> {
    fn new(problem: &'p Problem) -> Level<'p> {
        let in_units = |time: u64| {
            u32::try_from(time / problem.unit).map_or(u32::MAX / 4, |time| time.min(u32::MAX / 4))
        };
        Level {
            problem,
            states: Packed::default(),
            dead: Vec::new(),
            delays: Vec::new(),
            seen: FxHashMap::default(),
            seen_words: 0,
            hops: problem.hops.iter().map(|&hop| in_units(hop)).collect(),
            longest_load: in_units(problem.longest_load),
        }
    }

    fn words(&self) -> usize {
        self.states.words() + self.seen_words
    }

    /// Takes a state in, unless another is as good; those that are no better than it go.
    fn admits(&mut self, state: &State, canonical: &Canonical) -> bool {
        let unit = self.problem.unit;
        let now = (state.now / unit) as u32;
        let times: Vec<u32> = canonical.times.iter().map(|&time| (time / unit) as u32).collect();
        let length = HEAD + times.len();
        let mut seen = self.seen.remove(&canonical.placed).unwrap_or_default();
        let mut delays = None;
        let mut at = 0;
        while at < seen.len() {
            let old = &seen[at..at + length];
            let (place, held, old_now) = (old[0] as usize, join(old[1], old[2]), old[3]);
            if self.no_later((held, &old[HEAD..]), (canonical.held, &times, now))
                && (old_now <= now || !self.delays_at(place))
            {
                self.seen.insert(canonical.placed, seen);
                return false;
            }
            if self.no_later((canonical.held, &times), (held, &old[HEAD..], old_now))
                && (now <= old_now || !*delays.get_or_insert_with(|| delays_anything(self.problem, state)))
            {
                self.dead[place] = true;
                let last = seen.len() - length;
                seen.copy_within(last.., at);
                seen.truncate(last);
                self.seen_words -= length;
            } else {
                at += length;
            }
        }
        let (low, high) = (canonical.held as u32, (canonical.held >> 32) as u32);
        seen.extend_from_slice(&[self.dead.len() as u32, low, high, now]);
        seen.extend_from_slice(&times);
        self.seen.insert(canonical.placed, seen);
        self.seen_words += length;
        self.states.push(self.problem, state);
        self.dead.push(false);
        self.delays.push(delays);
        true
    }

    fn delays_at(&mut self, place: usize) -> bool {
        if let Some(known) = self.delays[place] {
            return known;
        }
        let mut state = State::empty();
        unpack(self.problem, self.states.get(place), &mut state);
        let found = delays_anything(self.problem, &state);
        self.delays[place] = Some(found);
        found
    }

    /// Whether every input is there no later in one state than it is of use in another, and every GPU could by then hold what
    /// it holds in the other.
    fn no_later(&self, these: (u64, &[u32]), those: (u64, &[u32], u32)) -> bool {
        let gpus = self.problem.gpus;
        let now = those.2;
        if these.1[gpus..].iter().zip(&those.1[gpus..]).any(|(&one, &other)| one > other.max(now)) {
            return false;
        }
        let useful = now.saturating_sub(self.longest_load);
        let (mut held, mut other_held) = (these.0, those.0);
        for gpu in (0..gpus).rev() {
            let hop = self.hops[(held & 15) as usize * (MOST_MODELS + 1) + (other_held & 15) as usize];
            if these.1[gpu] + hop > those.1[gpu].max(useful) {
                return false;
            }
            (held, other_held) = (held >> 4, other_held >> 4);
        }
        true
    }
}

/// Whether something could start before the task placed last, were it not for the order of starts.
fn delays_anything(problem: &Problem, state: &State) -> bool {
    bits(problem.all() & !state.placed).any(|task| {
        let spec = &problem.tasks[task];
        let model = &problem.models[spec.model];
        spec.inputs & !state.placed == 0
            && problem.ready(state, task) < state.now
            && model.windows.iter().any(|&window| problem.loaded(state, model, window) < state.now)
    })
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
