//! The rules of a valid scenario, applied to one in memory.

use super::Reading;
use super::code::{Code, Severity};
use super::diagnostic::Diagnostic;
use super::faults::{Faults, Path, Shown};
use super::fields::{NumberRange, positive};
use super::timestamp;
use super::validity::{self, PlacedEdge, Untimed};
use crate::cost::default_execution;
use crate::scenario::Mode;
use crate::scenario::{BatchingSpec, ClusterSpec, ModelSpec, RequestSpec, Scenario, WorkflowSpec};
use rustc_hash::FxHashMap;
use serde_json::Value;

/// What a scenario may lack because something else supplies it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lacking {
    /// It has to be complete.
    #[default]
    Nothing,
    /// Execution times: a predictor gives them.
    Times,
    /// Execution times and costs of switching: a calibration gives them.
    Costs,
}

impl Scenario {
    /// Everything that is wrong with the scenario, at once. Reading files reports the same faults with the same codes and
    /// words, and with their lines.
    ///
    /// A scenario without requests is valid: it is a configuration alone.
    ///
    /// ```
    /// use gswarm_core::input::{Code, Scenario};
    ///
    /// let mut scenario = Scenario::builder()
    ///     .gpus(2)
    ///     .model("llm", 1, 16.0, 8.0)
    ///     .workflow("chat")
    ///     .node("answer", "llm")
    ///     .request("r1", "chat")
    ///     .time("answer", 2.5)
    ///     .build()
    ///     .unwrap();
    /// scenario.models[0].memory_gb = -1.0;
    /// scenario.requests[0].times = vec![None];
    /// let found = scenario.validate();
    /// assert_eq!(found[0].to_string(), "error[E201]: -1 is not above zero\n  --> configuration (models.llm.memory_gb)\n  hint: did you mean 1?");
    /// assert_eq!((found[1].code, found[1].path.as_str()), (Code::NoTime, "workflows.chat.nodes[0].model"));
    /// ```
    #[must_use]
    pub fn validate(&self) -> Vec<Diagnostic> {
        self.validate_for(Mode::Offline, Lacking::Nothing)
    }

    /// The same for a run in this mode, where something else supplies what is `lacking`.
    #[must_use]
    pub fn validate_for(&self, mode: Mode, lacking: Lacking) -> Vec<Diagnostic> {
        self.validate_as(["configuration", "requests"], mode, lacking)
    }

    /// The scenario as if it had been read from files of these names: with everything that is wrong with it, and gone where that
    /// is an error.
    #[must_use]
    pub fn validated(self, names: [&str; 2], mode: Mode, lacking: Lacking) -> Reading {
        let diagnostics = self.validate_as(names, mode, lacking);
        let errors = diagnostics.iter().filter(|found| found.severity == Severity::Error).count();
        Reading { scenario: (errors == 0).then_some(self), diagnostics, errors }
    }

    /// The same under these names for the configuration and the requests, in place of files.
    #[must_use]
    pub fn validate_as(&self, names: [&str; 2], mode: Mode, lacking: Lacking) -> Vec<Diagnostic> {
        let [mut config, mut requests] = [Faults::default(), Faults::default()];
        check_models(&self.models, &mut config);
        let mut untimed = check_workflows(self, &mut config);
        check_cluster(&self.cluster, &self.models, &mut config);
        check_requests(self, mode, &mut untimed, &mut requests);
        if lacking == Lacking::Nothing {
            for (workflow, nodes) in self.workflows.iter().zip(&untimed) {
                nodes.iter().for_each(|node| node.report(workflow, &self.models, &mut config));
            }
        }
        if lacking != Lacking::Costs {
            validity::measured_costs(&self.cluster, &self.models, 0, &mut config);
        }
        let mut found = Vec::new();
        config.unlocated(names[0], &mut found);
        requests.unlocated(names[1], &mut found);
        found
    }
}

/// A number in memory: as text it is only wanted where it is at fault.
fn number(value: f64, limits: NumberRange, path: &Path<'_>, faults: &mut Faults) {
    let is_good = value.is_finite() && value <= limits.max && (value > 0.0 || limits.zero && value == 0.0);
    if !is_good {
        limits.check(value, &value.to_string(), 0, path, faults);
    }
}

/// The numbers of a mapping, by the names of their fields.
fn numbers<const N: usize>(of: [(&str, Option<f64>); N], path: &Path<'_>, faults: &mut Faults) {
    for (field, value) in of {
        value
            .into_iter()
            .for_each(|value| number(value, validity::limits(field), &path.key(field, 0), faults));
    }
}

fn check_models(models: &[ModelSpec], faults: &mut Faults) {
    let root = Path::root();
    let all = root.key("models", 0);
    validity::ids("model", models.iter().map(|model| (model.id.as_str(), 0)), 0, &all, faults);
    for model in models {
        let path = all.key(&model.id, 0);
        let fields = [
            ("memory_gb", Some(model.memory_gb)),
            ("gpus_required", Some(f64::from(model.gpus_required))),
            ("load_time_seconds", Some(model.load_time_seconds)),
            ("unload_time_seconds", model.unload_time_seconds),
            ("tokens_per_second", model.tokens_per_second),
            ("token_mean", model.token_mean),
            ("token_std", model.token_std),
            ("inference_time_mean", model.inference_time_mean),
            ("inference_time_std", model.inference_time_std),
            ("memory_gb_per_slot", model.memory_gb_per_slot),
        ];
        numbers(fields, &path, faults);
        validity::tokens_in_time(model, &path.key("tokens_per_second", 0), faults);
        if let Some(batching) = &model.batching {
            check_batching(batching, &path.key("batching", 0), faults);
        }
    }
}

fn check_batching(batching: &BatchingSpec, path: &Path<'_>, faults: &mut Faults) {
    numbers([("max_batch", Some(f64::from(batching.max_batch)))], path, faults);
    let curve = path.key("slowdown", 0);
    if batching.slowdown.is_empty() {
        validity::no_points(&curve, faults);
    }
    let mut before = None;
    for (place, &(batch, slow)) in batching.slowdown.iter().enumerate() {
        let path = curve.index(place, 0);
        number(f64::from(batch), positive(f64::from(u32::MAX), ""), &path.index(0, 0), faults);
        number(slow, positive(f64::MAX, ""), &path.index(1, 0), faults);
        if batch > 0 && slow.is_finite() && slow > 0.0 {
            validity::batch_point(before, (batch, slow), &path, faults);
            before = Some((batch, slow));
        }
    }
}

/// Checks the workflows; of each, the nodes whose model gives no execution time.
fn check_workflows(scenario: &Scenario, faults: &mut Faults) -> Vec<Vec<Untimed>> {
    let root = Path::root();
    let all = root.key("workflows", 0);
    let workflows = &scenario.workflows;
    validity::ids("workflow", workflows.iter().map(|workflow| (workflow.id.as_str(), 0)), 0, &all, faults);
    let is_timed: Vec<bool> =
        scenario.models.iter().map(|model| default_execution(model).is_some()).collect();
    let mut untimed = Vec::new();
    for workflow in workflows {
        let path = all.key(&workflow.id, 0);
        check_nodes(workflow, &scenario.models, &path.key("nodes", 0), faults);
        check_edges(workflow, &path.key("edges", 0), faults);
        let lacks = workflow.nodes.iter().zip(0..);
        let lacks = lacks.filter(|(node, _)| is_timed.get(node.model.index()) == Some(&false));
        untimed.push(lacks.map(|(_, number)| Untimed::new(number, 0)).collect());
    }
    untimed
}

fn check_nodes(workflow: &WorkflowSpec, models: &[ModelSpec], path: &Path<'_>, faults: &mut Faults) {
    if workflow.nodes.is_empty() {
        validity::no_nodes(path, faults);
    }
    let mut seen: FxHashMap<&str, usize> = FxHashMap::default();
    for (place, node) in workflow.nodes.iter().enumerate() {
        let path = path.index(place, 0);
        if let Some(id) = validity::id(&node.id, 0, &path.key("id", 0), faults) {
            match seen.get(id) {
                Some(&first) => validity::taken("node", "nodes", id, first, 0, &path.key("id", 0), faults),
                None => drop(seen.insert(id, place)),
            }
        }
        if node.model.index() >= models.len() {
            validity::unknown_model(&format!("#{}", node.model.0), models, 0, &path.key("model", 0), faults);
        }
    }
}

fn check_edges(workflow: &WorkflowSpec, path: &Path<'_>, faults: &mut Faults) {
    let count = workflow.nodes.len();
    let mut edges = Vec::with_capacity(workflow.edges.len());
    for (place, &ends) in workflow.edges.iter().enumerate() {
        let path = path.index(place, 0);
        let unknown =
            [("from", ends.0), ("to", ends.1)].into_iter().filter(|&(_, end)| end as usize >= count);
        let mut is_good = true;
        for (field, end) in unknown {
            is_good = false;
            validity::unknown_node(&format!("#{end}"), &workflow.nodes, 0, &path.key(field, 0), faults);
        }
        if is_good {
            edges.push(PlacedEdge { ends, place, at: 0 });
        }
    }
    validity::edges(&workflow.nodes, edges, path, faults);
}

fn check_cluster(cluster: &ClusterSpec, models: &[ModelSpec], faults: &mut Faults) {
    let root = Path::root();
    let path = root.key("cluster", 0);
    let fields = [
        ("gpus", cluster.gpus.map(f64::from)),
        ("gpus_per_server", cluster.gpus_per_server.map(f64::from)),
        ("gpu_memory_gb", cluster.gpu_memory_gb),
        ("pcie_gb_per_s", cluster.pcie_gb_per_s),
        ("switch_overhead_seconds", cluster.switch_overhead_seconds),
    ];
    numbers(fields, &path, faults);
    validity::rate_of_switches(cluster, models, &path.key("pcie_gb_per_s", 0), faults);
}

fn check_requests(scenario: &Scenario, mode: Mode, untimed: &mut [Vec<Untimed>], faults: &mut Faults) {
    let root = Path::root();
    let all = root.key("requests", 0);
    let mut seen: FxHashMap<&str, usize> = FxHashMap::default();
    seen.reserve(scenario.requests.len());
    for (place, request) in scenario.requests.iter().enumerate() {
        let path = all.index(place, 0);
        if let Some(id) = validity::id(&request.id, 0, &path.key("request_id", 0), faults) {
            match seen.get(id) {
                Some(&first) => {
                    validity::taken("request", "requests", id, first, 0, &path.key("request_id", 0), faults);
                }
                None => drop(seen.insert(id, place)),
            }
        }
        check_moments(request, mode, &path, faults);
        let Some(workflow) = scenario.workflows.get(request.workflow.index()) else {
            let (name, path) = (format!("#{}", request.workflow.0), path.key("workflow_id", 0));
            validity::unknown_workflow(&name, &scenario.workflows, 0, &path, faults);
            continue;
        };
        check_nodes_of(request, workflow, &path, faults);
        let lacks = untimed[request.workflow.index()].iter_mut();
        lacks
            .filter(|node| request.times.get(node.node as usize).is_none_or(Option::is_none))
            .for_each(|node| node.count(place));
    }
}

/// When a request arrives, and until when it should be done.
fn check_moments(request: &RequestSpec, mode: Mode, path: &Path<'_>, faults: &mut Faults) {
    let stamp = path.key("timestamp", 0);
    match request.timestamp {
        None if mode == Mode::Online => validity::no_timestamp(&stamp, faults),
        // Dates may lie before 1970, and as far back as their calendar goes.
        Some(at) if at.unsigned_abs() as f64 / 1e6 > timestamp::MAX_STAMP => {
            let seconds = at as f64 / 1e6;
            validity::beyond_the_calendar(&seconds.to_string(), seconds, 0, &stamp, faults);
        }
        _ => {}
    }
    // A deadline may be shorter than the clock can count.
    let seconds = request.deadline.map(|deadline| deadline.seconds()).filter(|&seconds| seconds > 0.0);
    numbers([("deadline_seconds", seconds)], path, faults);
}

/// What a request says of the nodes of its workflow.
fn check_nodes_of(request: &RequestSpec, workflow: &WorkflowSpec, path: &Path<'_>, faults: &mut Faults) {
    let times = path.key("node_execution_times", 0);
    let limits = validity::limits(times.name());
    for (place, time) in request.times.iter().enumerate() {
        match (workflow.nodes.get(place), time) {
            (Some(node), Some(time)) => number(time.seconds(), limits, &times.key(&node.id, 0), faults),
            (None, _) => {
                validity::no_such_node(&format!("#{place}"), workflow, 0, &times.index(place, 0), faults)
            }
            (Some(_), None) => {}
        }
    }
    let configs = path.key("node_configs", 0);
    for (name, options) in &request.node_configs {
        let path = configs.key(name, 0);
        if !matches!(options, Value::Object(_) | Value::Null) {
            let message = format_args!("expected a mapping, found `{}`", Shown(&options.to_string()));
            faults.add(Code::WrongType, 0, &path, message);
        }
        if !workflow.nodes.iter().any(|node| node.id == *name) {
            validity::no_such_node(name, workflow, 0, &path, faults);
        }
    }
}
