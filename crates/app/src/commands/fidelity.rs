//! `gswarm fidelity`: how far a run deviated from its prediction.

use crate::args::{ClusterArgs, InputArgs};
use crate::failure::{Failure, FailureKind};
use crate::job;
use crate::output::{self, files, files::Batch, progress::Phase, table, terminal::Terminal};
use clap::Args;
use gswarm_core::Instance;
use gswarm_core::check::{ViolationCode, check_run, read_back, report as render_violations};
use gswarm_core::cost::SwitchRule;
use gswarm_core::fidelity::{Compared, Errors, Fidelity, One, fidelity as compare, replay};
use gswarm_core::input::Scenario;
use gswarm_core::instance::Mode;
use gswarm_core::log::ExecutionLog;
use gswarm_core::log_file::LogFile;
use gswarm_core::policy::{PolicyKind, PolicySpec, follow_as};
use gswarm_core::truth::Truth;
use gswarm_core::verify::build;
use gswarm_exec::journal::JournalReader;
use gswarm_run::live::{self, JOURNAL};
use gswarm_run::{Prepared, RunSpec, read_plan};
use gswarm_show::chart::svg;
use gswarm_show::page::html;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  gswarm fidelity --log live/planned_execution_log.json --calibration calibration.json \\
      --config config.yaml --requests requests.yaml --out fidelity
  gswarm run --policy planned --calibration calibration.json --config config.yaml --requests requests.yaml --out estimate
  gswarm fidelity --log live/planned_execution_log.json --predicted estimate/planned_execution_log.json \\
      --calibration calibration.json --config config.yaml --requests requests.yaml --json

Two predictions are made from the measured costs. `from scratch`: the run's policy or plan decides anew. `by replay`:
every step of the run is repeated, in the same order and on the same GPUs. --predicted uses a log written before the run
instead. The policy's settings and the plan are read from the journal beside the log, if there is one.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct FidelityArgs {
    /// The execution log of the live run
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
    /// An earlier prediction: the execution log of a simulated run
    #[arg(long, value_name = "FILE")]
    predicted: Option<PathBuf>,
    #[command(flatten)]
    input: InputArgs,
    /// The plan of the run, if it has no journal
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Number of nodes and requests to list
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Folder for fidelity.html, fidelity.json and the charts
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Cluster (if the log's summary does not say)")]
    cluster: ClusterArgs,
}

/// A prediction, by its name.
struct Prediction {
    name: &'static str,
    found: Fidelity,
}

/// Compares a run with its prediction.
pub fn fidelity(args: &FidelityArgs) -> Result<(), Failure> {
    let phase = Phase::new("reading", !args.json);
    let file = LogFile::read_bytes(&files::read_log(&args.log)?);
    let mode = file.mode().unwrap_or(Mode::Offline);
    let scenario = job::load(&args.input, mode, args.json, false)?;
    let (instance, log) = run_of(args, &args.log, &file, &scenario, mode)?;
    if !is_measured(&file) && !args.json {
        output::note(&format!("note: {} is a simulated run: nothing in it was measured", args.log.display()));
    }
    drop(phase);
    let phase = Phase::new("predicting", !args.json);
    let mut predictions = Vec::new();
    let mut add = |name, predicted: &ExecutionLog| {
        let found = compare(&instance, predicted, &log, args.top);
        predictions.push(Prediction { name, found });
    };
    match &args.predicted {
        Some(path) => {
            let file = LogFile::read_bytes(&files::read_log(path)?);
            if is_measured(&file) {
                return Err(Failure::input(format!("{} is a live run, not a prediction", path.display())).hint(
                    "`gswarm run` without --live writes predictions; without --predicted, fidelity makes one",
                ));
            }
            let (_, predicted) = run_of(args, path, &file, &scenario, mode)?;
            add("before the run", &predicted);
        }
        None => {
            add("from scratch", &from_scratch(args, &file, &instance)?);
            if let Some(replayed) = replayed(&instance, &log)? {
                add("by replay", &replayed);
            } else if !args.json {
                output::note(
                    "note: the run cannot be replayed, because not every node completed exactly once",
                );
            }
        }
    }
    drop(phase);
    let written = match &args.out {
        Some(folder) => save(folder, args, &predictions)?,
        None => Vec::new(),
    };
    if args.json {
        return output::json(&as_json(args, &predictions));
    }
    for one in &predictions {
        print(one)?;
    }
    if !written.is_empty() {
        let names: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
        output::line(&format!("Wrote {}", names.join(", ")))?;
    }
    Ok(())
}

fn is_measured(file: &LogFile) -> bool {
    file.claims.timing.as_deref() == Some("measured")
}

/// The problem of a log, with the present costs of the inputs, and its events.
fn run_of(
    args: &FidelityArgs,
    path: &Path,
    file: &LogFile,
    scenario: &Scenario,
    mode: Mode,
) -> Result<(Instance, ExecutionLog), Failure> {
    let (mut cluster, _) = file.cluster(&args.cluster.over(&scenario.cluster));
    // What switching took by the log's own account is what is to be predicted.
    if args.input.measured.calibration.is_some() {
        cluster.switch.rule = SwitchRule::Measured;
    }
    let unfit = |reason: &str| {
        Failure::input(format!("{} does not match these inputs: {reason}", path.display()))
            .hint("pass the inputs of the run with --config and --requests")
    };
    let instance = build(scenario, cluster, mode).map_err(|reason| unfit(&reason))?;
    let (log, mut faults) = read_back(&instance, file);
    if let Some(fault) = faults.iter().find(|fault| fault.code == ViolationCode::File) {
        return Err(Failure::input(format!("{}: {}", path.display(), fault.message))
            .hint("name an execution log: `gswarm run --live` writes one"));
    }
    // What was expected of it when it was made is not what is expected of it now, with another calibration or with none.
    faults.retain(|fault| fault.code != ViolationCode::Estimate);
    match faults.first() {
        Some(fault) => {
            Err(unfit(&format!("{} of its records or fields do not match: {fault}", faults.len())))
        }
        None if log.executions.is_empty() => Err(unfit("it has no execution")),
        None => Ok((instance, log)),
    }
}

/// The run's settings: from the journal beside the log, or from the log.
fn begun_with(args: &FidelityArgs, file: &LogFile) -> Result<(RunSpec, Option<Vec<u8>>), Failure> {
    let folder = args.log.parent().unwrap_or(Path::new(""));
    let journal = folder.join(JOURNAL);
    let mut spec = RunSpec { seed: file.claims.seed.unwrap_or(0), ..RunSpec::default() };
    let mut plan = None;
    if journal.is_file() {
        let failed = |error| live::journal_failure(folder, &error);
        let reader = JournalReader::open(&journal).map_err(failed)?;
        if let Some(bytes) = reader.meta("spec").map_err(failed)?
            && let Ok(begun) = serde_json::from_slice::<RunSpec>(&bytes)
        {
            spec = RunSpec { policy: begun.policy, seed: begun.seed, ..spec };
        }
        plan = reader.meta("plan").map_err(failed)?;
    }
    if let Some(path) = &args.plan {
        plan = Some(files::read_or(path, "check the path; `gswarm plan` writes plans")?);
    }
    Ok((spec, plan))
}

/// The policy of the run, or its plan, decides anew.
fn from_scratch(args: &FidelityArgs, file: &LogFile, instance: &Instance) -> Result<ExecutionLog, Failure> {
    let name = file.claims.policy.as_deref().unwrap_or_default();
    let policy: PolicyKind = name.parse().map_err(|_| {
        Failure::input(format!("{}: the log names an unknown policy, `{name}`", args.log.display()))
            .hint("--predicted compares it with an earlier prediction")
    })?;
    let (begun, plan) = begun_with(args, file)?;
    let spec = RunSpec {
        mode: instance.mode,
        policy: begun.policy.filter(|begun| begun.kind() == policy).or(Some(PolicySpec::default_of(policy))),
        seed: begun.seed,
        ..RunSpec::default()
    };
    let prepared = Prepared::of(spec, instance.clone());
    let mut terminal = Terminal::new(policy.name(), args.json, args.json);
    let outcome = match plan {
        None => prepared.simulate(&mut terminal)?.outcome,
        Some(bytes) => {
            let plan = read_plan(instance, "the plan of the run", &bytes)?;
            prepared.simulate_with(follow_as(instance, &plan, true).as_mut(), &mut terminal)?
        }
    };
    Ok(outcome.log)
}

/// A replay of the run at predicted costs; `None` if not every node completed.
fn replayed(instance: &Instance, log: &ExecutionLog) -> Result<Option<ExecutionLog>, Failure> {
    let internal =
        |what: String| Failure::new(FailureKind::Internal, format!("internal error in the replay: {what}"));
    let replayed = replay(instance, log).map_err(|error| internal(error.to_string()))?;
    let Some(replayed) = replayed else { return Ok(None) };
    let violations = check_run(instance, &Truth::default(), &replayed, None);
    if !violations.is_empty() {
        return Err(internal(render_violations(&violations)));
    }
    Ok(Some(replayed))
}

/// What `--json` prints and fidelity.json holds.
#[derive(Serialize)]
struct FidelityJson<'a> {
    log: &'a Path,
    profile: Option<&'a Path>,
    predictions: BTreeMap<String, &'a Fidelity>,
}

fn as_json<'a>(args: &'a FidelityArgs, predictions: &'a [Prediction]) -> FidelityJson<'a> {
    let named = predictions.iter().map(|one| (one.name.replace(' ', "_"), &one.found));
    FidelityJson {
        log: &args.log,
        profile: args.input.measured.calibration.as_deref(),
        predictions: named.collect(),
    }
}

fn save(folder: &Path, args: &FidelityArgs, predictions: &[Prediction]) -> Result<Vec<PathBuf>, Failure> {
    let named: Vec<(&str, &Fidelity)> = predictions.iter().map(|one| (one.name, &one.found)).collect();
    let run = args.log.file_name().unwrap_or_default().to_string_lossy();
    let page = gswarm_show::fidelity::page(&run, &named);
    let whole = as_json(args, predictions);
    let mut batch = Batch::new(folder)?;
    batch.add("fidelity.html", |out| std::io::Write::write_all(out, html(&page).as_bytes()))?;
    batch.add("fidelity.json", |out| {
        serde_json::to_writer_pretty(&mut *out, &whole)?;
        std::io::Write::write_all(out, b"\n")
    })?;
    for chart in page.charts() {
        batch.add(&format!("{}.svg", chart.name), |out| {
            std::io::Write::write_all(out, svg(chart).as_bytes())
        })?;
    }
    batch.commit()
}

fn print(one: &Prediction) -> Result<(), Failure> {
    let found = &one.found;
    let percent = |error: Option<f64>| error.map_or("-".to_owned(), |error| format!("{error:+.2}%"));
    let row = |name: &str, of: &Compared| {
        vec![
            name.to_owned(),
            format!("{:.3}", of.predicted),
            format!("{:.3}", of.measured),
            percent(of.error_percent),
        ]
    };
    output::line(&output::heading(&format!("Prediction {}", one.name)))?;
    let loads = vec!["loads".to_owned(), found.loads.0.to_string(), found.loads.1.to_string(), String::new()];
    let rows = [
        row("makespan, s", &found.makespan),
        row("median latency, s", &found.median_latency),
        loads,
        row("switch time, s", &found.switch_time),
    ];
    output::line(&table::table(&["", "predicted", "measured", "error"], 1, rows))?;
    let errors = |name: &str, of: &Errors| {
        let sizes = [of.median, of.p90, of.worst].map(|size| format!("{size:.2}%"));
        let mut row = vec![name.to_owned(), of.count.to_string()];
        row.extend(sizes);
        row.push(format!("{:+.2}%", of.mean_signed));
        row
    };
    let mut rows =
        vec![errors("requests (latency)", &found.requests), errors("nodes (execution)", &found.nodes)];
    rows.extend(found.models.iter().map(|one| errors(&format!("  {}", one.model), &one.errors)));
    output::line(&table::table(&["errors", "count", "median", "P90", "worst", "mean, signed"], 1, rows))?;
    let named = |one: &One| {
        let mut row = row(&one.name, &one.seconds);
        row.insert(1, one.model.clone().unwrap_or_default());
        row
    };
    let worst = found.worst_requests.iter().chain(&found.worst_nodes).map(named);
    output::line(&table::table(
        &["predicted worst", "model", "predicted, s", "measured, s", "error"],
        2,
        worst,
    ))?;
    output::line("")
}
