//! Graphs of which some nodes take no GPU time: those go, and what went through them stays joined.

use crate::File;
use gswarm_core::input::Code;
use gswarm_core::input::document::{Path, Shown, cycles};
use rustc_hash::FxHashSet;

/// Most nodes of one workflow, once everything is written out.
pub const MAX_NODES: usize = 10_000;

/// Most links of one file.
pub const MAX_LINKS: usize = 1_000_000;

/// Edges without doubles, in the order in which they first come.
pub fn plain(edges: impl IntoIterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
    let mut seen = FxHashSet::default();
    edges.into_iter().filter(|&edge| seen.insert(edge)).collect()
}

/// The nodes that are kept, and the edges between them by their new numbers: a node comes after another where a way leads
/// from one to the other that only passes nodes that go. There must be no cycle.
pub fn contract(
    nodes: usize,
    edges: &[(u32, u32)],
    keep: &dyn Fn(usize) -> bool,
) -> (Vec<usize>, Vec<(u32, u32)>) {
    let mut after: Vec<Vec<u32>> = vec![Vec::new(); nodes];
    for &(from, to) in edges {
        after[from as usize].push(to);
    }
    let kept: Vec<usize> = (0..nodes).filter(|&node| keep(node)).collect();
    let mut number = vec![u32::MAX; nodes];
    kept.iter().zip(0..).for_each(|(&node, place)| number[node] = place);
    let mut joined = Vec::new();
    let mut seen = vec![usize::MAX; nodes];
    for &from in &kept {
        let mut open = after[from].clone();
        while let Some(node) = open.pop() {
            let node = node as usize;
            if std::mem::replace(&mut seen[node], from) == from {
                continue;
            }
            match number[node] {
                u32::MAX => open.extend(&after[node]),
                to => joined.push((number[from], to)),
            }
        }
    }
    joined.sort_unstable();
    (kept, joined)
}

/// Reports cycles, each with its nodes; `true` where there are none.
pub fn acyclic(
    file: &mut File<'_>,
    names: &dyn Fn(usize) -> (String, u32),
    count: usize,
    edges: &[(u32, u32)],
) -> bool {
    let (own, others): (Vec<_>, Vec<_>) = edges.iter().partition(|(from, to)| from == to);
    for &(node, _) in &own {
        let (name, at) = names(node as usize);
        file.faults.add(
            Code::SelfEdge,
            at,
            &Path::root(),
            format_args!("`{}` depends on itself", Shown(&name)),
        );
    }
    let found = cycles(count, &others);
    for cycle in &found {
        let listed: Vec<String> =
            cycle.nodes.iter().take(8).map(|&node| format!("`{}`", Shown(&names(node as usize).0))).collect();
        let more = if cycle.nodes.len() > 8 { ", ..." } else { "" };
        let at = names(cycle.nodes[0] as usize).1;
        let message = format_args!("the nodes form a cycle: {}{more}", listed.join(", "));
        file.faults.add(Code::Cycle, at, &Path::root(), message);
    }
    own.is_empty() && found.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_through_a_node_that_goes_stays_joined() {
        // 0 -> 1 -> 2 -> 4, 0 -> 3 -> 4, of which 1 and 3 go.
        let edges = [(0, 1), (1, 2), (2, 4), (0, 3), (3, 4)];
        let (kept, joined) = contract(5, &edges, &|node| node != 1 && node != 3);
        assert_eq!(kept, [0, 2, 4]);
        assert_eq!(joined, [(0, 1), (0, 2), (1, 2)]);
    }

    #[test]
    fn doubles_go() {
        assert_eq!(plain([(1, 2), (2, 2), (1, 2), (0, 1)]), [(1, 2), (2, 2), (0, 1)]);
    }
}
