//! How fast an instance is, from what it has done, and how long something will take.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much of a running average a new value is.
const SHARE: f64 = 0.1;

/// How long something will take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeEstimate {
    /// Seconds, always above zero.
    pub seconds: f64,
    /// Tokens to be read.
    pub prompt_tokens: usize,
    /// Tokens to be written, if nothing ends the answer sooner.
    pub new_tokens: usize,
}

/// A running average that several threads may feed.
#[derive(Default)]
pub(crate) struct Average(Mutex<Option<f64>>);

impl Average {
    pub(crate) fn add(&self, value: f64) {
        let mut held = lock(&self.0);
        *held = Some(held.map_or(value, |old| old + SHARE * (value - old)));
    }

    pub(crate) fn get(&self) -> Option<f64> {
        *lock(&self.0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an engine measures.
pub(crate) struct Rates {
    /// Seconds to read a token of a prompt.
    read: Average,
    /// Seconds of a step, by the number of requests in it.
    steps: Vec<Average>,
    /// Seconds from joining the batch to the last token.
    request: Average,
}

impl Rates {
    pub(crate) fn new(max_batch: usize) -> Rates {
        let steps = (0..max_batch).map(|_| Average::default()).collect();
        Rates { read: Average::default(), steps, request: Average::default() }
    }

    pub(crate) fn was_read(&self, tokens: usize, seconds: f64) {
        self.read.add(seconds / tokens.max(1) as f64);
    }

    pub(crate) fn stepped(&self, rows: usize, seconds: f64) {
        if let Some(average) = rows.checked_sub(1).and_then(|at| self.steps.get(at)) {
            average.add(seconds);
        }
    }

    pub(crate) fn finished(&self, seconds: f64) {
        self.request.add(seconds);
    }

    /// How long a request takes that joins `running` others after `waiting` more have had their turn.
    pub(crate) fn estimate(&self, prompt: usize, new: usize, running: usize, waiting: usize) -> TimeEstimate {
        let most = self.steps.len();
        let read = prompt as f64 * self.read.get().unwrap_or(0.0);
        // The first token comes from reading the prompt.
        let write = new.saturating_sub(1) as f64 * self.step((running + waiting + 1).min(most));
        // Places become free one after the other: a full batch of them in the time that a request takes.
        let ahead = (running + waiting + 1).saturating_sub(most) as f64 / most as f64;
        let wait = ahead * self.request.get().unwrap_or(read + write);
        let seconds = (read + write + wait).max(f64::MIN_POSITIVE);
        TimeEstimate { seconds, prompt_tokens: prompt, new_tokens: new }
    }

    /// Seconds of a step with so many requests, from the nearest number that was measured. From a smaller number the
    /// time is taken to grow as the number does, which is the most that it can.
    fn step(&self, rows: usize) -> f64 {
        let below = (1..=rows).rev().find_map(|count| Some((count, self.steps[count - 1].get()?)));
        let above = (rows..=self.steps.len()).find_map(|count| self.steps[count - 1].get());
        match (below, above) {
            (Some((count, seconds)), None) => seconds * rows as f64 / count as f64,
            (Some((count, seconds)), Some(above)) => {
                (seconds * rows as f64 / count as f64).min(above.max(seconds))
            }
            (None, Some(above)) => above,
            (None, None) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_move_towards_what_is_new() {
        let average = Average::default();
        assert_eq!(average.get(), None);
        average.add(1.0);
        assert_eq!(average.get(), Some(1.0));
        (0..200).for_each(|_| average.add(3.0));
        assert!((average.get().unwrap() - 3.0).abs() < 1e-6);
    }

    #[test]
    fn estimates_count_reading_writing_and_waiting() {
        let rates = Rates::new(2);
        rates.was_read(10, 1.0);
        rates.stepped(1, 0.5);
        let alone = rates.estimate(10, 5, 0, 0);
        assert!((alone.seconds - (1.0 + 4.0 * 0.5)).abs() < 1e-9);
        rates.stepped(2, 0.6);
        let beside = rates.estimate(10, 5, 1, 0);
        assert!((beside.seconds - (1.0 + 4.0 * 0.6)).abs() < 1e-9);
        rates.finished(8.0);
        let behind = rates.estimate(10, 5, 2, 3);
        assert!((behind.seconds - (1.0 + 4.0 * 0.6 + 8.0 * 4.0 / 2.0)).abs() < 1e-9, "{behind:?}");
    }

    #[test]
    fn estimates_are_above_zero_before_anything_is_measured() {
        assert!(Rates::new(4).estimate(1, 1, 0, 0).seconds > 0.0);
        let rates = Rates::new(4);
        rates.stepped(2, 1.0);
        assert_eq!(rates.step(4), 2.0);
        assert_eq!(rates.step(1), 1.0);
    }
}
