//! Local search over orders: move a task or a whole request, keep improvements and, at first, some slightly worse
//! orders.

use super::order::{Decoder, Order, Scratch};
use crate::id::{RequestId, TaskId};
use crate::plan::Plan;
use crate::plan::objective::PlanObjective;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How much a walk may do.
pub(super) struct Effort<'a> {
    pub tries: u64,
    pub stop: &'a (dyn Fn() -> bool + Sync),
    pub seed: u64,
}

/// How much waste counts against an early start: what a walk begins with, the best of these.
const THRIFTS: [f64; 6] = [0.0, 0.3, 1.0, 3.0, 10.0, 100.0];

/// The best plan found from the order of `from`; `None` where there is no order to change.
pub(super) fn walk(
    decoder: &Decoder<'_>,
    objective: &PlanObjective,
    from: &Plan,
    effort: Effort<'_>,
) -> Option<Plan> {
    let mut rng = ChaCha8Rng::seed_from_u64(effort.seed);
    let mut scratch = Scratch::default();
    let tasks: Vec<TaskId> = from.0.iter().map(|&(task, _)| task).collect();
    let begin = |thrift: f64| Order { tasks: tasks.clone(), thrift };
    let mut now = Order { tasks: Vec::new(), thrift: 0.0 };
    let mut cost = f64::INFINITY;
    for thrift in THRIFTS {
        let order = begin(thrift);
        let value = objective.cost(&decoder.values(&order, &mut scratch));
        if value < cost {
            (now, cost) = (order, value);
        }
    }
    if now.tasks.len() < 2 {
        return None;
    }
    let (mut best, mut least) = (now.clone(), cost);
    let hot = 0.002 * cost;
    for attempt in 0..effort.tries {
        if attempt % 8 == 0 && (effort.stop)() {
            break;
        }
        let heat = hot * (1.0 - attempt as f64 / effort.tries as f64).powi(2);
        let mut next = now.clone();
        change(decoder, &mut next, &mut rng);
        let value = objective.cost(&decoder.values(&next, &mut scratch));
        if value <= cost || heat > 0.0 && rng.random::<f64>() < ((cost - value) / heat).exp() {
            (now, cost) = (next, value);
            if cost < least {
                (best, least) = (now.clone(), cost);
            }
        }
    }
    Some(decoder.plan(&best, &mut scratch))
}

fn change(decoder: &Decoder<'_>, order: &mut Order, rng: &mut ChaCha8Rng) {
    let count = order.tasks.len();
    match rng.random_range(0..10) {
        0 => order.thrift = THRIFTS[rng.random_range(0..THRIFTS.len())],
        1..5 => {
            let request = decoder.instance.request_of(order.tasks[rng.random_range(0..count)]);
            let shift = rng.random_range(0..count) as f64 - count as f64 / 2.0;
            move_request(decoder, order, request, shift);
        }
        _ => {
            let at = rng.random_range(0..count);
            let reach = (count / 8).max(4);
            let to = rng.random_range(at.saturating_sub(reach)..(at + reach + 1).min(count));
            move_task(decoder, order, at, to);
        }
    }
}

/// Moves a task as far towards a place as its inputs, and what needs it, allow.
fn move_task(decoder: &Decoder<'_>, order: &mut Order, at: usize, to: usize) {
    let task = order.tasks[at];
    let mut at = at;
    let tied = |one: TaskId, other: TaskId| decoder.instance.predecessors(other).any(|before| before == one);
    while at < to && !tied(task, order.tasks[at + 1]) {
        order.tasks.swap(at, at + 1);
        at += 1;
    }
    while at > to && !tied(order.tasks[at - 1], task) {
        order.tasks.swap(at, at - 1);
        at -= 1;
    }
}

/// Moves all tasks of a request by as many places; among themselves they keep their order.
fn move_request(decoder: &Decoder<'_>, order: &mut Order, request: RequestId, shift: f64) {
    let mut keyed: Vec<(f64, TaskId)> = Vec::with_capacity(order.tasks.len());
    for (place, &task) in order.tasks.iter().enumerate() {
        let moved = decoder.instance.request_of(task) == request;
        keyed.push((place as f64 + if moved { shift } else { 0.0 }, task));
    }
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    order.tasks.clear();
    order.tasks.extend(keyed.into_iter().map(|(_, task)| task));
}
