//! What predicts run times: kinds of models behind one type, their intervals, their updates, their files.

mod bins;
mod boost;
mod conformal;
mod file;
mod fit;
mod flat;
mod forest;
mod grow;
mod history;
mod last_two;
mod linear;
mod online;
mod schema;
mod texts;

pub use conformal::{Prediction, pinball};
pub use file::{FORMAT_VERSION, MAGIC};
pub(crate) use fit::targets;
pub use fit::{Fitted, TargetScale, fit, fit_with_folds, folds};
pub use history::{History, Memory};
pub use online::{GroupId, Online};
pub use schema::{Feature, FeatureKind, Rows, encode};

use conformal::ErrorSpread;
use gswarm_core::named;
use serde::{Deserialize, Serialize};

named! {
    /// Which kind of model.
    #[derive(Serialize, Deserialize)]
    pub enum PredictorKind {
        /// The mean of trees that are each grown on a sample of the rows.
        RandomForest = "random_forest",
        /// A sum of small trees, each grown on what the ones before it left over.
        GradientBoosting = "gradient_boosting",
        /// A weighted sum of the features.
        Linear = "linear",
        /// The mean of the last two runs of the same kind.
        LastTwo = "last_two",
    }
}

/// How a model is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitSettings {
    /// Which kind.
    pub kind: PredictorKind,
    /// How many trees, for the two kinds that have trees.
    pub trees: usize,
    /// How deep they may grow.
    pub depth: usize,
    /// The share of its answer that each tree of a boosted sum gives.
    pub learning_rate: f64,
    /// The fewest rows of a leaf.
    pub min_leaf: usize,
    /// Whether the logarithm of the target is learned.
    pub target_scale: TargetScale,
    /// Whether to learn how far predictions are off, which takes as many fits as there are folds. Without it a
    /// prediction has a mean and no scale.
    pub intervals: bool,
    /// Samples and splits follow from it.
    pub seed: u64,
}

impl FitSettings {
    /// The usual ones of a kind: 100 trees of depth 15 for a forest, 100 of depth 7 for a boosted sum.
    pub fn new(kind: PredictorKind) -> FitSettings {
        let (depth, min_leaf) = if kind == PredictorKind::RandomForest { (15, 1) } else { (7, 2) };
        let (learning_rate, target_scale) = (0.2, TargetScale::Auto);
        FitSettings {
            kind,
            trees: 100,
            depth,
            learning_rate,
            min_leaf,
            target_scale,
            intervals: true,
            seed: 42,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Core {
    Trees(bins::Bins, flat::Trees),
    Linear(linear::Linear),
    LastTwo(last_two::LastTwo),
}

impl Core {
    fn predict(&self, rows: &Rows) -> Vec<f64> {
        let mut means = vec![0.0; rows.len()];
        let by_row = |means: &mut [f64], predict: &dyn Fn(&[f64]) -> f64| {
            rows.iter().zip(means).for_each(|(row, mean)| *mean = predict(row));
        };
        match self {
            Core::Trees(bins, trees) => trees.predict(bins, rows, &mut means),
            Core::Linear(linear) => by_row(&mut means, &|row| linear.predict(row)),
            Core::LastTwo(last) => by_row(&mut means, &|row| last.predict(row)),
        }
        means
    }

    fn predict_row(&self, row: &[f64]) -> f64 {
        match self {
            Core::Trees(bins, trees) => trees.predict_row(bins, row),
            Core::Linear(linear) => linear.predict(row),
            Core::LastTwo(last) => last.predict(row),
        }
    }
}

/// Predicts one target from named features. It never changes: [`Online`] holds what is learned while it is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predictor {
    kind: PredictorKind,
    target: String,
    features: Vec<Feature>,
    core: Core,
    /// `Some` where the logarithm was learned: what the mean of its exponential has to be multiplied with.
    smear: Option<f64>,
    /// Whether no row of the training had a target below zero.
    non_negative: bool,
    spread: ErrorSpread,
    /// What the last executions tell of the next, where they do.
    history: Option<Memory>,
}

impl Predictor {
    /// Which kind of model it is.
    pub fn kind(&self) -> PredictorKind {
        self.kind
    }

    /// The column that it predicts.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The features that a row holds, in their order.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// The place of a feature in a row.
    pub fn feature(&self, name: &str) -> Option<usize> {
        self.features.iter().position(|feature| feature.name == name)
    }

    /// How much what executions of a model took of late tells of the next, beyond the prediction; `None` where it does not.
    pub fn history(&self) -> Option<Memory> {
        self.history
    }

    /// The last executions tell so much of the next.
    pub(crate) fn remember(&mut self, memory: Memory) {
        self.history = Some(memory);
    }

    /// The predictions for many rows: the fast way where there are many.
    ///
    /// # Panics
    /// If the rows are not as wide as there are features.
    pub fn predict(&self, rows: &Rows) -> Vec<Prediction> {
        let means = self.predict_means(rows);
        self.spread.around(rows, &means)
    }

    /// The means alone.
    ///
    /// # Panics
    /// If the rows are not as wide as there are features.
    pub fn predict_means(&self, rows: &Rows) -> Vec<f64> {
        assert_eq!(rows.width(), self.features.len(), "rows of another width");
        let mut means = self.core.predict(rows);
        means.iter_mut().for_each(|mean| *mean = self.on_scale(*mean));
        means
    }

    /// The prediction for one row, without any allocation. It is to the bit what [`Predictor::predict`] gives.
    ///
    /// # Panics
    /// If the row is not as wide as there are features.
    pub fn predict_row(&self, row: &[f64]) -> Prediction {
        assert_eq!(row.len(), self.features.len(), "a row of another width");
        self.spread.around_row(row, self.on_scale(self.core.predict_row(row)))
    }

    /// The value that the truth stays below in a share `p` of all cases like this one (split conformal): 0.05 and 0.95
    /// are the ends of an interval that nine truths of ten lie in.
    pub fn quantile(&self, prediction: &Prediction, p: f64) -> f64 {
        let value = prediction.mean + prediction.scale * self.spread.score(p);
        if self.non_negative { value.max(0.0) } else { value }
    }

    /// How much each feature took part in the splits, in shares that sum to one; empty for kinds without trees.
    pub fn importances(&self) -> Vec<f64> {
        match &self.core {
            Core::Trees(_, trees) => trees.importances(self.features.len()),
            Core::Linear(linear) => linear.importances(),
            Core::LastTwo(_) => Vec::new(),
        }
    }

    /// The normalised errors on rows that were kept back, sorted: what quantiles follow from.
    pub fn scores(&self) -> &[f64] {
        self.spread.scores()
    }

    /// Whether the logarithm of the target was learned.
    pub fn learned_log(&self) -> bool {
        self.smear.is_some()
    }

    fn on_scale(&self, value: f64) -> f64 {
        let value = match self.smear {
            Some(smear) => value.exp() * smear,
            None => value,
        };
        if self.non_negative { value.max(0.0) } else { value }
    }
}
