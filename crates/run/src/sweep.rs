//! Many runs that differ in a few fields of one specification.

use crate::failure::{Failure, FailureKind};
use crate::materials::{Materials, Problem};
use crate::observe::{Observer, Silent};
use crate::prepare::prepare;
use crate::spec::RunSpec;
use gswarm_core::bound::Bound;
use gswarm_core::compare::{RunKey, SweepRow};
use gswarm_core::explain::{SLOWEST, Timeline, slowest};
use gswarm_core::input::{ClusterSpec, Scenario};
use gswarm_core::instance::{Mode, Residency};
use gswarm_core::policy::PolicySpec;
use gswarm_core::run::ProblemError;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// One problem of a sweep: its name, the specification that all its runs share, and what that refers to.
#[derive(Debug)]
pub struct Input {
    /// What tables call it.
    pub name: String,
    /// What all runs have in common.
    pub spec: RunSpec,
    /// What it refers to.
    pub materials: Materials,
}

/// The fields that vary, each over a list of values.
#[derive(Clone, Debug)]
pub struct Axes {
    /// Modes.
    pub modes: Vec<Mode>,
    /// Whether models batch.
    pub batching: Vec<bool>,
    /// Numbers of GPUs; without any, each input runs on those of its configuration.
    pub gpus: Vec<u32>,
    /// Policies with their parameters; each runs in the modes that it has.
    pub policies: Vec<PolicySpec>,
    /// Seeds.
    pub seeds: Vec<u64>,
}

/// All combinations.
#[derive(Debug)]
pub struct Sweep {
    variants: Vec<Variant>,
    axes: Axes,
    /// Tells whether another sweep is over the same inputs and rules.
    pub fingerprint: String,
    /// Ends runs early once it is `true`.
    pub stop: Arc<AtomicBool>,
    /// The bound of each problem, for all policies that run on it.
    bounds: Mutex<BTreeMap<ProblemKey, Arc<OnceLock<Bound>>>>,
}

/// What a problem's bound depends on: the scenario, by where it lies; GPUs; the seed; and whether models share GPUs.
type ProblemKey = (usize, u32, u64, bool);

/// A problem as one mode reads it, with or without batching.
#[derive(Debug)]
struct Variant {
    name: String,
    spec: RunSpec,
    scenario: Arc<Scenario>,
}

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct Run {
    /// What tells its row from others.
    pub key: RunKey,
    /// The specification.
    pub spec: RunSpec,
    scenario: Arc<Scenario>,
}

impl Sweep {
    /// Reads every input once for each mode. `rules` names what else all runs depend on, such as parameters of policies that
    /// later sweeps may add to.
    ///
    /// # Errors
    /// All that is wrong with all inputs.
    pub fn new(
        inputs: Vec<Input>,
        axes: Axes,
        rules: &str,
        observer: &mut dyn Observer,
    ) -> Result<Sweep, Failure> {
        let (mut variants, mut failure) = (Vec::new(), None::<Failure>);
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(env!("CARGO_PKG_VERSION").as_bytes());
        add(rules.as_bytes());
        for Input { name, spec, materials } in inputs {
            add(name.as_bytes());
            add(format!("{:?} {:?}", spec.cluster, spec.calibration).as_bytes());
            let calibration = materials.calibration.as_ref().map_or(&[][..], |(_, bytes)| bytes);
            add(calibration);
            if let Problem::Text { config, requests } = &materials.problem {
                add(&config.1);
                add(&requests.1);
            }
            // What is wrong is the same in all variants, and is told once.
            let mut told = false;
            for (&mode, &batching) in
                axes.modes.iter().flat_map(|mode| axes.batching.iter().map(move |on| (mode, on)))
            {
                let spec = RunSpec { mode, batching, ..spec.clone() };
                let read = if told {
                    materials.scenario(&spec, &mut Silent)
                } else {
                    materials.scenario(&spec, observer)
                };
                told = true;
                match read {
                    // The scenario has its measured costs now.
                    Ok(scenario) => variants.push(Variant {
                        name: name.clone(),
                        spec: RunSpec { calibration: None, ..spec },
                        scenario,
                    }),
                    Err(error) => {
                        let earlier = failure.take();
                        failure = Some(match earlier {
                            Some(earlier) => earlier.and(error),
                            None => error,
                        });
                        break;
                    }
                }
            }
        }
        let fingerprint = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        if axes.gpus.is_empty() && variants.iter().any(|variant| variant.scenario.cluster.gpus.is_none()) {
            let missing = Failure::input(ProblemError::NoGpus.to_string())
                .hint("add --gpus N,..., or `cluster: {gpus: N}` to the configuration");
            failure.get_or_insert(missing);
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(Sweep { variants, axes, fingerprint, stop: Arc::default(), bounds: Mutex::default() }),
        }
    }

    /// Every run, in the order of the tables.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        let mut gpus = self.axes.gpus.clone();
        gpus.sort_unstable();
        gpus.dedup();
        let mut runs = Vec::new();
        for Variant { name, spec, scenario } in &self.variants {
            let own = if gpus.is_empty() { scenario.cluster.gpus } else { None };
            for gpus in gpus.iter().copied().chain(own) {
                for policy in self.axes.policies.iter().filter(|policy| policy.kind().supports(spec.mode)) {
                    runs.extend(self.axes.seeds.iter().map(|&seed| Run {
                        key: RunKey {
                            input: name.clone(),
                            mode: spec.mode.name().to_owned(),
                            batching: spec.batching,
                            gpus,
                            policy: policy.kind().name().to_owned(),
                            seed,
                        },
                        spec: RunSpec {
                            cluster: ClusterSpec { gpus: Some(gpus), ..spec.cluster.clone() },
                            policy: Some(policy.clone()),
                            seed,
                            ..spec.clone()
                        },
                        scenario: Arc::clone(scenario),
                    }));
                }
            }
        }
        runs
    }

    /// Simulates these runs over all cores; each row is given to `keep` as it comes. Nothing new begins once `is_stopped`.
    ///
    /// # Errors
    /// The first failure other than that a run does not fit its GPUs.
    pub fn simulate(
        &self,
        runs: &[Run],
        is_stopped: &(dyn Fn() -> bool + Sync),
        keep: &(dyn Fn(SweepRow) -> Result<(), Failure> + Sync),
    ) -> Result<(), Failure> {
        runs.par_iter().try_for_each(|run| if is_stopped() { Ok(()) } else { keep(self.row(run)?) })
    }

    /// Where the bound of a run's problem is kept.
    fn bound_of(&self, run: &Run, residency: Residency) -> Arc<OnceLock<Bound>> {
        let scenario = Arc::as_ptr(&run.scenario) as usize;
        let problem = (scenario, run.key.gpus, run.key.seed, residency == Residency::Memory);
        let mut bounds = self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(bounds.entry(problem).or_default())
    }

    fn row(&self, run: &Run) -> Result<SweepRow, Failure> {
        let materials = Materials::of(Problem::Scenario(Arc::clone(&run.scenario)));
        let mut prepared = match prepare(run.spec.clone(), materials, &mut Silent) {
            Err(failure) if failure.code == FailureKind::Infeasible => {
                return Ok(SweepRow::infeasible(&run.key, &self.fingerprint, failure.message().to_owned()));
            }
            prepared => prepared?,
        };
        prepared.stop = Arc::clone(&self.stop);
        prepared.bound = self.bound_of(run, prepared.instance.cluster.residency);
        let begun = Instant::now();
        let (mut policy, _) = prepared.policy(false, &mut Silent);
        let planned = begun.elapsed().as_secs_f64();
        let outcome = prepared.simulate_with(policy.as_mut(), &mut Silent)?;
        let seconds = [planned, begun.elapsed().as_secs_f64()];
        let slowest = slowest(&Timeline::new(&prepared.instance, &outcome.log), SLOWEST);
        let row = SweepRow::of(&run.key, &self.fingerprint, &outcome.metrics, &outcome.summary, seconds);
        Ok(SweepRow { slowest, ..row })
    }
}
