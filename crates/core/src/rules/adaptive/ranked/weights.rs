//! The numbers behind the rule: one set for each objective.

use crate::rules::adaptive::Objective;

/// The numbers behind an objective.
#[derive(Clone, Copy, Debug)]
pub(in crate::rules::adaptive) struct Weights {
    /// How many seconds later a request counts as arrived for each second of the whole cluster that it still needs.
    pub size: f64,
    /// The same, for each task that waits: with more of them, a long request delays more.
    pub size_per_waiting: f64,
    /// The part of the spread of ranks by which a resident model may be ahead of its turn.
    pub slack: f64,
    /// The spread of ranks, in mean loads, at which only half of that part is allowed: with little backlog GPUs are free
    /// soon, and a model that is ahead of its turn only makes the others late.
    pub half_slack: f64,
    /// What a load is counted as at least, in mean loads: where few loads are an aim of their own, those of models that
    /// load quickly count too.
    pub least_load: f64,
    /// For how long the past counts when demand is reckoned, in mean loads.
    pub memory: f64,
    /// For how many loads a task waits for a busy replica while GPUs are idle.
    pub patience: f64,
    /// The weight of what is lost by an eviction against waiting for a busy replica.
    pub thrift: f64,
    /// The weight of what an evicted model would cost when it is asked for again.
    pub keep: f64,
    /// After how many loads' worth of waiting a model on several GPUs has a further window cleared for it; its first is
    /// always cleared.
    pub further_window: f64,
}

/// How often the delay that a load causes to all who wait has to come back to those who wait for the model.
pub(super) const LOAD_PAYS_BACK: f64 = 3.0;

/// The same inside the measure of size: loads' worth of work that a load has to be followed by.
pub(super) const LOAD_PER_WORK: f64 = 5.0;

/// How much dearer it is to break the window of a model on several GPUs that still has work than to load it again.
pub(super) const BREAKING: f64 = 3.0;

impl Weights {
    /// Between the objectives: size counts, but so little that what has waited long comes first.
    pub fn between() -> impl Iterator<Item = Weights> {
        let mean = Weights::of(Objective::Mean, false);
        let sizes = [(5.0, 0.6), (20.0, 0.3), (200.0, 0.2)];
        sizes.into_iter().map(move |(size, slack)| Weights { size, slack, ..mean })
    }

    /// The weights, with or without a bound on waiting.
    pub fn of(objective: Objective, bounded: bool) -> Weights {
        match objective {
            Objective::Mean => Weights {
                size: 2000.0,
                size_per_waiting: 0.0,
                slack: 0.2,
                half_slack: 0.0,
                least_load: 0.0,
                memory: 40.0,
                patience: 0.0,
                thrift: 0.5,
                keep: 1.0,
                further_window: 200.0,
            },
            Objective::P99 => Weights {
                size: 0.0,
                size_per_waiting: 0.0,
                slack: 0.3,
                half_slack: 0.0,
                least_load: 0.0,
                memory: 40.0,
                patience: 0.0,
                thrift: 0.5,
                keep: 1.0,
                further_window: f64::INFINITY,
            },
            // Loads are saved at the cost of waiting, which the bound leaves no room for.
            Objective::Balanced if bounded => Weights {
                size: 0.0,
                size_per_waiting: 0.1,
                slack: 0.6,
                half_slack: 0.0,
                least_load: 0.0,
                memory: 40.0,
                patience: 1.0,
                thrift: 1.0,
                keep: 4.0,
                further_window: f64::INFINITY,
            },
            Objective::Balanced => Weights {
                size: 0.0,
                size_per_waiting: 0.15,
                slack: 1.0,
                half_slack: 300.0,
                least_load: 1.5,
                memory: 33.0,
                patience: 1.0,
                thrift: 1.0,
                keep: 4.0,
                further_window: f64::INFINITY,
            },
        }
    }
}
