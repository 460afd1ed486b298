//! Looks up nodes and requests by name, with suggestions for unknown names.

use crate::id::{RequestId, TaskId};
use crate::instance::Instance;

/// There is nothing of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {kind} `{name}`{}", hint(near))]
pub struct Unknown {
    /// `request` or `node`.
    pub kind: &'static str,
    /// What was asked for.
    pub name: String,
    /// Names that are near, nearest first.
    pub near: Vec<String>,
}

fn hint(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; near: {}", near.join(", ")) }
}

/// The request of this name.
pub fn find_request(instance: &Instance, name: &str) -> Result<RequestId, Unknown> {
    let found = instance.requests.iter_enumerated().find(|(_, request)| request.name == name);
    found.map(|(id, _)| id).ok_or_else(|| {
        let names = instance.requests.iter().map(|request| request.name.as_str());
        Unknown { kind: "request", name: name.to_string(), near: nearest(name, names) }
    })
}

/// The node named as `request/node`. A request's name may have a slash in it; so may a node's.
pub fn find_task(instance: &Instance, name: &str) -> Result<TaskId, Unknown> {
    let slashes: Vec<usize> = name.match_indices('/').map(|(at, _)| at).collect();
    let mut known = None;
    for &at in slashes.iter().rev() {
        let Ok(request) = find_request(instance, &name[..at]) else { continue };
        let workflow = &instance.workflows[instance.requests[request].workflow];
        let node = workflow.nodes.iter().position(|node| *node == name[at + 1..]);
        if let Some(node) = node {
            return Ok(TaskId(instance.requests[request].first_task.0 + node as u32));
        }
        known = Some((request, &name[at + 1..]));
    }
    let near = match (known, slashes.last()) {
        (Some((request, node)), _) => {
            let (request, workflow) = {
                let request = &instance.requests[request];
                (&request.name, &instance.workflows[request.workflow])
            };
            let mut near = nearest(node, workflow.nodes.iter().map(String::as_str));
            // A workflow's nodes are few: where none is near, all of them are of use.
            if near.is_empty() {
                near = workflow.nodes.iter().take(MOST).cloned().collect();
            }
            near.into_iter().map(|node| format!("{request}/{node}")).collect()
        }
        (None, slash) => {
            let (request, node) = slash.map_or((name, None), |&at| (&name[..at], Some(&name[at + 1..])));
            let near = nearest(request, instance.requests.iter().map(|request| request.name.as_str()));
            let suffix =
                |name: String| node.map_or_else(|| format!("{name}/..."), |node| format!("{name}/{node}"));
            near.into_iter().map(suffix).collect()
        }
    };
    Err(Unknown { kind: "node", name: name.to_string(), near })
}

/// Most names that are offered.
const MOST: usize = 5;

fn nearest<'n>(name: &str, all: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut scored: Vec<(f64, &str)> = all
        .map(|known| (strsim::normalized_damerau_levenshtein(name, known), known))
        .filter(|&(score, _)| score >= 0.6)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(MOST).map(|(_, known)| known.to_string()).collect()
}
