//! The system configuration: models, workflows and the cluster.

use super::code::Code;
use super::faults::{Faults, Path, Shown};
use super::fields::{Slot, fields, positive, quantity, wrong_type};
use super::tree::{Item, Kind};
use super::validity::{self, Untimed};
use super::workflow;
use crate::id::{ModelId, WorkflowId};
use crate::scenario::Residency;
use crate::scenario::SwitchRule;
use crate::scenario::{BatchingSpec, ClusterSpec, ModelSpec, Scenario, WorkflowSpec};
use rustc_hash::FxHashMap;
use serde_json::Value;

/// The configuration, as far as it could be made out, and what the checks of requests need of it.
#[derive(Default)]
pub(super) struct Config<'t> {
    pub models: Vec<ModelSpec>,
    pub workflows: Vec<WorkflowSpec>,
    pub cluster: ClusterSpec,
    pub metadata: Value,
    pub model_ids: FxHashMap<&'t str, ModelId>,
    /// Per model, whether it gives an execution time, or a fault in it that was reported already.
    pub timed: Vec<bool>,
    pub workflow_ids: FxHashMap<&'t str, WorkflowId>,
    /// Per workflow, its nodes by name.
    pub nodes: Vec<FxHashMap<&'t str, u32>>,
    /// Per workflow, the nodes whose model gives no execution time.
    pub untimed: Vec<Vec<Untimed>>,
    /// Where the rule of switching is.
    pub rule_at: u32,
    /// Whether names are missing because `workflows` could not be read: then unknown ones are not reported.
    pub incomplete: bool,
}

impl<'s> Config<'s> {
    /// As much of it as reading requests takes, of a scenario that is valid.
    pub fn of(scenario: &'s Scenario) -> Config<'s> {
        let names = |workflow: &'s WorkflowSpec| {
            workflow.nodes.iter().zip(0..).map(|(node, at)| (node.id.as_str(), at)).collect()
        };
        let workflows = scenario.workflows.iter().enumerate();
        Config {
            workflow_ids: workflows
                .map(|(at, workflow)| (workflow.id.as_str(), WorkflowId::from(at)))
                .collect(),
            nodes: scenario.workflows.iter().map(names).collect(),
            untimed: scenario.workflows.iter().map(|_| Vec::new()).collect(),
            workflows: scenario.workflows.clone(),
            ..Config::default()
        }
    }
}

pub(super) fn read<'t>(root: Item<'t>, faults: &mut Faults) -> Config<'t> {
    let mut config = Config { incomplete: true, ..Config::default() };
    let path = Path::root();
    let names = ["models", "workflows", "cluster", "metadata", "description"];
    let Some([models, workflows, cluster, metadata, _]) = fields(root, &path, names, faults) else {
        return config;
    };
    let swapped = models.item.is_none() && root.entries().any(|(key, _)| key.text() == "requests");
    let hint = swapped.then_some("it looks like a requests file: were the two files swapped?");
    for (id, at, item) in named(&models, "model", hint, faults) {
        let path = models.path.key(id, at);
        config.model_ids.insert(id, ModelId::from(config.models.len()));
        let (model, timed) = model(id, item, &path, faults);
        config.models.push(model);
        config.timed.push(timed);
    }
    let known = if models.item.is_some_and(|item| item.kind() == Kind::Map) {
        workflow::Models::Known(&config.model_ids, &config.models)
    } else {
        workflow::Models::Unreadable
    };
    config.incomplete = workflows.item.is_none_or(|item| item.kind() != Kind::Map);
    for (id, at, item) in named(&workflows, "workflow", hint, faults) {
        let path = workflows.path.key(id, at);
        config.workflow_ids.insert(id, WorkflowId::from(config.workflows.len()));
        let (spec, nodes, places) = workflow::read(id, item, &path, &known, faults);
        let untimed = |&(node, place): &(usize, u32)| {
            config.timed.get(spec.nodes[node].model.index()) == Some(&false) && place > 0
        };
        let places = places.into_iter().enumerate().filter(untimed);
        config.untimed.push(places.map(|(node, place)| Untimed::new(node as u32, place)).collect());
        config.workflows.push(spec);
        config.nodes.push(nodes);
    }
    (config.cluster, config.rule_at) = read_cluster(&cluster, &config.models, faults);
    config.metadata = metadata.kept(faults);
    config
}

/// The entries of a mapping from ids to mappings; faults of the mapping itself are reported.
fn named<'t>(
    slot: &Slot<'t, '_>,
    kind: &str,
    hint: Option<&str>,
    faults: &mut Faults,
) -> Vec<(&'t str, u32, Item<'t>)> {
    let Some(map) = slot.required_hinted(hint, faults).and_then(|_| slot.map(faults)) else {
        return Vec::new();
    };
    let keys: Vec<(&str, u32)> = map.entries().map(|(key, _)| (key.text(), key.at())).collect();
    let kept = validity::ids(kind, keys.iter().copied(), map.at(), &slot.path, faults);
    let entries = keys.into_iter().zip(map.entries()).map(|((id, at), (_, item))| (id, at, item));
    entries.zip(kept).filter_map(|(entry, is_kept)| is_kept.then_some(entry)).collect()
}

/// A model, and whether it gives an execution time (or a fault in place of it).
fn model(id: &str, item: Item<'_>, path: &Path<'_>, faults: &mut Faults) -> (ModelSpec, bool) {
    let names = [
        "name",
        "memory_gb",
        "gpus_required",
        "load_time_seconds",
        "unload_time_seconds",
        "tokens_per_second",
        "token_mean",
        "token_std",
        "inference_time_mean",
        "inference_time_std",
        "type",
        "base_model",
        "config",
        "batching",
        "memory_gb_per_slot",
        "description",
    ];
    let mut spec = ModelSpec { id: id.to_owned(), name: id.to_owned(), ..ModelSpec::default() };
    let Some(slots) = fields(item, path, names, faults) else { return (spec, true) };
    let [
        name,
        memory,
        gpus,
        load,
        unload,
        rate,
        tokens,
        tokens_std,
        mean,
        mean_std,
        kind,
        base,
        config,
        batching,
        slot,
        _,
    ] = slots;
    for required in [&memory, &gpus, &load] {
        required.required(faults);
    }
    if let Some(name) = name.string(faults) {
        spec.name = name;
    }
    spec.memory_gb = memory.amount(faults).unwrap_or(1.0);
    spec.gpus_required = gpus.whole_amount(faults).unwrap_or(1);
    spec.load_time_seconds = load.amount(faults).unwrap_or(1.0);
    spec.unload_time_seconds = unload.amount(faults);
    spec.tokens_per_second = rate.amount(faults);
    spec.token_mean = tokens.amount(faults);
    spec.token_std = tokens_std.amount(faults);
    spec.inference_time_mean = mean.amount(faults);
    spec.inference_time_std = mean_std.amount(faults);
    spec.kind = kind.string(faults);
    spec.base_model = base.string(faults);
    spec.config = config.kept_map(faults);
    spec.batching = read_batching(&batching, faults);
    spec.memory_gb_per_slot = slot.amount(faults);
    validity::tokens_in_time(&spec, &rate.path, faults);
    let timed = mean.item.is_some() || (tokens.item.is_some() && rate.item.is_some());
    (spec, timed)
}

fn read_batching(slot: &Slot<'_, '_>, faults: &mut Faults) -> Option<BatchingSpec> {
    let [max_batch, slowdown] = fields(slot.item?, &slot.path, ["max_batch", "slowdown"], faults)?;
    max_batch.required(faults);
    slowdown.required(faults);
    let max_batch = max_batch.whole_amount(faults).unwrap_or(1);
    let mut points: Vec<(u32, f64)> = Vec::new();
    let items = slowdown.list(faults).map(|list| list.items().enumerate());
    for (place, item) in items.into_iter().flatten() {
        let path = slowdown.path.index(place, item.at());
        let Some(point) = point(item, &path, faults) else { continue };
        validity::batch_point(points.last().copied(), point, &path, faults);
        points.push(point);
    }
    if slowdown.item.is_some_and(|item| item.kind() == Kind::Seq && item.count() == 0) {
        validity::no_points(&slowdown.path, faults);
    }
    Some(BatchingSpec::new(max_batch, points))
}

fn point(item: Item<'_>, path: &Path<'_>, faults: &mut Faults) -> Option<(u32, f64)> {
    if item.kind() != Kind::Seq || item.count() != 2 {
        wrong_type(item, path, "a pair [batch size, slowdown]", faults);
        return None;
    }
    let mut pair = item.items();
    let (batch, slow) = (pair.next()?, pair.next()?);
    let size = Slot { item: Some(batch), path: path.index(0, batch.at()) }.count(u32::MAX, faults);
    let slow = quantity(slow, &path.index(1, slow.at()), positive(f64::MAX, ""), faults);
    Some((size?, slow?))
}

fn read_cluster(slot: &Slot<'_, '_>, models: &[ModelSpec], faults: &mut Faults) -> (ClusterSpec, u32) {
    let names = [
        "gpus",
        "gpus_per_server",
        "gpu_memory_gb",
        "pcie_gb_per_s",
        "switch_overhead_seconds",
        "switch_cost",
        "residency",
    ];
    let slots = slot.item.and_then(|item| fields(item, &slot.path, names, faults));
    let Some([gpus, per_server, memory, pcie, overhead, cost, residency]) = slots else {
        return (ClusterSpec::default(), 0);
    };
    let costs = [
        ("transfer", SwitchRule::Transfer),
        ("load_time", SwitchRule::LoadTime),
        ("measured", SwitchRule::Measured),
    ];
    let spec = ClusterSpec {
        gpus: gpus.whole_amount(faults),
        gpus_per_server: per_server.whole_amount(faults),
        gpu_memory_gb: memory.amount(faults),
        pcie_gb_per_s: pcie.amount(faults),
        switch_overhead_seconds: overhead.amount(faults),
        switch_cost: choice(&cost, &costs, faults),
        residency: choice(
            &residency,
            &[("single", Residency::Single), ("memory", Residency::Memory)],
            faults,
        ),
    };
    validity::rate_of_switches(&spec, models, &pcie.path, faults);
    (spec, cost.path.at)
}

/// One of a few words.
pub fn choice<T: Copy>(slot: &Slot<'_, '_>, known: &[(&str, T)], faults: &mut Faults) -> Option<T> {
    let word = slot.text(faults)?;
    let found = known.iter().find(|&&(name, _)| name == word);
    if found.is_none() {
        let hint = faults.nearest(word, known.iter().map(|&(name, _)| name));
        let list: Vec<String> = known.iter().map(|(name, _)| format!("`{name}`")).collect();
        let at = slot.item.map_or(slot.path.at, Item::at);
        let message = format_args!("unknown value `{}`; known are {}", Shown(word), list.join(", "));
        faults.add_hinted(Code::UnknownChoice, at, &slot.path, message, hint);
    }
    found.map(|&(_, value)| value)
}
