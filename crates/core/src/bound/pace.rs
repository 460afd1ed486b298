//! The area, where each task shares its GPUs only as far as its request leaves it time to.
//!
//! Among b executions a task does 1/slowdown(b) of its work a second and takes 1/b of its GPUs. For a makespan T it has no
//! longer than T - head - tail, so it cannot spend all its work at a slowdown above (T - head - tail) / execution: what it
//! takes of its GPUs is at least the lower convex hull of the points (slowdown(b), slowdown(b) / b) there. The smallest T for
//! which what all tasks take, and the idle start, fit into the GPUs is a bound: the area knows no paths, the path no area.

use super::{Bound, Slack, Witness, smallest};
use crate::id::{IdVec, ModelId};
use crate::instance::{Instance, Model};
use crate::time::Span;

/// `None` where no model batches, which leaves the area, or where this says no more than `least`, which is known already.
pub(super) fn bound(instance: &Instance, slack: &Slack, least: Span) -> Option<Bound> {
    if instance.models.iter().all(|model| model.max_batch() == 1) {
        return None;
    }
    let hulls: IdVec<ModelId, Hull> = instance.models.iter().map(Hull::of).collect();
    let gpus = instance.cluster.gpus.max(1);
    let earliest = slack.head.iter().copied().min().unwrap_or_default();
    let idle = u128::from(earliest.0) * u128::from(gpus);
    let work = |makespan: u64| {
        let of_task = |task| {
            let model = instance.model_of(task);
            let alone = instance.execution(task).0 as f64;
            let time = makespan.saturating_sub(slack.head[task].0 + slack.tail[task].0) as f64;
            alone * f64::from(instance.models[model].gpus) * hulls[model].share(time / alone)
        };
        // A millionth of a millionth for the sums of a machine's numbers.
        (instance.task_ids().map(of_task).sum::<f64>() * (1.0 - 1e-9)) as u128
    };
    let fits = |makespan: u64| work(makespan) + idle <= u128::from(makespan) * u128::from(gpus);
    // More time never makes a task take more, so a search by halves finds the smallest that fits.
    if fits(least.0) {
        return None;
    }
    let high = smallest(least.0, fits)?;
    Some(Bound { value: Span(high), witness: Witness::Pace { work: work(high), idle, gpus } })
}

/// What an execution takes of its GPUs at the least, by how much longer than alone it may take.
struct Hull(Vec<(f64, f64)>);

impl Hull {
    fn of(model: &Model) -> Hull {
        let point = |(&slow, batch): (&u32, u32)| {
            let slow = f64::from(slow) / 1e6;
            (slow, slow / f64::from(batch))
        };
        let mut hull: Vec<(f64, f64)> = Vec::new();
        for next in model.slowdown.iter().zip(1u32..).map(point) {
            // Slower and no thriftier.
            if hull.last().is_some_and(|last| next.1 >= last.1) {
                continue;
            }
            while hull.last().is_some_and(|last| last.0 >= next.0)
                || hull.len() > 1 && !turns_up(hull[hull.len() - 2], hull[hull.len() - 1], next)
            {
                hull.pop();
            }
            hull.push(next);
        }
        Hull(hull)
    }

    /// At a slowdown of `stretch` on average. Below 1, where no schedule is, that of 1.
    fn share(&self, stretch: f64) -> f64 {
        let after = self.0.partition_point(|&(slow, _)| slow <= stretch);
        match (after.checked_sub(1).map(|at| self.0[at]), self.0.get(after)) {
            (Some((x0, y0)), Some(&(x1, y1))) => y0 + (y1 - y0) * (stretch - x0) / (x1 - x0),
            (Some((_, y)), None) | (None, Some(&(_, y))) => y,
            (None, None) => 1.0,
        }
    }
}

/// Whether the line through three points bends upwards at the middle one, as a lower hull does.
fn turns_up(a: (f64, f64), b: (f64, f64), c: (f64, f64)) -> bool {
    (b.0 - a.0) * (c.1 - a.1) > (b.1 - a.1) * (c.0 - a.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpuset::GpuSet;

    fn hull(slowdown: &[u32]) -> Hull {
        Hull::of(&Model {
            name: "m".into(),
            memory_gb: 1.0,
            gpus: 1,
            load_seconds: 1.0,
            unload_seconds: 0.0,
            memory_per_gpu: 1,
            slot_gb: 0.0,
            slot_per_gpu: 0,
            slowdown: slowdown.to_vec(),
            starts: GpuSet::full(1),
            spread: 0.0,
            deviation: 0.0,
        })
    }

    #[test]
    fn sharing_costs_what_the_hull_says() {
        // (1, 1), (1.5, 0.75), (1.5, 0.5): the second is above the line between the others.
        let hull = hull(&[1_000_000, 1_500_000, 1_500_000]);
        assert_eq!(hull.0, [(1.0, 1.0), (1.5, 0.5)]);
        assert_eq!([0.5, 1.0, 1.25, 1.5, 9.0].map(|at| hull.share(at)), [1.0, 1.0, 0.75, 0.5, 0.5]);
    }

    #[test]
    fn batches_that_are_free_leave_one_point() {
        assert_eq!(hull(&[1_000_000, 1_000_000]).0, [(1.0, 0.5)]);
        assert_eq!(hull(&[1_000_000, 4_000_000]).0, [(1.0, 1.0)]);
    }
}
