//! Flags about run times: what is believed about them, and what is true.

use crate::failure::Failure;
use crate::output::files;
use clap::Args;
use gswarm_core::input::Scenario;
use gswarm_core::truth::{Drift, Noise, TrueTimes};
use gswarm_learn::Predictor;
use gswarm_learn::beliefs::OneByOne;
use gswarm_learn::expect::PredictorSource;
use gswarm_run::TimesSpec;
use std::path::PathBuf;

/// Where estimates come from that the requests do not give.
#[derive(Debug, Default, Args)]
pub struct PredictorArgs {
    /// Take times that requests do not give from a predictor that `gswarm train` made
    #[arg(long, value_name = "FILE", help_heading = "Run times (see docs/learning.md)")]
    pub predictor: Option<PathBuf>,
}

/// Flags for times that are not what is expected of them.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Run times (see docs/learning.md)")]
pub struct BeliefArgs {
    #[command(flatten)]
    estimates: PredictorArgs,
    /// Draw true times around the estimates, as in lognormal:0.2 (a standard deviation of 20%, the mean kept)
    #[arg(long, value_name = "NOISE")]
    noise: Option<Noise>,
    /// Make executions that start later take this many times as long, as in 1.3@1000s or llm7b=1.3@0; repeatable
    #[arg(long, value_name = "[MODEL=]FACTOR@SECONDS")]
    drift: Vec<Drift>,
    /// What is true where a predictor is used: its `estimates`, or the times in the `requests`, and then it predicts all nodes
    #[arg(long, value_name = "SOURCE", value_parser = truth_parser())]
    truth: Option<TrueTimes>,
    /// Learn from what executions take, model by model, and correct the estimates of the rest
    #[arg(long)]
    learn: bool,
    /// Do not tell policies how far off --noise makes the estimates
    #[arg(long, alias = "means_only")]
    means_only: bool,
}

fn truth_parser() -> impl clap::builder::TypedValueParser<Value = TrueTimes> {
    crate::args::choice(vec![("estimates", TrueTimes::Estimates), ("requests", TrueTimes::Requests)])
}

/// What to do where there is no file of a predictor.
pub const NO_PREDICTOR: &str = "check the path; `gswarm train --out FILE` writes predictors";

impl PredictorArgs {
    /// The predictor, where one was named, for requests that are yet to come.
    pub fn one_by_one(&self) -> Result<Option<OneByOne>, Failure> {
        let Some(file) = &self.predictor else { return Ok(None) };
        let name = file.display().to_string();
        let faulty = |faults| {
            Failure::faults(faults).hint("`gswarm train` makes predictors; docs/learning.md says how")
        };
        let predictor = Predictor::from_bytes(&name, &files::read_or(file, NO_PREDICTOR)?).map_err(faulty)?;
        OneByOne::new(&name, predictor).map(Some).map_err(faulty)
    }

    /// The predictor, where one was named.
    pub fn source(&self, scenario: &Scenario) -> Result<Option<PredictorSource>, Failure> {
        let Some(file) = &self.predictor else { return Ok(None) };
        let bytes = files::read_or(file, NO_PREDICTOR)?;
        gswarm_run::predictor(&file.display().to_string(), &bytes, scenario).map(Some)
    }
}

impl BeliefArgs {
    /// Puts the flags that were given into a specification.
    pub fn apply(&self, times: &mut TimesSpec) {
        let TimesSpec { predictor, noise, drift, truth, learn, means_only } = times;
        *predictor = self.estimates.predictor.clone().or(predictor.take());
        *noise = self.noise.or(*noise);
        *truth = self.truth.or(*truth);
        if !self.drift.is_empty() {
            drift.clone_from(&self.drift);
        }
        *learn |= self.learn;
        *means_only |= self.means_only;
    }
}
