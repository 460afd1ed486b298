//! `gswarm compare`: policies side by side, over numbers of GPUs, modes and seeds.

pub mod rows;
mod tables;

use crate::args::{InputArgs, MachineArgs, MeasuredArgs, Seeds, seeds};
use crate::failure::{Failure, FailureKind};
use crate::output::progress::Bar;
use crate::output::{self, count, terminal::Terminal};
use clap::Args;
use gswarm_core::compare::{
    ComparisonVerdict, RunKey, SweepRow, fill_in_speedups, lines, same_table, verdict,
};
use gswarm_core::input::MAX_GPUS;
use gswarm_core::instance::Mode;
use gswarm_core::policy::{PolicyKind, PolicySpec};
use gswarm_run::sweep::{Axes, Input, Run, Sweep};
use gswarm_run::{Observer, RunSpec, Stage};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const EXAMPLES: &str = "\
Examples:
  gswarm compare --gpus 4,8,16,32 --config config.yaml --requests requests.yaml --out comparison
  gswarm compare --policies baseline,planned,adaptive --mode both --gpus 8 --seeds 1..5 \\
      --config config.yaml --requests requests.yaml
  gswarm compare --gpus 8,16 --batching on,off --config a/config.yaml --requests a/requests.yaml \\
      --config b/config.yaml --requests b/requests.yaml
  gswarm compare --mode online --gpus 8 --config config.yaml --requests requests.yaml --json

A stream is judged by its P99 latency, a batch by its makespan. The table is sorted by that figure, and the verdict
below uses it.

Writes rows.jsonl as runs end, then comparison.csv and comparison.parquet, one row per run, into --out. Every log is
checked.
Repeat the command to continue after an interruption. With more GPUs, policies or seeds, it runs only
what is new.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// System configuration, JSON or YAML; may be given several times, each with --requests
    #[arg(long, value_name = "FILE", required = true)]
    config: Vec<PathBuf>,
    /// Requests for the configuration in the same position, JSON or YAML
    #[arg(long, value_name = "FILE", required = true)]
    requests: Vec<PathBuf>,
    /// Numbers of GPUs [default: from the configuration]
    #[arg(long, value_name = "N,...", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_GPUS)))]
    gpus: Vec<u32>,
    /// Policies, or all of them; see `gswarm policies`
    #[arg(long, value_name = "NAME,...", default_value = "all", value_delimiter = ',', value_parser = policies)]
    policies: Vec<Policies>,
    /// When requests arrive: all at the start (offline), at their timestamps (online), or both in turn
    #[arg(long, value_name = "MODE", default_value = "offline", value_parser = ["offline", "online", "both"])]
    mode: String,
    /// Seeds, as in 1..5 or 1,2,3
    #[arg(long, value_name = "FIRST..LAST", default_value = "0", value_parser = seeds)]
    seeds: Seeds,
    /// Whether models batch as configured, or not at all
    #[arg(long, value_name = "on,off", default_value = "on", value_delimiter = ',', value_parser = ["on", "off"])]
    batching: Vec<String>,
    /// `planned`: rounds of search
    #[arg(long, value_name = "N", default_value_t = 2)]
    rounds: u64,
    /// Folder of the comparison [default: comparison, or comparison-2 and so on if that has other inputs]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Print one JSON object: every run, and the verdicts
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    measured: MeasuredArgs,
    #[command(flatten, next_help_heading = "Cluster (each overrides the configuration's `cluster`)")]
    machines: MachineArgs,
}

#[derive(Clone, Copy, Debug)]
enum Policies {
    All,
    One(PolicyKind),
}

impl CompareArgs {
    fn kinds(&self) -> Vec<PolicyKind> {
        let wanted = |kind: &PolicyKind| {
            self.policies.iter().any(|one| match one {
                Policies::All => true,
                Policies::One(one) => one == kind,
            })
        };
        PolicyKind::ALL.iter().copied().filter(wanted).collect()
    }

    /// All runs that are asked for.
    fn sweep(&self) -> Result<Sweep, Failure> {
        let policy = |kind| PolicySpec::default_of(kind).with_rounds(self.rounds);
        let axes = Axes {
            modes: self.modes().to_vec(),
            batching: [true, false].into_iter().filter(|&on| self.wants_batching(on)).collect(),
            gpus: self.gpus.clone(),
            policies: self.kinds().into_iter().map(policy).collect(),
            seeds: self.seeds.0.clone(),
        };
        let (mut inputs, mut failure) = (Vec::new(), None::<Failure>);
        let files = self.config.iter().zip(&self.requests);
        for ((config, requests), name) in files.zip(names(&self.config)) {
            let input = InputArgs {
                config: config.clone(),
                requests: requests.clone(),
                measured: self.measured.clone(),
            };
            let spec = RunSpec { cluster: self.machines.spec(), ..input.spec(Mode::Offline) };
            match spec.load() {
                Ok(materials) => inputs.push(Input { name, spec, materials }),
                Err(error) => {
                    failure = Some(match failure {
                        Some(earlier) => earlier.and(error),
                        None => error,
                    });
                }
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let mut terminal = Terminal::new("", self.quiet, self.json);
        terminal.stage(Stage::Reading);
        Sweep::new(inputs, axes, &format!("rounds {}", self.rounds), &mut terminal)
    }

    /// `--no-batching` leaves nothing to vary.
    fn wants_batching(&self, on: bool) -> bool {
        if self.measured.no_batching {
            return !on;
        }
        self.batching.iter().any(|given| (given == "on") == on)
    }

    fn modes(&self) -> &'static [Mode] {
        match self.mode.as_str() {
            "offline" => &[Mode::Offline],
            "online" => &[Mode::Online],
            _ => &[Mode::Offline, Mode::Online],
        }
    }
}

/// Runs what is missing, and compares.
pub fn compare(args: &CompareArgs) -> Result<(), Failure> {
    if args.config.len() != args.requests.len() {
        let (configs, requests) = (args.config.len(), args.requests.len());
        return Err(Failure::input(format!("{configs} --config and {requests} --requests cannot be paired"))
            .hint("give one --requests for each --config, in the same order"));
    }
    let is_interrupted = output::interrupt::interrupted_once();
    let sweep = args.sweep()?;
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => rows::folder_for(&sweep.fingerprint)?,
    };
    let mut rows = rows::Rows::open(&folder, &sweep.fingerprint)?;
    let runs = sweep.runs();
    let wanted: Vec<RunKey> = runs.iter().map(|run| run.key.clone()).collect();
    let missing: Vec<Run> = runs.into_iter().filter(|run| !rows.has(&run.key)).collect();
    let kept = wanted.len() - missing.len();
    let is_silent = args.quiet || args.json;
    if kept > 0 && !is_silent {
        output::note(&format!("{} of an earlier attempt are kept", count(kept as u64, "run")));
    }
    let bar = Mutex::new((Bar::of("comparing", "runs", !is_silent), 0, &mut rows));
    sweep.simulate(&missing, &is_interrupted, &|row| {
        let mut held = bar.lock().unwrap_or_else(PoisonError::into_inner);
        let (bar, done, rows) = &mut *held;
        *done += 1;
        bar.update(*done, missing.len());
        rows.keep(row)
    })?;
    drop(bar);
    if is_interrupted() {
        return Err(Failure::new(FailureKind::Interrupted, "interrupted")
            .hint("finished runs are kept: the same command continues"));
    }
    let mut found: Vec<SweepRow> = rows.of(&wanted);
    fill_in_speedups(&mut found);
    let paths = rows::write(&folder, &found)?;
    if args.quiet {
        return Ok(());
    }
    let lines = lines(&found);
    let tables = || lines.chunk_by(|one, other| same_table(one.first, other.first));
    if args.json {
        let verdicts = tables().filter_map(verdict).collect();
        return output::json(&CompareReport { runs: found.clone(), verdicts, files: paths });
    }
    for of_one_table in tables() {
        output::line(&tables::of_one(of_one_table))?;
    }
    let runs = count(found.iter().filter(|row| row.infeasible.is_none()).count() as u64, "run");
    let left_out = found.iter().filter(|row| row.infeasible.is_some()).count();
    let left_out =
        if left_out == 0 { String::new() } else { format!("; {left_out} cannot be run on so few GPUs") };
    output::line(&format!(
        "{runs}, every log checked{left_out}. * is the best of its column for that number of GPUs."
    ))?;
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    output::line(&format!("Written: {}", names.join(", ")))
}

/// What `gswarm compare --json` prints.
#[derive(Serialize, Deserialize)]
pub struct CompareReport {
    /// A row for each run, as in `rows.jsonl`, with the speedups.
    runs: Vec<SweepRow>,
    /// Who wins, for each table.
    verdicts: Vec<ComparisonVerdict>,
    /// The files that were written.
    files: Vec<PathBuf>,
}

fn policies(text: &str) -> Result<Policies, String> {
    if text == "all" {
        return Ok(Policies::All);
    }
    let found = PolicyKind::ALL.iter().find(|kind| kind.name() == text);
    let names: Vec<&str> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
    let message = || format!("unknown policy; give `all`, or some of {}", names.join(", "));
    found.map(|&kind| Policies::One(kind)).ok_or_else(message)
}

/// Names of the inputs: the file, or its folder if all files have the same name.
fn names(configs: &[PathBuf]) -> Vec<String> {
    let text = |part: Option<&std::ffi::OsStr>| {
        part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let name = |path: &Path| {
        let stem = text(path.file_stem());
        let stem = stem.trim_end_matches("config").trim_end_matches(['_', '-', '.']);
        let folder = text(path.parent().and_then(Path::file_name));
        let found = if stem.is_empty() { folder } else { stem.to_owned() };
        if found.is_empty() { "input".to_owned() } else { found }
    };
    let mut names: Vec<String> = Vec::new();
    for path in configs {
        let plain = name(path);
        let mut unique = plain.clone();
        for number in 2.. {
            if !names.contains(&unique) {
                break;
            }
            unique = format!("{plain}-{number}");
        }
        names.push(unique);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn inputs_are_called_by_their_files_or_folders() {
        let paths = ["data/simple_config.json", "jobs/config.yaml", "other/jobs/config.yaml", "config.yaml"];
        assert_eq!(names(&paths.map(Into::into)), ["simple", "jobs", "jobs-2", "input"]);
    }
}
