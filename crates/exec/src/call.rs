//! Calls of nodes, and how answers become the inputs of later nodes.

use gswarm_core::input::{NodeSpec, RequestSpec, Scenario, WorkflowSpec};
use gswarm_core::{Instance, Span, TaskId};
use serde_json::{Map, Value};

/// One call of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// `request/node`, for messages.
    pub name: String,
    /// The inputs that the node names, in its order; where it names none, everything there is.
    pub inputs: Map<String, Value>,
    /// What the request sets for this node: `max_length`, `steps`, ...
    pub config: Map<String, Value>,
    /// What sort of model it is: `llm`, `embedding`, `image_generation`, ...
    pub kind: Option<String>,
    /// What the call is expected to take on a replica of its own.
    pub estimate: Span,
}

impl Call {
    /// All inputs as one text, for models that read text: strings as they are, the text of what a model wrote, anything
    /// else as JSON; a line each.
    #[must_use]
    pub fn prompt(&self) -> String {
        let lines = self.inputs.values().map(|value| match (value, value.get("text")) {
            (Value::String(text), _) | (_, Some(Value::String(text))) => text.clone(),
            (other, _) => other.to_string(),
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// A whole number of the configuration, by any of its names.
    #[must_use]
    pub fn number(&self, names: &[&str]) -> Option<u64> {
        names.iter().find_map(|&name| self.config.get(name)?.as_u64())
    }
}

/// The values that a request's nodes have written, by node.
pub trait Outputs {
    /// What `task` wrote, where it has finished: one value for each of its output names.
    fn of(&self, task: TaskId) -> Option<&Map<String, Value>>;
}

/// The call that `task` makes, once everything it waits for has finished.
#[must_use]
pub fn call_of(
    scenario: &Scenario,
    instance: &Instance,
    request: &RequestSpec,
    outputs: &dyn Outputs,
    task: TaskId,
) -> Call {
    let node = node_of(scenario, instance, task);
    let mut known: Map<String, Value> = Map::new();
    let before: Vec<TaskId> = instance.predecessors(task).collect();
    if before.is_empty() || !node.inputs.is_empty() {
        known.extend(request.input_data.clone());
    }
    for input in &before {
        let written = outputs.of(*input).into_iter().flatten();
        known.extend(written.map(|(name, value)| (name.clone(), value.clone())));
    }
    let inputs = if node.inputs.is_empty() {
        known
    } else {
        let named = node.inputs.iter().filter_map(|name| Some((name.clone(), known.get(name)?.clone())));
        let named: Map<String, Value> = named.collect();
        // Names that nobody writes are documentation, not a contract: then everything there is will do.
        if named.is_empty() { known } else { named }
    };
    let config = request.node_configs.get(&node.id).and_then(Value::as_object).cloned().unwrap_or_default();
    Call {
        name: instance.task_name(task),
        inputs,
        config,
        kind: scenario.models[usize::from(node.model)].kind.clone(),
        estimate: instance.execution(task),
    }
}

/// Missing inputs of a request's nodes: the node and the input. The nodes are called without them.
#[must_use]
pub fn missing_inputs<'s>(workflow: &'s WorkflowSpec, request: &RequestSpec) -> Vec<(&'s str, &'s str)> {
    let mut missing = Vec::new();
    for (place, node) in workflow.nodes.iter().enumerate() {
        let before = workflow.edges.iter().filter(|&&(_, to)| to as usize == place);
        let before: Vec<&NodeSpec> = before.map(|&(from, _)| &workflow.nodes[from as usize]).collect();
        // What a node without names for its outputs writes has the names that its model gives.
        if before.iter().any(|node| node.outputs.is_empty()) {
            continue;
        }
        let is_there = |name: &String| {
            request.input_data.contains_key(name) || before.iter().any(|node| node.outputs.contains(name))
        };
        let lacks = node.inputs.iter().filter(|&name| !is_there(name));
        missing.extend(lacks.map(|name| (node.id.as_str(), name.as_str())));
    }
    missing
}

/// An answer under the names that the node gives its outputs: by key where the answer has them, else the whole answer
/// under each.
#[must_use]
pub fn named(scenario: &Scenario, instance: &Instance, task: TaskId, answer: Value) -> Map<String, Value> {
    let node = node_of(scenario, instance, task);
    let fields =
        answer.as_object().filter(|fields| node.outputs.iter().any(|name| fields.contains_key(name)));
    match fields {
        Some(fields) => fields.clone(),
        None if node.outputs.is_empty() => Map::from_iter([("output".to_owned(), answer)]),
        None => node.outputs.iter().map(|name| (name.clone(), answer.clone())).collect(),
    }
}

fn node_of<'s>(scenario: &'s Scenario, instance: &Instance, task: TaskId) -> &'s NodeSpec {
    let workflow = instance.requests[instance.request_of(task)].workflow;
    &scenario.workflows[usize::from(workflow)].nodes[instance.node_of(task) as usize]
}
