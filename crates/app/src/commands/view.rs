//! `gswarm view`: the dashboard of a run in progress, or of a finished one.

use crate::commands::model_server::{ListenArgs, bind, runtime};
use crate::commands::report::inputs::{Given, Known, Loaded, load, logs};
use crate::failure::Failure;
use crate::output;
use clap::Args;
use gswarm_core::policy::PolicyKind;
use gswarm_exec::clock::Clock;
use gswarm_exec::config;
use gswarm_exec::journal::JournalReader;
use gswarm_exec::wire::{OverviewSource, WorkflowOutline};
use gswarm_run::Prepared;
use gswarm_run::live::{self, Begun, JOURNAL};
use gswarm_serve::dash::{DashboardAbout, RunSource, view as routes, workflows};
use gswarm_serve::guard;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  gswarm run --live --policy adaptive --gpus 8 --backends servers.yaml \\
      --config config.yaml --requests requests.yaml --out results &
  gswarm view results --port 8080
  gswarm view planned_execution_log.json --config work/config.yaml --requests work/requests.yaml

The first line of the output is the address, for a browser. The page follows a live run, also across an interruption and
`gswarm resume`. Without a journal in the folder, it shows the execution log. Nothing is written into the folder, and
the run is not affected. docs/dashboard.md describes the page.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ViewArgs {
    /// The folder of a live run, a folder with an execution log, or an execution log
    #[arg(value_name = "DIR|LOG")]
    path: PathBuf,
    /// Log less to standard error
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    given: Given,
    #[command(flatten, next_help_heading = "Where to listen")]
    listen: ListenArgs,
}

/// Shows it until it is told to end.
pub fn view(args: &ViewArgs) -> Result<(), Failure> {
    let mut settings = args.listen.settings()?;
    settings.open_paths = routes::OPEN_PATHS;
    let viewed = viewed(&args.path, &args.given)?;
    // The first signal ends it calmly, the second at once.
    let _ = output::interrupt::interrupted_once();
    runtime(args.quiet)?.block_on(async {
        let bound = bind(settings).await?;
        output::line(&format!("Listening on {}", bound.url()))?;
        if !args.quiet {
            output::note(&format!("Showing {}; Ctrl-C closes the view, not the run", args.path.display()));
        }
        // Whoever only looked has nothing to lose.
        let _ = bound.serve(routes::router(viewed), guard::terminated()).await;
        Ok(())
    })
}

/// The run in a folder, or of a log.
pub fn viewed(path: &Path, given: &Given) -> Result<RunSource, Failure> {
    if !path.exists() {
        return Err(Failure::input(format!("there is no {} (V001)", path.display()))
            .hint("pass the folder given to --out, or an execution log"));
    }
    let journal = path.join(JOURNAL);
    if journal.is_file() { followed(path, &journal) } else { past(path, given) }
}

/// A run with a journal, in progress or not.
fn followed(folder: &Path, path: &Path) -> Result<RunSource, Failure> {
    let failed = |error| live::journal_failure(folder, &error);
    let reader = JournalReader::open(path).map_err(failed)?;
    let Begun { prepared, backends } = live::begun(path, |name| reader.meta(name).map_err(failed))?;
    drop(reader);
    let Prepared { spec, scenario, instance, .. } = prepared;
    let clock = match backends {
        Some(backends) => config::clock(&backends).map_err(|faults| live::faulty(&faults))?,
        None => Clock::real(),
    };
    let policy = spec.policy();
    let told = workflows(&scenario.models, &scenario.workflows);
    let about = DashboardAbout {
        can_what_if: true,
        ..about(OverviewSource::Run, folder, policy.kind().name(), told)
    };
    let (instance, attempts) = (Arc::unwrap_or_clone(instance), spec.faults.max_attempts);
    RunSource::journal(about, instance, (policy, spec.seed), attempts, path, clock).map_err(failed)
}

/// A run that is over, of which there is a log.
fn past(path: &Path, given: &Given) -> Result<RunSource, Failure> {
    let found = logs(&[path.to_path_buf()])?;
    let [log] = &found[..] else {
        let names: Vec<String> = found.iter().map(|path| format!("\n  {}", path.display())).collect();
        let message = format!("{} has several execution logs (V002):{}", path.display(), names.concat());
        return Err(Failure::input(message).hint("pass one of them; `gswarm report` shows them side by side"));
    };
    let mut known = Known::default();
    let Loaded { instance, log: executed, .. } = load(log, given, &mut known)?;
    let told =
        known.scenario().map_or(Vec::new(), |scenario| workflows(&scenario.models, &scenario.workflows));
    let policy = named_after(log);
    Ok(RunSource::log(about(OverviewSource::Log, log, policy, told), instance, &executed))
}

/// The policy that a log is called after, where it is.
fn named_after(log: &Path) -> &str {
    let name = log.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let policy = name.split("_execution_log").next().unwrap_or_default();
    if policy.parse::<PolicyKind>().is_ok() { policy } else { "" }
}

fn about(
    source: OverviewSource,
    path: &Path,
    policy: &str,
    workflows: Vec<WorkflowOutline>,
) -> DashboardAbout {
    DashboardAbout {
        source,
        title: path.display().to_string(),
        started_at: None,
        policy: policy.to_owned(),
        can_submit: false,
        can_what_if: false,
        workflows,
    }
}
