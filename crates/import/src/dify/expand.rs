//! Iterations and loops written out: the nodes inside them once a round.

use super::app::{App, given};
use super::calls;
use super::ways::Way;
use crate::graph::{MAX_LINKS, MAX_NODES, plain};
use crate::{File, ImportOptions};
use gswarm_core::input::Code;
use gswarm_core::input::document::{Item, Path, Shown};

/// Nodes of which some only join others.
#[derive(Default)]
pub struct Flat {
    /// The node and the round that it is run in; no node for what only joins others.
    pub nodes: Vec<(Option<usize>, Option<u32>)>,
    pub edges: Vec<(u32, u32)>,
}

impl Flat {
    /// Whether it has grown beyond all measure.
    fn is_full(&self) -> bool {
        self.nodes.len() > MAX_NODES || self.edges.len() > MAX_LINKS
    }

    fn add(&mut self, node: Option<usize>, round: Option<u32>) -> u32 {
        self.nodes.push((node, round));
        self.nodes.len() as u32 - 1
    }
}

/// Iterations that call models, of which nobody has said how often they run.
pub fn report_uncounted(file: &mut File<'_>, app: &App<'_>, options: &ImportOptions) {
    for (node, own) in app.nodes.iter().enumerate().filter(|(_, own)| own.repeats()) {
        let inside = (0..app.nodes.len()).filter(|&child| app.nodes[child].parent == Some(node));
        if !inside.into_iter().any(|child| calls::is_call(app, child, options)) {
            continue;
        }
        if given(app, node, &options.counts).is_none() {
            let most =
                own.data.get("loop_count").map_or(String::new(), |most| format!(", {} at most", most.text()));
            let message =
                format_args!("{} `{}` ({}): how often does it run?", own.kind, Shown(own.shown()), own.id);
            let hint = format!("--count {}=N{most}", own.id);
            file.faults.add_hinted(Code::NeedsChoice, own.at, &Path::root(), message, Some(hint));
        }
    }
}

/// The nodes of one way, with everything that is repeated written out. `None` where that is too much, which is reported.
pub fn expand(file: &mut File<'_>, app: &App<'_>, way: &Way, options: &ImportOptions) -> Option<Flat> {
    let mut flat = Flat::default();
    // Where edges to each node end, and where those from it start.
    let mut ends = vec![(u32::MAX, u32::MAX); app.nodes.len()];
    for (node, own) in app.nodes.iter().enumerate().filter(|&(node, _)| way.active[node]) {
        if own.parent.is_some() {
            continue;
        }
        let entry = flat.add((!own.repeats()).then_some(node), None);
        let exit = if own.repeats() { flat.add(None, None) } else { entry };
        ends[node] = (entry, exit);
        if own.repeats() {
            let rounds = given(app, node, &options.counts).copied().unwrap_or(1);
            repeat(&mut flat, app, way, node, rounds, (entry, exit));
        }
        if flat.is_full() {
            let message =
                format_args!("the app has more than {MAX_NODES} nodes after expanding its iterations");
            file.faults.add(Code::Expands, own.at, &Path::root(), message);
            return None;
        }
    }
    for edge in app.edges.iter().filter(|edge| taken(app, way, edge.from, edge.handle)) {
        let (from, to) = (ends[edge.from].1, ends[edge.to].0);
        if from != u32::MAX && to != u32::MAX {
            flat.edges.push((from, to));
        }
    }
    Some(flat)
}

fn taken(app: &App<'_>, way: &Way, from: usize, handle: &str) -> bool {
    match way.cases.get(&from) {
        Some(&case) => app.nodes[from].cases[case].0 == handle,
        None => handle != "fail-branch",
    }
}

/// The rounds of an iteration, each between a start and an end; one follows the other, or as many run at once as it says.
fn repeat(flat: &mut Flat, app: &App<'_>, way: &Way, node: usize, rounds: u32, (entry, exit): (u32, u32)) {
    let is_inside = |child: usize| app.nodes[child].parent == Some(node) && way.active[child];
    let inside: Vec<usize> = (0..app.nodes.len()).filter(|&child| is_inside(child)).collect();
    let mut place = vec![0_u32; app.nodes.len()];
    inside.iter().zip(0..).for_each(|(&child, at)| place[child] = at);
    let edges = app.edges.iter().filter(|edge| is_inside(edge.from) && is_inside(edge.to));
    let edges = edges.filter(|edge| taken(app, way, edge.from, edge.handle));
    let edges = plain(edges.map(|edge| (place[edge.from], place[edge.to])));
    let (mut is_first, mut is_last) = (vec![true; inside.len()], vec![true; inside.len()]);
    for &(from, to) in &edges {
        (is_last[from as usize], is_first[to as usize]) = (false, false);
    }
    let data = app.nodes[node].data;
    let at_once = match data.get("is_parallel").map(Item::text) {
        Some("true") => {
            data.get("parallel_nums").and_then(|many| many.text().parse().ok()).unwrap_or(10_usize).max(1)
        }
        _ => 1,
    };
    flat.edges.push((entry, exit));
    let mut finished = Vec::new();
    for round in 0..rounds {
        if flat.is_full() {
            return;
        }
        let (start, end) = (flat.add(None, None), flat.add(None, None));
        let before = finished.len().checked_sub(at_once).map_or(entry, |place| finished[place]);
        flat.edges.push((before, start));
        let first = flat.nodes.len() as u32;
        for (at, &child) in inside.iter().enumerate() {
            let own = flat.add(Some(child), Some(round));
            if is_first[at] {
                flat.edges.push((start, own));
            }
            if is_last[at] {
                flat.edges.push((own, end));
            }
        }
        flat.edges.extend(edges.iter().map(|&(from, to)| (first + from, first + to)));
        flat.edges.push((start, end));
        flat.edges.push((end, exit));
        finished.push(end);
    }
}
