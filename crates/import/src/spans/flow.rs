//! What of a trace is a call, and which calls need which.

use super::Span;
use crate::graph::MAX_LINKS;
use rustc_hash::{FxHashMap, FxHashSet};

/// The calls of a trace by their starts, and how many were left out because others are inside of them: an application and its
/// proxy may both write down the same call.
pub(super) fn calls(mut spans: Vec<&Span>) -> (Vec<&Span>, usize) {
    spans.sort_by_key(|span| (span.start, span.end));
    let by_id: FxHashMap<&str, &Span> = spans.iter().map(|span| (span.id.as_str(), *span)).collect();
    let mut outer: FxHashSet<&str> = FxHashSet::default();
    for span in spans.iter().filter(|span| span.model.is_some()) {
        outer
            .extend(above(span, &by_id).filter(|above| above.model.is_some()).map(|above| above.id.as_str()));
    }
    let all = spans.iter().copied().filter(|span| span.model.is_some());
    let (kept, around): (Vec<&Span>, Vec<&Span>) = all.partition(|span| !outer.contains(span.id.as_str()));
    (kept, around.len())
}

/// What a span is inside of, from within.
fn above<'s>(span: &'s Span, by_id: &FxHashMap<&str, &'s Span>) -> impl Iterator<Item = &'s Span> {
    let mut seen = FxHashSet::default();
    let mut at = span;
    std::iter::from_fn(move || {
        // Parents may lead in a circle in a file that is damaged.
        at = by_id.get(at.parent.as_str()).copied().filter(|above| seen.insert(above.id.as_str()))?;
        Some(at)
    })
}

/// The edges that links between calls say.
pub(super) fn by_links(calls: &[&Span]) -> Vec<(u32, u32)> {
    let numbers: FxHashMap<&str, u32> =
        calls.iter().zip(0..).map(|(span, at)| (span.id.as_str(), at)).collect();
    let mut edges: Vec<(u32, u32)> = Vec::new();
    for (span, to) in calls.iter().zip(0..) {
        edges.extend(span.needs.iter().filter_map(|id| Some((*numbers.get(id.as_str())?, to))));
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// What stands below one span: the calls in it, and when the first began and the last ended.
#[derive(Clone)]
struct Part {
    start: i64,
    end: i64,
    /// Calls that need nothing in it, and those that nothing in it needs.
    first: Vec<u32>,
    last: Vec<u32>,
}

/// The edges that parents and times say; more than [`MAX_LINKS`] where there are too many.
pub(super) fn by_times(calls: &[&Span], all: &[&Span]) -> Vec<(u32, u32)> {
    let known: FxHashSet<&str> = all.iter().map(|span| span.id.as_str()).collect();
    let by_id: FxHashMap<&str, &Span> = all.iter().map(|span| (span.id.as_str(), *span)).collect();
    // What is below each span, the parts nearest to the calls first.
    let mut below: FxHashMap<&str, Vec<Part>> = FxHashMap::default();
    let mut depths: Vec<(usize, &str)> = Vec::new();
    let mut edges = Vec::new();
    let root = |span: &Span| if known.contains(span.parent.as_str()) { None } else { Some("") };
    for (span, at) in calls.iter().zip(0..) {
        let part = Part { start: span.start, end: span.end, first: vec![at], last: vec![at] };
        below.entry(root(span).unwrap_or(&span.parent)).or_default().push(part);
        let chain: Vec<&Span> = above(span, &by_id).collect();
        depths.extend(chain.iter().enumerate().map(|(up, above)| (chain.len() - up, above.id.as_str())));
    }
    depths.sort_unstable_by(|a, b| b.cmp(a));
    depths.dedup();
    for (_, id) in depths {
        let Some(part) = below.remove(id).and_then(|parts| joined(parts, &mut edges)) else { continue };
        let up = by_id.get(id).map_or("", |span| root(span).unwrap_or(&span.parent));
        // A circle of parents has no way up: its calls stand for themselves.
        let up = if up == id { "" } else { up };
        below.entry(up).or_default().push(part);
    }
    let rest: Vec<Part> = below.into_values().flatten().collect();
    joined(rest, &mut edges);
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Puts parts together: each needs those that ended before it began, but for what others of them need in turn.
fn joined(mut parts: Vec<Part>, edges: &mut Vec<(u32, u32)>) -> Option<Part> {
    parts.sort_by_key(|part| (part.start, part.end, part.first.first().copied()));
    let (start, latest_start) = (parts.first()?.start, parts.last()?.start);
    let end = parts.iter().map(|part| part.end).max()?;
    let mut by_end: Vec<usize> = (0..parts.len()).collect();
    by_end.sort_by_key(|&at| (parts[at].end, at));
    let (mut ended, mut between, mut first) = (0, None, Vec::new());
    for (at, part) in parts.iter().enumerate() {
        // One that began and ended in this very moment comes before those behind it, not before itself.
        while let Some(&next) = by_end.get(ended).filter(|&&next| parts[next].end <= part.start && next < at)
        {
            between = between.max(Some(parts[next].start));
            ended += 1;
        }
        let Some(between) = between else {
            first.extend(part.first.iter().copied());
            continue;
        };
        // Of what had ended, only what nothing between had waited for.
        let near = by_end[..ended].iter().rev().take_while(|&&other| parts[other].end > between);
        for &other in near {
            let last = &parts[other].last;
            edges.extend(last.iter().flat_map(|&from| part.first.iter().map(move |&to| (from, to))));
            if edges.len() > MAX_LINKS {
                return None;
            }
        }
    }
    let tail = parts.iter().enumerate().filter(|(at, part)| at + 1 == parts.len() || part.end > latest_start);
    let last = tail.flat_map(|(_, part)| part.last.iter().copied()).collect();
    Some(Part { start, end, first, last })
}

/// Puts calls into an order that does not hang on when those that go on side by side happened to begin: by the place that their
/// program gives them, else by how many others they come after, then by name. Gives the edges by the new numbers.
pub(super) fn in_order(calls: &mut Vec<&Span>, edges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    if edges.len() > MAX_LINKS {
        return edges;
    }
    // Calls are by their starts, and no edge leads back but in a damaged file.
    let mut sorted = edges.clone();
    sorted.sort_by_key(|&(_, to)| to);
    let mut levels = vec![0u32; calls.len()];
    for (from, to) in sorted {
        levels[to as usize] = levels[to as usize].max(levels[from as usize] + 1);
    }
    let mut order: Vec<usize> = (0..calls.len()).collect();
    let key = |at: usize| {
        let span = calls[at];
        let place = span.index.map_or(u64::from(levels[at]), |index| index as u64);
        (place, &span.name, &span.model, span.start)
    };
    order.sort_by(|&a, &b| key(a).cmp(&key(b)));
    let mut numbers = vec![0u32; calls.len()];
    order.iter().zip(0..).for_each(|(&old, new)| numbers[old] = new);
    *calls = order.iter().map(|&at| calls[at]).collect();
    let mut edges: Vec<(u32, u32)> =
        edges.into_iter().map(|(from, to)| (numbers[from as usize], numbers[to as usize])).collect();
    edges.sort_unstable();
    edges
}
