//! The reason for a bound, in words.

use super::{Bound, Witness};
use crate::instance::Instance;
use crate::log_file::shown;

/// A number of things.
fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

impl Bound {
    /// Why it holds, in a line.
    #[must_use]
    pub fn because(&self, instance: &Instance) -> String {
        explained(instance, &self.witness)
    }
}

fn explained(instance: &Instance, witness: &Witness) -> String {
    let seconds = |micros: u128| micros as f64 / 1e6;
    let of_gpus = |gpus: u32| count(gpus.into(), "GPU");
    match witness {
        Witness::Area { work, gpus } => {
            format!("{:.1} GPU-seconds of work over {}", seconds(*work), of_gpus(*gpus))
        }
        Witness::Switching { work, loading, gpus } => format!(
            "{:.1} GPU-seconds of work and at least {:.1} of loading, over {}",
            seconds(*work),
            seconds(*loading),
            of_gpus(*gpus)
        ),
        Witness::Visits { work, lost, gpus, prices, .. } => format!(
            "{:.1} GPU-seconds of work and {:.1} lost to waiting and loading in at least {}, over {}, in any shorter run",
            seconds(*work),
            seconds(*lost),
            count(prices.iter().map(|price| price.visits).sum(), "visit"),
            of_gpus(*gpus)
        ),
        Witness::Path { tasks, head, .. } => {
            let names: Vec<String> =
                tasks.iter().map(|&task| shown(&instance.task_name(task)).into_owned()).collect();
            format!("{:.1} s before {} can begin", head.seconds(), names.join(", then "))
        }
        Witness::Pace { work, idle, gpus } => format!(
            "{:.1} GPU-seconds of work in batches that leave requests time to finish, and {:.1} of waiting, over {}",
            seconds(*work),
            seconds(*idle),
            of_gpus(*gpus)
        ),
        Witness::Replicas { model, replicas, least_head, least_tail, total } => format!(
            "`{}`: {:.1} s of waiting, work and later nodes on {}{}",
            shown(&instance.models[*model].name),
            seconds(*total),
            count(*replicas, "replica"),
            match (least_head.0, least_tail.0) {
                (0, 0) => String::new(),
                (_, 0) => format!(", for nodes that start after {:.1} s", least_head.seconds()),
                _ => format!(", for nodes followed by {:.1} s or more", least_tail.seconds()),
            }
        ),
    }
}
