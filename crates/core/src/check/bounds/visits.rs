//! What GPUs lose between models, proved by prices.
//!
//! Each GPU goes from the start of the run through the models that it executes to the end, and every step costs: the first
//! model's least head, a load between two, the last one's least tail. If leaving and entering are given prices such that no
//! step, nor any chain of steps, costs less than the two prices of its ends, then all steps together cost at least the sum of
//! the prices of all leavings and enterings that there must be. That holds whoever chose the prices.

use super::figures::{self, WAY, claimed};
use super::text;
use crate::id::{IdVec, ModelId, TaskId};
use crate::instance::{Instance, Residency};
use crate::log_file::VisitPrice;

/// Steps that cannot be made.
const NEVER: i128 = i128::MAX / 4;

/// The GPU-time that every schedule shorter than `value` loses, if the prices prove what is said of it.
pub(super) fn lost(
    instance: &Instance,
    said: f64,
    (begin, end): (f64, f64),
    prices: &[VisitPrice],
    value: u128,
) -> Result<u128, String> {
    let facts = Facts::of(instance);
    let (begin, end) = (price("begin", begin)?, price("end", end)?);
    let gpus = i128::from(instance.cluster.gpus);
    let mut worth = gpus * (begin + end);
    let mut known: IdVec<ModelId, Option<(i128, i128)>> = vec![None; instance.models.len()].into();
    for one in prices {
        let name = &one.model_name;
        let found = instance.models.iter_enumerated().find(|(_, model)| model.name == *name);
        let (id, _) = found.ok_or_else(|| format!("there is no model `{name}`"))?;
        let (leave, enter) = (price("leave", one.leave_seconds)?, price("enter", one.enter_seconds)?);
        if known[id].replace((leave, enter)).is_some() {
            return Err(format!("model `{name}` has two prices"));
        }
        let most = facts.visits(instance, id, value.saturating_sub(1));
        if u128::from(one.visits) > most {
            return Err(format!("{} GPUs visit `{name}`, but the inputs give {most}", one.visits));
        }
        worth += i128::from(one.visits) * (leave + enter);
    }
    let steps = facts.steps(instance);
    // The begin and the end stand behind the models; a model without a price is never counted on.
    let (leaves, enters) = (with(&known, |one| one.0, begin), with(&known, |one| one.1, end));
    for (from, row) in steps.iter().enumerate() {
        for (to, &cost) in row.iter().enumerate() {
            let (Some(leave), Some(enter)) = (leaves[from], enters[to]) else { continue };
            if leave + enter > cost + WAY as i128 {
                let name = |at: usize, other| {
                    instance.models.iter().nth(at).map_or(other, |model| model.name.as_str())
                };
                let (from, to) = (name(from, "the start"), name(to, "the end"));
                return Err(format!("from {from} to {to} costs less than the prices say"));
            }
        }
    }
    let said = claimed(said).ok_or_else(|| format!("the lost time is {said} s"))?;
    let proved = u128::try_from(worth).unwrap_or(0);
    if said > proved + figures::slack(proved) + WAY * gpus as u128 {
        return Err(format!("{} GPU-time is lost, but the prices prove {}", text(said), text(proved)));
    }
    Ok(said)
}

fn with(
    known: &IdVec<ModelId, Option<(i128, i128)>>,
    part: impl Fn(&(i128, i128)) -> i128,
    last: i128,
) -> Vec<Option<i128>> {
    known.iter().map(|one| one.as_ref().map(&part)).chain([Some(last)]).collect()
}

/// A price in microseconds; it may be below zero.
fn price(what: &str, seconds: f64) -> Result<i128, String> {
    if seconds.is_finite() && seconds.abs() < 1e15 {
        return Ok((seconds * 1e6).round() as i128);
    }
    Err(format!("the price of `{what}` is {seconds} s"))
}

/// The least before and behind each model's executions, and how long they take.
struct Facts {
    head: IdVec<ModelId, Option<u64>>,
    tail: IdVec<ModelId, Option<u64>>,
    work: IdVec<ModelId, u128>,
}

impl Facts {
    fn of(instance: &Instance) -> Facts {
        let none: IdVec<ModelId, Option<u64>> = vec![None; instance.models.len()].into();
        let mut facts = Facts { head: none.clone(), tail: none, work: figures::work(instance) };
        let (entries, between) = (figures::entries(instance), figures::between(instance));
        for (id, request) in instance.requests.iter_enumerated() {
            let (heads, tails) = figures::around(instance, &entries, &between, id);
            for (node, (head, tail)) in (0..).zip(heads.into_iter().zip(tails)) {
                let model = instance.model_of(TaskId(request.first_task.0 + node));
                let least = |old: Option<u64>, new: u64| Some(old.map_or(new, |old| old.min(new)));
                facts.head[model] = least(facts.head[model], head);
                facts.tail[model] = least(facts.tail[model], tail);
            }
        }
        facts
    }

    /// GPUs that have to execute a model at one moment at least, in a run that ends at `end`.
    fn visits(&self, instance: &Instance, model: ModelId, end: u128) -> u128 {
        let (Some(head), Some(tail)) = (self.head[model], self.tail[model]) else { return 0 };
        let stay = end.saturating_sub(u128::from(head) + u128::from(tail)).max(1);
        let replicas = self.work[model].div_ceil(stay).max(1);
        (replicas * u128::from(instance.models[model].gpus)).min(u128::from(instance.cluster.gpus))
    }

    /// What going from a model (or, last, from the start) to a model (or, last, to the end) costs at the least, by whatever
    /// models between. The way from a model to itself leads through another.
    fn steps(&self, instance: &Instance) -> Vec<Vec<i128>> {
        let count = instance.models.len();
        let shared = instance.cluster.residency == Residency::Memory;
        let ids = || instance.models.keys();
        let direct = |from: ModelId, to: ModelId| match (from == to, shared) {
            (true, _) => NEVER,
            // One can be loaded while another executes.
            (false, true) => 0,
            (false, false) => i128::from(figures::switch(instance, from, to)),
        };
        let given = |time: Option<u64>| time.map_or(NEVER, i128::from);
        let mut steps: Vec<Vec<i128>> = ids()
            .map(|from| ids().map(|to| direct(from, to)).chain([given(self.tail[from])]).collect())
            .collect();
        steps.push(ids().map(|to| given(self.head[to])).chain([NEVER]).collect());
        for via in 0..count {
            for from in 0..=count {
                for to in 0..=count {
                    let through = steps[from][via].saturating_add(steps[via][to]);
                    steps[from][to] = steps[from][to].min(through);
                }
            }
        }
        steps
    }
}
