//! Training as a whole: what the table is fit for, a split before anything is learned, a model of the training part, and
//! how well it does on the part that it never saw.

mod measure;
mod refuse;

pub use measure::{coverage, mean_absolute_error, r2};

use crate::model::{
    FitSettings, Memory, Predictor, TargetScale, encode, fit, fit_with_folds, folds, targets,
};
use crate::table::Table;
use gswarm_core::input::Diagnostic;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// The fewest rows that are learned from.
pub const MIN_ROWS: usize = 50;
/// A model that explains so much more of the rows that it was trained on than of others has learned them by heart.
const BY_HEART: f64 = 0.25;
/// Parts of the training rows that the learning curve has points at; the last point is the model itself.
const CURVE: [f64; 4] = [0.1, 0.25, 0.5, 0.75];

/// What is to be trained.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// The column to predict.
    pub target: String,
    /// The columns to predict it from; `None` for all that can be.
    pub features: Option<Vec<String>>,
    /// Columns that are not learned from.
    pub leave_out: Vec<String>,
    /// Columns that are left out unless `features` names them, each with the reason, which becomes a note.
    pub set_aside: Vec<(String, String)>,
    /// One row in so many is kept for the test.
    pub test_one_in: usize,
    /// Whether features that give the target away are allowed.
    pub allow_leaks: bool,
    /// How the model is fitted.
    pub settings: FitSettings,
}

impl TrainOptions {
    /// The usual ones: all features, a fifth of the rows for the test.
    pub fn new(target: &str, settings: FitSettings) -> TrainOptions {
        TrainOptions {
            target: target.to_owned(),
            features: None,
            leave_out: Vec::new(),
            set_aside: Vec::new(),
            test_one_in: 5,
            allow_leaks: false,
            settings,
        }
    }
}

/// A predictor, and how good it is.
#[derive(Clone, Debug)]
pub struct Trained {
    /// Fitted to the training part: the test speaks of this very model.
    pub predictor: Predictor,
    /// How good it is.
    pub report: TrainingReport,
    /// What was predicted of each row by a model that had not seen it.
    pub(crate) kept_back: KeptBack,
}

/// Predictions of rows that were kept back, by the number of the row.
#[derive(Clone, Debug)]
pub(crate) struct KeptBack {
    pub(crate) means: Vec<f64>,
    /// Whether the row was kept for the test; else the model of another fold predicted it.
    pub(crate) tested: Vec<bool>,
}

/// How well a model does on some rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// How many rows.
    pub rows: usize,
    /// The share of the variance that is explained; `None` where all rows have the same target.
    pub r2: Option<f64>,
    /// The mean absolute error, in the target's unit.
    pub mae: f64,
}

/// How well the intervals do on the test rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// The share of the truths between the quantiles 0.25 and 0.75.
    pub coverage_50: f64,
    /// The share between 0.05 and 0.95.
    pub coverage_90: f64,
    /// The mean width between 0.05 and 0.95.
    pub width_90: f64,
    /// The mean pinball loss over the quantiles 0.05, 0.25, 0.5, 0.75 and 0.95.
    pub pinball: f64,
}

/// Cross-validation on the training part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossValidation {
    /// The R2 of each fold; `None` of one whose rows all have the same target.
    pub r2: Vec<Option<f64>>,
    /// The mean of those that there are.
    pub mean: Option<f64>,
    /// Their standard deviation.
    pub deviation: Option<f64>,
}

/// A feature and its share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Importance {
    /// The column.
    pub feature: String,
    /// Its share in what the splits (for a linear model: the weights) were worth.
    pub share: f64,
}

/// A point of the learning curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Rows learned from.
    pub rows: usize,
    /// R2 on the test rows.
    pub test_r2: Option<f64>,
    /// Mean absolute error on the test rows.
    pub test_mae: f64,
}

/// How much is gained by recent execution times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// What is remembered.
    #[serde(flatten)]
    pub memory: Memory,
    /// The mean absolute error on the test rows with it.
    pub mae: f64,
    /// Without it.
    pub mae_without: f64,
}

/// How good a trained model is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingReport {
    /// The kind of model.
    pub model: String,
    /// The column predicted.
    pub target: String,
    /// Whether its logarithm was learned.
    pub log_target: bool,
    /// Seed of the split and of the samples.
    pub seed: u64,
    /// On the rows that it was trained on.
    pub train: Measures,
    /// On the rows that it was not.
    pub test: Measures,
    /// On the rows of the training part, each predicted by a model that had not seen it.
    pub cross_validation: CrossValidation,
    /// How the intervals do on the test rows.
    pub intervals: Intervals,
    /// The largest first; empty for a model that has none.
    pub importances: Vec<Importance>,
    /// How the test improves with more rows.
    pub learning_curve: Vec<CurvePoint>,
    /// What the last executions of a model tell of the next, where the data is a log and they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Remembered>,
    /// What of the table was left out, and why.
    pub notes: Vec<String>,
    /// Seconds that fitting took, cross-validation included.
    pub fit_seconds: f64,
    /// Microseconds that a prediction with its scale takes, in batches of the test part.
    pub predict_us: f64,
}

/// Trains, tests and reports. `progress` is told what is being done.
pub fn train(
    table: &Table,
    options: &TrainOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<Trained, Vec<Diagnostic>> {
    let truths = targets(table, &options.target)?;
    let (features, mut notes) = refuse::usable(table, &truths, options)?;
    let part = folds(table.rows(), options.test_one_in.max(2), options.settings.seed ^ 0x5eed);
    let (test, train): (Vec<usize>, Vec<usize>) = (0..table.rows()).partition(|&row| part[row] == 0);
    let (train_part, test_part) = (table.select(&train), table.select(&test));
    progress("cross-validating and fitting");
    let begun = Instant::now();
    let fitted = fit_with_folds(&train_part, &options.target, &features, &options.settings)?;
    let fit_seconds = begun.elapsed().as_secs_f64();
    let predictor = fitted.predictor;
    let (train_truths, test_truths) = (of(&truths, &train), of(&truths, &test));
    let (train_rows, test_rows) =
        (encode(predictor.features(), &train_part)?, encode(predictor.features(), &test_part)?);
    let begun = Instant::now();
    let predictions = predictor.predict(&test_rows);
    let predict_us = begun.elapsed().as_secs_f64() * 1e6 / test.len().max(1) as f64;
    let test_means: Vec<f64> = predictions.iter().map(|prediction| prediction.mean).collect();
    let measures = |means: &[f64], truths: &[f64]| Measures {
        rows: truths.len(),
        r2: r2(truths, means),
        mae: mean_absolute_error(truths, means),
    };
    let test_measures = measures(&test_means, &test_truths);
    let mut curve = Vec::new();
    for share in CURVE {
        let rows = (train.len() as f64 * share) as usize;
        if rows < MIN_ROWS {
            continue;
        }
        progress(&format!("learning curve: {rows} rows"));
        let target_scale = if predictor.learned_log() { TargetScale::Log } else { TargetScale::Plain };
        let settings = FitSettings { intervals: false, target_scale, ..options.settings };
        // From all over the table: in a log, say, the first rows are of few models.
        let some: Vec<usize> = (0..rows).map(|at| train[at * train.len() / rows]).collect();
        let smaller = fit(&table.select(&some), &options.target, &features, &settings)?;
        let means = smaller.predict_means(&encode(smaller.features(), &test_part)?);
        let Measures { r2, mae, .. } = measures(&means, &test_truths);
        curve.push(CurvePoint { rows, test_r2: r2, test_mae: mae });
    }
    curve.push(CurvePoint { rows: train.len(), test_r2: test_measures.r2, test_mae: test_measures.mae });
    let train_measures = measures(&predictor.predict_means(&train_rows), &train_truths);
    let cross_validation = cross_validation(&fitted.folds, &fitted.out_of_fold, &train_truths);
    let importances = importances(&predictor);
    notes.extend(doubts(&train_measures, &cross_validation, &importances));
    let report = TrainingReport {
        model: predictor.kind().name().to_owned(),
        target: options.target.clone(),
        log_target: predictor.learned_log(),
        seed: options.settings.seed,
        train: train_measures,
        test: test_measures,
        cross_validation,
        intervals: measure::intervals(&predictor, &predictions, &test_truths),
        importances,
        learning_curve: curve,
        history: None,
        notes,
        fit_seconds,
        predict_us,
    };
    let kept_back = KeptBack::new(table.rows(), (&train, &fitted.out_of_fold), (&test, &test_means));
    Ok(Trained { predictor, report, kept_back })
}

impl KeptBack {
    fn new(rows: usize, train: (&[usize], &[f64]), test: (&[usize], &[f64])) -> KeptBack {
        let (mut means, mut tested) = (vec![f64::NAN; rows], vec![false; rows]);
        for (part, is_test) in [(train, false), (test, true)] {
            for (&row, &mean) in part.0.iter().zip(part.1) {
                (means[row], tested[row]) = (mean, is_test);
            }
        }
        KeptBack { means, tested }
    }
}

fn of(values: &[f64], rows: &[usize]) -> Vec<f64> {
    rows.iter().map(|&row| values[row]).collect()
}

fn cross_validation(folds: &[usize], means: &[f64], truths: &[f64]) -> CrossValidation {
    let count = folds.iter().max().map_or(0, |&last| last + 1);
    let of_fold = |fold: usize| {
        let rows: Vec<usize> = (0..means.len()).filter(|&row| folds[row] == fold).collect();
        r2(&of(truths, &rows), &of(means, &rows))
    };
    let scores: Vec<Option<f64>> = (0..count).map(of_fold).collect();
    let known: Vec<f64> = scores.iter().copied().flatten().collect();
    let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mean = (!known.is_empty()).then(|| average(&known));
    let squares = |mean: f64| known.iter().map(|score| (score - mean).powi(2)).collect::<Vec<f64>>();
    let deviation = mean.map(|mean| average(&squares(mean)).sqrt());
    CrossValidation { r2: scores, mean, deviation }
}

/// Why a model is not to be trusted: it does much better, or much worse, on its own rows than on others, or knows nothing of those.
fn doubts(train: &Measures, others: &CrossValidation, importances: &[Importance]) -> Option<String> {
    let (own, kept) = (train.r2?, others.mean?);
    let most = importances
        .first()
        .map(|one| format!("; its main feature is `{}` ({:.0}%)", one.feature, one.share * 100.0));
    let most = most.unwrap_or_default();
    if own - kept > BY_HEART {
        Some(format!(
            "the model overfits: R2 {own:.3} on its training rows, {kept:.3} on held-out rows{most}"
        ))
    } else if kept <= 0.0 {
        Some(format!("on held-out rows the model is no better than the mean (R2 {kept:.3}){most}"))
    } else {
        None
    }
}

fn importances(predictor: &Predictor) -> Vec<Importance> {
    let names = predictor.features().iter().map(|feature| feature.name.clone());
    let shares = predictor.importances().into_iter();
    let mut importances: Vec<Importance> =
        names.zip(shares).map(|(feature, share)| Importance { feature, share }).collect();
    importances.sort_by(|one, other| other.share.total_cmp(&one.share));
    importances
}
