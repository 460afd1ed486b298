//! The fewest GPUs with which a specification meets targets.

use crate::failure::{Code, Failure};
use crate::materials::Materials;
use crate::observe::{Observer, Stage};
use crate::prepare::infeasible;
use crate::spec::RunSpec;
use gswarm_core::input::{ClusterSpec, Scenario, too_slow};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::policy::PolicySpec;
use gswarm_core::size::{self, Measure, SizeError, SizeQuestion, Sizing, Target, Telling};
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

/// The mode that targets are about where none is given: a makespan is of a batch, a latency of a stream.
#[must_use]
pub fn mode_of(targets: &[Target]) -> Mode {
    let batch = targets.iter().all(|target| target.measure == Measure::Makespan);
    if batch { Mode::Offline } else { Mode::Online }
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
        .ok_or_else(|| Failure::new(Code::Internal, "the number of GPUs is not given"))?;
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
        size::size(&self.question(), tell).map_err(|error| match error {
            SizeError::Infeasible(_, faults) => infeasible(&faults),
            other => Failure::new(
                Code::Internal,
                format!("internal error under policy `{}`: {other}", self.policy.kind().name()),
            )
            .hint("this is a fault of gswarm, not of your input; please report it with both input files"),
        })
    }
}
