//! `gswarm pipeline`: profile, workload, training, schedule and evaluation, into one folder.

mod phases;
mod report;
mod settings;

use crate::failure::Failure;
use crate::output::{self, files};
use clap::Args;
use phases::{Done, Phase};
use settings::Settings;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  gswarm pipeline --out run                       all five phases with the described settings
  gswarm pipeline --init > pipeline.yaml          every setting, explained
  gswarm pipeline --config pipeline.yaml --out run
  gswarm pipeline --out run --results-to docs/results.md

Phases that are done are kept: they are done again when their settings, or a phase before them, have changed.";

/// Arguments of `gswarm pipeline`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PipelineArgs {
    /// Settings, YAML; what is left out is as described
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder for everything
    #[arg(long, short, value_name = "DIR", required_unless_present = "init")]
    out: Option<PathBuf>,
    /// Print a file of settings and do nothing else
    #[arg(long)]
    init: bool,
    /// Do every phase again
    #[arg(long)]
    force: bool,
    /// Write the results into this Markdown file too, with charts in a folder of its name beside it
    #[arg(long, alias = "results_to", value_name = "FILE", requires = "out")]
    results_to: Option<PathBuf>,
}

/// The file that says which phases are done.
const STATE: &str = "pipeline_state.json";

/// Runs the phases.
pub fn pipeline(args: &PipelineArgs) -> Result<(), Failure> {
    if args.init {
        return output::print(settings::COMMENTED);
    }
    let Some(folder) = &args.out else { return Err(Failure::input("--out is needed")) };
    let settings = match &args.config {
        Some(path) => settings::read(&path.display().to_string(), &files::read(path)?)?,
        None => Settings::default(),
    };
    let mut state = if args.force { BTreeMap::new() } else { read_state(folder) };
    let mut before = String::new();
    // A report that is there speaks of these files unless a phase is done anew.
    let mut current = report::FILES.iter().all(|name| folder.join(name).is_file()) && !args.force;
    for phase in Phase::ALL {
        // What a phase depends on: its own settings, and everything that the phases before it depend on.
        before = format!("{before}\n{}: {}", phase.name(), settings.of(phase));
        let there = phase.files().iter().all(|name| folder.join(name).is_file());
        if there && state.get(phase.name()) == Some(&before) {
            output::line(&format!("{:<9} kept", phase.name()))?;
            continue;
        }
        current = false;
        let since = Instant::now();
        let Done { summary, batch } = {
            let _shown = output::progress::Phase::new(phase.name(), true);
            phases::run(phase, &settings, folder).map_err(|failure| in_phase(phase, failure))?
        };
        batch.commit()?;
        state.insert(phase.name().to_string(), before.clone());
        write_state(folder, &state)?;
        output::line(&format!("{:<9} {:.1} s: {summary}", phase.name(), since.elapsed().as_secs_f64()))?;
    }
    if !current {
        let since = Instant::now();
        report::write(folder)?;
        output::line(&format!(
            "{:<9} {:.1} s: report.html, results.md and charts",
            "report",
            since.elapsed().as_secs_f64()
        ))?;
    }
    if let Some(text) = &args.results_to {
        report::write_to(folder, text)?;
    }
    output::line(&format!("Report: {}", folder.join("report.html").display()))
}

fn in_phase(phase: Phase, failure: Failure) -> Failure {
    let code = failure.code;
    Failure::new(code, format!("the phase `{}` failed: {failure}", phase.name()))
        .hint("phases before it are kept; the same command goes on from here")
}

fn read_state(folder: &Path) -> BTreeMap<String, String> {
    // A state that cannot be read is as if no phase were done.
    std::fs::read(folder.join(STATE))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

fn write_state(folder: &Path, state: &BTreeMap<String, String>) -> Result<(), Failure> {
    let mut batch = files::Batch::new(folder)?;
    batch.add(STATE, |out| {
        serde_json::to_writer_pretty(&mut *out, state)?;
        out.write_all(b"\n")
    })?;
    batch.commit().map(drop)
}
