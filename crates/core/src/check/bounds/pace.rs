//! The minimum GPU time of all nodes if each shares its GPUs only as long as its request has time left.
//!
//! Among b executions a node takes slowdown(b) times as long as alone, and slowdown(b) / b of that from its GPUs. Whatever
//! batches it goes through, it is on or above the lower edge of these points; and in a run that ends at T it cannot take longer
//! than T less what comes before and behind it.

use super::figures::{self, claimed};
use super::text;
use crate::id::IdVec;
use crate::instance::Instance;

/// The work of every schedule shorter than `value`, if what is said of it fits.
pub(super) fn work(instance: &Instance, said: f64, value: u128) -> Result<u128, String> {
    let shorter = least(instance, value.saturating_sub(1));
    let number = claimed(said).ok_or_else(|| format!("the work is {said} s"))?;
    // Sums of fractions: a millionth on either side. The figure may be that of the bound itself, which is smaller.
    let least = least(instance, value + 1);
    if number > shorter + shorter / 1_000_000 || number + least / 1_000_000 < least {
        return Err(format!("the work is {}, but the inputs give {}", text(number), text(shorter)));
    }
    Ok(number.max(shorter - shorter / 1_000_000_000))
}

/// The GPU-time that all nodes take at the least in a run that ends at `end`.
fn least(instance: &Instance, end: u128) -> u128 {
    let (entries, between) = (figures::entries(instance), figures::between(instance));
    let edges: IdVec<_, Vec<(f64, f64)>> =
        instance.models.iter().map(|model| edge(&model.slowdown)).collect();
    let mut total = 0.0;
    for request in instance.requests.keys() {
        let (heads, tails) = figures::around(instance, &entries, &between, request);
        for (task, (head, tail)) in instance.tasks_of(request).zip(heads.into_iter().zip(tails)) {
            let (model, alone) = (instance.model_of(task), instance.execution(task).0 as f64);
            let time = end.saturating_sub(u128::from(head) + u128::from(tail)) as f64;
            total += alone * f64::from(instance.models[model].gpus) * taken(&edges[model], time / alone);
        }
    }
    total as u128
}

/// The lower edge of a model's points (slowdown, share of its GPUs), from the fastest to the thriftiest: from each corner the
/// next is the one towards which the line falls most steeply.
fn edge(slowdown: &[u32]) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = slowdown
        .iter()
        .zip(1u32..)
        .map(|(&slow, batch)| (f64::from(slow) / 1e6, f64::from(slow) / 1e6 / f64::from(batch)))
        .collect();
    let order = |a: &&(f64, f64), b: &&(f64, f64)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1));
    let mut corners: Vec<(f64, f64)> = points.iter().min_by(order).copied().into_iter().collect();
    while let Some(&(x, y)) = corners.last() {
        let below = points.iter().filter(|point| point.0 > x && point.1 < y);
        let slope = |point: &(f64, f64)| (point.1 - y) / (point.0 - x);
        let Some(&next) = below.min_by(|a, b| slope(a).total_cmp(&slope(b)).then(b.0.total_cmp(&a.0))) else {
            break;
        };
        corners.push(next);
    }
    corners
}

/// What is taken at the least by a node that may take `stretch` times as long as alone.
fn taken(corners: &[(f64, f64)], stretch: f64) -> f64 {
    let Some(&first) = corners.first() else { return 1.0 };
    let line = |pair: &[(f64, f64)]| {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        y0 + (y1 - y0) * (stretch - x0) / (x1 - x0)
    };
    match corners.windows(2).find(|pair| stretch < pair[1].0) {
        _ if stretch <= first.0 => first.1,
        Some(pair) => line(pair),
        None => corners.last().map_or(1.0, |last| last.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edge_is_that_of_the_points() {
        // (1, 1), (1.5, 0.75), (1.5, 0.5): the second is above the line between the others.
        let corners = edge(&[1_000_000, 1_500_000, 1_500_000]);
        assert_eq!(corners, [(1.0, 1.0), (1.5, 0.5)]);
        assert_eq!([0.5, 1.0, 1.25, 1.5, 9.0].map(|at| taken(&corners, at)), [1.0, 1.0, 0.75, 0.5, 0.5]);
        assert_eq!(edge(&[1_000_000, 4_000_000]), [(1.0, 1.0)]);
        assert_eq!(edge(&[1_000_000, 1_000_000]), [(1.0, 0.5)]);
    }
}
