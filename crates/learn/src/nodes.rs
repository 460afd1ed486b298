//! Rows about the nodes of workflows: what is known of a node before it runs, and how long it took, from gswarm's own
//! execution logs. The same features, made by the same code, go into a predictor when a run asks for its answer.

use crate::model::{Feature, FeatureKind, Predictor};
use crate::table::{Column, Faults, Table, Values};
use gswarm_core::check::ViolationCode;
use gswarm_core::input::{Code, Diagnostic, NodeSpec, RequestSpec, Scenario};
use gswarm_core::log_file::LogFile;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// The column that is predicted: seconds from start to end.
pub const TARGET: &str = "execution_time";
/// What the names of features start with that come from the request's `node_configs`.
const CONFIG: &str = "config.";

/// Draws the half of the rows whose history is kept from the predictor.
const HALF: u64 = 2;

/// Where the value of a feature comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Model,
    Workflow,
    Node,
    PromptLength,
    Batch,
    History,
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
            "history" => Source::History,
            _ => name.strip_prefix(CONFIG).map_or(Source::Unknown, |key| Source::Config(key.to_owned())),
        }
    }
}

/// The mean of the last two runs of the same kind, as logs and runs go by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct History {
    last: Option<f64>,
    before: Option<f64>,
}

impl History {
    /// One more run, of so many seconds.
    pub fn add(&mut self, seconds: f64) {
        self.before = self.last.replace(seconds);
    }

    /// The mean of the last two; NaN, which is "missing", where there was none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match (self.last, self.before) {
            (Some(last), Some(before)) => (last + before) / 2.0,
            (Some(last), None) => last,
            _ => f64::NAN,
        }
    }
}

/// The characters of all texts that a request gives to its workflow.
#[must_use]
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
}

/// The completed executions of a log as a table: `model`, `workflow`, `node`, `prompt_length`, `batch`, `history`, one
/// column `config.KEY` for each option that is a number, and [`TARGET`]. Half of the rows, drawn by lot, have no history: it is known
/// while a run learns, and not before.
///
/// # Errors
/// Executions that the scenario does not have, or that have no times.
pub fn table(file: &str, log: &LogFile, scenario: &Scenario) -> Result<Table, Vec<Diagnostic>> {
    let mut faults = Faults::new(file);
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
    let mut histories = histories(&runs);
    // Before a run there is no history: what a node takes without it has to be learned as well, and not from first runs alone.
    let mut random = ChaCha8Rng::seed_from_u64(HALF);
    histories.iter_mut().filter(|_| random.random::<bool>()).for_each(|history| *history = f64::NAN);
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
        Column { name: "history".to_owned(), values: Values::Numbers(histories) },
    ];
    for key in keys {
        columns.push(numbers(&format!("{CONFIG}{key}"), &|run| option(run.request, run.node, key)));
    }
    columns.push(numbers(TARGET, &|run| run.end - run.start));
    Ok(Table::new(file, columns).with_lines(runs.iter().map(|run| run.line).collect()))
}

/// Nodes of different workflows may have the same id.
fn node_name(workflow: &str, node: &str) -> String {
    format!("{workflow}/{node}")
}

fn runs<'s>(log: &LogFile, scenario: &'s Scenario, faults: &mut Faults) -> Vec<Run<'s>> {
    let requests: HashMap<&str, &RequestSpec> =
        scenario.requests.iter().map(|request| (request.id.as_str(), request)).collect();
    let mut runs = Vec::new();
    for record in &log.executions {
        let text = |name: Option<u32>| name.map_or("", |name| log.name(name));
        if !matches!(text(record.status), "" | "completed") {
            continue;
        }
        let (Some(start), Some(end)) = (record.start_time, record.end_time) else {
            faults.add(Code::Missing, Some(record.line), TARGET, "an execution without start or end", None);
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
            let hint = "give the configuration and the requests that the log is of".to_owned();
            faults.add(Code::UnknownNode, Some(record.line), "", message, Some(hint));
            continue;
        };
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
        });
    }
    runs
}

/// The history of each run when it started: only what had ended by then is known.
fn histories(runs: &[Run<'_>]) -> Vec<f64> {
    let by = |time: fn(&Run<'_>) -> f64| {
        let mut order: Vec<usize> = (0..runs.len()).collect();
        order.sort_by(|&a, &b| time(&runs[a]).total_cmp(&time(&runs[b])).then(a.cmp(&b)));
        order
    };
    let mut seen: HashMap<(&str, &str), History> = HashMap::new();
    let mut ended = by(|run| run.end).into_iter().peekable();
    let mut means = vec![f64::NAN; runs.len()];
    for at in by(|run| run.start) {
        while let Some(other) = ended.next_if(|&other| runs[other].end <= runs[at].start) {
            let run = &runs[other];
            seen.entry((run.workflow, run.node.id.as_str())).or_default().add(run.end - run.start);
        }
        let run = &runs[at];
        means[at] = seen.get(&(run.workflow, run.node.id.as_str())).map_or(f64::NAN, History::mean);
    }
    means
}

/// Makes rows of a predictor's features for the nodes of a scenario.
#[derive(Clone, Debug)]
pub struct NodeEncoder {
    sources: Vec<Source>,
    features: Vec<Feature>,
}

impl NodeEncoder {
    /// For a predictor that was trained on [`table`]'s columns.
    ///
    /// # Errors
    /// The features that no node has.
    pub fn new(file: &str, predictor: &Predictor) -> Result<NodeEncoder, Vec<Diagnostic>> {
        let features = predictor.features().to_vec();
        let sources: Vec<Source> = features.iter().map(|feature| Source::named(&feature.name)).collect();
        let mut faults = Faults::new(file);
        for (feature, source) in features.iter().zip(&sources) {
            let is_text = matches!(source, Source::Model | Source::Workflow | Source::Node);
            let was_text = matches!(feature.kind, FeatureKind::Category(_));
            if *source == Source::Unknown || is_text != was_text {
                let message =
                    format!("the model predicts from `{}`, which no workflow node has", feature.name);
                let hint =
                    "train on execution logs: `gswarm train --data LOG --config C --requests R`".to_owned();
                faults.add(Code::OtherFeatures, None, &feature.name, message, Some(hint));
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
        history: &History,
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
            Source::History => history.mean(),
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

    /// The place of the history in a row, for those who fill in a new one.
    #[must_use]
    pub fn history(&self) -> Option<usize> {
        self.sources.iter().position(|source| *source == Source::History)
    }

    /// The place of the batch in a row.
    #[must_use]
    pub fn batch(&self) -> Option<usize> {
        self.sources.iter().position(|source| *source == Source::Batch)
    }
}
