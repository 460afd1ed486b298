//! The rows of a trace as requests: of the workflow that was asked for, or of one of a single node for each model.

use super::{Row, Trace, arrival};
use crate::draft::{Draft, plain_request, span};
use crate::guess;
use crate::options::TraceTarget;
use crate::{File, ImportOptions};
use gswarm_core::input::document::{Path, Shown};
use gswarm_core::input::{Code, ModelSpec, NodeSpec, RequestSpec, Scenario, WorkflowSpec};
use gswarm_core::{ModelId, Span, WorkflowId};
use serde_json::{Map, Value};

/// What a model that nothing is known of is taken to have, in GB.
const USUAL_GB: f64 = 14.0;

pub(super) fn join(
    file: &mut File<'_>,
    trace: Trace,
    rows: &[Row],
    options: &ImportOptions,
    draft: &mut Draft,
) {
    let first = rows[0].at;
    let timed: Vec<(Option<&str>, Vec<Option<f64>>)> = match &options.workflow {
        Some(target) => match chosen(file, target) {
            Some(workflow) => target_nodes(target, workflow, draft),
            None => return,
        },
        None => one_node_each(&trace, rows, options, draft),
    };
    for (number, row) in rows.iter().enumerate() {
        let workflow = if options.workflow.is_some() { 0 } else { row.model };
        let (id, paces) = &timed[workflow];
        let workflow = match id {
            Some(id) => draft.scenario.workflows.iter().position(|known| known.id == **id).unwrap_or(0),
            None => workflow,
        };
        let mut request = plain_request(
            format!("req_{}", number + 1),
            arrival(row.at, first, options),
            WorkflowId::from(workflow),
            paces.iter().map(|pace| pace.map(|pace| time(row, pace, options))).collect(),
        );
        request.node_configs = tokens(&draft.scenario.workflows[workflow], paces, row);
        draft.scenario.requests.push(request);
    }
}

/// Reading the prompt, then writing the answer.
fn time(row: &Row, tokens_per_second: f64, options: &ImportOptions) -> Span {
    let seconds = (row.prompt_tokens - row.cached_tokens) / options.prompt_tokens_per_second
        + row.answer_tokens / tokens_per_second;
    span((seconds * 1e6).round().max(1e3) / 1e6)
}

fn tokens(workflow: &WorkflowSpec, paces: &[Option<f64>], row: &Row) -> Map<String, Value> {
    let nodes = workflow.nodes.iter().zip(paces).filter(|(_, pace)| pace.is_some());
    let counts = || {
        let mut map = Map::new();
        map.insert("prompt_tokens".to_owned(), Value::from(row.prompt_tokens as u64));
        map.insert("max_tokens".to_owned(), Value::from(row.answer_tokens as u64));
        if row.cached_tokens > 0.0 {
            map.insert("cached_tokens".to_owned(), Value::from(row.cached_tokens as u64));
        }
        Value::Object(map)
    };
    nodes.map(|(node, _)| (node.id.clone(), counts())).collect()
}

/// The workflow that the flag names, as an index.
fn chosen(file: &mut File<'_>, target: &TraceTarget) -> Option<usize> {
    let known = &target.scenario.workflows;
    let found = match &target.workflow {
        Some(id) => known.iter().position(|workflow| workflow.id == *id),
        None if known.len() == 1 => Some(0),
        None => None,
    };
    if found.is_none() {
        let listed: Vec<String> =
            known.iter().take(10).map(|known| format!("`{}`", Shown(&known.id))).collect();
        let message = format_args!("--workflow {} does not say which workflow", Shown(&target.named));
        let hint = format!("write FILE#ID; its workflows are {}", listed.join(", "));
        file.faults.add_hinted(Code::NoSuchPlace, 0, &Path::root(), message, Some(hint));
    }
    found
}

/// Everything of the configuration that the workflow stands in; and the pace of each of its nodes, where it has one.
fn target_nodes<'o>(
    target: &'o TraceTarget,
    workflow: usize,
    draft: &mut Draft,
) -> Vec<(Option<&'o str>, Vec<Option<f64>>)> {
    let spec = &target.scenario.workflows[workflow];
    draft.scenario = Scenario { requests: Vec::<RequestSpec>::new(), ..target.scenario.clone() };
    let pace = |node: &NodeSpec| target.scenario.models[node.model.index()].tokens_per_second;
    let paces: Vec<Option<f64>> = spec.nodes.iter().map(pace).collect();
    let counted: Vec<&NodeSpec> = spec.nodes.iter().filter(|node| pace(node).is_some()).collect();
    if counted.is_empty() {
        draft.notes.say(format!(
            "No model of workflow `{}` has `tokens_per_second`: its nodes take their mean times, and the tokens of the trace are ignored",
            spec.id
        ));
    }
    for node in counted {
        draft.notes.say_of(
            "Nodes that read and write the tokens of each row, at their models' `tokens_per_second`; all others take their mean times",
            &node.id,
        );
    }
    vec![(Some(spec.id.as_str()), paces)]
}

/// A workflow of one node for each model of the trace.
fn one_node_each<'o>(
    trace: &Trace,
    rows: &[Row],
    options: &ImportOptions,
    draft: &mut Draft,
) -> Vec<(Option<&'o str>, Vec<Option<f64>>)> {
    let pace = options.tokens_per_second;
    for (number, name) in trace.models.iter().enumerate() {
        let answers = rows.iter().filter(|row| row.model == number).map(|row| row.answer_tokens);
        let (sum, count) = answers.fold((0.0, 0_u32), |(sum, count), tokens| (sum + tokens, count + 1));
        let size = guess::size(name, USUAL_GB, &options.sizes);
        draft.notes.say_of(guess::told(size.from), name);
        let made = ModelSpec {
            id: name.clone(),
            name: name.clone(),
            tokens_per_second: Some(pace),
            token_mean: Some(guess::rounded(if count > 0 { sum / f64::from(count) } else { 1.0 })),
            ..guess::batched(guess::model(size.gb, "llm"))
        };
        draft.scenario.models.push(made);
        let cached = options.prefix_cache.map(|_| "cached_tokens");
        let fields = ["prompt_tokens", "max_tokens"].into_iter().chain(cached);
        let node = NodeSpec {
            config_options: fields.map(str::to_owned).collect(),
            ..NodeSpec::new("generate", ModelId::from(number))
        };
        draft.scenario.workflows.push(WorkflowSpec {
            id: name.clone(),
            name: name.clone(),
            nodes: vec![node],
            edges: Vec::new(),
        });
    }
    draft.notes.say(format!(
        "Every request is one call: its prompt is read at {} tokens a second (--prompt-tokens-per-second), its answer written at {pace} (--tokens-per-second)",
        options.prompt_tokens_per_second
    ));
    draft.notes.say(guess::BATCHED);
    draft.notes.say("Models load at 2 GB a second, after 1 s; those above 72 GB take several GPUs");
    trace.models.iter().map(|_| (None, vec![Some(pace)])).collect()
}
