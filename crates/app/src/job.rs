//! What every run goes through: files to a problem, a policy on it, the check of its own log, the files it leaves.

use crate::args::InputArgs;
use crate::beliefs::{self, Beliefs};
use crate::failure::{Code, Failure};
use crate::measured;
use crate::output::files;
use crate::output::progress::{Bar, Phase};
use crate::output::{self, count};
use gswarm_core::Instance;
use gswarm_core::belief::Learner;
use gswarm_core::check::report as render_violations;
use gswarm_core::generate::{Format, write_scenario_config, write_scenario_requests};
use gswarm_core::input::{ClusterSpec, Lacking, Reading, Scenario, Source, read_lacking, render};
use gswarm_core::instance::{Infeasible, Mode};
use gswarm_core::log_file::{shown, write_json, write_jsonl};
use gswarm_core::plan::{self, file::Read};
use gswarm_core::policy::{Policy, PolicyKind, PolicyParams};
use gswarm_core::report::write_events;
pub use gswarm_core::run::Outcome;
use gswarm_core::run::{NoProblem, Setting, assess, problem};
use gswarm_core::sim::{SimOptions, simulate_learning};
use std::borrow::Cow;
use std::path::Path;

/// Above this many executions, a log of no stated form is written line by line.
const LONG_LOG: usize = 100_000;

/// Reads both input files. Every fault in them is reported at once; warnings go to standard error.
pub fn load(input: &InputArgs, mode: Mode, quiet: bool, show_progress: bool) -> Result<Scenario, Failure> {
    let _phase = Phase::new("reading the inputs", show_progress);
    Inputs::read(input)?.scenario(mode, quiet)
}

/// The same where a predictor will say how long nodes take that the files give no time for.
pub fn load_predicted(
    input: &InputArgs,
    mode: Mode,
    quiet: bool,
    show_progress: bool,
) -> Result<Scenario, Failure> {
    let _phase = Phase::new("reading the inputs", show_progress);
    Inputs::read(input)?.predicted_scenario(mode, quiet)
}

/// The two input files, read once: what is scheduled and what a journal keeps are the same bytes.
pub struct Inputs {
    /// The name and the text of the configuration.
    pub config: (String, Vec<u8>),
    /// Those of the requests.
    pub requests: (String, Vec<u8>),
    /// What they say with the costs of a calibration in the place of their own, where one was named.
    pub measured: Option<Scenario>,
}

impl Inputs {
    /// Reads them; where both cannot be read, both are named.
    pub fn read(input: &InputArgs) -> Result<Inputs, Failure> {
        let InputArgs { config, requests, measured } = input;
        let named = |path: &Path, bytes| (path.display().to_string(), bytes);
        match (files::read(config), files::read(requests)) {
            (Ok(one), Ok(other)) => measured::over(
                Inputs { config: named(config, one), requests: named(requests, other), measured: None },
                measured,
            ),
            (Err(config), Err(requests)) => Err(config.and(requests)),
            (Err(failure), _) | (_, Err(failure)) => Err(failure),
        }
    }

    /// What they say, or all that is wrong with them.
    pub fn scenario(&self, mode: Mode, quiet: bool) -> Result<Scenario, Failure> {
        self.lacking(mode, Lacking::Nothing, quiet)
    }

    /// The same where a predictor will say how long nodes take that they give no time for.
    pub fn predicted_scenario(&self, mode: Mode, quiet: bool) -> Result<Scenario, Failure> {
        self.lacking(mode, Lacking::Times, quiet)
    }

    /// The same where something else supplies what is `lacking`.
    pub fn lacking(&self, mode: Mode, lacking: Lacking, quiet: bool) -> Result<Scenario, Failure> {
        let [config, requests] = [&self.config, &self.requests].map(|(name, bytes)| Source { name, bytes });
        let reading = match &self.measured {
            None => read_lacking(config, requests, mode, lacking),
            Some(scenario) => scenario.clone().validated([config.name, requests.name], mode, lacking),
        };
        accept(reading, quiet)
    }

    /// The texts of files that say the same: what a journal keeps.
    pub fn texts(&self) -> Result<[Cow<'_, [u8]>; 2], Failure> {
        let Some(scenario) = &self.measured else {
            return Ok([Cow::Borrowed(&self.config.1), Cow::Borrowed(&self.requests.1)]);
        };
        let (mut config, mut requests) = (Vec::new(), Vec::new());
        write_scenario_config(scenario, Format::Json, &mut config)
            .and_then(|()| write_scenario_requests(scenario, Format::Json, &mut requests))
            .map_err(|error| Failure::new(Code::Internal, format!("internal error: {error}")))?;
        Ok([Cow::Owned(config), Cow::Owned(requests)])
    }
}

/// The scenario where there is one; otherwise what is wrong with the input.
pub fn accept(reading: Reading, quiet: bool) -> Result<Scenario, Failure> {
    let found = render(&reading.diagnostics);
    match reading.scenario {
        Some(scenario) => {
            if !found.is_empty() && !quiet {
                output::note(found.trim_end());
            }
            Ok(scenario)
        }
        None => {
            let faults = count(reading.errors as u64, "fault");
            Err(Failure::input(format!("the input has {faults}\n\n{found}"))
                .hint("docs/errors.md explains each code; nothing was run and no file was written"))
        }
    }
}

/// The problem that `policy` is to solve.
pub fn build(
    scenario: &Scenario,
    spec: &ClusterSpec,
    mode: Mode,
    policy: PolicyKind,
) -> Result<Instance, Failure> {
    build_predicted(scenario, spec, mode, policy, None)
}

/// The same where a predictor may say how long nodes take.
pub fn build_predicted(
    scenario: &Scenario,
    spec: &ClusterSpec,
    mode: Mode,
    policy: PolicyKind,
    source: Option<&beliefs::Source>,
) -> Result<Instance, Failure> {
    let estimates = source.map_or(&[][..], beliefs::Source::estimates);
    problem(scenario, spec, mode, Some(policy), estimates).map_err(|why| match why {
        NoProblem::NoGpus => {
            Failure::input(why.to_string()).hint("add --gpus N, or `cluster: {gpus: N}` to the configuration")
        }
        NoProblem::TooSlow { .. } => Failure::input(why.to_string()).hint("give a higher --pcie-gb-per-s"),
        NoProblem::Infeasible(faults) => infeasible(&faults),
    })
}

/// Says why a problem cannot be run.
pub fn infeasible(faults: &[Infeasible]) -> Failure {
    Failure::new(Code::Infeasible, NoProblem::Infeasible(faults.to_vec()).to_string())
        .hint("give more GPUs (--gpus), larger servers (--gpus-per-server) or more memory (--gpu-memory-gb)")
}

/// Reads a plan for this problem; all that is wrong with it is reported at once.
pub fn read_plan(instance: &Instance, file: &Path) -> Result<Read, Failure> {
    plan_of(
        instance,
        &file.display().to_string(),
        &files::read_or(file, "check the path; `gswarm plan` writes plans")?,
    )
}

/// The same from its text.
pub fn plan_of(instance: &Instance, name: &str, bytes: &[u8]) -> Result<Read, Failure> {
    plan::file::read(instance, bytes).map_err(|faults| {
        let list: Vec<String> = faults.iter().map(|fault| format!("\n  - {}", shown(fault))).collect();
        Failure::input(format!("{name} does not fit these inputs:{}", list.concat()))
            .hint("make the plan anew with `gswarm plan` for this configuration, these requests and this number of GPUs")
    })
}

/// How a run is made.
#[derive(Clone, Debug)]
pub struct Job {
    /// Who chooses.
    pub policy: PolicyKind,
    /// What it is told.
    pub params: PolicyParams,
    /// Attempts and faults.
    pub sim: SimOptions,
    /// What is believed about run times, and what is true.
    pub beliefs: Beliefs,
}

/// Runs the job and checks its log. A log that fails the check is a fault of this program.
pub fn execute(instance: &Instance, job: &Job, show_progress: bool) -> Result<Outcome, Failure> {
    let planning = Phase::new("planning", show_progress);
    let mut policy = job.policy.build(instance, &job.params);
    drop(planning);
    execute_with(instance, job, policy.as_mut(), show_progress)
}

/// The same under a policy that is ready to run; the job's gives its name.
pub fn execute_with(
    instance: &Instance,
    job: &Job,
    policy: &mut dyn Policy,
    show_progress: bool,
) -> Result<Outcome, Failure> {
    let mut bar = Bar::new(job.policy.name(), show_progress);
    let options = SimOptions { truth: job.beliefs.truth.clone(), ..job.sim.clone() };
    let mut learner = job.beliefs.learner(instance);
    let learner = learner.as_mut().map(|learner| learner.as_mut() as &mut dyn Learner);
    let log = simulate_learning(instance, policy, learner, &options, &mut |at| bar.update(at.done, at.total))
        .map_err(|error| fault_of_policy(job.policy, &error.to_string()))?;
    drop(bar);
    let _phase = Phase::new("checking the run", show_progress);
    let setting = Setting {
        policy: job.policy.name().to_owned(),
        seed: job.params.seed,
        truth: job.beliefs.truth.clone(),
        truth_spec: job.beliefs.spec.clone(),
        predictor: job.beliefs.predictor(),
    };
    assess(instance, &setting, log)
        .map_err(|violations| fault_of_policy(job.policy, &render_violations(&violations)))
}

fn fault_of_policy(policy: PolicyKind, what: &str) -> Failure {
    Failure::new(Code::Internal, format!("internal error under policy `{}`: {what}", policy.name()))
        .hint("this is a fault of gswarm, not of your input, and no file was written; please report it with both input files")
}

/// The form of an execution log.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON document
    Json,
    /// One JSON document a line: the header, then the executions
    Jsonl,
    /// JSON up to 100,000 executions, lines above
    #[default]
    Auto,
}

impl LogFormat {
    fn by_line(self, executions: usize) -> bool {
        match self {
            LogFormat::Json => false,
            LogFormat::Jsonl => true,
            LogFormat::Auto => executions > LONG_LOG,
        }
    }
}

/// Writes the two files of a run, named after its policy; they take their names when `batch` is committed.
pub fn save(
    batch: &mut files::Batch,
    instance: &Instance,
    job: &Job,
    outcome: &Outcome,
    format: LogFormat,
) -> Result<(), Failure> {
    let name = job.policy.name();
    batch.add(&format!("{name}_scheduler.log"), |out| write_events(instance, &outcome.log, out))?;
    // The other form of the log would speak of an earlier run.
    if format.by_line(outcome.log.executions.len()) {
        batch.supersede(&format!("{name}_execution_log.json"));
        batch.add(&format!("{name}_execution_log.jsonl"), |out| {
            write_jsonl(instance, &outcome.log, &outcome.summary, out)
        })
    } else {
        batch.supersede(&format!("{name}_execution_log.jsonl"));
        batch.add(&format!("{name}_execution_log.json"), |out| {
            write_json(instance, &outcome.log, &outcome.summary, out)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_logs_are_written_line_by_line() {
        assert!(!LogFormat::Auto.by_line(LONG_LOG));
        assert!(LogFormat::Auto.by_line(LONG_LOG + 1));
        assert!(!LogFormat::Json.by_line(usize::MAX));
        assert!(LogFormat::Jsonl.by_line(0));
    }
}
