//! The fewest GPUs with which a specification meets its targets.

pub use crate::advise::mode_of;

use crate::advise::{self, AdviseSpec};
use crate::failure::{Failure, FailureKind};
use crate::materials::Materials;
use crate::observe::{Observer, Stage};
use crate::prepare::infeasible;
use crate::spec::RunSpec;
use gswarm_core::Span;
use gswarm_core::input::{ClusterSpec, Scenario, too_slow};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::policy::PolicySpec;
use gswarm_core::size::{
    self, Measure, SizeError, SizeQuestion, Sizing, Target, TargetReport, Telling, Verdict,
};
use std::sync::Arc;

/// A question that is ready to be answered.
#[derive(Debug)]
pub struct Sized {
    scenario: Arc<Scenario>,
    cluster: Cluster,
    spec: RunSpec,
    policy: PolicySpec,
    targets: Vec<Target>,
    max_gpus: u32,
}

/// Asks how many GPUs a specification needs. Its own number of GPUs is not used.
///
/// # Errors
/// All that is wrong with the specification or its inputs.
pub fn ask(
    spec: RunSpec,
    materials: &Materials,
    targets: Vec<Target>,
    max_gpus: u32,
    observer: &mut dyn Observer,
) -> Result<Sized, Failure> {
    let faults = spec.validate();
    if !faults.is_empty() {
        return Err(Failure::faults(faults));
    }
    observer.stage(Stage::Reading);
    let scenario = materials.scenario(&spec, observer)?;
    let cluster = ClusterSpec { gpus: Some(max_gpus), ..spec.cluster.over(&scenario.cluster) };
    let cluster = Cluster::from_spec(&cluster)
        .ok_or_else(|| Failure::new(FailureKind::Internal, "the number of GPUs is not given"))?;
    if let Some(reason) = too_slow(&scenario.models, cluster.switch.pcie_gb_per_s) {
        return Err(Failure::input(format!("{} GB/s: {reason}", cluster.switch.pcie_gb_per_s))
            .hint("give a higher --pcie-gb-per-s"));
    }
    let policy = spec.policy();
    Ok(Sized { scenario, cluster, spec, policy, targets, max_gpus })
}

impl Sized {
    /// The question as it is asked.
    #[must_use]
    pub fn question(&self) -> SizeQuestion<'_> {
        SizeQuestion {
            scenario: &self.scenario,
            cluster: &self.cluster,
            mode: self.spec.mode,
            policy: &self.policy,
            seed: self.spec.seed,
            targets: &self.targets,
            max_gpus: self.max_gpus,
        }
    }

    /// Searches for the answer.
    ///
    /// # Errors
    /// Why there is none.
    pub fn answer(&self, tell: &mut dyn FnMut(Telling<'_>)) -> Result<Sizing, Failure> {
        let has_makespan = self.targets.iter().any(|target| target.measure == Measure::Makespan);
        if self.spec.mode == Mode::Online && !has_makespan {
            return self.of_stream(tell);
        }
        size::size(&self.question(), tell).map_err(|error| match error {
            SizeError::Infeasible(_, faults) => infeasible(&faults),
            other => Failure::new(
                FailureKind::Internal,
                format!("internal error under policy `{}`: {other}", self.policy.kind().name()),
            )
            .hint("this is a bug in gswarm, not in your input; please report it with both input files"),
        })
    }

    /// Streams are sized by the runs that `advise` makes: resampled traces, measured once they are warm.
    fn of_stream(&self, tell: &mut dyn FnMut(Telling<'_>)) -> Result<Sizing, Failure> {
        let asked = AdviseSpec {
            run: RunSpec { policy: Some(self.policy.clone()), ..self.spec.clone() },
            targets: self.targets.clone(),
            max_gpus: self.max_gpus,
            ..AdviseSpec::default()
        };
        asked.validate(&self.scenario)?;
        let found = advise::fewest_of_stream(&asked, &self.scenario, &mut |gpus, point| {
            tell(point.map_or(Telling::Trying(gpus), Telling::Tried));
        })?;
        let verdict = match (&found.floor, found.gpus) {
            (Some(floor), _) => Verdict::BelowFloor {
                target: self
                    .targets
                    .iter()
                    .find(|one| TargetReport::from(*one) == floor.target)
                    .cloned()
                    .unwrap_or_else(|| self.targets[0].clone()),
                floor: Span::from_seconds(floor.floor),
            },
            (None, Some(gpus)) => {
                let known = found.points.iter().filter(|point| (found.least..gpus).contains(&point.gpus));
                Verdict::Met { gpus, untried: gpus - found.least - known.count() as u32 }
            }
            (None, None) => Verdict::NotFound,
        };
        Ok(Sizing {
            verdict,
            least_possible: found.holds_models,
            least: found.least,
            useful: u32::MAX,
            points: found.points,
            tried: found.tried,
        })
    }
}
