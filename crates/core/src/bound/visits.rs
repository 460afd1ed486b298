//! The area, plus what every GPU loses on its way through the models.
//!
//! Each GPU executes some models in some order: it begins with one, which takes that model's least head; it changes from one
//! to the next, which takes a load; and it ends with one, behind which the run goes on for at least that model's least tail.
//! For a makespan T a model whose executions take P must run on at least P / (T - least head - least tail) replicas at one
//! moment, so at least that many GPUs visit it. The cheapest way to pair all departures (of the begin, and of every visit)
//! with arrivals (at every visit, and at the end) is GPU-time that no schedule can use. Its prices are the witness: whoever
//! knows the costs sees that no pairing can be cheaper.

use super::transport::{self, Pairing};
use super::{Bound, Slack, Witness, best_share};
use crate::id::ModelId;
use crate::instance::{Instance, Residency};
use crate::time::Span;

/// The prices of a visit to a model in the proof, in GPU-microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// The model.
    pub model: ModelId,
    /// The minimum number of GPUs that visit it.
    pub visits: u64,
    /// The price of leaving it.
    pub leave: i64,
    /// The price of entering it.
    pub enter: i64,
}

/// With more models than this the argument is left out: it takes time that grows with their cube.
const MOST_MODELS: usize = 128;

/// `least` is what other arguments give: no schedule is shorter, so every visit fits into it.
pub(super) fn bound(instance: &Instance, slack: &Slack, work: u128, least: Span) -> Option<Bound> {
    if instance.models.len() > MOST_MODELS || instance.tasks() == 0 {
        return None;
    }
    let gpus = instance.cluster.gpus.max(1);
    let visited = Visited::of(instance, slack);
    let costs = visited.costs(instance);
    let lost = |makespan: u64| visited.cheapest(&costs, makespan, u64::from(gpus));
    let needed = |pairing: &Pairing| {
        u64::try_from((work + pairing.cost as u128).div_ceil(u128::from(gpus))).unwrap_or(u64::MAX)
    };
    // More time never needs more visits: what `low` needs is enough, and the least that is enough lies between.
    let mut low = least.0;
    let mut high = needed(&lost(low)).max(low);
    while low < high {
        let middle = low + (high - low) / 2;
        if needed(&lost(middle)) <= middle { high = middle } else { low = middle + 1 }
    }
    if high == least.0 {
        return None;
    }
    // A microsecond less is not enough, and that is the proof.
    let shorter = high - 1;
    Some(Bound { value: Span(high), witness: visited.witness(lost(shorter), shorter, work, gpus) })
}

/// The models that have tasks.
struct Visited {
    models: Vec<ModelId>,
    width: Vec<u64>,
    work: Vec<u128>,
    head: Vec<i64>,
    tail: Vec<i64>,
}

impl Visited {
    fn of(instance: &Instance, slack: &Slack) -> Visited {
        let count = instance.models.len();
        let mut work = vec![0u128; count];
        let (mut head, mut tail) = (vec![i64::MAX; count], vec![i64::MAX; count]);
        for task in instance.task_ids() {
            let model = instance.model_of(task).index();
            work[model] += u128::from(instance.execution(task).0);
            head[model] = head[model].min(slack.head[task].0 as i64);
            tail[model] = tail[model].min(slack.tail[task].0 as i64);
        }
        let models: Vec<ModelId> = instance.models.keys().filter(|model| work[model.index()] > 0).collect();
        let share = |model: ModelId| u128::from(best_share(&instance.models[model]));
        Visited {
            width: models.iter().map(|&model| u64::from(instance.models[model].gpus)).collect(),
            work: models.iter().map(|&model| work[model.index()] * share(model) / 1_000_000).collect(),
            head: models.iter().map(|&model| head[model.index()]).collect(),
            tail: models.iter().map(|&model| tail[model.index()]).collect(),
            models,
        }
    }

    /// GPUs that visit each model in a run of this length.
    fn visits(&self, makespan: u64, gpus: u64) -> Vec<u64> {
        let of = |at: usize| {
            let longest = (makespan as i64 - self.head[at] - self.tail[at]).max(1) as u128;
            let replicas = self.work[at].div_ceil(longest).max(1);
            u64::try_from(replicas).unwrap_or(u64::MAX).saturating_mul(self.width[at]).min(gpus)
        };
        (0..self.models.len()).map(of).collect()
    }

    fn cheapest(&self, costs: &[Vec<i64>], makespan: u64, gpus: u64) -> Pairing {
        let mut count = self.visits(makespan, gpus);
        count.push(gpus);
        transport::cheapest(costs, &count, &count)
    }

    /// What it costs at the least to go from one visit (the row; the last is the begin) to another (the column; the last is
    /// the end), by way of further visits where that is cheaper.
    fn costs(&self, instance: &Instance) -> Vec<Vec<i64>> {
        let (change, again) = self.changes(instance);
        let count = self.models.len();
        let all = 0..count;
        let begin = |to: usize| all.clone().map(|via| self.head[via] + change[via][to]).min();
        let begin: Vec<i64> = all.clone().filter_map(begin).collect();
        let end = |from: usize| all.clone().map(|via| change[from][via] + self.tail[via]).min();
        let row = |from: usize| {
            let to = |to: usize| if from == to { again[from] } else { change[from][to] };
            all.clone().map(to).chain(end(from)).collect()
        };
        let mut costs: Vec<Vec<i64>> = all.clone().map(row).collect();
        let straight = all.clone().filter_map(|via| Some(begin[via] + end(via)?)).min();
        costs.push(begin.into_iter().chain(straight).collect());
        costs
    }

    /// The least that a GPU loses between executions of two models, by way of other models where that is cheaper; and what it
    /// costs to leave a model for any other, used or not, and to come back.
    fn changes(&self, instance: &Instance) -> (Vec<Vec<i64>>, Vec<i64>) {
        let models = &instance.models;
        if instance.cluster.residency == Residency::Memory {
            // One can be loaded while another executes. A model that is the only one is never left.
            let again = if models.len() > 1 { 0 } else { NEVER };
            return (vec![vec![0; self.models.len()]; self.models.len()], vec![again; self.models.len()]);
        }
        let rule = &instance.cluster.switch;
        let mut change: Vec<Vec<i64>> = models
            .iter_enumerated()
            .map(|(from, old)| {
                let cost = |(to, new): (ModelId, &crate::instance::Model)| {
                    if from == to {
                        return 0;
                    }
                    rule.of(Some(old.leaving()), new.memory_gb, new.load_seconds).0 as i64
                };
                models.iter_enumerated().map(cost).collect()
            })
            .collect();
        for via in 0..models.len() {
            for from in 0..models.len() {
                for to in 0..models.len() {
                    change[from][to] = change[from][to].min(change[from][via] + change[via][to]);
                }
            }
        }
        let again = |model: &ModelId| {
            let round =
                |via: ModelId| change[model.index()][via.index()] + change[via.index()][model.index()];
            models.keys().filter(|via| via != model).map(round).min().unwrap_or(NEVER)
        };
        let used = |from: &ModelId| self.models.iter().map(|to| change[from.index()][to.index()]).collect();
        (self.models.iter().map(used).collect(), self.models.iter().map(again).collect())
    }

    fn witness(&self, pairing: Pairing, makespan: u64, work: u128, gpus: u32) -> Witness {
        let visits = self.visits(makespan, u64::from(gpus));
        let price = |at: usize| Price {
            model: self.models[at],
            visits: visits[at],
            leave: pairing.leave[at],
            enter: pairing.enter[at],
        };
        let count = self.models.len();
        Witness::Visits {
            work,
            lost: pairing.cost as u128,
            gpus,
            begin: pairing.leave[count],
            end: pairing.enter[count],
            prices: (0..count).map(price).collect(),
        }
    }
}

/// More than any schedule takes, and so little that sums of it do not overflow.
const NEVER: i64 = i64::MAX / 1024;
