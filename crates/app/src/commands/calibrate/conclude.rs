//! Fits costs to the measured points of a model.

use super::design::{Design, Point};
use super::measure::{Flow, Measured};
use gswarm_exec::probe::{Passage, Probe, ProbeAnswer};
use gswarm_learn::calibration::{
    Answers, Cost, Loads, MeasuredPoint, ModelCalibration, Passed, Quartiles, Tier, Unit, Work, fit, mixed,
    summarise,
};

/// Median deviation, in percent, above which fitted costs are reported.
const DOUBTFUL: f64 = 10.0;

/// Fits costs to the measurements.
pub fn conclude(probe: &Probe, design: &Design, points: &[Measured], flows: &[Flow]) -> ModelCalibration {
    let mean = |of: &[ProbeAnswer], what: fn(&ProbeAnswer) -> Option<u64>| {
        let counts: Vec<f64> = of.iter().filter_map(what).map(|count| count as f64).collect();
        (counts.len() == of.len() && !of.is_empty()).then(|| counts.iter().sum::<f64>() / counts.len() as f64)
    };
    let read: Option<Vec<(f64, f64)>> = points
        .iter()
        .map(|one| Some((one.point.prompt, mean(&one.answers, |answer| answer.read)?)))
        .collect();
    let prompt = match read.filter(|_| design.work != Work::Image) {
        Some(counts) => {
            let (fixed, per_character) = line(&counts);
            Unit { tokens: true, fixed, per_character }
        }
        None => Unit::CHARACTERS,
    };
    let counts_written = design.work == Work::Text;
    let mut written: Vec<(f64, f64)> = Vec::new();
    let mut sizes: Vec<(f64, f64)> = Vec::new();
    let mut observations = Vec::new();
    for one in points {
        let asked = one.point.output.unwrap_or(0.0);
        let counted = mean(&one.answers, |answer| answer.written).filter(|_| counts_written);
        let output = counted.unwrap_or(asked);
        let tokens = mean(&one.answers, |answer| answer.read).filter(|_| prompt.tokens);
        written.push((asked, output));
        sizes.push((output, mean(&one.answers, |answer| Some(answer.characters)).unwrap_or(0.0)));
        observations.push(MeasuredPoint {
            batch: one.batch,
            prompt: tokens.unwrap_or(one.point.prompt),
            output,
            seconds: summarise(&one.seconds),
        });
    }
    let (fixed_characters, characters_each) = line(&sizes);
    let mut batches: Vec<u32> = observations.iter().map(|one| one.batch).collect();
    batches.dedup();
    let mut execution: Vec<Cost> =
        batches.iter().filter_map(|&batch| fit(design.work, batch, &observations)).collect();
    for cost in &mut execution {
        let Some(flow) = flows.iter().find(|flow| flow.batch == cost.batch) else { continue };
        let passed = |(point, passage): &(Point, Passage)| {
            let ProbeAnswer { read, written, .. } = passage.answer;
            let [read, written] = [read, written].map(|count| count.map(|count| count as f64));
            Passed {
                begun: passage.begun,
                ended: passage.ended,
                prompt: read.filter(|_| prompt.tokens).unwrap_or(point.prompt),
                output: written.filter(|_| counts_written).or(point.output).unwrap_or(0.0),
            }
        };
        cost.mixed = mixed(cost, &flow.calls.iter().map(passed).collect::<Vec<_>>());
    }
    let notes = doubts(&execution);
    let gpus = probe.replica.gpus.iter().map(|gpu| gpu.0).collect();
    let (load, nothing) = (Quartiles::default(), Quartiles::default());
    ModelCalibration {
        backend: String::new(),
        gpus,
        work: design.work,
        load: Loads { tier: Tier::Disk, first: load, again: load },
        unload: nothing,
        first_call_extra: 0.0,
        prompt,
        answers: Answers { written: by_first(written), usual: None, fixed_characters, characters_each },
        execution,
        observations,
        seconds: 0.0,
        notes,
    }
}

/// Fitted costs that are far from the measurements.
fn doubts(execution: &[Cost]) -> Vec<String> {
    let doubtful = execution.iter().filter(|cost| cost.residual_percent.0 > DOUBTFUL);
    let told = |Cost { batch, residual_percent: (median, worst), .. }: &Cost| {
        format!(
            "at batch {batch}, calls deviated from the fitted cost by {median:.0}% (median) and up to {worst:.0}%: is the server shared?"
        )
    };
    doubtful.map(told).collect()
}

/// A least-squares line with a slope of at least zero: its intercept and slope.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len().max(1) as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let (mut over, mut under) = (0.0, 0.0);
    for point in points {
        over += (point.0 - x) * (point.1 - y);
        under += (point.0 - x).powi(2);
    }
    let slope = if under > 1e-9 { (over / under).max(0.0) } else { 0.0 };
    (y - slope * x, slope)
}

/// The mean of the second value for each first value, in ascending order.
fn by_first(mut pairs: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    pairs.sort_by(|one, other| one.0.total_cmp(&other.0));
    let groups = pairs.chunk_by(|one, other| one.0 == other.0);
    groups
        .map(|group| (group[0].0, group.iter().map(|pair| pair.1).sum::<f64>() / group.len() as f64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_far_from_what_was_measured_are_told_of() {
        let cost =
            |batch, median| Cost { batch, residual_percent: (median, 2.0 * median), ..Cost::default() };
        let told = doubts(&[cost(1, 0.4), cost(2, 22.2), cost(4, 10.0)]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("at batch 2, calls deviated from the fitted cost by 22%")
                && told[0].contains("up to 44%"),
            "{told:?}"
        );
    }

    #[test]
    fn lines_and_means() {
        let (at_zero, slope) = line(&[(0.0, 1.0), (10.0, 6.0), (20.0, 11.0)]);
        assert!((at_zero - 1.0).abs() < 1e-9 && (slope - 0.5).abs() < 1e-9);
        assert_eq!(line(&[(5.0, 3.0), (5.0, 5.0)]), (4.0, 0.0), "nothing to tell a slope from");
        assert_eq!(by_first(vec![(2.0, 4.0), (1.0, 1.0), (2.0, 2.0)]), [(1.0, 1.0), (2.0, 3.0)]);
    }
}
