//! `gswarm resume`: goes on with a live run that was interrupted.

use crate::failure::Failure;
use crate::job::Job;
use crate::live::ray::{Callables, Joined};
use crate::live::{self, JOURNAL, LiveJob, Recorded};
use crate::output;
use clap::Args;
use gswarm_core::report::render_text;
use gswarm_core::sim::SimOptions;
use gswarm_exec::journal::{Durability, Journal};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  gswarm run --simulate true --policy planned --gpus 8 --backends servers.yaml \\
      --config config.yaml --requests requests.yaml --out results
  gswarm resume results

Everything that the run needs is in the journal of its folder: no other flag has to be given again. Nodes that have
finished are not run again; what was under way when the run ended is.";

/// Arguments of `gswarm resume`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ResumeArgs {
    /// The folder of the run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Other servers than those that the run began with, JSON or YAML
    #[arg(long, value_name = "FILE")]
    backends: Option<PathBuf>,
    /// Where the Ray cluster is now, for a run on one
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// The Python that has Ray and gswarm, for a run on a Ray cluster
    #[arg(long, value_name = "PROGRAM", env = "GSWARM_PYTHON")]
    python: Option<String>,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

/// Goes on.
pub fn resume(args: &ResumeArgs) -> Result<(), Failure> {
    let path = args.folder.join(JOURNAL);
    if !path.is_file() {
        return Err(Failure::input(format!("there is no journal of a run in {}", args.folder.display()))
            .hint("name the folder that --out named"));
    }
    let failed = |error| live::journal_failure(&args.folder, &error);
    let journal = Journal::open(&path, Durability::Process).map_err(failed)?;
    let recorded = live::recorded(&path, |name| journal.meta(name).map_err(failed))?;
    let Recorded { mut settings, scenario, instance, beliefs } = recorded;
    if let Some(file) = &args.backends {
        let elsewhere = settings.ray.is_some();
        let read = if elsewhere { live::read_backends_elsewhere } else { live::read_backends };
        settings.backends = read(file)?;
        settings.models = None;
    }
    let plan = journal.meta("plan").map_err(failed)?;
    if args.address.is_some() && settings.ray.is_none() {
        return Err(Failure::input("--address is for runs on a Ray cluster, and this one is not"));
    }
    let mut joined = None;
    if let Some(ray) = &mut settings.ray {
        ray.address = args.address.clone().unwrap_or_else(|| ray.address.clone());
        ray.python = args.python.clone().unwrap_or_else(|| ray.python.clone());
        let bytes = journal.meta("callables").map_err(failed)?;
        let callables = ray.callables.clone().zip(bytes);
        let callables = callables.map(|((name, folder), bytes)| Callables { name, folder, bytes });
        let cluster = joined.insert(Joined::to(ray, !args.quiet)?);
        cluster.prepare(&settings, &instance, callables.as_ref())?;
    }
    let sim = SimOptions { max_attempts: settings.max_attempts, ..SimOptions::default() };
    let job = Job { policy: settings.policy.clone(), seed: settings.seed, sim, beliefs };
    let run = LiveJob {
        scenario: &scenario,
        instance: &instance,
        settings: &settings,
        job: &job,
        plan: plan.as_deref(),
        shown: !args.quiet,
        folder: &args.folder,
        ray: joined.as_ref(),
    };
    let saved = live::run_and_save(&run, journal, true)?;
    if !args.quiet {
        output::line(render_text(&saved.outcome.metrics, Some(&saved.outcome.summary)).trim_end())?;
        let names: Vec<String> = saved.written.iter().map(|path| path.display().to_string()).collect();
        output::line(&format!("\nWritten: {}", names.join(", ")))?;
    }
    saved.all_completed(&instance)
}
