//! What is learned while a predictor is used: for each group (a model on a device), how far the truth is from what was
//! predicted, how much it scatters, and whether it has changed.
//!
//! A group's predictions are multiplied with the mean of `truth / predicted`, which moves slowly while all is as it was.
//! A cumulative sum (Page and Hinkley) of the normalised errors notices a change; then the mean starts afresh from
//! the runs since the change. Intervals come from the group's own last errors as soon as there are enough of them.

use super::conformal::{Prediction, quantile_of};
use super::{Predictor, PredictorKind};
use std::collections::VecDeque;

/// How many runs the model's own answer counts for.
const PRIOR_RUNS: f64 = 20.0;
/// How many runs the mean goes back over, at most.
const MEMORY_RUNS: f64 = 100.0;
/// Errors of a group that are kept for its intervals.
const WINDOW: usize = 256;
/// From this many errors on, intervals are the group's own; before that, they are mixed with those of the training.
const ENOUGH: usize = 100;
/// Errors this far from zero, in standard deviations, count no more than this: one freak run is no change.
const CLIP: f64 = 3.0;
/// Standard deviations by which errors may be off all the time.
const TOLERANCE: f64 = 0.5;
/// The sum of what is beyond that which is taken for a change: one false alarm in about 100,000 runs, were errors
/// normal and independent.
const ALARM: f64 = 10.0;

/// Corrections that differ by more standard deviations than this do not do so by chance.
const CLEARLY: f64 = 3.0;
/// Differences up to this share are not worth a group of its own.
const A_LITTLE: f64 = 0.05;

/// What predictions are multiplied with stays between this and its inverse, however wrong they are.
const MOST: f64 = 1_000.0;

/// Whose predictions are corrected together: a number that the caller gives to each model on each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// The errors on one side since they last cancelled out.
#[derive(Clone, Copy, Debug, Default)]
struct Drift {
    sum: f64,
    ratios: f64,
    runs: f64,
}

impl Drift {
    fn add(&mut self, error: f64, ratio: f64) -> bool {
        self.sum += error - TOLERANCE;
        if self.sum <= 0.0 {
            *self = Drift::default();
            return false;
        }
        self.ratios += ratio;
        self.runs += 1.0;
        self.sum > ALARM
    }
}

#[derive(Clone, Debug)]
struct Group {
    correction: f64,
    /// How many runs the correction speaks for.
    runs: f64,
    /// The mean square of how far the runs' ratios were from it.
    variance: f64,
    seen: f64,
    last_ratio: Option<f64>,
    slower: Drift,
    faster: Drift,
    /// The last normalised errors, in their order and sorted.
    window: VecDeque<f64>,
    sorted: Vec<f64>,
    changes: u32,
}

impl Group {
    fn new() -> Group {
        let (slower, faster) = (Drift::default(), Drift::default());
        let (window, sorted) = (VecDeque::new(), Vec::new());
        Group {
            correction: 1.0,
            runs: PRIOR_RUNS,
            variance: 0.0,
            seen: 0.0,
            last_ratio: None,
            slower,
            faster,
            window,
            sorted,
            changes: 0,
        }
    }

    fn remember(&mut self, score: f64) {
        if self.window.len() == WINDOW
            && let Some(oldest) = self.window.pop_front()
        {
            let place = self.sorted.partition_point(|&other| other < oldest);
            self.sorted.remove(place);
        }
        self.window.push_back(score);
        let place = self.sorted.partition_point(|&other| other < score);
        self.sorted.insert(place, score);
    }
}

/// Corrections of a predictor, by group.
#[derive(Clone, Debug)]
pub struct Online {
    /// The mean and the standard deviation of the scores of the training.
    mean_score: f64,
    deviation: f64,
    /// Whether each group's last two runs are all that counts.
    last_two: bool,
    groups: Vec<Group>,
}

impl Online {
    /// Nothing learned yet.
    pub fn new(predictor: &Predictor) -> Online {
        // The outermost errors would make every change look small.
        let scores = predictor.scores();
        let (low, high) = (quantile_of(scores, 0.01), quantile_of(scores, 0.99));
        let count = scores.len().max(1) as f64;
        let clipped = || scores.iter().map(|score| score.clamp(low, high));
        let mean_score = clipped().sum::<f64>() / count;
        let variance = clipped().map(|score| (score - mean_score).powi(2)).sum::<f64>() / count;
        let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
        let last_two = predictor.kind() == PredictorKind::LastTwo;
        Online { mean_score, deviation, last_two, groups: Vec::new() }
    }

    /// For predictions that nothing was trained for, whose scale is their standard deviation.
    pub fn standard() -> Online {
        Online { mean_score: 0.0, deviation: 1.0, last_two: false, groups: Vec::new() }
    }

    /// The prediction with what was learned of its group since.
    pub fn correct(&self, group: GroupId, prediction: Prediction) -> Prediction {
        let Some(known) = self.groups.get(group.0 as usize) else { return prediction };
        // A prediction that is corrected already is corrected anew.
        let by = known.correction / prediction.correction;
        Prediction { mean: prediction.mean * by, scale: prediction.scale * by, correction: known.correction }
    }

    /// The same as [`Predictor::quantile`], from the group's own last errors where there are enough of them.
    pub fn quantile(&self, predictor: &Predictor, group: GroupId, prediction: &Prediction, p: f64) -> f64 {
        let trained = predictor.quantile(prediction, p);
        let Some(known) = self.groups.get(group.0 as usize) else { return trained };
        let own = prediction.mean + prediction.scale * quantile_of(&known.sorted, p);
        let own = if predictor.non_negative { own.max(0.0) } else { own };
        let share = (known.sorted.len() as f64 / ENOUGH as f64).min(1.0);
        trained + (own - trained) * share
    }

    /// Learns from a run that was predicted (as [`Online::correct`] gave it at the time) and took `truth`. Says whether
    /// that makes the group one that has changed.
    pub fn observe(&mut self, group: GroupId, prediction: &Prediction, truth: f64) -> bool {
        let model = prediction.mean / prediction.correction;
        if !(model > 0.0 && truth >= 0.0 && truth.is_finite() && prediction.scale > 0.0) {
            return false;
        }
        let place = group.0 as usize;
        if self.groups.len() <= place {
            self.groups.resize_with(place + 1, Group::new);
        }
        let known = &mut self.groups[place];
        let ratio = (truth / model).clamp(1.0 / MOST, MOST);
        // Against what would be predicted now: a prediction from before a change says nothing new of it.
        let scale = prediction.scale / prediction.correction * known.correction;
        let score = (truth - model * known.correction) / scale;
        let error = ((score - self.mean_score) / self.deviation).clamp(-CLIP, CLIP);
        let slower = known.slower.add(error, ratio);
        let faster = known.faster.add(-error, ratio);
        let before = known.last_ratio.replace(ratio);
        known.seen = (known.seen + 1.0).min(MEMORY_RUNS);
        known.variance += ((ratio - known.correction).powi(2) - known.variance) / known.seen;
        if self.last_two {
            known.correction = (ratio + before.unwrap_or(ratio)) / 2.0;
        }
        if slower || faster {
            let since = if slower { known.slower } else { known.faster };
            if !self.last_two {
                known.correction = since.ratios / since.runs;
            }
            known.runs = since.runs;
            (known.slower, known.faster) = (Drift::default(), Drift::default());
            known.window.clear();
            known.sorted.clear();
            known.changes += 1;
            return true;
        }
        known.runs = (known.runs + 1.0).min(MEMORY_RUNS);
        if !self.last_two {
            known.correction += (ratio - known.correction) / known.runs;
        }
        known.remember(score);
        false
    }

    /// What the group's predictions are multiplied with.
    pub fn correction(&self, group: GroupId) -> f64 {
        self.groups.get(group.0 as usize).map_or(1.0, |known| known.correction)
    }

    /// Whether two groups' corrections differ by more than chance, and by more than a twentieth.
    pub fn differs(&self, group: GroupId, other: GroupId) -> bool {
        let (Some(here), Some(there)) =
            (self.groups.get(group.0 as usize), self.groups.get(other.0 as usize))
        else {
            return false;
        };
        let chance = CLEARLY * (here.variance / here.runs + there.variance / there.runs).sqrt();
        (here.correction - there.correction).abs() > chance.max(there.correction * A_LITTLE)
    }

    /// How often the group has changed.
    pub fn changes(&self, group: GroupId) -> u32 {
        self.groups.get(group.0 as usize).map_or(0, |known| known.changes)
    }
}
