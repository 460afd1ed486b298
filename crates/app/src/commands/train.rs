//! `gswarm train`: a predictor of run times from a table or from execution logs.

use crate::args::{InputArgs, MeasuredArgs, choice};
use crate::failure::Failure;
use crate::job;
use crate::output::notation::Notation;
use crate::output::progress::Phase;
use crate::output::table::{fitted, table as columns};
use crate::output::{self, count, files};
use clap::Args;
use gswarm_core::input::{Diagnostic, Severity, render};
use gswarm_core::instance::Mode;
use gswarm_core::log_file::LogFile;
use gswarm_learn::model::{FitSettings, PredictorKind};
use gswarm_learn::nodes::{self, Data};
use gswarm_learn::table::Table;
use gswarm_learn::train::{TrainOptions, TrainingReport};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  gswarm train --model gradient_boosting --data workload.csv --target true_gpu_seconds --out gpu.model
  gswarm train --model random_forest --data runs.parquet --target run_seconds --features size,device
  gswarm train --data adaptive_execution_log.json --config config.yaml --requests requests.yaml --out nodes.model

The rows are split first; a fifth of them is kept for the test. The model file holds the model that was tested.
For execution logs, the execution time of a node is predicted from its model, workflow, options, prompt length, batch
and, if that reduces errors, history: the recent run times of its model. docs/learning.md explains the figures.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TrainArgs {
    /// Kind of model
    #[arg(long, value_name = "KIND", default_value = "gradient_boosting", value_parser = choice(PredictorKind::ALL.map(|kind| (kind.name(), kind)).to_vec()))]
    model: PredictorKind,
    /// Table (CSV or Parquet), or an execution log with --config and --requests
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Column to predict; required for tables (for execution logs, `execution_time`)
    #[arg(long, value_name = "COLUMN")]
    target: Option<String>,
    /// Columns to predict from, separated by commas [default: all others]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    features: Option<Vec<String>>,
    /// Columns to omit, separated by commas
    #[arg(
        long,
        alias = "leave_out",
        value_name = "COLUMNS",
        value_delimiter = ',',
        conflicts_with = "features"
    )]
    leave_out: Vec<String>,
    /// Allow features that reveal the target: they are known before the run
    #[arg(long, alias = "allow_leaks")]
    allow_leaks: bool,
    /// Model file to write
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite an existing model file
    #[arg(long)]
    force: bool,
    /// Seed of the split and of the samples
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Number of trees
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    trees: Option<u16>,
    /// Depth of the trees [default: 15 for a forest, 7 for boosting]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=40))]
    depth: Option<u8>,
    /// Learning rate of boosting
    #[arg(long, alias = "learning_rate", value_name = "SHARE", value_parser = rate)]
    learning_rate: Option<f64>,
    /// Minimum rows per leaf
    #[arg(long, alias = "min_leaf", value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    min_leaf: Option<u32>,
    /// Configuration of the execution log, JSON or YAML
    #[arg(long, value_name = "FILE", requires = "requests")]
    config: Option<PathBuf>,
    /// Requests of the execution log, JSON or YAML
    #[arg(long, value_name = "FILE", requires = "config")]
    requests: Option<PathBuf>,
    /// Calibration of the logged run, if it used one
    #[arg(long, alias = "profile", value_name = "FILE", requires = "config")]
    calibration: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn train(args: &TrainArgs) -> Result<(), Failure> {
    let shown = !args.quiet && !args.json;
    // A place that cannot be written to is known before minutes are spent on learning.
    let target = args.out.as_ref().map(|path| place(path, args.force)).transpose()?;
    if !args.quiet {
        unused(args).iter().for_each(|note| output::note(&format!("note: {note}")));
    }
    let phase = Phase::new("reading the data", shown);
    output::interrupt::say_when_interrupted(Some("interrupted: nothing was written".to_owned()));
    let data = read(args)?;
    drop(phase);
    let mut options = options(args);
    if let Data::Table(table) = &data {
        options.set_aside = gswarm_tasks::set_aside(table, &options.target);
    }
    let mut phase = None;
    let trained = data.train(&options, &mut |doing| {
        phase.take();
        phase = Some(Phase::new(doing.to_owned(), shown));
    });
    drop(phase);
    let trained = trained.map_err(|faults| refused(&faults))?;
    output::interrupt::say_when_interrupted(None);
    if let Some((mut batch, name)) = target {
        let bytes = trained.predictor.to_bytes();
        let bytes =
            bytes.map_err(|error| Failure::new(crate::failure::FailureKind::Internal, error.to_string()))?;
        batch.add(&name, |out| out.write_all(&bytes))?;
        batch.commit()?;
    }
    if args.json {
        let (data, out) = (args.data.clone(), args.out.clone());
        return output::json(&TrainingResult { report: trained.report, data, out });
    }
    if args.quiet {
        return Ok(());
    }
    output::print(&text(&trained.report))?;
    match &args.out {
        Some(path) => output::line(&format!("\nwrote {}", path.display())),
        None => output::line("\nno model file was written: give --out FILE to keep the model"),
    }
}

/// The place of the model file, whose folder is made where it is missing.
fn place(path: &Path, force: bool) -> Result<(files::Batch, String), Failure> {
    let folder = path.parent().unwrap_or("".as_ref());
    if path.is_dir() || (path.exists() && !path.is_file()) || path.file_name().is_none() {
        return files::Batch::beside(path, "--out");
    }
    super::generate::keep(path, force)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((files::Batch::new(folder)?.replacing(force), name))
}

/// Flags that this kind of model has no use for.
fn unused(args: &TrainArgs) -> Vec<String> {
    let trees = [PredictorKind::RandomForest, PredictorKind::GradientBoosting].as_slice();
    let flags = [
        ("--trees", args.trees.is_some(), trees),
        ("--depth", args.depth.is_some(), trees),
        ("--min-leaf", args.min_leaf.is_some(), trees),
        ("--learning-rate", args.learning_rate.is_some(), &[PredictorKind::GradientBoosting]),
    ];
    let idle = flags.iter().filter(|(_, given, users)| *given && !users.contains(&args.model));
    idle.map(|(flag, ..)| format!("{flag} has no effect with `{}`", args.model.name())).collect()
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1.0 => Ok(value),
        _ => Err("give a number above 0 and at most 1".to_string()),
    }
}

fn options(args: &TrainArgs) -> TrainOptions {
    let usual = FitSettings::new(args.model);
    let settings = FitSettings {
        trees: args.trees.map_or(usual.trees, usize::from),
        depth: args.depth.map_or(usual.depth, usize::from),
        learning_rate: args.learning_rate.unwrap_or(usual.learning_rate),
        min_leaf: args.min_leaf.map_or(usual.min_leaf, |rows| rows as usize),
        seed: args.seed,
        ..usual
    };
    TrainOptions {
        features: args.features.clone(),
        leave_out: args.leave_out.clone(),
        allow_leaks: args.allow_leaks,
        ..TrainOptions::new(args.target.as_deref().unwrap_or(nodes::TARGET), settings)
    }
}

fn read(args: &TrainArgs) -> Result<Data, Failure> {
    let name = args.data.display().to_string();
    let (Some(config), Some(requests)) = (&args.config, &args.requests) else {
        let bytes = files::read_or(&args.data, NO_DATA)?;
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|&byte| byte == b'{') {
            return Err(Failure::input(format!("{name} is not a table; it looks like an execution log"))
                .hint("for an execution log, pass --config and --requests of its run, and no --target"));
        }
        let table = Table::read(&name, bytes).map_err(|faults| refused(&faults))?;
        if args.target.is_none() {
            let columns: Vec<&str> = table.columns().iter().map(|column| column.name.as_str()).collect();
            return Err(Failure::input("--target is needed: the column to predict")
                .hint(format!("{name} has the columns {}", columns.join(", "))));
        }
        return Ok(Data::Table(table));
    };
    let log = LogFile::read_bytes(&files::read_log(&args.data)?);
    let measured = MeasuredArgs { calibration: args.calibration.clone(), ..MeasuredArgs::default() };
    let input = InputArgs { config: config.clone(), requests: requests.clone(), measured };
    let scenario = job::load(&input, log.mode().unwrap_or(Mode::Offline), args.quiet, false)?;
    nodes::executions(&name, &log, &scenario).map(Data::Executions).map_err(|faults| refused(&faults))
}

/// What to do where there is no table.
const NO_DATA: &str = "check the path; `gswarm tasks generate --out workload.csv` writes a table, and runs write execution logs";

pub fn refused(faults: &[Diagnostic]) -> Failure {
    let errors = faults.iter().filter(|fault| fault.severity == Severity::Error).count();
    Failure::input(format!("the data has {}\n\n{}", count(errors as u64, "fault"), render(faults)))
        .hint("`gswarm help CODE` explains a code; nothing was trained and no file was written")
}

/// What `gswarm train --json` prints: the report, what it was trained on, and where the model is.
#[derive(Serialize, Deserialize)]
pub struct TrainingResult {
    #[serde(flatten)]
    report: TrainingReport,
    data: PathBuf,
    out: Option<PathBuf>,
}

fn text(report: &TrainingReport) -> String {
    let mut text = String::new();
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let scale = if report.log_target { ", learned as its logarithm" } else { "" };
    let _ = writeln!(text, "{} for `{}`{scale}, seed {}\n", report.model, report.target, report.seed);
    let (validated, intervals, curve) = (&report.cross_validation, &report.intervals, &report.learning_curve);
    let (r2, errors) = notations(report);
    let explained = |share: Option<f64>| share.map_or("-".to_owned(), |share| r2.show(share));
    let spread = match validated.mean.zip(validated.deviation) {
        Some((mean, deviation)) => format!("{} +- {}", r2.show(mean), r2.show(deviation)),
        None => "-".to_owned(),
    };
    let rows = vec![
        vec![
            "training".into(),
            report.train.rows.to_string(),
            explained(report.train.r2),
            errors.show(report.train.mae),
        ],
        vec!["5-fold cross-validation".into(), report.train.rows.to_string(), spread, String::new()],
        vec![
            "test".into(),
            report.test.rows.to_string(),
            explained(report.test.r2),
            errors.show(report.test.mae),
        ],
    ];
    text.push_str(&columns(&["part", "rows", "R2", "MAE"], 1, rows));
    let _ = writeln!(
        text,
        "\n\nintervals on the test: 50% hold {:.1}%, 90% hold {:.1}% (width {}); pinball loss {}",
        intervals.coverage_50 * 100.0,
        intervals.coverage_90 * 100.0,
        errors.show(intervals.width_90),
        errors.show(intervals.pinball),
    );
    let _ = writeln!(
        text,
        "fitted with cross-validation in {:.2} s; {:.2} us a prediction\n",
        report.fit_seconds, report.predict_us
    );
    if let Some(history) = &report.history {
        let _ = writeln!(
            text,
            "history: {:.0}% of a model's recent prediction error carries over to its next execution (the newest counts {:.0}%); test MAE {} with it, {} without\n",
            history.memory.carries * 100.0,
            history.memory.newest * 100.0,
            errors.show(history.mae),
            errors.show(history.mae_without),
        );
    }
    if !report.importances.is_empty() {
        let rows = report.importances.iter().take(15);
        let rows = rows.map(|one| vec![one.feature.clone(), format!("{:.1}%", one.share * 100.0)]).collect();
        text.push_str(&fitted(&["feature", "importance"], 1, rows, output::width()));
        text.push_str("\n\n");
    }
    let rows = curve.iter();
    let rows = rows.map(|at| vec![at.rows.to_string(), explained(at.test_r2), errors.show(at.test_mae)]);
    text.push_str(&columns(&["training rows", "test R2", "test MAE"], 0, rows));
    text.push('\n');
    text
}

/// How every R2 of a report is written, and all that is in the target's unit.
fn notations(report: &TrainingReport) -> (Notation, Notation) {
    let (validated, intervals, curve) = (&report.cross_validation, &report.intervals, &report.learning_curve);
    let shares = [report.train.r2, validated.mean, validated.deviation, report.test.r2];
    let shares = shares.into_iter().chain(curve.iter().map(|at| at.test_r2)).flatten();
    let errors = [report.train.mae, report.test.mae, intervals.width_90, intervals.pinball];
    let late = report.history.iter().flat_map(|history| [history.mae, history.mae_without]);
    let errors = errors.into_iter().chain(late).chain(curve.iter().map(|at| at.test_mae));
    (Notation::fixed(4, shares), Notation::of(errors))
}
