//! The cycles of a graph: one for each group of nodes that can all reach one another.

use std::collections::VecDeque;

/// A cycle.
#[derive(Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Its nodes, in the order of its edges; the last has an edge to the first.
    pub nodes: Vec<u32>,
    /// The edge (by its number) that closes it.
    pub edge: usize,
}

/// The edges that leave each node, behind one another in one array.
struct Graph {
    starts: Vec<usize>,
    /// (to, number of the edge).
    edges: Vec<(u32, usize)>,
}

impl Graph {
    fn new(nodes: usize, edges: &[(u32, u32)]) -> Graph {
        let mut starts = vec![0; nodes + 1];
        edges.iter().for_each(|&(from, _)| starts[from as usize + 1] += 1);
        (0..nodes).for_each(|node| starts[node + 1] += starts[node]);
        let mut next = starts.clone();
        let mut rows = vec![(0, 0); edges.len()];
        for (number, &(from, to)) in edges.iter().enumerate() {
            rows[next[from as usize]] = (to, number);
            next[from as usize] += 1;
        }
        Graph { starts, edges: rows }
    }

    fn from(&self, node: u32) -> &[(u32, usize)] {
        &self.edges[self.starts[node as usize]..self.starts[node as usize + 1]]
    }
}

/// A shortest cycle through the first node of each group, in the order of those nodes. There are no self-edges.
#[must_use]
pub fn cycles(nodes: usize, edges: &[(u32, u32)]) -> Vec<Cycle> {
    let graph = Graph::new(nodes, edges);
    if is_acyclic(nodes, edges, &graph) {
        return Vec::new();
    }
    let groups = groups(nodes, &graph);
    let mut done = vec![false; nodes];
    let mut sizes = vec![0_u32; nodes];
    groups.iter().for_each(|&group| sizes[group as usize] += 1);
    let mut found = Vec::new();
    let mut came_by = vec![usize::MAX; edges.len().max(nodes)];
    for node in 0..nodes as u32 {
        let group = groups[node as usize];
        if sizes[group as usize] > 1 && !std::mem::replace(&mut done[group as usize], true) {
            found.extend(shortest(&graph, edges, &groups, node, &mut came_by));
        }
    }
    found
}

fn is_acyclic(nodes: usize, edges: &[(u32, u32)], graph: &Graph) -> bool {
    let mut waiting = vec![0_u32; nodes];
    edges.iter().for_each(|&(_, to)| waiting[to as usize] += 1);
    let mut free: Vec<u32> = (0..nodes as u32).filter(|&node| waiting[node as usize] == 0).collect();
    let mut done = 0;
    while let Some(node) = free.pop() {
        done += 1;
        for &(to, _) in graph.from(node) {
            waiting[to as usize] -= 1;
            if waiting[to as usize] == 0 {
                free.push(to);
            }
        }
    }
    done == nodes
}

/// Tarjan's strongly connected components, with a stack of its own: the number of its group for each node.
fn groups(nodes: usize, graph: &Graph) -> Vec<u32> {
    const NEW: u32 = u32::MAX;
    let (mut order, mut low) = (vec![NEW; nodes], vec![0_u32; nodes]);
    let mut group = vec![NEW; nodes];
    let (mut stack, mut calls): (Vec<u32>, Vec<(u32, usize)>) = (Vec::new(), Vec::new());
    let (mut counter, mut count) = (0, 0);
    for root in 0..nodes as u32 {
        if order[root as usize] != NEW {
            continue;
        }
        calls.push((root, 0));
        while let Some(call) = calls.last_mut() {
            let (node, next) = (call.0, call.1);
            call.1 += 1;
            let here = node as usize;
            if next == 0 {
                (order[here], low[here]) = (counter, counter);
                counter += 1;
                stack.push(node);
            }
            if let Some(&(to, _)) = graph.from(node).get(next) {
                if order[to as usize] == NEW {
                    calls.push((to, 0));
                } else if group[to as usize] == NEW {
                    low[here] = low[here].min(order[to as usize]);
                }
                continue;
            }
            calls.pop();
            if let Some(&(parent, _)) = calls.last() {
                low[parent as usize] = low[parent as usize].min(low[here]);
            }
            if low[here] == order[here] {
                while let Some(member) = stack.pop() {
                    group[member as usize] = count;
                    if member == node {
                        break;
                    }
                }
                count += 1;
            }
        }
    }
    group
}

/// Breadth first from `start` inside its group until an edge leads back to it.
fn shortest(
    graph: &Graph,
    edges: &[(u32, u32)],
    groups: &[u32],
    start: u32,
    came_by: &mut [usize],
) -> Option<Cycle> {
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for &(to, edge) in graph.from(node) {
            if to == start {
                let mut nodes = vec![node];
                while let Some(&last) = nodes.last().filter(|&&last| last != start) {
                    nodes.push(edges[came_by[last as usize]].0);
                }
                nodes.reverse();
                return Some(Cycle { nodes, edge });
            }
            if groups[to as usize] == groups[start as usize] && came_by[to as usize] == usize::MAX {
                came_by[to as usize] = edge;
                queue.push_back(to);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_gives_its_shortest_cycle() {
        let edges = [(0, 1), (1, 2), (2, 0), (1, 0), (2, 3), (3, 4), (4, 3), (5, 0)];
        let found: Vec<Vec<u32>> = cycles(6, &edges).into_iter().map(|cycle| cycle.nodes).collect();
        assert_eq!(found, [vec![0, 1], vec![3, 4]]);
        assert_eq!(cycles(3, &[(0, 1), (0, 2), (1, 2)]), []);
    }

    #[test]
    fn a_cycle_of_a_million_nodes_needs_no_deep_stack() {
        let count = 1_000_000;
        let edges: Vec<(u32, u32)> = (0..count).map(|node| (node, (node + 1) % count)).collect();
        let found = cycles(count as usize, &edges);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].nodes.len(), count as usize);
    }
}
