//! One workflow of the configuration: its nodes, and its edges resolved to them.

use super::code::Code;
use super::faults::{Faults, Path, Shown};
use super::fields::{Slot, fields};
use super::tree::Item;
use super::validity::{self, PlacedEdge};
use crate::id::ModelId;
use crate::scenario::{ModelSpec, NodeSpec, WorkflowSpec};
use rustc_hash::FxHashMap;

/// The models that nodes may name.
pub(super) enum Models<'m, 't> {
    Known(&'m FxHashMap<&'t str, ModelId>, &'m [ModelSpec]),
    /// `models` is no mapping, which was reported: names are not checked.
    Unreadable,
}

/// The model of a node that names none; it never leaves the checks.
const NO_MODEL: ModelId = ModelId(u32::MAX);

/// The workflow, its nodes by name, and per node where it names its model.
pub(super) fn read<'t>(
    id: &str,
    item: Item<'t>,
    path: &Path<'_>,
    models: &Models<'_, 't>,
    faults: &mut Faults,
) -> (WorkflowSpec, FxHashMap<&'t str, u32>, Vec<u32>) {
    let mut spec = WorkflowSpec { id: id.to_owned(), name: id.to_owned(), ..WorkflowSpec::default() };
    let (mut by_name, mut places) = (FxHashMap::default(), Vec::new());
    let names = ["name", "nodes", "edges", "description"];
    let Some([name, nodes, edges, _]) = fields(item, path, names, faults) else {
        return (spec, by_name, places);
    };
    if let Some(name) = name.string(faults) {
        spec.name = name;
    }
    let list = nodes.required(faults).and_then(|_| nodes.list(faults));
    if list.is_some_and(|list| list.count() == 0) {
        validity::no_nodes(&nodes.path, faults);
    }
    let count = list.map_or(0, Item::count);
    by_name.reserve(count);
    spec.nodes.reserve(count);
    for (place, item) in list.map(|list| list.items().enumerate()).into_iter().flatten() {
        let path = nodes.path.index(place, item.at());
        let (node, id, mut model_at) = node(item, &path, models, faults);
        // A node that cannot be named was reported; no request could give a time for it.
        let is_named = id.is_some_and(|(id, _)| !by_name.contains_key(id));
        if !is_named {
            model_at = 0;
        }
        if let Some((id, at)) = id {
            let number = spec.nodes.len() as u32;
            if let Some(&first) = by_name.get(id) {
                validity::taken("node", "nodes", id, first as usize, at, &path.key("id", at), faults);
            } else {
                by_name.insert(id, number);
            }
        }
        spec.nodes.push(node);
        places.push(model_at);
    }
    // Without readable nodes every edge would be at fault.
    if list.is_some() {
        spec.edges = Edges { nodes: &spec.nodes, by_name: &by_name, by_output: None }.read(&edges, faults);
    }
    (spec, by_name, places)
}

/// The node, its id with the place of it, and the place where it names its model (0 where it names none).
fn node<'t>(
    item: Item<'t>,
    path: &Path<'_>,
    models: &Models<'_, 't>,
    faults: &mut Faults,
) -> (NodeSpec, Option<(&'t str, u32)>, u32) {
    let mut spec = NodeSpec::new("", NO_MODEL);
    let names = ["id", "model", "inputs", "outputs", "config_options", "description"];
    let Some([id, model, inputs, outputs, options, _]) = fields(item, path, names, faults) else {
        return (spec, None, 0);
    };
    let id = id.id(faults).zip(id.item.map(Item::at));
    spec.id = id.map_or(String::new(), |(id, _)| id.to_owned());
    let model_name = model.id(faults);
    let model_at = model.item.map_or(0, Item::at);
    if let (Some(name), Models::Known(known, specs)) = (model_name, models) {
        match known.get(name) {
            Some(&found) => spec.model = found,
            None => validity::unknown_model(name, specs, model_at, &model.path, faults),
        }
    }
    spec.inputs = inputs.texts(faults);
    spec.outputs = outputs.texts(faults);
    spec.config_options = options.texts(faults);
    (spec, id, model_at)
}

struct Edges<'n, 't> {
    nodes: &'n [NodeSpec],
    by_name: &'n FxHashMap<&'t str, u32>,
    /// The node that writes an output; `None` for several. Built when an edge first names an output.
    by_output: Option<FxHashMap<&'n str, Option<u32>>>,
}

impl<'n> Edges<'n, '_> {
    fn read(mut self, slot: &Slot<'_, '_>, faults: &mut Faults) -> Vec<(u32, u32)> {
        let Some(list) = slot.list(faults) else { return Vec::new() };
        let mut edges = Vec::with_capacity(list.count());
        for (place, item) in list.items().enumerate() {
            let path = slot.path.index(place, item.at());
            let Some([from, to]) = fields(item, &path, ["from", "to"], faults) else { continue };
            if let (Some(from), Some(to)) = (self.endpoint(&from, faults), self.endpoint(&to, faults)) {
                edges.push(PlacedEdge { ends: (from, to), place, at: item.at() });
            }
        }
        validity::edges(self.nodes, edges, &slot.path, faults)
    }

    fn endpoint(&mut self, slot: &Slot<'_, '_>, faults: &mut Faults) -> Option<u32> {
        let name = slot.id(faults)?;
        if let Some(&node) = self.by_name.get(name) {
            return Some(node);
        }
        let at = slot.item.map_or(slot.path.at, Item::at);
        let nodes = self.nodes;
        match self.by_output.get_or_insert_with(|| by_output(nodes)).get(name).copied() {
            Some(Some(node)) => {
                let id = Shown(&nodes[node as usize].id);
                let message =
                    format_args!("`{}` is an output of node `{id}`; that node is used", Shown(name));
                let hint = Some(format!("write `{id}`"));
                faults.add_hinted(Code::EdgeByOutput, at, &slot.path, message, hint);
                Some(node)
            }
            Some(None) => {
                let message =
                    format_args!("unknown node `{}`; several nodes have an output of that name", Shown(name));
                faults.add(Code::UnknownNode, at, &slot.path, message);
                None
            }
            None => {
                validity::unknown_node(name, nodes, at, &slot.path, faults);
                None
            }
        }
    }
}

fn by_output(nodes: &[NodeSpec]) -> FxHashMap<&str, Option<u32>> {
    let mut writers: FxHashMap<&str, Option<u32>> = FxHashMap::default();
    for (number, node) in nodes.iter().enumerate() {
        for output in &node.outputs {
            let number = number as u32;
            let writer = writers.entry(output).or_insert(Some(number));
            if *writer != Some(number) {
                *writer = None;
            }
        }
    }
    writers
}
