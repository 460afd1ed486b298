//! Which requests gained and lost between two runs, and why.

use super::Pairs;
use crate::explain::{RequestStory, Timeline, request};
use serde::Serialize;
use std::cmp::Ordering;

/// Where the time of requests went, along the path that made each last as long as it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencyParts {
    /// Waiting for a turn.
    pub waiting_seconds: f64,
    /// Waiting for its own loads.
    pub switching_seconds: f64,
    /// Executing.
    pub executing_seconds: f64,
    /// Failed attempts.
    pub retrying_seconds: f64,
}

impl LatencyParts {
    fn of(story: &RequestStory) -> LatencyParts {
        LatencyParts {
            waiting_seconds: story.waiting.seconds(),
            switching_seconds: story.switching.seconds(),
            executing_seconds: story.executing.seconds(),
            retrying_seconds: story.retrying.seconds(),
        }
    }

    fn combined(self, other: LatencyParts, how: impl Fn(f64, f64) -> f64) -> LatencyParts {
        LatencyParts {
            waiting_seconds: how(self.waiting_seconds, other.waiting_seconds),
            switching_seconds: how(self.switching_seconds, other.switching_seconds),
            executing_seconds: how(self.executing_seconds, other.executing_seconds),
            retrying_seconds: how(self.retrying_seconds, other.retrying_seconds),
        }
    }
}

/// A request in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestMove {
    /// Its id.
    pub request: String,
    /// Its latency in the first run and in the second.
    pub latency_seconds: [f64; 2],
    /// Second minus first.
    pub change_seconds: f64,
    /// What the change is made of.
    pub parts: LatencyParts,
}

/// What became of the requests that both runs have.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RequestChanges {
    /// Requests that completed in both.
    pub in_both: u64,
    /// Sooner in the second run.
    pub sooner: u64,
    /// Later in the second run.
    pub later: u64,
    /// Completed in the first run alone.
    pub only_first: u64,
    /// Completed in the second run alone.
    pub only_second: u64,
    /// Requests that one of the two problems does not have at all.
    pub not_in_both_inputs: u64,
    /// Where the time of a request that completed in both went, on average, in each run.
    pub mean_parts: [LatencyParts; 2],
    /// Those that gained most, the most first.
    pub gained: Vec<RequestMove>,
    /// Those that lost most, the most first.
    pub lost: Vec<RequestMove>,
}

pub(super) fn requests(timelines: &[Timeline<'_>; 2], pairs: &Pairs, top: usize) -> RequestChanges {
    let mut all = RequestChanges {
        not_in_both_inputs: (pairs.alone[0] + pairs.alone[1]) as u64,
        ..RequestChanges::default()
    };
    let mut moves: Vec<RequestMove> = Vec::new();
    for ids in &pairs.requests {
        let stories = [0, 1].map(|side| request(&timelines[side], ids[side]).filter(|story| story.completed));
        match stories {
            [Some(one), Some(other)] => {
                all.in_both += 1;
                let parts = [LatencyParts::of(&one), LatencyParts::of(&other)];
                for (mean, parts) in all.mean_parts.iter_mut().zip(parts) {
                    *mean = mean.combined(parts, |sum, one| sum + one);
                }
                let [first, second] = [one.latency, other.latency];
                match second.cmp(&first) {
                    Ordering::Less => all.sooner += 1,
                    Ordering::Greater => all.later += 1,
                    Ordering::Equal => continue,
                }
                moves.push(RequestMove {
                    request: one.request,
                    latency_seconds: [first.seconds(), second.seconds()],
                    change_seconds: second.seconds() - first.seconds(),
                    parts: parts[1].combined(parts[0], |second, first| second - first),
                });
            }
            [Some(_), None] => all.only_first += 1,
            [None, Some(_)] => all.only_second += 1,
            [None, None] => {}
        }
    }
    let count = all.in_both.max(1) as f64;
    all.mean_parts = all.mean_parts.map(|sum| sum.combined(LatencyParts::default(), |sum, _| sum / count));
    moves.sort_by(|one, other| {
        one.change_seconds.total_cmp(&other.change_seconds).then_with(|| one.request.cmp(&other.request))
    });
    all.lost = moves.iter().rev().take_while(|one| one.change_seconds > 0.0).take(top).cloned().collect();
    all.gained = moves.into_iter().take_while(|one| one.change_seconds < 0.0).take(top).collect();
    all
}
