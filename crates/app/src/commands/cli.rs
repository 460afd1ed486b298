//! The command line: all commands.

use super::{
    advise, bound, calibrate, check, compare, completions, deploy, diff, explain, fidelity, generate, help,
    import, init, man, model_server, models, plan, policies, report, resume, run, sample, schema, serve,
    size, tasks, top, trace, train, validate, view,
};
use anstream::ColorChoice;
use clap::{Parser, Subcommand, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  gswarm                                       all policies on a built-in sample
  gswarm init --out work                       files of your own to start from
  gswarm validate work/config.yaml work/requests.yaml
  gswarm run --policy baseline --gpus 8 --config work/config.yaml --requests work/requests.yaml
  gswarm plan --gpus 8 --budget 10s --config work/config.yaml --requests work/requests.yaml
  gswarm check baseline_execution_log.json --config work/config.yaml --requests work/requests.yaml
  gswarm explain baseline_execution_log.json --idle --config work/config.yaml --requests work/requests.yaml
  gswarm compare --gpus 4,8,16 --config work/config.yaml --requests work/requests.yaml --out comparison
  gswarm size --target makespan=2h --config work/config.yaml --requests work/requests.yaml
  gswarm advise --target p99=60s --config work/config.yaml --requests work/requests.yaml
  gswarm deploy --gpus 16 --gpus-per-server 4 --config work/config.yaml --requests work/requests.yaml
  gswarm policies                              the policies to choose from

Exit codes:
  0 ok; 1 a check found violations; 2 bad input or usage; 3 the problem cannot be run on these GPUs;
  4 a run ended with failed requests; 70 a bug in gswarm; 130 interrupted";

/// Schedules compound AI workflows on fewer GPUs than models.
///
/// Without a command: runs every policy on a built-in sample and compares them.
#[derive(Debug, Parser)]
#[command(name = "gswarm", version, after_help = EXAMPLES, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// When to colour the output
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The sample's own.
    #[command(flatten)]
    pub sample: sample::SampleArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a commented configuration and requests to start from
    Init(init::InitArgs),
    /// Check input files: report all faults at once, and warn of implausible values
    Validate(validate::ValidateArgs),
    /// Run requests under one policy, write the logs and report what happened
    Run(Box<run::RunArgs>),
    /// Continue an interrupted live run
    Resume(resume::ResumeArgs),
    /// Search for the shortest schedule of a batch, with a lower bound
    Plan(Box<plan::PlanArgs>),
    /// Print lower bounds on the makespan, and why they hold
    Bound(Box<bound::BoundArgs>),
    /// Check an execution log against its inputs, independently of the scheduler
    Check(check::CheckArgs),
    /// Explain a run: why a node waited, where a request's time went, why GPUs were idle
    Explain(Box<explain::ExplainArgs>),
    /// Compare policies over numbers of GPUs, modes and seeds
    Compare(Box<compare::CompareArgs>),
    /// Compare two runs: what moved, and what it cost
    Diff(Box<diff::DiffArgs>),
    /// Make an HTML page of runs: comparison, charts and a Gantt chart
    Report(Box<report::ReportArgs>),
    /// Write an execution log for trace viewers (Chrome, Perfetto)
    Trace(Box<trace::TraceArgs>),
    /// Measure servers: loads, executions by length, batching
    Calibrate(Box<calibrate::CalibrateArgs>),
    /// Report how far a run deviated from its prediction
    Fidelity(Box<fidelity::FidelityArgs>),
    /// Find the fewest GPUs that meet a makespan or a latency
    Size(Box<size::SizeArgs>),
    /// Advise on GPUs, policy and placement for a target, over resampled traffic
    Advise(Box<advise::AdviseArgs>),
    /// Put models on GPUs for good: make, show, check and compare deployments
    Deploy(Box<deploy::DeployArgs>),
    /// Make configurations and request files from a seed
    Generate(Box<generate::GenerateArgs>),
    /// Convert workflows, traces and logs of other programs into a configuration and requests
    Import(Box<import::ImportArgs>),
    /// Learn run times from a table or from execution logs, with intervals
    Train(Box<train::TrainArgs>),
    /// Schedule independent tasks on one machine's CPU and GPUs
    Tasks(tasks::TasksArgs),
    /// Former names of the `tasks` commands.
    #[command(flatten)]
    FormerTasks(tasks::FormerName),
    /// Make small models for experiments, or list a folder of models
    Models(models::ModelsArgs),
    /// Serve models over HTTP: load, call, estimate, and the OpenAI-compatible endpoints
    ModelServer(Box<model_server::ModelServerArgs>),
    /// Serve all models and workflows of a configuration over HTTP, scheduled
    Serve(Box<serve::ServeArgs>),
    /// Show GPUs, queue and rates of a service in the terminal
    Top(top::TopArgs),
    /// Show a running or finished run in a browser
    View(Box<view::ViewArgs>),
    /// List the policies: what each optimises and when to use it
    Policies(policies::PoliciesArgs),
    /// Print the JSON Schema of a kind of file, or the OpenAPI document of the server
    Schema(schema::SchemaArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Write manual pages
    #[command(hide = true)]
    Man(man::ManArgs),
    /// Print the help of a command, or explain the code of a message
    Help(help::HelpArgs),
}

/// When to colour the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Applies it to all further output.
    pub fn apply(self) {
        match self {
            Color::Auto => ColorChoice::Auto.write_global(),
            Color::Always => ColorChoice::Always.write_global(),
            Color::Never => ColorChoice::Never.write_global(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn underscores_are_taken_for_dashes() {
        let line = [
            "gswarm",
            "run",
            "--policy",
            "baseline",
            "--config",
            "c",
            "--requests",
            "r",
            "--gpus_per_server",
            "4",
        ];
        let Some(Command::Run(run)) = Cli::parse_from(line).command else { panic!("not a run") };
        assert_eq!(run.cluster.machines.gpus_per_server, Some(4));
    }
}
