//! Fitting: from a table to a predictor with intervals.

use super::bins::MAX_FEATURES;
use super::boost::{self, Boost};
use super::conformal::ErrorSpread;
use super::forest::{self, Forest};
use super::last_two::LastTwo;
use super::linear::Linear;
use super::schema::{self, Feature, Rows};
use super::{Core, FitSettings, Predictor, PredictorKind};
use crate::table::{Table, TableFaults, Values, nearest, short};
use gswarm_core::input::{Code, Diagnostic};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// How many parts the training rows are cut into for errors of rows that were kept back.
const FOLDS: usize = 5;

/// Whether the target or its logarithm is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetScale {
    /// Whichever does better on training rows that were kept back.
    Auto,
    /// The target as it is.
    Plain,
    /// Its logarithm: only where no target is zero or below.
    Log,
}

/// A predictor, and what it was judged by.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// Trained on all rows.
    pub predictor: Predictor,
    /// The fold of each row.
    pub folds: Vec<usize>,
    /// What a model that had not seen its fold predicted of each row.
    pub out_of_fold: Vec<f64>,
}

/// Fits a predictor of the column `target` from the columns `features`.
pub fn fit(
    table: &Table,
    target: &str,
    features: &[String],
    settings: &FitSettings,
) -> Result<Predictor, Vec<Diagnostic>> {
    fit_with_folds(table, target, features, settings).map(|fitted| fitted.predictor)
}

/// The same, with what was predicted of the rows of each fold by a model that had not seen them.
pub fn fit_with_folds(
    table: &Table,
    target: &str,
    features: &[String],
    settings: &FitSettings,
) -> Result<Fitted, Vec<Diagnostic>> {
    let targets = targets(table, target)?;
    let features = schema::features(table, features)?;
    let mut faults = TableFaults::new(table.file());
    if features.is_empty() {
        faults.add(Code::NoFeatures, None, "", "there is no column to learn from", None);
    }
    if features.len() > MAX_FEATURES {
        let message = format!("{} features; a model can have at most {MAX_FEATURES}", features.len());
        faults.add(Code::TooLarge, None, "", message, Some("name fewer with --features".to_owned()));
    }
    too_large(table, &features, &mut faults);
    if targets.len() < FOLDS {
        faults.add(Code::TooFewRows, None, "", format!("only {} rows", targets.len()), None);
    }
    if !faults.is_empty() {
        return Err(faults.into_diagnostics());
    }
    let rows = schema::encode(&features, table)?;
    Ok(fit_rows(target, features, &rows, &targets, settings))
}

/// The largest number that is learned or learned from: the squares of a billion such can be summed.
const MAX_NUMBER: f64 = 1e140;

/// Features with numbers that cannot be summed.
fn too_large(table: &Table, features: &[Feature], faults: &mut TableFaults) {
    for feature in features {
        let Some(Values::Numbers(numbers)) = table.column(&feature.name).map(|column| &column.values) else {
            continue;
        };
        if let Some(row) = numbers.iter().position(|number| number.abs() > MAX_NUMBER) {
            let message = format!("`{}` is {:e}; the limit is {MAX_NUMBER:e}", feature.name, numbers[row]);
            let hint = "check the unit, and leave unknown values empty".to_owned();
            faults.add(Code::TooLarge, table.line(row), &feature.name, message, Some(hint));
        }
    }
}

/// The target's values: numbers, none missing, none below zero, none beyond what can be summed.
pub(crate) fn targets(table: &Table, target: &str) -> Result<Vec<f64>, Vec<Diagnostic>> {
    let mut faults = TableFaults::new(table.file());
    match table.column(target).map(|column| &column.values) {
        Some(Values::Numbers(numbers)) => {
            for (row, &value) in numbers.iter().enumerate() {
                if (0.0..=MAX_NUMBER).contains(&value) {
                    continue;
                }
                let place = table.line(row).map_or_else(|| format!("{target}[{row}]"), |_| target.to_owned());
                let (code, message) = if value.is_nan() {
                    (Code::Missing, format!("the target `{target}` is empty"))
                } else if value > MAX_NUMBER {
                    (
                        Code::TooLarge,
                        format!("the target `{target}` is {value:e}; the limit is {MAX_NUMBER:e}"),
                    )
                } else {
                    (Code::Negative, format!("the target `{target}` is {}", short(value)))
                };
                let hint = "check the unit, and omit rows without a run time".to_owned();
                faults.add(code, table.line(row), &place, message, Some(hint));
            }
            if faults.is_empty() { Ok(numbers.clone()) } else { Err(faults.into_diagnostics()) }
        }
        Some(Values::Texts { .. }) => {
            let message = format!("the target `{target}` holds text");
            faults.add(
                Code::WrongType,
                Some(1),
                target,
                message,
                Some("name a column of numbers".to_owned()),
            );
            Err(faults.into_diagnostics())
        }
        None => {
            let names = || table.columns().iter().map(|column| column.name.as_str());
            let hint = nearest(target, names()).or_else(|| {
                let (shown, more) =
                    (names().take(20).collect::<Vec<_>>().join(", "), names().nth(20).is_some());
                Some(format!("the columns are {shown}{}", if more { ", ..." } else { "" }))
            });
            faults.add(Code::Missing, Some(1), target, format!("there is no column `{target}`"), hint);
            Err(faults.into_diagnostics())
        }
    }
}

/// A fold for each row: as many rows in each, shuffled.
pub fn folds(rows: usize, folds: usize, seed: u64) -> Vec<usize> {
    let mut assigned: Vec<usize> = (0..rows).map(|row| row % folds.max(1)).collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(u64::MAX);
    assigned.shuffle(&mut random);
    assigned
}

fn fit_rows(
    target: &str,
    features: Vec<Feature>,
    rows: &Rows,
    targets: &[f64],
    settings: &FitSettings,
) -> Fitted {
    let folds = folds(targets.len(), FOLDS, settings.seed);
    let can_log = targets.iter().all(|&target| target > 0.0) && settings.kind != PredictorKind::LastTwo;
    let scales: &[bool] = match settings.target_scale {
        TargetScale::Plain => &[false],
        TargetScale::Log if can_log => &[true],
        TargetScale::Auto if can_log => &[false, true],
        TargetScale::Log | TargetScale::Auto => &[false],
    };
    let (smear, out_of_fold, spread);
    if settings.intervals {
        let tried = scales.iter().map(|&log| kept_back(&features, rows, targets, &folds, settings, log));
        let KeptBack { means, smear: factor, .. } = better(tried.collect());
        // What it says hangs on two rows of each kind: models of the folds, which go by others, are off by something else.
        let last_two = (settings.kind == PredictorKind::LastTwo)
            .then(|| LastTwo::of_the_others(&features, rows, targets));
        spread = ErrorSpread::fit(&features, rows, last_two.as_ref().unwrap_or(&means), targets, true);
        (smear, out_of_fold) = (factor, means);
    } else {
        // Without rows that were kept back there is nothing to choose by: run times are skewed, so the logarithm it is.
        smear = scales.last().is_some_and(|&log| log).then_some(1.0);
        (out_of_fold, spread) = (Vec::new(), ErrorSpread::none(rows.width()));
    }
    let core = core(&features, rows, &logged(targets, smear.is_some()), settings);
    // Rows of its own are all that a model without intervals can be levelled by.
    let smear = if settings.intervals { smear } else { smear.map(|_| level(&core.predict(rows), targets)) };
    let predictor = Predictor {
        kind: settings.kind,
        target: target.to_owned(),
        features,
        core,
        smear,
        non_negative: true,
        history: None,
        spread,
    };
    Fitted { predictor, folds, out_of_fold }
}

/// The logarithm's, unless it is clearly worse: the squared errors of skewed targets hang on a few rows, and the errors
/// of run times grow with them.
fn better(mut tried: Vec<KeptBack>) -> KeptBack {
    const CLEARLY: f64 = 1.05;
    let log = tried.pop().unwrap_or(KeptBack { means: Vec::new(), smear: None, squares: f64::INFINITY });
    match tried.pop() {
        Some(plain) if log.squares > plain.squares * CLEARLY => plain,
        _ => log,
    }
}

/// What models predicted of the rows that they had not seen.
struct KeptBack {
    means: Vec<f64>,
    smear: Option<f64>,
    /// The sum of the squared errors.
    squares: f64,
}

fn kept_back(
    features: &[Feature],
    rows: &Rows,
    targets: &[f64],
    folds: &[usize],
    settings: &FitSettings,
    log: bool,
) -> KeptBack {
    let learned = logged(targets, log);
    let mut means = vec![0.0; targets.len()];
    let parts: Vec<(Vec<usize>, Vec<f64>)> = (0..FOLDS)
        .into_par_iter()
        .map(|fold| {
            let (kept, used): (Vec<usize>, Vec<usize>) =
                (0..folds.len()).partition(|&row| folds[row] == fold);
            let part: Vec<f64> = used.iter().map(|&row| learned[row]).collect();
            let core = core(features, &rows.select(&used), &part, settings);
            let predicted = core.predict(&rows.select(&kept));
            (kept, predicted)
        })
        .collect();
    for (kept, predicted) in parts {
        kept.into_iter().zip(predicted).for_each(|(row, mean)| means[row] = mean);
    }
    let mut smear = None;
    if log {
        smear = Some(level(&means, targets));
        means.iter_mut().for_each(|mean| *mean = mean.exp() * smear.unwrap_or(1.0));
    }
    means.iter_mut().for_each(|mean| *mean = mean.max(0.0));
    let squares = means.iter().zip(targets).map(|(mean, target)| (mean - target).powi(2)).sum();
    KeptBack { means, smear, squares }
}

/// The mean of a logarithm's exponential is below the mean: what it has to be multiplied with.
fn level(logarithms: &[f64], targets: &[f64]) -> f64 {
    targets.iter().sum::<f64>() / logarithms.iter().map(|logarithm| logarithm.exp()).sum::<f64>()
}

fn logged(targets: &[f64], log: bool) -> Vec<f64> {
    if log { targets.iter().map(|target| target.ln()).collect() } else { targets.to_vec() }
}

fn core(features: &[Feature], rows: &Rows, targets: &[f64], settings: &FitSettings) -> Core {
    match settings.kind {
        PredictorKind::RandomForest => {
            let FitSettings { trees, depth, min_leaf, seed, .. } = *settings;
            let (bins, trees) =
                forest::fit(features, rows, targets, &Forest { trees, depth, min_leaf, seed });
            Core::Trees(bins, trees)
        }
        PredictorKind::GradientBoosting => {
            let FitSettings { trees, depth, learning_rate, min_leaf, .. } = *settings;
            let boost = Boost { trees, depth, learning_rate, min_leaf, l2: 1.0 };
            let (bins, trees) = boost::fit(features, rows, targets, &boost);
            Core::Trees(bins, trees)
        }
        PredictorKind::Linear => Core::Linear(Linear::fit(features, rows, targets)),
        PredictorKind::LastTwo => Core::LastTwo(LastTwo::fit(features, rows, targets)),
    }
}
