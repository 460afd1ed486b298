//! The graph of an app: nodes with their kinds, and edges with the case that they are taken in.

use crate::File;
use crate::graph::{MAX_LINKS, MAX_NODES};
use gswarm_core::input::Code;
use gswarm_core::input::document::{Item, Kind, Path, Shown, wrong_type};
use rustc_hash::FxHashMap;

/// Kinds of nodes that call a model.
pub const CALLS: [&str; 5] =
    ["llm", "agent", "question-classifier", "parameter-extractor", "knowledge-retrieval"];
/// Kinds that run what is inside them several times.
pub const REPEATS: [&str; 2] = ["iteration", "loop"];
pub const STARTS: [&str; 5] =
    ["start", "datasource", "trigger-webhook", "trigger-schedule", "trigger-plugin"];
/// Kinds that take no GPU time.
const OTHERS: [&str; 18] = [
    "end",
    "answer",
    "code",
    "template-transform",
    "http-request",
    "tool",
    "if-else",
    "variable-aggregator",
    "variable-assigner",
    "assigner",
    "document-extractor",
    "list-operator",
    "iteration-start",
    "loop-start",
    "loop-end",
    "datasource-empty",
    "knowledge-index",
    "custom-note",
];

pub struct App<'t> {
    pub name: String,
    pub nodes: Vec<AppNode<'t>>,
    pub edges: Vec<Edge<'t>>,
    /// Where the single call of an app without a graph has its model.
    pub only_model: Option<Item<'t>>,
}

pub struct AppNode<'t> {
    pub id: &'t str,
    pub title: &'t str,
    pub kind: &'t str,
    pub at: u32,
    /// The iteration or loop that it stands in.
    pub parent: Option<usize>,
    pub data: Item<'t>,
    /// Of a branch.
    pub cases: Vec<Case<'t>>,
}

pub struct Edge<'t> {
    pub from: usize,
    pub to: usize,
    /// The case in which it is taken.
    pub handle: &'t str,
}

impl<'t> AppNode<'t> {
    /// Its title, or its id where it has none.
    pub fn shown(&self) -> &'t str {
        if self.title.trim().is_empty() { self.id } else { self.title.trim() }
    }

    pub fn repeats(&self) -> bool {
        REPEATS.contains(&self.kind)
    }
}

/// A case of a branch: its id and its name for people.
pub type Case<'t> = (&'t str, &'t str);

/// The cases of a branch; none for all other kinds.
fn cases<'t>(kind: &str, data: Item<'t>) -> Vec<Case<'t>> {
    let listed = |name: &str, id: &str| {
        let list = data.get(name).into_iter().flat_map(Item::items);
        let case = |case: Item<'t>| Some((case.get(id)?.text(), case.get("name").map_or("", Item::text)));
        list.filter_map(case).collect::<Vec<_>>()
    };
    match kind {
        "if-else" => {
            let mut cases = listed("cases", "case_id");
            if cases.is_empty() {
                cases.push(("true", ""));
            }
            cases.push(("false", "else"));
            cases
        }
        "question-classifier" => listed("classes", "id"),
        _ => Vec::new(),
    }
}

/// What a flag says of a node, which goes by its id, or by its title where no other node has it.
pub fn given<'o, T>(app: &App<'_>, node: usize, flags: &'o [(String, T)]) -> Option<&'o T> {
    if flags.is_empty() {
        return None;
    }
    let own = &app.nodes[node];
    let by_id = flags.iter().find(|(name, _)| name == own.id);
    let alone = app.nodes.iter().filter(|other| other.title == own.title).count() == 1;
    let by_title = || flags.iter().find(|(name, _)| alone && !own.title.is_empty() && name == own.title);
    by_id.or_else(by_title).map(|(_, value)| value)
}

/// Reads the graph; `None` where there is none, which is reported.
pub fn read<'t>(file: &mut File<'_>, root: Item<'t>) -> Option<App<'t>> {
    let top = Path::root();
    let name = root.get("app").and_then(|app| app.get("name")).map_or("app", Item::text).to_owned();
    let graph = root.get("workflow").and_then(|workflow| workflow.get("graph"));
    let Some(graph) = graph else {
        if let Some(config) = root.get("model_config").filter(|config| config.get("model").is_some()) {
            return Some(single(name, config));
        }
        let message =
            format_args!("this is not a Dify app: it has neither `workflow.graph` nor `model_config`");
        file.faults.add(Code::OtherKind, 0, &top, message);
        return None;
    };
    let Some(listed) = graph.get("nodes").filter(|nodes| nodes.kind() == Kind::Seq) else {
        file.faults.add(Code::Missing, graph.at(), &top, format_args!("the graph has no list of `nodes`"));
        return None;
    };
    if listed.count() > MAX_NODES || graph.get("edges").is_some_and(|edges| edges.count() > MAX_LINKS) {
        file.faults.add(Code::Expands, graph.at(), &top, format_args!("more than {MAX_NODES} nodes"));
        return None;
    }
    let (nodes, numbers) = nodes(file, listed);
    let edges = edges(file, graph, &numbers);
    Some(App { name, nodes, edges, only_model: None })
}

/// A chat or completion app is one call.
fn single<'t>(name: String, config: Item<'t>) -> App<'t> {
    let node = AppNode {
        id: "call",
        title: "call",
        kind: "llm",
        at: config.at(),
        parent: None,
        data: config,
        cases: Vec::new(),
    };
    App { name, nodes: vec![node], edges: Vec::new(), only_model: config.get("model") }
}

fn nodes<'t>(file: &mut File<'_>, listed: Item<'t>) -> (Vec<AppNode<'t>>, FxHashMap<&'t str, usize>) {
    let top = Path::root();
    let path = top.key("nodes", listed.at());
    let (mut nodes, mut numbers, mut parents) = (Vec::new(), FxHashMap::default(), Vec::new());
    for (place, item) in listed.items().enumerate() {
        let path = path.index(place, item.at());
        let Some(data) = item.get("data").filter(|data| data.kind() == Kind::Map) else {
            wrong_type(item, &path, "a node with a mapping `data`", &mut file.faults);
            continue;
        };
        let kind = data.get("type").map_or("", Item::text);
        // Notes for people have no kind.
        if item.get("type").is_some_and(|sort| sort.text() == "custom-note") {
            continue;
        }
        let title = data.get("title").map_or("", Item::text);
        let id = item.get("id").map_or("", Item::text);
        if id.is_empty() {
            file.faults.add(Code::Missing, item.at(), &path, format_args!("the node has no `id`"));
            continue;
        }
        if ![&CALLS[..], &REPEATS, &STARTS, &OTHERS].iter().any(|known| known.contains(&kind)) {
            let message = format_args!(
                "node `{}` is of kind `{}`, which gswarm cannot express",
                Shown(if title.is_empty() { id } else { title }),
                Shown(kind)
            );
            file.faults.add(Code::Inexpressible, item.at(), &path, message);
        }
        if numbers.insert(id, nodes.len()).is_some() {
            let message = format_args!("two nodes have the id `{}`", Shown(id));
            file.faults.add(Code::Duplicate, item.at(), &path, message);
        }
        let inside = ["iteration_id", "loop_id"].iter().find_map(|name| data.get(name));
        parents.push(item.get("parentId").or(inside).map(|parent| (parent.text(), parent.at())));
        nodes.push(AppNode { id, title, kind, at: item.at(), parent: None, data, cases: cases(kind, data) });
    }
    for (at, parent) in parents.into_iter().enumerate() {
        let Some((parent, place)) = parent else { continue };
        match numbers.get(parent) {
            Some(&parent) if nodes[parent].repeats() && !nodes[at].repeats() && parent != at => {
                nodes[at].parent = Some(parent);
            }
            Some(_) => {
                let message = format_args!(
                    "node `{}` is nested in a way that cannot be expanded",
                    Shown(nodes[at].shown())
                );
                let hint = "iterations and loops cannot be nested".to_owned();
                file.faults.add_hinted(Code::Inexpressible, place, &path, message, Some(hint));
            }
            None => {
                let message = format_args!(
                    "node `{}` is inside `{}`, which does not exist",
                    Shown(nodes[at].shown()),
                    Shown(parent)
                );
                file.faults.add(Code::UnknownNode, place, &path, message);
            }
        }
    }
    (nodes, numbers)
}

fn edges<'t>(file: &mut File<'_>, graph: Item<'t>, numbers: &FxHashMap<&'t str, usize>) -> Vec<Edge<'t>> {
    let top = Path::root();
    let Some(listed) = graph.get("edges") else { return Vec::new() };
    let path = top.key("edges", listed.at());
    if listed.kind() != Kind::Seq {
        wrong_type(listed, &path, "a list", &mut file.faults);
    }
    let mut edges = Vec::new();
    for (place, item) in listed.items().enumerate() {
        let path = path.index(place, item.at());
        let mut end = |name: &str| {
            let id = item.get(name).map_or("", Item::text);
            let found = numbers.get(id).copied();
            if found.is_none() {
                let message = format_args!("the edge's {name} `{}` is not a node", Shown(id));
                file.faults.add(Code::UnknownNode, item.at(), &path, message);
            }
            found
        };
        if let (Some(from), Some(to)) = (end("source"), end("target")) {
            let handle = item.get("sourceHandle").map_or("source", Item::text);
            edges.push(Edge { from, to, handle });
        }
    }
    edges
}
