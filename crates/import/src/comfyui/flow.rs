//! What comes from where: links followed through reroutes, switches, bypassed nodes and the ends of subgraphs; and which
//! nodes are needed for what the workflow gives.

use super::models::{Part, Run, part};
use super::nodes::{Mode, Node};
use crate::File;
use gswarm_core::input::Code;
use gswarm_core::input::document::Path;
use rustc_hash::FxHashMap;
use serde_json::Value;

/// An output of a node.
type Slot = (usize, usize);

/// A workflow whose links have been followed.
pub struct Flow<'n> {
    pub nodes: &'n [Node],
    /// For each node and input, the output that it comes from at last.
    sources: Vec<Vec<Option<(usize, usize)>>>,
    needed: Vec<bool>,
    /// For each node, the nodes and inputs that it feeds.
    fed: Vec<Vec<(usize, usize)>>,
}

impl<'n> Flow<'n> {
    pub fn new(nodes: &'n [Node]) -> Flow<'n> {
        let mut known = FxHashMap::default();
        let sources: Vec<Vec<Option<(usize, usize)>>> = nodes
            .iter()
            .map(|node| {
                node.inputs
                    .iter()
                    .map(|input| input.from.and_then(|from| source(nodes, from, &mut known)))
                    .collect()
            })
            .collect();
        let mut fed = vec![Vec::new(); nodes.len()];
        let stays: Vec<bool> = nodes.iter().map(|node| node.mode == Mode::Active && !passes(node)).collect();
        for (to, inputs) in sources.iter().enumerate().filter(|&(to, _)| stays[to]) {
            for (slot, from) in inputs.iter().enumerate() {
                if let Some((from, _)) = from {
                    fed[*from].push((to, slot));
                }
            }
        }
        let mut needed = vec![false; nodes.len()];
        let ends = |only_outputs: bool| {
            let is_end = |&at: &usize| stays[at] && !nodes[at].is_comment();
            let is_output = |at: &usize| if only_outputs { gives(&nodes[*at]) } else { fed[*at].is_empty() };
            (0..nodes.len()).filter(is_end).filter(is_output).collect::<Vec<_>>()
        };
        let outputs = ends(true);
        let mut open = if outputs.is_empty() { ends(false) } else { outputs };
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut needed[at], true) {
                open.extend(sources[at].iter().flatten().map(|&(from, _)| from));
            }
        }
        Flow { nodes, sources, needed, fed }
    }

    /// Whether a node is run.
    pub fn is_needed(&self, node: usize) -> bool {
        self.needed[node]
    }

    /// Who comes after whom, among the nodes that are run.
    pub fn edges(&self) -> Vec<(u32, u32)> {
        let mut edges = Vec::new();
        for (to, inputs) in self.sources.iter().enumerate().filter(|&(to, _)| self.needed[to]) {
            edges.extend(inputs.iter().flatten().map(|&(from, _)| (from as u32, to as u32)));
        }
        edges
    }

    /// The node and output that an input comes from.
    pub fn source(&self, node: usize, input: usize) -> Option<(usize, usize)> {
        self.sources[node][input]
    }

    /// The same for an input of this name.
    pub fn source_of(&self, node: usize, name: &str) -> Option<(usize, usize)> {
        let input = self.nodes[node].inputs.iter().position(|input| input.name == name)?;
        self.sources[node][input]
    }

    /// Inputs that bring a part of a model to be run, with the part: the one that matters most first.
    pub fn model_inputs(&self, node: usize) -> Vec<(usize, Part)> {
        let inputs = self.nodes[node].inputs.iter().enumerate();
        let mut found: Vec<(usize, Part)> = inputs
            .filter(|&(at, _)| self.sources[node][at].is_some())
            .filter_map(|(at, input)| Some((at, part(input.kind.as_deref(), &input.name)?)))
            .collect();
        found.sort_by_key(|&(_, part)| part);
        found
    }

    /// The model that a node runs: one that gets a model and gives something that is no model runs it.
    pub fn run(&self, node: usize) -> Option<Run> {
        if !self.needed[node] || self.nodes[node].class.contains("Empty") {
            return None;
        }
        let inputs = self.model_inputs(node);
        let &(input, kind) = inputs.iter().find(|(_, kind)| kind.is_run())?;
        let others = inputs.iter().filter(|(_, kind)| kind.is_run()).count() > 1;
        let gives_data = self.fed[node].iter().any(|&(to, slot)| {
            let input = &self.nodes[to].inputs[slot];
            part(input.kind.as_deref(), &input.name).is_none()
        });
        gives_data.then(|| super::models::trace(self, node, input, kind, others))
    }

    /// Whether a node gives something that is no model, or is run for what it shows.
    pub fn gives_data(&self, node: usize) -> bool {
        let brings = |&(to, slot): &(usize, usize)| {
            let input = &self.nodes[to].inputs[slot];
            part(input.kind.as_deref(), &input.name).is_none()
        };
        self.fed[node].is_empty() || self.fed[node].iter().any(brings)
    }

    /// Samplers, encoders and decoders to which no model leads.
    pub fn report_unfed(&self, file: &mut File<'_>) {
        const RUNNERS: [&str; 5] = ["KSampler", "SamplerCustom", "CLIPTextEncode", "VAEDecode", "VAEEncode"];
        for (at, node) in self.nodes.iter().enumerate().filter(|&(at, _)| self.needed[at]) {
            let runs =
                RUNNERS.iter().any(|class| node.class.starts_with(class)) && node.class != "KSamplerSelect";
            if runs && self.model_inputs(at).is_empty() {
                let message = format_args!("no model leads to `{}`", node.shown());
                let hint = Some("connect it to a loader, or mute it".to_owned());
                file.faults.add_hinted(Code::Missing, node.at, &Path::root(), message, hint);
            }
        }
    }

    /// The value of a setting: what leads to it, as far as that can be told, else what stands in the node itself.
    pub fn value(&self, node: usize, name: &str) -> Option<&'n Value> {
        let own = self.nodes[node].widget(name);
        match self.source_of(node, name) {
            Some((from, _)) => self.nodes[from].widget("value").or(own),
            None => own,
        }
    }

    pub fn number(&self, node: usize, name: &str) -> Option<f64> {
        self.value(node, name)?.as_f64().filter(|number| number.is_finite() && *number >= 0.0)
    }
}

/// Nodes that only pass something on.
pub fn passes(node: &Node) -> bool {
    node.is_hub() || matches!(node.class.as_str(), "Reroute" | "ComfySwitchNode")
}

/// Nodes that a workflow is run for: they save or show something.
fn gives(node: &Node) -> bool {
    ["Save", "Preview", "Compare", "VideoCombine", "Show"].iter().any(|part| node.class.contains(part))
}

/// The output that something comes from, behind everything that only passes it on. `None` where nothing comes.
fn source(nodes: &[Node], from: Slot, known: &mut FxHashMap<Slot, Option<Slot>>) -> Option<Slot> {
    if let Some(&found) = known.get(&from) {
        return found;
    }
    let found = walk(nodes, from, known);
    known.insert(from, found);
    found
}

fn walk(nodes: &[Node], from: Slot, known: &FxHashMap<Slot, Option<Slot>>) -> Option<Slot> {
    let (mut at, mut slot) = from;
    // A circle of nodes that pass on leads nowhere.
    for _ in 0..=nodes.len() {
        let node = &nodes[at];
        if node.mode == Mode::Muted {
            return None;
        }
        let input = if node.mode == Mode::Bypassed && !node.is_hub() {
            let kind = node.outputs.get(slot);
            let same = node.inputs.iter().find(|input| input.from.is_some() && input.kind.as_ref() == kind);
            same.and_then(|input| input.from)
        } else if node.is_hub() {
            node.inputs.get(slot).and_then(|input| input.from)
        } else if node.class == "Reroute" {
            node.inputs.first().and_then(|input| input.from)
        } else if node.class == "ComfySwitchNode" {
            let name = if switch(nodes, at) { "on_true" } else { "on_false" };
            node.input(name).and_then(|input| input.from)
        } else {
            return Some((at, slot));
        };
        (at, slot) = input?;
        if let Some(&found) = known.get(&(at, slot)) {
            return found;
        }
    }
    None
}

/// Which way a switch stands: what leads to it decides, where that is a plain value.
fn switch(nodes: &[Node], at: usize) -> bool {
    let own = nodes[at].widget("switch").and_then(Value::as_bool).unwrap_or(false);
    let mut from = nodes[at].input("switch").and_then(|input| input.from);
    for _ in 0..=nodes.len() {
        let Some((node, slot)) = from else { return own };
        if nodes[node].is_hub() {
            from = nodes[node].inputs.get(slot).and_then(|input| input.from);
        } else {
            return nodes[node].widget("value").and_then(Value::as_bool).unwrap_or(own);
        }
    }
    own
}
