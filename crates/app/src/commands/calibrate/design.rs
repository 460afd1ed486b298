//! The measurement plan of a model: a few lengths, between which times are linear, at a few batch sizes.

use gswarm_core::cost::execution_span;
use gswarm_core::input::{ModelSpec, Scenario};
use gswarm_core::{ModelId, Span};
use gswarm_exec::probe::ProbeQuestion;
use gswarm_learn::calibration::{Length, Sizes, Work, lengths};
use serde_json::{Map, Value};

/// Largest batch by default.
pub const USUAL_BATCH: u32 = 32;
/// Default lengths: characters of prompts and tokens of answers.
const USUAL_PROMPTS: (f64, f64) = (128.0, 2048.0);
const USUAL_OUTPUTS: (f64, f64) = (16.0, 128.0);
/// The same of images, in steps.
const USUAL_STEPS: (f64, f64) = (10.0, 40.0);
/// Characters per token until measured.
const CHARACTERS_A_TOKEN: f64 = 4.0;
/// Text of prompts when requests give none.
const WORDS: &str = "a scheduler gives every model its turn on the cards and sees that what waits is never left waiting \
                     for longer than it takes to bring the next one over while others still compute their answers";

/// Powers of two up to `most`, and `most` itself.
pub fn batches(most: u32) -> Vec<u32> {
    let mut batches: Vec<u32> =
        (0..32).map(|power| 1u32 << power).take_while(|&batch| batch < most).collect();
    batches.push(most.max(1));
    batches
}

/// The given batch sizes, and always 1.
pub fn given(asked: &[u32], most: u32) -> Vec<u32> {
    let mut batches: Vec<u32> = asked.iter().copied().filter(|&batch| batch <= most).chain([1]).collect();
    batches.sort_unstable();
    batches.dedup();
    batches
}

/// A point to measure: characters to read, and tokens or steps to write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub prompt: f64,
    pub output: Option<f64>,
}

/// What is measured of a model.
pub struct Design {
    pub work: Work,
    pub spec: ModelSpec,
    /// Rising from 1.
    pub batches: Vec<u32>,
    /// Measured at every batch.
    pub corners: Vec<Point>,
    /// Measured alone, to see how straight the lines are.
    pub middle: Option<Point>,
    /// Lengths of the requests, in order; measured at every batch size under continuous batching.
    mix: Vec<Point>,
    /// Whether some node gives no output length.
    pub open: bool,
    /// Settings of nodes other than lengths.
    settings: Map<String, Value>,
    words: Vec<String>,
}

struct Guessed<'s>(&'s Scenario);

impl Sizes for Guessed<'_> {
    fn answer(&self, model: ModelId, asked: Option<f64>) -> f64 {
        let usual = self.0.models[model.index()].token_mean.unwrap_or(USUAL_OUTPUTS.1);
        CHARACTERS_A_TOKEN * asked.unwrap_or(usual)
    }
}

impl Design {
    /// For a model, at the lengths of its requests.
    pub fn new(scenario: &Scenario, model: ModelId, batches: Vec<u32>) -> Design {
        let spec = scenario.models[model.index()].clone();
        let work = Work::of(spec.kind.as_deref());
        let (mut asked, mut settings, mut words): (Vec<Length>, Option<Map<String, Value>>, Vec<String>) =
            Default::default();
        for request in &scenario.requests {
            let nodes = &scenario.workflows[request.workflow.index()].nodes;
            let lengths = lengths(scenario, request, &Guessed(scenario));
            for (node, length) in nodes.iter().zip(lengths).filter(|(node, _)| node.model == model) {
                asked.push(length);
                let options = || request.node_configs.get(&node.id).and_then(Value::as_object).cloned();
                settings = settings.or_else(options);
            }
            if words.len() < 5000 {
                let texts = request.input_data.values().filter_map(Value::as_str);
                words.extend(texts.flat_map(str::split_whitespace).map(str::to_owned));
            }
        }
        if words.len() < 20 {
            words.extend(WORDS.split_whitespace().map(str::to_owned));
        }
        let mut settings = settings.unwrap_or_default();
        work.settings().iter().for_each(|&name| drop(settings.remove(name)));
        let prompts = range(asked.iter().map(|length| length.prompt)).unwrap_or(USUAL_PROMPTS);
        let usual = if work == Work::Image { USUAL_STEPS } else { USUAL_OUTPUTS };
        let outputs = range(asked.iter().filter_map(|length| length.output)).unwrap_or(usual);
        let point = |prompt: f64, output: f64| Point { prompt, output: Some(output) };
        let (corners, middle) = match work {
            Work::Text => (
                vec![
                    point(prompts.0, outputs.0),
                    point(prompts.1, outputs.0),
                    point(prompts.0, outputs.1),
                    point(prompts.1, outputs.1),
                ],
                Some(point(mid(prompts), mid(outputs).round())),
            ),
            Work::Embedding => {
                let of = |prompt| Point { prompt, output: None };
                (vec![of(prompts.0), of(prompts.1)], Some(of(mid(prompts))))
            }
            Work::Image => (
                vec![point(prompts.1, outputs.0), point(prompts.1, outputs.1)],
                Some(point(prompts.1, mid(outputs).round())),
            ),
        };
        let mix = mix(work, &asked, &corners);
        let open = work != Work::Embedding && asked.iter().any(|length| length.output.is_none());
        Design { work, spec, batches, corners, middle, mix, open, settings, words }
    }

    /// This many calls, in the order of the requests.
    pub fn flow(&self, calls: usize) -> Vec<Point> {
        let all = self.mix.len();
        let place = |call: usize| if all > calls { call * all / calls } else { call % all };
        (0..calls).map(|call| self.mix[place(call)]).collect()
    }

    /// A call at a point. `salt` makes the prompt unique, so that no cache can answer it.
    pub fn question(&self, point: Point, salt: u64) -> ProbeQuestion {
        let mut settings = self.settings.clone();
        if let (Some(output), Some(&name)) = (point.output, self.setting()) {
            settings.insert(name.to_owned(), (output as u64).into());
        }
        ProbeQuestion {
            prompt: self.prompt(point.prompt as usize, salt),
            settings,
            estimate: self.estimate(point),
        }
    }

    fn setting(&self) -> Option<&&'static str> {
        // The name that the requests use, where they use one that others do not know.
        self.work.settings().get(usize::from(self.work == Work::Text))
    }

    fn prompt(&self, characters: usize, salt: u64) -> String {
        let mut text = format!("{salt} ");
        let first = salt as usize * 7;
        for at in first..first + characters + 1 {
            if text.len() >= characters {
                break;
            }
            text.push_str(&self.words[at % self.words.len()]);
            text.push(' ');
        }
        text.chars().take(characters.max(1)).collect()
    }

    /// The call's time by the configuration, for emulated servers.
    fn estimate(&self, point: Point) -> Span {
        let spec = &self.spec;
        let tokens = point.output.or(spec.token_mean).unwrap_or(1.0);
        let seconds = match (spec.inference_time_mean, spec.tokens_per_second) {
            (Some(mean), _) => mean,
            (None, Some(rate)) => tokens / rate,
            (None, None) => 1.0,
        };
        execution_span(seconds)
    }
}

/// The lengths of each call if known, else the corners in turn.
fn mix(work: Work, asked: &[Length], corners: &[Point]) -> Vec<Point> {
    let known = asked.iter().filter(|length| work == Work::Embedding || length.output.is_some());
    let mix: Vec<Point> =
        known.map(|length| Point { prompt: length.prompt.max(1.0), output: length.output }).collect();
    if mix.is_empty() { corners.to_vec() } else { mix }
}

fn mid((low, high): (f64, f64)) -> f64 {
    (low + high) / 2.0
}

/// Minimum and maximum, far enough apart to fit a line.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) =
        values.fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    if !low.is_finite() {
        return None;
    }
    let high = high.max(4.0).round();
    Some((low.min(high / 2.0).max(1.0).round(), high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_double_up_to_the_largest() {
        assert_eq!(batches(1), [1]);
        assert_eq!(batches(12), [1, 2, 4, 8, 12]);
        assert_eq!(given(&[32, 8, 8], u32::MAX), [1, 8, 32]);
        assert_eq!(given(&[32, 8], 8), [1, 8]);
    }

    #[test]
    fn ranges_leave_room_for_a_line() {
        assert_eq!(range([100.0, 300.0].into_iter()), Some((100.0, 300.0)));
        assert_eq!(range([128.0, 128.0].into_iter()), Some((64.0, 128.0)));
        assert_eq!(range([0.0].into_iter()), Some((1.0, 4.0)));
        assert_eq!(range(std::iter::empty()), None);
    }
}
