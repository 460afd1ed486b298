//! The form that the API takes: a mapping from ids to classes with their inputs, which are values or links.

use super::nodes::{Input, MAX_SLOTS, Mode, Node};
use crate::File;
use crate::graph::MAX_NODES;
use gswarm_core::input::Code;
use gswarm_core::input::document::{Item, Kind, Path, Shown, keep, wrong_type};
use rustc_hash::FxHashMap;

/// Whether some entry of a mapping is a node.
pub fn is_api(root: Item<'_>) -> bool {
    root.kind() == Kind::Map && root.entries().any(|(_, node)| node.get("class_type").is_some())
}

pub fn read(file: &mut File<'_>, prompt: Item<'_>) -> Vec<Node> {
    if prompt.count() > MAX_NODES {
        super::too_many(file);
        return Vec::new();
    }
    let numbers: FxHashMap<&str, usize> =
        prompt.entries().enumerate().map(|(at, (key, _))| (key.text(), at)).collect();
    let root = Path::root();
    let mut nodes = Vec::new();
    for (key, item) in prompt.entries() {
        let path = root.key(key.text(), key.at());
        let class = item.get("class_type").map_or("", Item::text);
        if class.is_empty() {
            let message = format_args!("node {} has no `class_type`", Shown(key.text()));
            file.faults.add(Code::Missing, key.at(), &path, message);
        }
        let mut node = Node {
            id: key.text().to_owned(),
            class: class.to_owned(),
            at: key.at(),
            mode: Mode::Active,
            inputs: Vec::new(),
            outputs: Vec::new(),
            widgets: Vec::new(),
            folders: Vec::new(),
        };
        let inputs = item.get("inputs");
        if let Some(wrong) = inputs.filter(|inputs| inputs.kind() != Kind::Map) {
            wrong_type(wrong, &path.key("inputs", wrong.at()), "a mapping", &mut file.faults);
        }
        for (name, value) in
            inputs.into_iter().filter(|inputs| inputs.kind() == Kind::Map).flat_map(Item::entries)
        {
            let path = path.key(name.text(), name.at());
            match link(value) {
                Some((from, slot)) => match numbers.get(from) {
                    Some(&from) => node.inputs.push(Input {
                        name: name.text().to_owned(),
                        kind: None,
                        from: Some((from, slot)),
                    }),
                    None => {
                        let message =
                            format_args!("a link refers to node {}, which does not exist", Shown(from));
                        file.faults.add(Code::UnknownNode, value.at(), &path, message);
                    }
                },
                None => {
                    let kept = keep(value, &path, &mut file.faults);
                    node.widgets.push((Some(name.text().to_owned()), kept));
                }
            }
        }
        nodes.push(node);
    }
    nodes
}

/// `["4", 0]`: a node and the number of its output.
fn link(value: Item<'_>) -> Option<(&str, usize)> {
    if value.kind() != Kind::Seq || value.count() != 2 {
        return None;
    }
    let mut parts = value.items();
    let (node, slot) = (parts.next()?, parts.next()?);
    let slot = slot.text().parse::<usize>().ok().filter(|&slot| slot < MAX_SLOTS)?;
    (node.scalar().is_some() && !node.text().is_empty()).then_some((node.text(), slot))
}
