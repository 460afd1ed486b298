//! ComfyUI workflows. Loaders and patches say which model a node runs; the nodes that run one become nodes here, and what
//! takes no GPU time goes, with the ways through it kept.

mod api;
mod editor;
mod flow;
mod models;
mod nodes;
mod times;

use crate::draft::{Draft, DraftNode, unique};
use crate::graph::{MAX_NODES, acyclic, contract, plain};
use crate::options::{given, report_strangers};
use crate::{File, ImportOptions};
use flow::Flow;
use gswarm_core::input::Code;
use gswarm_core::input::document::{Document, Kind, Path, Shown};
use nodes::{Mode, Node};

pub fn read(file: &mut File<'_>, options: &ImportOptions, draft: &mut Draft) {
    let Some(document) = Document::parse(file.source.bytes, &mut file.faults) else { return };
    let root = document.root();
    let prompt = root.get("prompt").filter(|prompt| api::is_api(*prompt));
    let nodes = if root.get("nodes").is_some_and(|nodes| nodes.kind() == Kind::Seq) {
        editor::read(file, root)
    } else if api::is_api(root) || prompt.is_some() {
        api::read(file, prompt.unwrap_or(root))
    } else {
        let message = format_args!(
            "this is not a ComfyUI workflow: it has neither a list of `nodes` (editor) nor nodes with a `class_type` (API)"
        );
        file.faults.add(Code::OtherKind, 0, &Path::root(), message);
        return;
    };
    if !file.faults.has_errors() {
        make(file, &nodes, options, draft);
    }
}

/// Reports that a workflow has too many nodes.
fn too_many(file: &mut File<'_>) {
    let message = format_args!("the workflow has more than {MAX_NODES} nodes after expanding its subgraphs");
    file.faults.add(Code::Expands, 0, &Path::root(), message);
}

fn make(file: &mut File<'_>, nodes: &[Node], options: &ImportOptions, draft: &mut Draft) {
    let flow = Flow::new(nodes);
    let edges = plain(flow.edges());
    let names = |node: usize| (nodes[node].shown(), nodes[node].at);
    if !acyclic(file, &names, nodes.len(), &edges) {
        return;
    }
    flow.report_unfed(file);
    report_strangers(
        file,
        "--time",
        &options.times,
        &|name| nodes.iter().any(|node| node.id == name || node.class == name),
        "give the id of a node, such as 3 or 57:3, or its class",
    );
    let is_timed = |node: &Node| given(&options.times, &[&node.id, &node.class]).is_some();
    let mut runs: Vec<Option<models::Run>> = (0..nodes.len()).map(|node| flow.run(node)).collect();
    draft.heavy.understood += runs.iter().flatten().count();
    let vendors = draft.heavy.vendors.len();
    for (at, node) in nodes.iter().enumerate() {
        let stays = flow.is_needed(at) && runs[at].is_none() && !flow::passes(node) && !node.is_comment();
        if !stays || node.class.contains("Empty") {
            continue;
        }
        if is_timed(node) {
            draft.heavy.understood += 1;
            runs[at] = Some(models::alone(node));
        } else if nodes::calls_a_vendor(node) {
            draft.heavy.vendors.push(node.class.clone());
        } else if nodes::holds_a_model(node) && flow.gives_data(at) {
            draft.heavy.guessed.push(node.class.clone());
            runs[at] = Some(models::alone(node));
        }
    }
    if file.faults.has_errors() {
        return;
    }
    if runs.iter().all(Option::is_none) && draft.heavy.vendors.len() > vendors {
        note_others(nodes, &flow, &runs, draft);
        return;
    }
    if runs.iter().all(Option::is_none) {
        let message = format_args!("no node of the workflow runs a model");
        file.faults.add(Code::Nothing, 0, &Path::root(), message);
        return;
    }
    note_others(nodes, &flow, &runs, draft);
    let (kept, edges) = contract(nodes.len(), &edges, &|node| runs[node].is_some());
    let ids = unique(kept.iter().map(|&node| nodes[node].shown()).collect());
    let made: Vec<DraftNode> = kept
        .iter()
        .zip(ids)
        .filter_map(|(&node, id)| {
            let run = runs[node].as_ref()?;
            let model = models::model(run, options, draft);
            let gb = draft.scenario.models[model.index()].memory_gb;
            let (usual, config) = times::of(&flow, node, run, gb, &mut draft.notes);
            let seconds =
                given(&options.times, &[&nodes[node].id, &nodes[node].class]).copied().unwrap_or(usual);
            Some(DraftNode { id, model, seconds, config })
        })
        .collect();
    let stem = file.source.name.rsplit(['/', '\\']).next().unwrap_or_default();
    let stem = stem.strip_suffix(".json").unwrap_or(stem);
    let workflow = draft.workflow(stem, &made, edges);
    draft.requests(workflow, &made, options.requests, options.every);
    draft.fill_mean_times();
}

/// What takes no GPU time, and what is not run, by name: nothing goes in silence.
fn note_others(nodes: &[Node], flow: &Flow<'_>, runs: &[Option<models::Run>], draft: &mut Draft) {
    let counts = |node: &Node| !(node.is_comment() || flow::passes(node) && node.mode == Mode::Active);
    for (at, node) in nodes.iter().enumerate().filter(|(_, node)| counts(node)) {
        let thing = format!("{}", Shown(&node.class));
        if !flow.is_needed(at) {
            let shown = node.shown();
            draft.notes.say_of("Not run: muted, bypassed, or needed by no output", shown);
        } else if runs[at].is_none() && !nodes::calls_a_vendor(node) {
            draft.notes.say_of("Classes of nodes that take no GPU time of their own", thing);
        }
    }
}
