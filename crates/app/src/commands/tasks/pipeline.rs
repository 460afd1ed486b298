//! `gswarm tasks pipeline`: profile, workload, training, schedule and evaluation, into one folder.

mod phases;
mod report;
mod settings;
mod state;

use crate::failure::Failure;
use crate::output::{self, files};
use clap::Args;
use phases::{Done, Phase};
use settings::Settings;
use state::{Standing, State};
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  gswarm tasks pipeline --out run                       all five phases with the described settings
  gswarm tasks pipeline --init > pipeline.yaml          every setting, explained
  gswarm tasks pipeline --config pipeline.yaml --out run
  gswarm tasks pipeline --out run --results-to docs/results.md

Finished phases are kept. A phase is repeated if its settings, an earlier phase or its files have changed.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PipelineArgs {
    /// Settings, YAML; missing ones take their defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder for everything
    #[arg(long, short, value_name = "DIR", required_unless_present = "init")]
    out: Option<PathBuf>,
    /// Print a settings file and exit
    #[arg(long)]
    init: bool,
    /// Repeat every phase, and replace files that no pipeline wrote
    #[arg(long)]
    force: bool,
    /// Write the results into this Markdown file too, with charts in a folder of its name beside it; only results of
    /// an earlier pipeline are replaced
    #[arg(long, alias = "results_to", value_name = "FILE", requires = "out")]
    results_to: Option<PathBuf>,
}

/// Hint for a missing settings file.
const NO_SETTINGS: &str =
    "check the path; `gswarm tasks pipeline --init > pipeline.yaml` writes every setting";

/// The report among the phases, in what is shown and kept.
const REPORT: &str = "report";

pub fn run(args: &PipelineArgs) -> Result<(), Failure> {
    if args.init {
        return output::print(settings::COMMENTED);
    }
    let Some(folder) = &args.out else { return Err(Failure::input("--out is needed")) };
    let settings = match &args.config {
        Some(path) => settings::read(&path.display().to_string(), &files::read_or(path, NO_SETTINGS)?)?,
        None => Settings::default(),
    };
    // Nobody waits for all phases to be told that there is no place for their results.
    let results = args.results_to.as_deref();
    let results = results.map(|text| Ok((text, report::place(text, args.force)?))).transpose()?;
    let _lock = state::lock(folder)?;
    let (mut state, fault) = if args.force { (State::default(), None) } else { State::read(folder) };
    if let Some(fault) = fault {
        output::line(&format!("state     {fault}: every phase is repeated"))?;
    }
    state.keep_foreign_files(folder, args.force)?;
    // What a phase is made from: its own settings, those of the phases before it, and what these have handed on.
    let mut made_from = String::new();
    for phase in Phase::ALL {
        made_from += &format!("\n{}: {}", phase.name(), settings.of(phase));
        let leaves = phase.leaves(&settings);
        match state.standing(phase.name(), &leaves, &made_from, folder) {
            Standing::Done => output::line(&format!("{:<9} kept", phase.name()))?,
            standing => {
                again(phase.name(), &standing)?;
                going_on(phase.name());
                let since = Instant::now();
                let Done { summary, batch } = {
                    let _shown = output::progress::Phase::new(phase.name(), true);
                    phases::run(phase, &settings, folder).map_err(|failure| in_phase(phase, failure))?
                };
                // A phase that read what was changed meanwhile is of neither.
                state.unchanged(phase, folder).map_err(|failure| in_phase(phase, failure))?;
                batch.commit()?;
                state.done(phase.name(), &leaves, &made_from, folder)?;
                state.write(folder)?;
                took(phase.name(), since, &summary)?;
            }
        }
        made_from += &state.handed_on(phase);
    }
    // The report speaks of all files, those too that no phase reads.
    made_from += &state.all();
    let left = state.files(REPORT);
    let left: Vec<&str> = left.iter().map(String::as_str).chain(report::FILES).collect();
    let standing = state.standing(REPORT, &left, &made_from, folder);
    if standing != Standing::Done {
        again(REPORT, &standing)?;
        going_on(REPORT);
        let since = Instant::now();
        let left = report::write(folder)?;
        let left: Vec<&str> = left.iter().map(String::as_str).collect();
        state.done(REPORT, &left, &made_from, folder)?;
        state.write(folder)?;
        took(REPORT, since, "report.html, results.md and charts")?;
    }
    output::interrupt::say_when_interrupted(None);
    if let Some((text, place)) = results {
        report::write_to(folder, text, place)?;
    }
    output::line(&format!("Report: {}", folder.join("report.html").display()))
}

/// Sets the message of an interruption.
fn going_on(name: &str) {
    output::interrupt::say_when_interrupted(Some(format!(
        "interrupted in phase `{name}`: earlier phases are kept, and the same command continues here"
    )));
}

/// Says why a finished phase is repeated.
fn again(name: &str, standing: &Standing) -> Result<(), Failure> {
    match standing {
        Standing::Damaged(why) => output::line(&format!("{name:<9} {why}: repeated")),
        Standing::Done | Standing::Open => Ok(()),
    }
}

fn took(name: &str, since: Instant, summary: &str) -> Result<(), Failure> {
    output::line(&format!("{name:<9} {:.1} s: {summary}", since.elapsed().as_secs_f64()))
}

fn in_phase(phase: Phase, failure: Failure) -> Failure {
    let code = failure.code;
    Failure::new(code, format!("the phase `{}` failed: {failure}", phase.name()))
        .hint("earlier phases are kept; the same command continues here")
}
