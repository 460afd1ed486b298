//! States in as few numbers as can be: millions of them are kept at a time.

use super::problem::{Problem, State, bits};

/// States, one behind the other.
#[derive(Default)]
pub(super) struct Packed {
    ends: Vec<usize>,
    words: Vec<u32>,
}

impl Packed {
    pub fn push(&mut self, problem: &Problem, state: &State) {
        pack(problem, state, &mut self.words);
        self.ends.push(self.words.len());
    }

    pub fn get(&self, place: usize) -> &[u32] {
        let begin = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.words[begin..self.ends[place]]
    }

    /// How much room they take, in numbers of 32 bits.
    pub fn words(&self) -> usize {
        self.words.len() + 2 * self.ends.len()
    }
}

/// Adds a state to `words`: all times in units, of placed tasks only what others still wait for.
fn pack(problem: &Problem, state: &State, words: &mut Vec<u32>) {
    let in_units = |time: u64| (time / problem.unit) as u32;
    words.extend_from_slice(&[
        state.placed as u32,
        (state.placed >> 32) as u32,
        in_units(state.now),
        state.last as u32,
    ]);
    words.extend(state.free[..problem.gpus].iter().map(|&free| in_units(free)));
    for held in state.held[..problem.gpus].chunks(4) {
        words.push(held.iter().rev().fold(0, |word, &held| word << 8 | u32::from(held)));
    }
    words.extend(waiting(problem, state.placed).map(|(task, _)| {
        let there = problem.tasks[task].inputs & state.placed;
        in_units(bits(there).map(|before| state.end[before]).max().unwrap_or(0))
    }));
}

/// The tasks that wait and have some of their inputs, and these inputs.
fn waiting(problem: &Problem, placed: u64) -> impl Iterator<Item = (usize, u64)> + '_ {
    bits(problem.all() & !placed)
        .map(move |task| (task, problem.tasks[task].inputs & placed))
        .filter(|&(_, there)| there != 0)
}

/// The other way. Of several tasks that one waits for, all but the last to end may come back with a later end; none comes back
/// later than the last, so that the same can start at the same moments.
pub(super) fn unpack(problem: &Problem, words: &[u32], state: &mut State) {
    let time = |word: u32| u64::from(word) * problem.unit;
    state.placed = u64::from(words[1]) << 32 | u64::from(words[0]);
    (state.now, state.last) = (time(words[2]), words[3] as usize);
    let mut words = words[4..].iter().copied();
    state.free[..problem.gpus].fill_with(|| words.next().map_or(0, time));
    for held in state.held[..problem.gpus].chunks_mut(4) {
        let mut word = words.next().unwrap_or(0);
        for held in held {
            *held = word as u8;
            word >>= 8;
        }
    }
    state.end.fill(u64::MAX);
    for ((_, there), word) in waiting(problem, state.placed).zip(words) {
        for before in bits(there) {
            state.end[before] = state.end[before].min(time(word));
        }
    }
}
