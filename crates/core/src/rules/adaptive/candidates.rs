//! The rules between which `adaptive` chooses.

use super::Objective;
use super::forecast::History;
use super::ranked::{Ranked, Weights};
use crate::engine::{Policy, View};
use crate::id::GpuId;
use crate::instance::{Deployment, Instance};
use crate::rules::baseline::Baseline;
use crate::rules::fixed::Static;
use crate::rules::improved::Improved;
use crate::rules::lru::Lru;
use crate::rules::online::{Online, OnlineParams};
use crate::rules::shortest::Shortest;
use crate::rules::sticky::Sticky;
use crate::time::Span;

/// A rule that can be followed.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Ranked(Weights, Option<Span>),
    Baseline,
    Improved,
    Online,
    Lru,
    Srpt,
    Sticky,
    /// A fixed placement, worked out from recent demand.
    Placed,
}

impl Candidate {
    /// The rule that an objective begins with.
    pub fn own(objective: Objective, bound: Option<Span>) -> Candidate {
        let weights = Weights::of(objective, bound.is_some());
        Candidate { kind: Kind::Ranked(weights, bound) }
    }

    /// All rules, the objective's own first.
    pub fn all(objective: Objective) -> Vec<Candidate> {
        let further = Objective::ALL.iter().copied().filter(|&one| one != objective);
        let ranked = std::iter::once(objective).chain(further).map(|one| Candidate::own(one, None));
        let others =
            [Kind::Baseline, Kind::Improved, Kind::Online, Kind::Lru, Kind::Srpt, Kind::Sticky, Kind::Placed];
        let between = (objective == Objective::Balanced).then(Weights::between).into_iter().flatten();
        let between = between.map(|weights| Kind::Ranked(weights, None));
        ranked.chain(others.into_iter().chain(between).map(|kind| Candidate { kind })).collect()
    }

    /// Whether requests with deadlines go first once these press.
    pub fn keeps_deadlines(&self) -> bool {
        matches!(self.kind, Kind::Ranked(..))
    }

    /// Whether it follows a placement, and cannot be followed without one.
    pub fn needs_placement(&self) -> bool {
        matches!(self.kind, Kind::Placed)
    }

    /// The rule before anything has happened.
    pub fn at_start(&self, instance: &Instance) -> Box<dyn Policy> {
        match self.kind {
            Kind::Ranked(weights, bound) => Box::new(Ranked::new(instance, weights, bound)),
            Kind::Baseline => Box::new(Baseline::new(instance)),
            Kind::Improved => Box::new(Improved::new(instance)),
            Kind::Lru => Box::new(Lru::new(instance)),
            Kind::Srpt => Box::new(Shortest::new(instance)),
            Kind::Sticky => Box::new(Sticky::new(instance)),
            Kind::Online | Kind::Placed => Box::new(Online::new(instance, &OnlineParams::default())),
        }
    }

    /// The rule in the middle of a run. It has still to be told which tasks are ready.
    pub fn taking_over(
        &self,
        view: &View<'_>,
        history: &History,
        placement: Option<&Deployment>,
    ) -> Box<dyn Policy> {
        let instance = view.instance();
        let mut rule: Box<dyn Policy> = match (self.kind, placement) {
            (Kind::Ranked(weights, bound), _) => {
                let mut rule = Ranked::new(instance, weights, bound);
                rule.take_over(view, history.models());
                Box::new(rule)
            }
            (Kind::Online, _) => {
                let mut rule = Online::new(instance, &OnlineParams::default());
                history.models().for_each(|(model, _)| rule.remember(view, model));
                Box::new(rule)
            }
            (Kind::Placed, Some(placement)) => Box::new(Static::with(instance, placement)),
            _ => self.at_start(instance),
        };
        if !matches!(self.kind, Kind::Ranked(..)) && view.alive().len() < instance.cluster.gpus {
            let all = (0..instance.cluster.gpus).map(GpuId);
            all.filter(|&gpu| !view.alive().contains(gpu)).for_each(|gpu| rule.lost(gpu, view));
        }
        rule
    }
}
