//! What a run believes about run times, and what is true: noise, drift, predictors and learning.

use crate::failure::Failure;
use clap::Args;
use gswarm_core::Instance;
use gswarm_core::belief::Recent;
use gswarm_core::truth::{Drift, Noise, Truth, TruthSpec};

/// Flags for times that are not what is expected of them.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Run times (see docs/learning.md)")]
pub struct BeliefArgs {
    /// Draw true times around the estimates, as in lognormal:0.2 (a standard deviation of 20%, the mean kept); for estimates
    #[arg(long, value_name = "NOISE")]
    noise: Option<Noise>,
    /// Have executions that start later take so many times as long, as in 1.3@1000s or llm7b=1.3@0; may be given several times
    #[arg(long, value_name = "[MODEL=]FACTOR@SECONDS")]
    drift: Vec<Drift>,
    /// Learn from what executions take, model by model, and correct what is expected of the rest
    #[arg(long)]
    learn: bool,
    /// Have policies know the means only, and not how far off they may be
    #[arg(long, alias = "means_only")]
    means_only: bool,
}

/// What comes of them.
#[derive(Clone, Debug, Default)]
pub struct Beliefs {
    /// How true times come about, where they are not the estimates.
    pub spec: Option<TruthSpec>,
    /// The true times.
    pub truth: Truth,
    /// Whether to learn.
    pub learn: bool,
    /// What predicted the estimates.
    pub predictor: Option<String>,
}

impl BeliefArgs {
    /// Whether a flag was given that only an estimate has a use for.
    pub fn for_estimates(&self) -> Option<&'static str> {
        let noise = self.noise.map(|_| "--noise");
        noise.or((!self.drift.is_empty()).then_some("--drift"))
    }

    /// Whether to learn.
    pub fn learns(&self) -> bool {
        self.learn
    }

    /// What the flags make of a problem.
    pub fn apply(&self, instance: &mut Instance, seed: u64) -> Result<Beliefs, Failure> {
        let spec = TruthSpec { noise: self.noise, seed, drift: self.drift.clone(), ..TruthSpec::default() };
        let truth = Truth::new(&spec, instance, instance).map_err(|unknown| {
            let known: Vec<&str> = instance.models.iter().map(|model| model.name.as_str()).collect();
            Failure::input(format!("--drift: {unknown}")).hint(format!("there are {}", known.join(", ")))
        })?;
        if let Some(noise) = self.noise.filter(|_| !self.means_only) {
            instance.models.iter_mut().for_each(|model| model.spread = noise.sigma());
        }
        let spec = (!truth.is_estimate()).then_some(spec);
        Ok(Beliefs { spec, truth, learn: self.learn, predictor: None })
    }
}

impl Beliefs {
    /// Who watches what executions take.
    pub fn learner(&self) -> Option<Recent> {
        self.learn.then(Recent::new)
    }
}
