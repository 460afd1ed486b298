//! Rows about the nodes of workflows: what is known of a node before it runs, and how long it took, from gswarm's own
//! execution logs. The same features, made by the same code, go into a predictor when a run asks for its answer.

mod alone;
mod history;

pub use history::{Data, Executions, HISTORY};

use self::history::When;
use crate::model::{Feature, FeatureKind, Predictor};
use crate::table::{Column, Table, TableFaults, Values, short, shown};
use gswarm_core::check::ViolationCode;
use gswarm_core::input::{Code, Diagnostic, NodeSpec, RequestSpec, Scenario};
use gswarm_core::log_file::{LogFile, Record};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The column that is predicted: seconds from start to end, as if alone on the replica.
pub const TARGET: &str = "execution_time";
/// What the names of features start with that come from the request's `node_configs`.
const CONFIG: &str = "config.";

/// Where the value of a feature comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Model,
    Workflow,
    Node,
    PromptLength,
    Batch,
    Config(String),
    /// A feature that no node has.
    Unknown,
}

impl Source {
    fn named(name: &str) -> Source {
        match name {
            "model" => Source::Model,
            "workflow" => Source::Workflow,
            "node" => Source::Node,
            "prompt_length" => Source::PromptLength,
            "batch" => Source::Batch,
            _ => name.strip_prefix(CONFIG).map_or(Source::Unknown, |key| Source::Config(key.to_owned())),
        }
    }
}

/// The characters of all texts that a request gives to its workflow.
pub fn prompt_length(request: &RequestSpec) -> f64 {
    fn characters(value: &Value) -> usize {
        match value {
            Value::String(text) => text.chars().count(),
            Value::Array(values) => values.iter().map(characters).sum(),
            Value::Object(fields) => fields.values().map(characters).sum(),
            _ => 0,
        }
    }
    request.input_data.values().map(characters).sum::<usize>() as f64
}

/// The number that a request's options give to a node: a number, or a truth value.
fn option(request: &RequestSpec, node: &NodeSpec, key: &str) -> f64 {
    let value = request.node_configs.get(&node.id).and_then(|options| options.get(key));
    value.and_then(number).unwrap_or(f64::NAN)
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        Value::Number(number) => number.as_f64(),
        _ => None,
    }
}

/// One completed execution of a log.
struct Run<'s> {
    request: &'s RequestSpec,
    workflow: &'s str,
    node: &'s NodeSpec,
    model: &'s str,
    batch: f64,
    start: f64,
    end: f64,
    line: u32,
    /// Its place among the records.
    at: usize,
}

/// The completed executions of a log, with a table of `model`, `workflow`, `node`, `prompt_length`, `batch`, one column
/// `config.KEY` for each option that is a number, and [`TARGET`], the slowdown of a batch taken out where its model has a curve;
/// [`HISTORY`] is tried by [`Executions::train`].
pub fn executions(file: &str, log: &LogFile, scenario: &Scenario) -> Result<Executions, Vec<Diagnostic>> {
    let mut faults = TableFaults::new(file);
    // A summary is not needed to learn from; records are.
    let unreadable = |code| matches!(code, ViolationCode::File | ViolationCode::Record);
    for fault in log.faults.iter().filter(|fault| unreadable(fault.code)) {
        let message = format!("not readable as an execution log: {}", fault.message);
        faults.add(Code::NotATable, fault.place.line, "", message, None);
    }
    let runs = runs(log, scenario, &mut faults);
    if runs.is_empty() && faults.is_empty() {
        faults.add(Code::NoContent, None, "", "the log has no completed execution", None);
    }
    if !faults.is_empty() {
        return Err(faults.into_diagnostics());
    }
    let keys: BTreeSet<&str> = runs
        .iter()
        .filter_map(|run| run.request.node_configs.get(&run.node.id)?.as_object())
        .flat_map(|options| {
            options.iter().filter(|(_, value)| number(value).is_some()).map(|(key, _)| key.as_str())
        })
        .collect();
    let numbers = |name: &str, value: &dyn Fn(&Run<'_>) -> f64| Column {
        name: name.to_owned(),
        values: Values::Numbers(runs.iter().map(value).collect()),
    };
    let texts = |name: &str, text: &dyn Fn(&Run<'_>) -> String| {
        let texts: Vec<String> = runs.iter().map(text).collect();
        Column { name: name.to_owned(), values: texts.iter().map(String::as_str).collect() }
    };
    let mut columns = vec![
        texts("model", &|run| run.model.to_owned()),
        texts("workflow", &|run| run.workflow.to_owned()),
        texts("node", &|run| node_name(run.workflow, &run.node.id)),
        numbers("prompt_length", &|run| prompt_length(run.request)),
        numbers("batch", &|run| run.batch),
    ];
    for key in keys {
        columns.push(numbers(&format!("{CONFIG}{key}"), &|run| option(run.request, run.node, key)));
    }
    let alone = alone::alone(log, scenario);
    let took = |run: &Run<'_>| alone.get(&run.at).copied().unwrap_or(run.end - run.start);
    columns.push(numbers(TARGET, &took));
    let table = Table::new(file, columns).with_lines(runs.iter().map(|run| run.line).collect());
    let when = |run: &Run<'_>| When {
        model: usize::from(run.node.model),
        start: run.start,
        end: run.end,
        took: took(run),
    };
    Ok(Executions { table, when: runs.iter().map(when).collect() })
}

/// Nodes of different workflows may have the same id.
fn node_name(workflow: &str, node: &str) -> String {
    format!("{workflow}/{node}")
}

/// What is said of records that no run has.
const CHECK_IT: &str = "`gswarm check LOG --config C --requests R` lists everything wrong with the log";

/// Why this record of a completed execution cannot be true, with the field at fault: what was learned from it would be wrong, and
/// copies would be tested on what they taught.
fn impossible(
    record: &Record,
    (start, end): (f64, f64),
    named: &str,
    model: &str,
    is_new: bool,
) -> Option<(Code, &'static str, String)> {
    if !(start.is_finite() && end.is_finite()) {
        return Some((Code::NotFinite, TARGET, format!("it runs from {start} s to {end} s")));
    }
    // As `gswarm check` has it: noise of a subtraction elsewhere is no negative time.
    if start <= -1e-6 {
        return Some((Code::Negative, "start_time", format!("it starts at {} s", short(start))));
    }
    if end < start {
        let message = format!("it ends at {} s, before its start at {} s", short(end), short(start));
        return Some((Code::Negative, TARGET, message));
    }
    if let Some(batch) = record.batch_size.filter(|&batch| batch < 1) {
        return Some((Code::NotPositive, "batch_size", format!("a batch of {batch}")));
    }
    if named != model {
        let message = format!("it ran `{}`, but its node's model is `{}`", shown(named), shown(model));
        return Some((Code::UnknownModel, "model_name", message));
    }
    let twice = || (Code::Duplicate, "node_id", "its node completed earlier in this log".to_owned());
    (!is_new).then(twice)
}

fn runs<'s>(log: &LogFile, scenario: &'s Scenario, faults: &mut TableFaults) -> Vec<Run<'s>> {
    let requests: HashMap<&str, &RequestSpec> =
        scenario.requests.iter().map(|request| (request.id.as_str(), request)).collect();
    let (mut runs, mut seen) = (Vec::new(), HashSet::new());
    for (at, record) in log.executions.iter().enumerate() {
        let text = |name: Option<u32>| name.map_or("", |name| log.name(name));
        if !matches!(text(record.status), "" | "completed") {
            continue;
        }
        let (Some(start), Some(end)) = (record.start_time, record.end_time) else {
            let hint = Some(CHECK_IT.to_owned());
            faults.add(Code::Missing, Some(record.line), TARGET, "an execution without start or end", hint);
            continue;
        };
        let found = requests.get(text(record.request)).and_then(|&request| {
            let workflow = scenario.workflows.get(usize::from(request.workflow))?;
            let node = workflow.nodes.iter().find(|node| node.id == text(record.node))?;
            let model = scenario.models.get(usize::from(node.model))?;
            Some((request, workflow, node, model))
        });
        let Some((request, workflow, node, model)) = found else {
            let message = format!("request `{}` has no node `{}`", text(record.request), text(record.node));
            let hint = "pass the configuration and requests of the log".to_owned();
            faults.add(Code::UnknownNode, Some(record.line), "", message, Some(hint));
            continue;
        };
        let is_new = seen.insert((record.request, record.node));
        let named = record.model.map_or(model.id.as_str(), |name| log.name(name));
        if let Some((code, path, message)) = impossible(record, (start, end), named, &model.id, is_new) {
            faults.add(code, Some(record.line), path, message, Some(CHECK_IT.to_owned()));
            continue;
        }
        let batch = record.batch_size.unwrap_or(1) as f64;
        runs.push(Run {
            request,
            workflow: &workflow.id,
            node,
            model: &model.id,
            batch,
            start,
            end,
            line: record.line,
            at,
        });
    }
    runs
}

/// Makes rows of a predictor's features for the nodes of a scenario.
#[derive(Clone, Debug)]
pub struct NodeEncoder {
    sources: Vec<Source>,
    features: Vec<Feature>,
}

impl NodeEncoder {
    /// For a predictor that was trained on [`Executions`].
    pub fn new(file: &str, predictor: &Predictor) -> Result<NodeEncoder, Vec<Diagnostic>> {
        let features = predictor.features().to_vec();
        let sources: Vec<Source> = features.iter().map(|feature| Source::named(&feature.name)).collect();
        let hint =
            || Some("train on execution logs: `gswarm train --data LOG --config C --requests R`".to_owned());
        let mut faults = TableFaults::new(file);
        // Whatever it predicts would be taken for seconds.
        if predictor.target() != TARGET {
            let message =
                format!("the model predicts `{}`, but runs need `{TARGET}`", shown(predictor.target()));
            faults.add(Code::OtherFeatures, None, "", message, hint());
        }
        for (feature, source) in features.iter().zip(&sources) {
            let is_text = matches!(source, Source::Model | Source::Workflow | Source::Node);
            let was_text = matches!(feature.kind, FeatureKind::Category(_));
            if *source == Source::Unknown || is_text != was_text {
                let message =
                    format!("the model predicts from `{}`, which no workflow node has", feature.name);
                faults.add(Code::OtherFeatures, None, &feature.name, message, hint());
            }
        }
        if faults.is_empty() { Ok(NodeEncoder { sources, features }) } else { Err(faults.into_diagnostics()) }
    }

    /// The row of one node of one request, in `row`.
    ///
    /// # Panics
    /// If the request or the node is none of the scenario's.
    pub fn encode(
        &self,
        scenario: &Scenario,
        request: &RequestSpec,
        node: usize,
        batch: u32,
        row: &mut Vec<f64>,
    ) {
        let workflow = &scenario.workflows[usize::from(request.workflow)];
        let node = &workflow.nodes[node];
        row.clear();
        row.extend(self.sources.iter().zip(&self.features).map(|(source, feature)| match source {
            Source::Model => feature.code(&scenario.models[usize::from(node.model)].id),
            Source::Workflow => feature.code(&workflow.id),
            Source::Node => feature.code(&node_name(&workflow.id, &node.id)),
            Source::PromptLength => prompt_length(request),
            Source::Batch => f64::from(batch),
            Source::Config(key) => option(request, node, key),
            Source::Unknown => f64::NAN,
        }));
    }

    /// Whether training saw the model of a node, or does not tell models apart.
    pub(crate) fn knows_model_of(&self, scenario: &Scenario, request: &RequestSpec, node: usize) -> bool {
        let node = &scenario.workflows[usize::from(request.workflow)].nodes[node];
        let model = &scenario.models[usize::from(node.model)].id;
        let mut features = self.sources.iter().zip(&self.features);
        features.all(|(source, feature)| *source != Source::Model || !feature.code(model).is_nan())
    }

    /// The place of the batch in a row.
    pub fn batch(&self) -> Option<usize> {
        self.sources.iter().position(|source| *source == Source::Batch)
    }
}
