//! Run times learned from tables and logs: predictors, their training, beliefs, and the measured costs of servers.
//!
//! [`Table`] (CSV or Parquet) -> [`fit`] -> [`Predictor`] -> [`Prediction`], whose quantiles follow from
//! [`Predictor::quantile`]. As executions finish, [`Online::observe`] keeps the predictions true when the
//! machine changes.

pub mod beliefs;
pub mod calibration;
pub mod expect;
pub mod model;
pub mod nodes;
pub mod table;
pub mod train;

pub use model::{
    Feature, FeatureKind, FitSettings, GroupId, Online, Prediction, Predictor, PredictorKind, Rows, encode,
    fit,
};
pub use table::{Column, Table, Values};
