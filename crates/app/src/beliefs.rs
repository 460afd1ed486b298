//! Flags about run times: estimates and true times.

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

/// The source of estimates that requests do not give.
#[derive(Debug, Default, Args)]
pub struct PredictorArgs {
    /// Use a predictor of `gswarm train` for times that requests do not give
    #[arg(long, value_name = "FILE", help_heading = "Run times (see docs/learning.md)")]
    pub predictor: Option<PathBuf>,
}

/// Flags for run times that deviate from the estimates.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Run times (see docs/learning.md)")]
pub struct BeliefArgs {
    #[command(flatten)]
    estimates: PredictorArgs,
    /// Noise of run times: lognormal:0.2 (same mean, standard deviation 20%), config (the default: the models' `*_std`,
    /// where requests give no time) or none (the means, as in the published programs)
    #[arg(long, value_name = "NOISE")]
    noise: Option<Noise>,
    /// Slow down executions after a given time, such as 1.3@1000s or llm7b=1.3@0; repeatable
    #[arg(long, value_name = "[MODEL=]FACTOR@SECONDS")]
    drift: Vec<Drift>,
    /// True times in a run with a predictor: its `estimates`, or the times in the `requests` (it then predicts all nodes)
    #[arg(long, value_name = "SOURCE", value_parser = truth_parser())]
    truth: Option<TrueTimes>,
    /// Learn from finished executions, per model, and correct the remaining estimates
    #[arg(long)]
    learn: bool,
    /// Hide the spread of --noise from policies: they see only means
    #[arg(long, alias = "means_only")]
    means_only: bool,
}

fn truth_parser() -> impl clap::builder::TypedValueParser<Value = TrueTimes> {
    crate::args::choice(vec![("estimates", TrueTimes::Estimates), ("requests", TrueTimes::Requests)])
}

/// Hint for a missing predictor file.
pub const NO_PREDICTOR: &str = "check the path; `gswarm train --out FILE` writes predictors";

impl PredictorArgs {
    /// The predictor, if one is given, for requests that arrive later.
    pub fn one_by_one(&self) -> Result<Option<OneByOne>, Failure> {
        let Some(file) = &self.predictor else { return Ok(None) };
        let name = file.display().to_string();
        let faulty =
            |faults| Failure::faults(faults).hint("`gswarm train` makes predictors; see docs/learning.md");
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
    /// Sets the given flags in a specification.
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
