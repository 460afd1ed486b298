//! Dify apps. Nodes that call a model become nodes here; all others take no GPU time, and the ways through them are kept.
//! Each way through the branches that is taken is a workflow of its own.

mod app;
mod calls;
mod expand;
mod ways;

use crate::draft::{Draft, DraftNode, unique};
use crate::graph::{acyclic, contract, plain};
use crate::{File, ImportOptions};
use app::App;
use gswarm_core::input::Code;
use gswarm_core::input::document::{Document, Path, Shown};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ways::Way;

pub fn read_all(files: &mut [File<'_>], options: &ImportOptions, draft: &mut Draft) {
    let mut used = Vec::new();
    for file in files.iter_mut() {
        let Some(document) = Document::parse(file.source.bytes, &mut file.faults) else { continue };
        let Some(app) = app::read(file, document.root()) else { continue };
        used.extend(app.nodes.iter().flat_map(|node| [node.id.to_owned(), node.title.to_owned()]));
        one(file, &app, options, draft);
    }
    // Several apps may be imported at once, with flags for nodes of each.
    let Some(file) = files.first_mut() else { return };
    let flags = (options.choices.iter().map(|(name, _)| ("--choose", name)))
        .chain(options.branches.iter().map(|(name, _)| ("--branch", name)))
        .chain(options.counts.iter().map(|(name, _)| ("--count", name)))
        .chain(options.calls.iter().map(|(name, _)| ("--call", name)))
        .chain(options.times.iter().map(|(name, _)| ("--time", name)));
    for (flag, name) in flags.filter(|(_, name)| !used.contains(name)) {
        let message = format_args!("{flag}: no node has the id or title `{}`", Shown(name));
        file.faults.add(Code::NoSuchPlace, 0, &Path::root(), message);
    }
}

fn one(file: &mut File<'_>, app: &App<'_>, options: &ImportOptions, draft: &mut Draft) {
    calls::report_unnamed(file, app, options);
    let edges = plain(app.edges.iter().map(|edge| (edge.from as u32, edge.to as u32)));
    let names = |node: usize| (app.nodes[node].shown().to_owned(), app.nodes[node].at);
    if !acyclic(file, &names, app.nodes.len(), &edges) {
        return;
    }
    report_misplaced(file, app, options);
    expand::report_uncounted(file, app, options);
    let ways = ways::ways(file, app, options, draft);
    if file.faults.has_errors() {
        return;
    }
    let mut made = Vec::new();
    let mut without = 0.0;
    for way in &ways {
        let Some(nodes_and_edges) = workflow(file, app, way, options, draft) else { return };
        if nodes_and_edges.0.is_empty() {
            without += way.probability;
            continue;
        }
        made.push((way, nodes_and_edges));
    }
    if made.is_empty() {
        let message = format_args!("the app calls no model on the chosen paths");
        let hint = Some("if a tool calls a model, name it with --call NODE=MODEL".to_owned());
        return file.faults.add_hinted(Code::Nothing, 0, &Path::root(), message, hint);
    }
    if without > 0.0 {
        draft.notes.say(format!(
            "Omitted: paths through `{}` that call no model, {:.3} of its requests",
            app.name, without
        ));
    }
    let mut drawn = Vec::new();
    for (way, (nodes, edges)) in made {
        let name = if ways.len() == 1 { app.name.clone() } else { format!("{}: {}", app.name, way.label) };
        if ways.len() > 1 {
            draft.notes.say_of(
                "Each path through the branches is a workflow of its own, with its share of the requests",
                format!("{} ({:.3})", way.label, way.probability),
            );
        }
        let workflow = draft.workflow(&name, &nodes, edges);
        drawn.push((way.probability, workflow, nodes));
    }
    let mut draws = ChaCha8Rng::seed_from_u64(options.seed);
    let total: f64 = drawn.iter().map(|(probability, ..)| probability).sum();
    for number in 0..options.requests {
        let mut left = draws.random::<f64>() * total;
        let found = drawn.iter().find(|(probability, ..)| {
            left -= probability;
            left < 0.0
        });
        if let Some((_, workflow, nodes)) = found.or(drawn.last()) {
            draft.request(*workflow, nodes, (f64::from(number) * options.every * 1e6).round() as i64);
        }
    }
    draft.fill_mean_times();
}

/// Flags for branches and iterations that name nodes which are neither.
fn report_misplaced(file: &mut File<'_>, app: &App<'_>, options: &ImportOptions) {
    for (node, own) in app.nodes.iter().enumerate() {
        let mut misplaced = |flag: &str, what: &str| {
            let message = format_args!("{flag}: `{}` is not a {what}", Shown(own.shown()));
            file.faults.add(Code::NoSuchPlace, own.at, &Path::root(), message);
        };
        if own.cases.len() < 2 && app::given(app, node, &options.choices).is_some() {
            misplaced("--choose", "branch");
        }
        if own.cases.len() < 2 && app::given(app, node, &options.branches).is_some() {
            misplaced("--branch", "branch");
        }
        if !own.repeats() && app::given(app, node, &options.counts).is_some() {
            misplaced("--count", "iteration");
        }
    }
}

type Made = (Vec<DraftNode>, Vec<(u32, u32)>);

/// The nodes that call a model on one way, and who waits for whom. `None` where it expands too far, which is reported.
fn workflow(
    file: &mut File<'_>,
    app: &App<'_>,
    way: &Way,
    options: &ImportOptions,
    draft: &mut Draft,
) -> Option<Made> {
    let flat = expand::expand(file, app, way, options)?;
    let is_call = |place: usize| flat.nodes[place].0.is_some_and(|node| calls::is_call(app, node, options));
    let (kept, edges) = contract(flat.nodes.len(), &flat.edges, &is_call);
    let title = |&place: &usize| {
        let (node, round) = flat.nodes[place];
        let title = node.map_or("", |node| app.nodes[node].shown());
        round.map_or(title.to_owned(), |round| format!("{title} [{}]", round + 1))
    };
    let ids = unique(kept.iter().map(title).collect());
    let nodes = kept.iter().zip(ids).filter_map(|(&place, id)| {
        let node = flat.nodes[place].0?;
        Some(calls::node(app, node, id, options, draft))
    });
    Some((nodes.collect(), edges))
}
