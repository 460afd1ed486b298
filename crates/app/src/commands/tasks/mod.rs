//! `gswarm tasks`: independent tasks on one machine's CPU and GPUs.

mod check;
mod generate;
mod pipeline;
mod profile;
mod schedule;

pub use generate::GenerateTasksArgs;

use crate::failure::Failure;
use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  gswarm tasks pipeline --out run                     all of the below, into one folder
  gswarm tasks profile --out hardware_profile.json
  gswarm tasks generate --hardware hardware_profile.json --out workload.csv
  gswarm tasks schedule --tasks workload.csv --hardware hardware_profile.json
  gswarm tasks check gswarm-out/tasks/task_execution_log.jsonl --tasks workload.csv

docs/tasks.md explains workloads, policies and rules.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TasksArgs {
    #[command(subcommand)]
    command: TasksCommand,
}

/// What to do with tasks.
#[derive(Debug, Subcommand)]
enum TasksCommand {
    /// Measure what this machine's CPU and GPUs can do
    Profile(profile::ProfileArgs),
    /// Make a workload from a seed: sizes, memory, arrivals, dependencies and run times
    Generate(Box<GenerateTasksArgs>),
    /// Schedule tasks under one policy, or compare all policies
    Schedule(Box<schedule::ScheduleArgs>),
    /// Check the log of `tasks schedule` against its tasks, independently of the scheduler
    Check(check::CheckTasksArgs),
    /// Profile, generate, train, schedule and evaluate, into one folder
    Pipeline(pipeline::PipelineArgs),
}

/// Former names of these commands, which keep working and are hidden.
#[derive(Debug, Subcommand)]
pub enum FormerName {
    /// `tasks profile`
    #[command(hide = true)]
    Profile(profile::ProfileArgs),
    /// `tasks schedule`
    #[command(hide = true)]
    ScheduleTasks(Box<schedule::ScheduleArgs>),
    /// `tasks check`
    #[command(hide = true)]
    CheckTasks(check::CheckTasksArgs),
    /// `tasks pipeline`
    #[command(hide = true)]
    Pipeline(pipeline::PipelineArgs),
}

impl From<FormerName> for TasksArgs {
    fn from(former: FormerName) -> TasksArgs {
        let command = match former {
            FormerName::Profile(args) => TasksCommand::Profile(args),
            FormerName::ScheduleTasks(args) => TasksCommand::Schedule(args),
            FormerName::CheckTasks(args) => TasksCommand::Check(args),
            FormerName::Pipeline(args) => TasksCommand::Pipeline(args),
        };
        TasksArgs { command }
    }
}

pub fn tasks(args: &TasksArgs) -> Result<(), Failure> {
    match &args.command {
        TasksCommand::Profile(args) => profile::run(args),
        TasksCommand::Generate(args) => generate::run(args),
        TasksCommand::Schedule(args) => schedule::run(args),
        TasksCommand::Check(args) => check::run(args),
        TasksCommand::Pipeline(args) => pipeline::run(args),
    }
}

/// `gswarm tasks generate`, the former name of `gswarm tasks generate`.
pub fn generate(args: &GenerateTasksArgs) -> Result<(), Failure> {
    generate::run(args)
}
