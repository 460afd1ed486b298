//! What a run believes about run times, and what is true: noise, drift, predictors and learning.

use crate::failure::Failure;
use crate::output::files;
use clap::Args;
use gswarm_core::Instance;
use gswarm_core::input::{Diagnostic, Scenario, render};
use gswarm_core::truth::{Drift, Noise, TrueTimes};
use gswarm_learn::Predictor;
use gswarm_learn::beliefs::OneByOne;
use gswarm_learn::expect::Wanted;
pub use gswarm_learn::expect::{Beliefs, Source};
use std::path::PathBuf;

/// Where estimates come from that the requests do not give.
#[derive(Debug, Default, Args)]
pub struct PredictorArgs {
    /// Take times that requests do not give from a predictor that `gswarm train` made
    #[arg(long, value_name = "FILE", help_heading = "Run times (see docs/learning.md)")]
    predictor: Option<PathBuf>,
}

/// Flags for times that are not what is expected of them.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Run times (see docs/learning.md)")]
pub struct BeliefArgs {
    #[command(flatten)]
    estimates: PredictorArgs,
    /// Draw true times around the estimates, as in lognormal:0.2 (a standard deviation of 20%, the mean kept); for estimates
    #[arg(long, value_name = "NOISE")]
    noise: Option<Noise>,
    /// Have executions that start later take so many times as long, as in 1.3@1000s or llm7b=1.3@0; may be given several times
    #[arg(long, value_name = "[MODEL=]FACTOR@SECONDS")]
    drift: Vec<Drift>,
    /// What is true where a predictor is used: its `estimates`, or what the `requests` say, and then it predicts all nodes
    #[arg(long, value_name = "WHOSE", requires = "predictor", value_parser = truth_parser())]
    truth: Option<TrueTimes>,
    /// Learn from what executions take, model by model, and correct what is expected of the rest
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

/// Says that a predictor had nothing to say.
pub fn not_asked(name: &str) -> String {
    format!("note: --predictor {name} is not used: the requests give every node a time of its own")
}

/// Why a file is no predictor that will do, for people.
pub fn faulty(faults: Vec<Diagnostic>) -> Failure {
    Failure::input(render(&faults)).hint("`gswarm train` makes predictors; docs/learning.md says how")
}

impl PredictorArgs {
    /// Whether one was named.
    pub fn given(&self) -> bool {
        self.predictor.is_some()
    }

    /// The predictor, where one was named, for requests that are yet to come.
    pub fn one_by_one(&self) -> Result<Option<OneByOne>, Failure> {
        let Some(file) = &self.predictor else { return Ok(None) };
        let name = file.display().to_string();
        let predictor = Predictor::from_bytes(&name, &files::read_or(file, NO_PREDICTOR)?).map_err(faulty)?;
        OneByOne::new(&name, predictor).map(Some).map_err(faulty)
    }

    /// The predictor, where one was named.
    pub fn source(&self, scenario: &Scenario) -> Result<Option<Source>, Failure> {
        let Some(file) = &self.predictor else { return Ok(None) };
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // A log names the file, whatever folder it was in; people are told where it is.
        let at_its_place = |mut faults: Vec<Diagnostic>| {
            faults.iter_mut().for_each(|fault| fault.file = file.display().to_string());
            faulty(faults)
        };
        Source::read(name, files::read_or(file, NO_PREDICTOR)?, scenario).map(Some).map_err(at_its_place)
    }
}

impl BeliefArgs {
    /// A flag that was given and that only an estimate has a use for.
    pub fn for_estimates(&self) -> Option<&'static str> {
        let flags = [
            ("--noise", self.noise.is_some()),
            ("--drift", !self.drift.is_empty()),
            ("--truth", self.truth.is_some()),
        ];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }

    /// Whether nodes may be without a time: a predictor gives them one, and nothing else is asked what is true.
    pub fn times_all(&self) -> bool {
        self.estimates.given() && self.truth != Some(TrueTimes::Requests)
    }

    /// Whether to learn.
    pub fn learns(&self) -> bool {
        self.learn
    }

    /// Says that there is no spread for --means-only to keep from the policies, once the flags were applied.
    pub fn idle_means_only(&self, instance: &Instance) -> Option<&'static str> {
        if !self.means_only {
            return None;
        }
        if self.noise.is_none_or(|noise| noise.sigma() == 0.0) {
            return Some(
                "note: --means-only does nothing: it keeps from policies how far off --noise makes the estimates",
            );
        }
        // An interval of the very node is what a policy goes by.
        let predicted = instance.task_ids().all(|task| instance.interval(task).is_some());
        predicted.then_some(
            "note: --means-only does nothing: the predictor gives every node an interval of its own",
        )
    }

    /// The predictor, where one was named.
    pub fn source(&self, scenario: &Scenario) -> Result<Option<Source>, Failure> {
        self.estimates.source(scenario)
    }

    /// What the flags, and the predictor that they name, make of a problem.
    pub fn apply(
        &self,
        source: Option<Source>,
        scenario: &Scenario,
        instance: &mut Instance,
        seed: u64,
    ) -> Result<Beliefs, Failure> {
        let wanted = Wanted {
            noise: self.noise,
            drift: self.drift.clone(),
            truth: self.truth,
            learn: self.learn,
            means_only: self.means_only,
        };
        wanted.apply(source, scenario, instance, seed).map_err(|unknown| {
            let known: Vec<&str> = instance.models.iter().map(|model| model.name.as_str()).collect();
            Failure::input(format!("--drift: {unknown}")).hint(format!("there are {}", known.join(", ")))
        })
    }
}
