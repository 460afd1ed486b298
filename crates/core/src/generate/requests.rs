//! Requests for any configuration: a workflow from the mix, a time for each node, options for those that have them.

use super::{Arrivals, GenerateError};
use crate::cost;
use crate::input::{ModelSpec, NodeSpec, Scenario, WorkflowSpec};
use crate::time::Span;
use jiff::{SignedDuration, civil::DateTime};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use serde::Serialize;
use serde_json::Value;

/// What to make.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestOptions {
    /// How many.
    pub count: u32,
    /// The time that they arrive in.
    pub duration: Span,
    /// How they are spread over it.
    pub arrivals: Arrivals,
    /// (workflow, weight). Empty: all workflows alike. Otherwise a workflow that is not named gets no request.
    pub mix: Vec<(String, f64)>,
    /// Everything else follows from this.
    pub seed: u64,
}

impl Default for RequestOptions {
    fn default() -> RequestOptions {
        RequestOptions {
            count: 500,
            duration: Span::from_seconds(1200.0),
            arrivals: Arrivals::Poisson,
            mix: Vec::new(),
            seed: 0,
        }
    }
}

/// The moment that time stamps count from. Fixed, so that they follow the seed alone.
const EPOCH: DateTime = jiff::civil::date(2024, 1, 1).at(10, 0, 0, 0);

/// One request, as it is written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sampled<'a> {
    /// `req_` and its number, from 1.
    pub request_id: String,
    /// ISO 8601, to the millisecond.
    pub timestamp: String,
    /// The workflow that it runs.
    pub workflow_id: &'a str,
    /// A text for each input that no node of the workflow gives.
    #[serde(serialize_with = "in_order", skip_serializing_if = "Vec::is_empty")]
    pub input_data: Vec<(&'a str, String)>,
    /// A choice for each option that a node has and its model gives values for.
    #[serde(serialize_with = "in_order", skip_serializing_if = "Vec::is_empty")]
    pub node_configs: Vec<(&'a str, Choices<'a>)>,
    /// Seconds for each node, to the millisecond.
    #[serde(serialize_with = "in_order")]
    pub node_execution_times: Vec<(&'a str, f64)>,
}

/// The options chosen for one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Choices<'a>(#[serde(serialize_with = "in_order")] pub Vec<(&'a str, &'a Value)>);

/// Writes pairs as a mapping that keeps their order.
pub(super) fn in_order<K: Serialize, V: Serialize, S: serde::Serializer>(
    pairs: &[(K, V)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// The requests of `scenario` that `options` ask for; those that the scenario holds already play no part.
pub fn requests<'a>(
    scenario: &'a Scenario,
    options: &RequestOptions,
) -> Result<GeneratedRequests<'a>, GenerateError> {
    let shares = shares(scenario, &options.mix)?;
    let times = scenario.models.iter().map(Times::of).collect::<Vec<_>>();
    for (workflow, _) in scenario.workflows.iter().zip(&shares).filter(|&(_, &share)| share > 0.0) {
        if let Some(node) = workflow.nodes.iter().find(|node| times[usize::from(node.model)].is_none()) {
            let model = scenario.models[usize::from(node.model)].id.clone();
            return Err(GenerateError::NoTime { model });
        }
    }
    let arrivals = options.arrivals.draw(
        options.count as usize,
        options.duration.seconds(),
        &mut stream(options.seed, 1),
    );
    Ok(GeneratedRequests {
        scenario,
        free_inputs: scenario.workflows.iter().map(free_inputs).collect(),
        shares,
        times,
        digits: options.count.max(1).ilog10() as usize + 1,
        arrivals: arrivals.into_iter().enumerate(),
        choice: stream(options.seed, 2),
        time: stream(options.seed, 3),
        config: stream(options.seed, 4),
    })
}

/// Requests, one after the other, in order of arrival.
#[derive(Clone, Debug)]
pub struct GeneratedRequests<'a> {
    scenario: &'a Scenario,
    free_inputs: Vec<Vec<&'a str>>,
    shares: Vec<f64>,
    times: Vec<Option<Times>>,
    digits: usize,
    arrivals: std::iter::Enumerate<std::vec::IntoIter<f64>>,
    choice: ChaCha8Rng,
    time: ChaCha8Rng,
    config: ChaCha8Rng,
}

impl<'a> Iterator for GeneratedRequests<'a> {
    type Item = Sampled<'a>;

    fn next(&mut self) -> Option<Sampled<'a>> {
        let (place, at) = self.arrivals.next()?;
        let (number, scenario) = (place + 1, self.scenario);
        let index = self.pick_workflow();
        let workflow = &scenario.workflows[index];
        let mut node_configs = Vec::new();
        let mut node_execution_times = Vec::with_capacity(workflow.nodes.len());
        for node in &workflow.nodes {
            let seconds = self.times[usize::from(node.model)].map_or(0.0, |times| times.draw(&mut self.time));
            node_execution_times.push((node.id.as_str(), seconds));
            let choices = self.pick_options(node, &scenario.models[usize::from(node.model)]);
            if !choices.is_empty() {
                node_configs.push((node.id.as_str(), Choices(choices)));
            }
        }
        let text = |&input: &&'a str| (input, format!("{} {number}", input.replace('_', " ")));
        Some(Sampled {
            request_id: format!("req_{number:0width$}", width = self.digits),
            timestamp: timestamp(at),
            workflow_id: &workflow.id,
            input_data: self.free_inputs[index].iter().map(text).collect(),
            node_configs,
            node_execution_times,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.arrivals.size_hint()
    }
}

impl ExactSizeIterator for GeneratedRequests<'_> {}

impl<'a> GeneratedRequests<'a> {
    fn pick_workflow(&mut self) -> usize {
        let mut left = self.choice.random::<f64>();
        for (index, &share) in self.shares.iter().enumerate() {
            if left < share {
                return index;
            }
            left -= share;
        }
        // Rounding may leave a little over: it belongs to the last workflow that has a share.
        self.shares.iter().rposition(|&share| share > 0.0).unwrap_or(0)
    }

    fn pick_options(&mut self, node: &'a NodeSpec, model: &'a ModelSpec) -> Vec<(&'a str, &'a Value)> {
        let values = node.config_options.iter().filter_map(|option| {
            let value = match model.config.get(option)? {
                Value::Array(values) if values.is_empty() => return None,
                Value::Array(values) => &values[self.config.random_range(0..values.len() as u32) as usize],
                fixed => fixed,
            };
            Some((option.as_str(), value))
        });
        values.collect()
    }
}

fn timestamp(seconds: f64) -> String {
    let offset = SignedDuration::from_millis((seconds * 1e3).round() as i64);
    EPOCH.saturating_add(offset).to_string()
}

fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// Each workflow's share of the requests, adding up to one.
fn shares(scenario: &Scenario, mix: &[(String, f64)]) -> Result<Vec<f64>, GenerateError> {
    if scenario.workflows.is_empty() {
        return Err(GenerateError::NoWorkflow);
    }
    let mut weights = vec![if mix.is_empty() { 1.0 } else { 0.0 }; scenario.workflows.len()];
    for (name, weight) in mix {
        if !weight.is_finite() || *weight < 0.0 {
            return Err(GenerateError::BadWeight { name: name.clone(), weight: *weight });
        }
        let Some(index) = scenario.workflows.iter().position(|workflow| workflow.id == *name) else {
            let known: Vec<String> = scenario.workflows.iter().map(|w| format!("`{}`", w.id)).collect();
            return Err(GenerateError::UnknownWorkflow { name: name.clone(), known: known.join(", ") });
        };
        weights[index] += weight;
    }
    let total: f64 = weights.iter().sum();
    if total <= 0.0 || !total.is_finite() {
        let (name, weight) = mix[0].clone();
        return Err(GenerateError::BadWeight { name, weight });
    }
    weights.iter_mut().for_each(|weight| *weight /= total);
    Ok(weights)
}

/// The inputs that a request has to bring: no node of the workflow gives them.
fn free_inputs(workflow: &WorkflowSpec) -> Vec<&str> {
    let mut free: Vec<&str> = Vec::new();
    let given: Vec<&String> = workflow.nodes.iter().flat_map(|node| &node.outputs).collect();
    for input in workflow.nodes.iter().flat_map(|node| &node.inputs) {
        if !given.contains(&input) && !free.contains(&input.as_str()) {
            free.push(input);
        }
    }
    free
}

/// A model's execution time: a normal value, drawn again while it is not positive, divided by the rate.
#[derive(Clone, Copy, Debug)]
struct Times {
    mean: f64,
    std: f64,
    rate: f64,
}

impl Times {
    /// Follows the same order as the scheduler's own estimate, so that the mean of the draws is what it expects.
    fn of(model: &ModelSpec) -> Option<Times> {
        cost::default_execution(model)?;
        match (model.inference_time_mean, model.token_mean, model.tokens_per_second) {
            (Some(mean), _, _) => {
                Some(Times { mean, std: model.inference_time_std.unwrap_or(0.0), rate: 1.0 })
            }
            (None, Some(mean), Some(rate)) => Some(Times { mean, std: model.token_std.unwrap_or(0.0), rate }),
            _ => None,
        }
    }

    /// In seconds, to the millisecond and at least one.
    fn draw(self, rng: &mut ChaCha8Rng) -> f64 {
        let mut value = self.mean;
        // A spread much larger than the mean would be drawn again and again; after a while the mean will do.
        for _ in 0..64 {
            let drawn = self.mean + self.std * rng.sample::<f64, _>(StandardNormal);
            if drawn > 0.0 {
                value = drawn;
                break;
            }
        }
        (value / self.rate * 1e3).round().max(1.0) / 1e3
    }
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
