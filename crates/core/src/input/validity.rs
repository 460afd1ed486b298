//! The rules of a valid scenario, each defined once, with the code and message of its violation.
//!
//! File readers apply them with positions in the text;
//! [`Scenario::validate`](super::Scenario::validate) applies them to values in memory, without positions.

use super::code::Code;
use super::cycle;
use super::faults::{Faults, Path, Shown};
use super::fields::{NumberRange, not_negative, positive};
use super::timestamp::MAX_STAMP;
use crate::scenario::SwitchRule;
use crate::scenario::{ClusterSpec, ModelSpec, NodeSpec, WorkflowSpec};
use crate::time::MAX_SECONDS;
use rustc_hash::{FxBuildHasher, FxHashSet};

/// Largest size of a model or a GPU, in GB.
pub const MAX_GB: f64 = 1e9;
/// Largest number of tokens, or of tokens per second.
const MAX_TOKENS: f64 = 1e12;
/// Largest cluster.
pub const MAX_GPUS: u32 = 1 << 20;
/// Largest batch.
const MAX_BATCH: u32 = 1 << 16;
/// Largest slowdown of a batch.
const MAX_SLOWDOWN: f64 = 4000.0;

/// What the number in a field may be. Fields that are not named here count things.
pub(super) fn limits(field: &str) -> NumberRange {
    match field {
        "memory_gb" | "memory_gb_per_slot" | "gpu_memory_gb" => positive(MAX_GB, " GB"),
        "pcie_gb_per_s" => positive(MAX_GB, " GB/s"),
        "load_time_seconds" | "inference_time_mean" | "deadline_seconds" | "node_execution_times" => {
            positive(MAX_SECONDS, " seconds")
        }
        "unload_time_seconds" | "inference_time_std" | "switch_overhead_seconds" => {
            not_negative(MAX_SECONDS, " seconds")
        }
        "tokens_per_second" | "token_mean" => positive(MAX_TOKENS, ""),
        "token_std" => not_negative(MAX_TOKENS, ""),
        "gpus" | "gpus_per_server" => positive(f64::from(MAX_GPUS), ""),
        "max_batch" => positive(f64::from(MAX_BATCH), ""),
        _ => positive(f64::from(u32::MAX), ""),
    }
}

/// The ids of all models or workflows, with their places; says of each whether it can be used.
pub(super) fn ids<'n>(
    kind: &str,
    ids: impl ExactSizeIterator<Item = (&'n str, u32)>,
    at: u32,
    path: &Path<'_>,
    faults: &mut Faults,
) -> Vec<bool> {
    if ids.len() == 0 {
        faults.add(Code::Nothing, at, path, format_args!("there is no {kind} in `{}`", path.name()));
    }
    let mut seen = FxHashSet::default();
    let mut is_new = |(id, at): (&'n str, u32)| {
        if id.is_empty() {
            faults.add(Code::BadId, at, path, format_args!("the id of a {kind} is empty"));
        } else if !seen.insert(id) {
            let message = format_args!("{kind} `{}` is given twice", Shown(id));
            faults.add(Code::Duplicate, at, &path.key(id, at), message);
        } else {
            return true;
        }
        false
    };
    ids.map(&mut is_new).collect()
}

/// An id that cannot be empty; `path` ends with the field that holds it.
pub(super) fn id<'n>(id: &'n str, at: u32, path: &Path<'_>, faults: &mut Faults) -> Option<&'n str> {
    if id.is_empty() {
        faults.add(Code::BadId, at, path, format_args!("`{}` is empty", path.name()));
    }
    (!id.is_empty()).then_some(id)
}

/// An id of a node or a request that an earlier one of its list has already.
pub(super) fn taken(
    kind: &str,
    list: &str,
    id: &str,
    first: usize,
    at: u32,
    path: &Path<'_>,
    faults: &mut Faults,
) {
    let message = format_args!("{kind} id `{}` is already used by {list}[{first}]", Shown(id));
    faults.add(Code::Duplicate, at, path, message);
}

/// A node that names a model which there is not.
pub(super) fn unknown_model(name: &str, models: &[ModelSpec], at: u32, path: &Path<'_>, faults: &mut Faults) {
    let hint = faults.nearest(name, models.iter().map(|model| model.id.as_str()));
    faults.add_hinted(Code::UnknownModel, at, path, format_args!("unknown model `{}`", Shown(name)), hint);
}

/// A request that names a workflow which there is not.
pub(super) fn unknown_workflow(
    name: &str,
    workflows: &[WorkflowSpec],
    at: u32,
    path: &Path<'_>,
    faults: &mut Faults,
) {
    let hint = faults.nearest(name, workflows.iter().map(|workflow| workflow.id.as_str()));
    let message = format_args!("unknown workflow `{}`", Shown(name));
    faults.add_hinted(Code::UnknownWorkflow, at, path, message, hint);
}

/// A request that speaks of a node which its workflow does not have.
pub(super) fn no_such_node(
    name: &str,
    workflow: &WorkflowSpec,
    at: u32,
    path: &Path<'_>,
    faults: &mut Faults,
) {
    let hint = faults.nearest(name, workflow.nodes.iter().map(|node| node.id.as_str()));
    let message = format_args!("workflow `{}` has no node `{}`", Shown(&workflow.id), Shown(name));
    faults.add_hinted(Code::UnknownNode, at, path, message, hint);
}

/// An edge that names a node which there is not.
pub(super) fn unknown_node(name: &str, nodes: &[NodeSpec], at: u32, path: &Path<'_>, faults: &mut Faults) {
    let hint = faults.nearest(name, nodes.iter().map(|node| node.id.as_str()));
    faults.add_hinted(Code::UnknownNode, at, path, format_args!("unknown node `{}`", Shown(name)), hint);
}

/// A model's own execution time, where it follows from tokens; `path` is that of the rate.
pub(super) fn tokens_in_time(model: &ModelSpec, path: &Path<'_>, faults: &mut Faults) {
    if let (Some(count), Some(per_second)) = (model.token_mean, model.tokens_per_second)
        && count / per_second > MAX_SECONDS
    {
        let message = format_args!("`token_mean / tokens_per_second` is above {MAX_SECONDS} seconds");
        let hint = Some("give a higher `tokens_per_second` or a lower `token_mean`".to_owned());
        faults.add_hinted(Code::TooLarge, path.at, path, message, hint);
    }
}

/// One point of a batching curve, behind the one before it.
pub(super) fn batch_point(
    before: Option<(u32, f64)>,
    (batch, slow): (u32, f64),
    path: &Path<'_>,
    faults: &mut Faults,
) {
    let (last_batch, last_slow) = before.unwrap_or((0, 1.0));
    let mut refuse = |message: std::fmt::Arguments<'_>| faults.add(Code::Batching, path.at, path, message);
    if batch <= last_batch {
        refuse(format_args!("batch size {batch} is not above the previous one, {last_batch}"));
    } else if batch == 1 && slow != 1.0 {
        refuse(format_args!("the slowdown at batch size 1 is {}; it is 1.0 by definition", brief(slow)));
    } else if slow < last_slow {
        refuse(format_args!("the slowdown falls from {} to {}", brief(last_slow), brief(slow)));
    } else if slow > MAX_SLOWDOWN {
        refuse(format_args!("a slowdown of {} is above the limit of {MAX_SLOWDOWN}", brief(slow)));
    }
}

/// A batching curve of no points; `path` is that of the curve.
pub(super) fn no_points(path: &Path<'_>, faults: &mut Faults) {
    faults.add(Code::Batching, path.at, path, format_args!("`slowdown` has no points"));
}

/// A number for a message: those with a row of zeros are written with an exponent.
fn brief(value: f64) -> String {
    if (1e-6..1e12).contains(&value) { value.to_string() } else { format!("{value:e}") }
}

/// A workflow of no nodes; `path` is that of the nodes.
pub(super) fn no_nodes(path: &Path<'_>, faults: &mut Faults) {
    faults.add(Code::Nothing, path.at, path, format_args!("the workflow has no nodes"));
}

/// An edge, and where in its list and in the text it stands.
pub(super) struct PlacedEdge {
    pub ends: (u32, u32),
    pub place: usize,
    pub at: u32,
}

/// The edges of a workflow, without those that are at fault; `path` is that of their list.
pub(super) fn edges(
    nodes: &[NodeSpec],
    given: Vec<PlacedEdge>,
    path: &Path<'_>,
    faults: &mut Faults,
) -> Vec<(u32, u32)> {
    let name = |node: u32| Shown(&nodes[node as usize].id);
    let mut seen = FxHashSet::with_capacity_and_hasher(given.len(), FxBuildHasher);
    let mut is_good = |edge: &PlacedEdge| {
        let (from, to) = edge.ends;
        let path = path.index(edge.place, edge.at);
        if from == to {
            let message = format_args!("node `{}` has an edge to itself", name(from));
            faults.add(Code::SelfEdge, edge.at, &path, message);
        } else if !seen.insert(edge.ends) {
            let message = format_args!("edge {} -> {} is given twice; one is kept", name(from), name(to));
            faults.add(Code::DoubleEdge, edge.at, &path, message);
        } else {
            return true;
        }
        false
    };
    let kept: Vec<PlacedEdge> = given.into_iter().filter(|edge| is_good(edge)).collect();
    let edges: Vec<(u32, u32)> = kept.iter().map(|edge| edge.ends).collect();
    for cycle in cycle::cycles(nodes.len(), &edges) {
        let PlacedEdge { place, at, .. } = kept[cycle.edge];
        let message = format!("cycle: {}", described(nodes, &cycle.nodes));
        let hint = Some("a workflow is a graph without cycles: remove one of these edges".to_owned());
        faults.add_hinted(Code::Cycle, at, &path.index(place, at), format_args!("{message}"), hint);
    }
    edges
}

/// `a -> b -> a`, with the middle left out where it is long.
fn described(nodes: &[NodeSpec], cycle: &[u32]) -> String {
    let name = |&node: &u32| Shown(&nodes[node as usize].id).to_string();
    let closed: Vec<String> = cycle.iter().chain(cycle.first()).map(name).collect();
    if cycle.len() <= 8 {
        return closed.join(" -> ");
    }
    let (head, tail) = (&closed[..4], &closed[closed.len() - 3..]);
    let left_out = cycle.len() - 6;
    format!("{} -> ... ({left_out} more) ... -> {}", head.join(" -> "), tail.join(" -> "))
}

/// Models that cannot be moved at the cluster's rate; `path` is that of the rate.
pub(super) fn rate_of_switches(
    cluster: &ClusterSpec,
    models: &[ModelSpec],
    path: &Path<'_>,
    faults: &mut Faults,
) {
    if let Some(reason) = cluster.pcie_gb_per_s.and_then(|rate| too_slow(models, rate)) {
        let hint = Some("give a higher rate, in GB a second".to_owned());
        faults.add_hinted(Code::TooLarge, path.at, path, format_args!("{reason}"), hint);
    }
}

/// Why models cannot be moved at this many GB a second: their switches would outlast any run.
#[must_use]
pub fn too_slow(models: &[ModelSpec], pcie_gb_per_s: f64) -> Option<String> {
    let largest = models.iter().map(|model| model.memory_gb).fold(0.0, f64::max);
    (2.0 * largest / pcie_gb_per_s > MAX_SECONDS)
        .then(|| format!("at this rate a model switch takes more than {MAX_SECONDS} seconds"))
}

/// A cluster that goes by measured costs, with a model of which none are known; the rule stands `at`.
pub(super) fn measured_costs(cluster: &ClusterSpec, models: &[ModelSpec], at: u32, faults: &mut Faults) {
    let unmeasured = models.iter().find(|model| model.unload_time_seconds.is_none());
    let (Some(SwitchRule::Measured), Some(model)) = (cluster.switch_cost, unmeasured) else { return };
    let root = Path::root();
    let cluster = root.key("cluster", at);
    let path = cluster.key("switch_cost", at);
    let message = format_args!(
        "`switch_cost: measured` needs measurements, but model `{}` has no `unload_time_seconds`",
        Shown(&model.id)
    );
    let hint =
        "run `gswarm calibrate` and pass its file with --calibration, or use `transfer` or `load_time`";
    faults.add_hinted(Code::NoProfile, at, &path, message, Some(hint.to_owned()));
}

/// A node that some requests run and nothing gives a time for.
pub(super) struct Untimed {
    /// Its place in its workflow.
    pub node: u32,
    /// Where it names its model.
    pub at: u32,
    /// Requests that run it and give no time either.
    pub requests: usize,
    /// The first of them.
    pub first: usize,
}

impl Untimed {
    /// A node whose model gives no time, before any request was looked at.
    pub fn new(node: u32, at: u32) -> Untimed {
        Untimed { node, at, requests: 0, first: 0 }
    }

    /// Takes note of a request that runs it and gives it no time.
    pub fn count(&mut self, place: usize) {
        self.first = if self.requests == 0 { place } else { self.first };
        self.requests += 1;
    }

    /// Reported once a node, however many requests there are.
    pub fn report(&self, workflow: &WorkflowSpec, models: &[ModelSpec], faults: &mut Faults) {
        if self.requests == 0 {
            return;
        }
        let (node, at) = (&workflow.nodes[self.node as usize], self.at);
        let model = &models[node.model.index()];
        let lacks = match (model.token_mean, model.tokens_per_second) {
            (Some(_), None) => "`tokens_per_second`",
            (None, Some(_)) => "`token_mean`",
            _ => "`token_mean` and `tokens_per_second`",
        };
        let others = match self.requests {
            1 => format!("requests[{}] gives none either", self.first),
            count => format!("{count} requests give none either, starting with requests[{}]", self.first),
        };
        let root = Path::root();
        let workflows = root.key("workflows", at);
        let workflow = workflows.key(&workflow.id, at);
        let nodes = workflow.key("nodes", at);
        let place = nodes.index(self.node as usize, at);
        let message = format_args!(
            "no execution time for node `{}`: model `{}` lacks `inference_time_mean`, and {lacks}; {others}",
            Shown(&node.id),
            Shown(&model.id),
        );
        faults.add(Code::NoTime, at, &place.key("model", at), message);
    }
}

/// A moment that no date has; `text` is how it is written.
pub(super) fn beyond_the_calendar(text: &str, seconds: f64, at: u32, path: &Path<'_>, faults: &mut Faults) {
    let message = format_args!("{} is not a number of seconds from 0 to the year 9999", Shown(text));
    if seconds < 0.0 {
        faults.add(Code::Negative, at, path, message);
        return;
    }
    let hint = (seconds / 1000.0 <= MAX_STAMP).then(|| "it looks like milliseconds; give seconds".to_owned());
    faults.add_hinted(Code::TooLarge, at, path, message, hint);
}

/// A request without a moment of arrival in a run that goes by them; `path` is that of the timestamp.
pub(super) fn no_timestamp(path: &Path<'_>, faults: &mut Faults) {
    let message = format_args!("online mode needs the `timestamp` of every request");
    faults.add(Code::NoTimestamp, path.at, path, message);
}
