//! How much each node of a request has to read and to write, before any of it has run: as calls are made of nodes, with what
//! earlier nodes will write in place of what they wrote.

use super::types::Work;
use gswarm_core::ModelId;
use gswarm_core::input::{ModelSpec, NodeSpec, RequestSpec, Scenario, WorkflowSpec};
use serde_json::{Map, Value};

/// What a node reads and how much it is asked to write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    /// Characters of its prompt.
    pub prompt: f64,
    /// Tokens or steps that it may write; `None` where neither the request nor the configuration says so.
    pub output: Option<f64>,
}

/// What is known of models' answers.
pub trait Sizes {
    /// Characters of an answer, where so much was asked for.
    fn answer(&self, model: ModelId, asked: Option<f64>) -> f64;
}

/// What the nodes of a request read and write, in the order of its workflow.
pub fn lengths(scenario: &Scenario, request: &RequestSpec, sizes: &dyn Sizes) -> Vec<Length> {
    let workflow = &scenario.workflows[usize::from(request.workflow)];
    let mut found: Vec<Option<Length>> = vec![None; workflow.nodes.len()];
    // Inputs may stand behind what reads them in the file.
    for _ in 0..workflow.nodes.len() {
        for place in 0..workflow.nodes.len() {
            let inputs: Vec<usize> = before(workflow, place).collect();
            if found[place].is_none() && inputs.iter().all(|&input| found[input].is_some()) {
                found[place] = Some(length(scenario, request, workflow, place, &inputs, &found, sizes));
            }
        }
    }
    found.into_iter().map(|one| one.unwrap_or(Length { prompt: 0.0, output: None })).collect()
}

fn before(workflow: &WorkflowSpec, place: usize) -> impl Iterator<Item = usize> + '_ {
    workflow.edges.iter().filter(move |&&(_, to)| to as usize == place).map(|&(from, _)| from as usize)
}

fn length(
    scenario: &Scenario,
    request: &RequestSpec,
    workflow: &WorkflowSpec,
    place: usize,
    inputs: &[usize],
    found: &[Option<Length>],
    sizes: &dyn Sizes,
) -> Length {
    let node = &workflow.nodes[place];
    let mut known: Vec<(&str, f64)> = Vec::new();
    let mut tell = |name, characters| match known.iter_mut().find(|(other, _)| *other == name) {
        Some((_, there)) => *there = characters,
        None => known.push((name, characters)),
    };
    if inputs.is_empty() || !node.inputs.is_empty() {
        request.input_data.iter().for_each(|(name, value)| tell(name, characters(value)));
    }
    for &input in inputs {
        let (from, asked) = (&workflow.nodes[input], found[input].and_then(|length| length.output));
        let answer = sizes.answer(from.model, asked);
        if from.outputs.is_empty() {
            tell("output", answer);
        }
        from.outputs.iter().for_each(|name| tell(name, answer));
    }
    let named: Vec<f64> = node
        .inputs
        .iter()
        .filter_map(|name| known.iter().find(|(other, _)| other == name).map(|&(_, characters)| characters))
        .collect();
    let parts: Vec<f64> =
        if named.is_empty() { known.iter().map(|&(_, characters)| characters).collect() } else { named };
    // A line each.
    let prompt = parts.iter().sum::<f64>() + parts.len().saturating_sub(1) as f64;
    Length { prompt, output: asked(&scenario.models[usize::from(node.model)], request, node) }
}

/// As calls put a value into a prompt.
fn characters(value: &Value) -> f64 {
    let text = match (value, value.get("text")) {
        (Value::String(text), _) | (_, Some(Value::String(text))) => text.chars().count(),
        (other, _) => other.to_string().chars().count(),
    };
    text as f64
}

/// How much a node may write.
fn asked(model: &ModelSpec, request: &RequestSpec, node: &NodeSpec) -> Option<f64> {
    let none = Map::new();
    let options = request.node_configs.get(&node.id).and_then(Value::as_object).unwrap_or(&none);
    let names = Work::of(model.kind.as_deref()).settings();
    names.iter().find_map(|&name| options.get(name)?.as_u64()).map(|count| count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gswarm_core::input::{Source, read_predicted};
    use gswarm_core::instance::Mode;

    struct Four;
    impl Sizes for Four {
        fn answer(&self, _: ModelId, asked: Option<f64>) -> f64 {
            4.0 * asked.unwrap_or(10.0)
        }
    }

    #[test]
    fn nodes_read_what_requests_and_earlier_nodes_give() {
        let config = r"
models:
  llm: {memory_gb: 1, gpus_required: 1, load_time_seconds: 1, type: llm}
  paint: {memory_gb: 1, gpus_required: 1, load_time_seconds: 1, type: image_generation}
workflows:
  w:
    nodes:
      - {id: last, model: paint, inputs: [story, style]}
      - {id: first, model: llm, inputs: [prompt], outputs: [story]}
    edges: [{from: first, to: last}]
";
        let requests = r"
requests:
  - {request_id: a, workflow_id: w, input_data: {prompt: twelve chars, style: oil},
     node_configs: {first: {max_length: 50}, last: {steps: 20}}}
  - {request_id: b, workflow_id: w, input_data: {prompt: x}}
";
        let source = |name, text: &'static str| Source { name, bytes: text.as_bytes() };
        let read = read_predicted(source("c", config), source("r", requests), Mode::Offline);
        let scenario = read.scenario.expect("it is valid");
        let of = |at: usize| lengths(&scenario, &scenario.requests[at], &Four);
        let length = |prompt, output| Length { prompt, output };
        assert_eq!(of(0), [length(200.0 + 1.0 + 3.0, Some(20.0)), length(12.0, Some(50.0))]);
        assert_eq!(of(1), [length(40.0, None), length(1.0, None)]);
    }
}
