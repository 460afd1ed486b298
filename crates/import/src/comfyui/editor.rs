//! The form that the editor saves: lists of nodes and links, and subgraphs that stand in the file once and are written out
//! here at each place where they are used.

use super::nodes::{HUB, Input, MAX_SLOTS, Mode, Node, named_by_inputs, widget_names};
use crate::File;
use crate::graph::{MAX_LINKS, MAX_NODES};
use gswarm_core::input::Code;
use gswarm_core::input::document::{Faults, Item, Kind, Path, Scalar, Shown, keep, wrong_type};
use rustc_hash::FxHashMap;
use serde_json::Value;

/// The numbers by which the links of a subgraph name its two ends.
const ENTRY: &str = "-10";
const EXIT: &str = "-20";
/// The slot of a link that leads nowhere any more.
const CUT: &str = "-1";

/// How deep subgraphs may stand inside one another.
const MAX_DEPTH: usize = 64;

/// A subgraph that is being written out: its two ends.
#[derive(Clone, Copy)]
struct Ends {
    entry: usize,
    exit: usize,
}

struct Reader<'f, 'a, 't> {
    file: &'f mut File<'a>,
    subgraphs: FxHashMap<&'t str, Item<'t>>,
    nodes: Vec<Node>,
    links: usize,
    /// The subgraphs that are being written out, outermost first.
    open: Vec<&'t str>,
    full: bool,
}

pub fn read(file: &mut File<'_>, root: Item<'_>) -> Vec<Node> {
    let mut subgraphs = FxHashMap::default();
    let defined = root.get("definitions").and_then(|found| found.get("subgraphs"));
    for subgraph in defined.into_iter().flat_map(Item::items) {
        if let Some(id) = subgraph.get("id") {
            subgraphs.insert(id.text(), subgraph);
        }
    }
    let mut reader = Reader { file, subgraphs, nodes: Vec::new(), links: 0, open: Vec::new(), full: false };
    reader.graph(root, "", None);
    reader.nodes
}

impl<'t> Reader<'_, '_, 't> {
    fn faults(&mut self) -> &mut Faults {
        &mut self.file.faults
    }

    /// The nodes and links of one graph.
    fn graph(&mut self, graph: Item<'t>, prefix: &str, ends: Option<Ends>) {
        let root = Path::root();
        let Some(list) = graph.get("nodes").filter(|nodes| nodes.kind() == Kind::Seq) else {
            self.faults().add(
                Code::Missing,
                graph.at(),
                &root,
                format_args!("a graph without a list of `nodes`"),
            );
            return;
        };
        // Each node by its number: where links to it end and where links from it start.
        let mut places: FxHashMap<&str, (Ends, Item<'t>)> = FxHashMap::default();
        let path = root.key("nodes", list.at());
        for (place, item) in list.items().enumerate() {
            let path = path.index(place, item.at());
            if self.nodes.len() > MAX_NODES {
                if !std::mem::replace(&mut self.full, true) {
                    super::too_many(self.file);
                }
                return;
            }
            let Some((id, class)) = self.id_and_class(item, &path) else { continue };
            let full_id = format!("{prefix}{id}");
            let ends = match self.subgraphs.get(class).copied() {
                Some(subgraph) => match self.subgraph(class, subgraph, item, &full_id) {
                    Some(ends) => ends,
                    None => return,
                },
                None => {
                    let node = self.node(item, full_id, class, &path);
                    self.nodes.push(node);
                    let at = self.nodes.len() - 1;
                    Ends { entry: at, exit: at }
                }
            };
            if places.insert(id, (ends, item)).is_some() {
                let message = format_args!("two nodes have the id {}", Shown(id));
                self.faults().add(Code::Duplicate, item.at(), &path, message);
            }
        }
        let Some(links) = graph.get("links") else { return };
        if links.kind() != Kind::Seq {
            return wrong_type(links, &root.key("links", links.at()), "a list", self.faults());
        }
        let path = root.key("links", links.at());
        for (place, link) in links.items().enumerate() {
            self.links += 1;
            if self.links > MAX_LINKS {
                let message = format_args!("more than {MAX_LINKS} links after expanding subgraphs");
                self.faults().add(Code::Expands, link.at(), &root, message);
                return;
            }
            self.link(link, &path.index(place, link.at()), &places, ends, graph);
        }
    }

    fn id_and_class(&mut self, item: Item<'t>, path: &Path<'_>) -> Option<(&'t str, &'t str)> {
        if item.kind() != Kind::Map {
            wrong_type(item, path, "a mapping", self.faults());
            return None;
        }
        let mut text = |name: &str| {
            let found = item
                .get(name)
                .filter(|found| matches!(found.scalar(), Some(Scalar::Text | Scalar::Number(_))));
            if found.is_none_or(|found| found.text().is_empty()) {
                let message = format_args!("the node has no `{name}`");
                self.file.faults.add(Code::Missing, item.at(), path, message);
                return None;
            }
            found.map(Item::text)
        };
        let (id, class) = (text("id"), text("type"));
        id.zip(class)
    }

    /// Writes a subgraph out, between an entry and an exit that pass links on slot by slot.
    fn subgraph(
        &mut self,
        id: &'t str,
        subgraph: Item<'t>,
        instance: Item<'t>,
        full_id: &str,
    ) -> Option<Ends> {
        if self.open.contains(&id) {
            let name = subgraph.get("name").map_or(id, Item::text);
            let message = format_args!("the subgraph `{}` contains itself", Shown(name));
            self.faults().add(Code::ContainsItself, instance.at(), &Path::root(), message);
            return None;
        }
        if self.open.len() == MAX_DEPTH {
            let message = format_args!("subgraphs are nested more than {MAX_DEPTH} levels deep");
            self.faults().add(Code::Expands, instance.at(), &Path::root(), message);
            return None;
        }
        let mode = mode(instance);
        let mut hub = |slots: Option<Item<'t>>, kind: &str| {
            let slots = slots.into_iter().flat_map(Item::items);
            let input = |slot: Item<'t>| Input {
                name: slot.get("name").map_or(String::new(), |name| name.text().to_owned()),
                kind: slot.get("type").map(|kind| kind.text().to_owned()),
                from: None,
            };
            self.nodes.push(Node {
                id: format!("{full_id}:{kind}"),
                class: HUB.to_owned(),
                at: instance.at(),
                mode,
                inputs: slots.map(input).collect(),
                outputs: Vec::new(),
                widgets: Vec::new(),
                folders: Vec::new(),
            });
            self.nodes.len() - 1
        };
        let ends =
            Ends { entry: hub(subgraph.get("inputs"), "in"), exit: hub(subgraph.get("outputs"), "out") };
        self.open.push(id);
        let inside = self.nodes.len();
        self.graph(subgraph, &format!("{full_id}:"), Some(ends));
        self.open.pop();
        if mode == Mode::Muted {
            self.nodes[inside..].iter_mut().for_each(|node| node.mode = Mode::Muted);
        }
        Some(ends)
    }

    fn node(&mut self, item: Item<'t>, id: String, class: &str, path: &Path<'_>) -> Node {
        let list = |name: &str| {
            item.get(name).into_iter().filter(|list| list.kind() == Kind::Seq).flat_map(Item::items)
        };
        let said = |slot: Item<'t>, name: &str| slot.get(name).map(|found| found.text().to_owned());
        let inputs = list("inputs").map(|slot| Input {
            name: said(slot, "name").unwrap_or_default(),
            kind: said(slot, "type"),
            from: None,
        });
        let models = item.get("properties").and_then(|found| found.get("models"));
        let folder = |model: Item<'t>| Some((said(model, "name")?, said(model, "directory")?));
        let folders = models.into_iter().flat_map(Item::items).filter_map(folder);
        Node {
            id,
            class: class.to_owned(),
            at: item.at(),
            mode: mode(item),
            inputs: inputs.collect(),
            outputs: list("outputs").map(|slot| said(slot, "type").unwrap_or_default()).collect(),
            folders: folders.collect(),
            widgets: widgets(item, class, path, &mut self.file.faults),
        }
    }

    fn link(
        &mut self,
        link: Item<'t>,
        path: &Path<'_>,
        places: &FxHashMap<&str, (Ends, Item<'t>)>,
        ends: Option<Ends>,
        graph: Item<'t>,
    ) {
        let parts: Vec<Item<'t>> = match link.kind() {
            Kind::Seq => link.items().skip(1).take(4).collect(),
            Kind::Map => ["origin_id", "origin_slot", "target_id", "target_slot"]
                .iter()
                .filter_map(|name| link.get(name))
                .collect(),
            _ => Vec::new(),
        };
        // The editor leaves holes in the list.
        if link.is_null() {
            return;
        }
        let slot = |item: Item<'t>| item.text().parse::<usize>().ok().filter(|&slot| slot < MAX_SLOTS);
        let [origin, from_slot, target, to_slot] = parts[..] else {
            return wrong_type(link, path, "a link from a node's output to a node's input", self.faults());
        };
        // A link that the editor has lost the slot of: the outputs of a subgraph still name it; elsewhere it is cut.
        let found = if to_slot.text() == CUT { output_of(graph, link) } else { slot(to_slot) };
        if from_slot.text() == CUT || (to_slot.text() == CUT && found.is_none()) {
            return;
        }
        let (Some(from_slot), Some(to_slot)) = (slot(from_slot), found) else {
            return wrong_type(link, path, "a link with numbers of an output and an input", self.faults());
        };
        let from = match (places.get(origin.text()), ends) {
            (Some(&(place, instance)), _) => Some((place.exit, self.output_slot(place, instance, from_slot))),
            (None, Some(ends)) if origin.text() == ENTRY => Some((ends.entry, from_slot)),
            _ => None,
        };
        let to = match (places.get(target.text()), ends) {
            (Some(&(place, instance)), _) => Some((place.entry, self.input_slot(place, instance, to_slot))),
            (None, Some(ends)) if target.text() == EXIT => Some((ends.exit, to_slot)),
            _ => None,
        };
        let (Some(from), Some((to, to_slot))) = (from, to) else {
            let missing = if from.is_none() { origin } else { target };
            let message =
                format_args!("a link refers to node {}, which does not exist", Shown(missing.text()));
            return self.faults().add(Code::UnknownNode, link.at(), path, message);
        };
        let inputs = &mut self.nodes[to].inputs;
        while inputs.len() <= to_slot {
            inputs.push(Input { name: String::new(), kind: None, from: None });
        }
        inputs[to_slot].from = Some(from);
        let kind = match link.kind() {
            Kind::Seq => link.items().nth(5),
            _ => link.get("type"),
        };
        if let (None, Some(kind)) = (&inputs[to_slot].kind, kind) {
            inputs[to_slot].kind = Some(kind.text().to_owned());
        }
    }

    /// The slot of an entry that an input of the subgraph's node goes to: they go by their names.
    fn input_slot(&self, place: Ends, instance: Item<'t>, slot: usize) -> usize {
        self.slot(place.entry, place, instance, "inputs", slot)
    }

    fn output_slot(&self, place: Ends, instance: Item<'t>, slot: usize) -> usize {
        self.slot(place.exit, place, instance, "outputs", slot)
    }

    fn slot(&self, end: usize, place: Ends, instance: Item<'t>, list: &str, slot: usize) -> usize {
        if place.entry == place.exit {
            return slot;
        }
        let name = instance.get(list).and_then(|list| list.items().nth(slot)?.get("name")).map(Item::text);
        let known = |name| self.nodes[end].inputs.iter().position(|input| input.name == name);
        name.and_then(known).unwrap_or(slot)
    }
}

/// The output of a subgraph that a link leads to, by the link's number.
fn output_of(graph: Item<'_>, link: Item<'_>) -> Option<usize> {
    let id = link.get("id")?.text();
    let leads = |output: Item<'_>| {
        output.get("linkIds").into_iter().flat_map(Item::items).any(|known| known.text() == id)
    };
    graph.get("outputs")?.items().position(leads)
}

fn mode(item: Item<'_>) -> Mode {
    match item.get("mode").map(Item::text) {
        Some("2") => Mode::Muted,
        Some("4") => Mode::Bypassed,
        _ => Mode::Active,
    }
}

/// The inputs that settings have, with their types.
fn widget_inputs(item: Item<'_>) -> Vec<(String, String)> {
    let inputs = item.get("inputs").into_iter().filter(|list| list.kind() == Kind::Seq).flat_map(Item::items);
    let named = |input: Item<'_>| {
        let kind = input.get("type").map_or("", Item::text).to_owned();
        Some((input.get("widget")?.get("name")?.text().to_owned(), kind))
    };
    inputs.filter_map(named).collect()
}

/// Settings: a list in the order of the class, or, of some nodes, a mapping by name.
fn widgets(
    item: Item<'_>,
    class: &str,
    path: &Path<'_>,
    faults: &mut Faults,
) -> Vec<(Option<String>, Value)> {
    let Some(values) = item.get("widgets_values") else { return Vec::new() };
    match values.kind() {
        Kind::Seq => {
            let values: Vec<Value> = values.items().map(|value| keep(value, path, faults)).collect();
            let known = widget_names(class);
            let names = match known.is_empty() {
                true => named_by_inputs(&widget_inputs(item), &values),
                false => (0..values.len()).map(|at| known.get(at).map(|&name| name.to_owned())).collect(),
            };
            names.into_iter().zip(values).collect()
        }
        Kind::Map => values
            .entries()
            .map(|(key, value)| (Some(key.text().to_owned()), keep(value, path, faults)))
            .collect(),
        _ => Vec::new(),
    }
}
