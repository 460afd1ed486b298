//! Run times learned from hardware and from logs: profiles, workloads, predictors, and tasks scheduled by them.
//!
//! [`Table`] (CSV or Parquet) -> [`fit`] -> [`Predictor`] -> [`Prediction`], whose quantiles follow from
//! [`Predictor::quantile`]. As executions finish, [`Online::observe`] keeps the predictions true when the
//! machine changes.

pub mod beliefs;
pub mod expect;
pub mod model;
pub mod nodes;
pub mod profile;
pub mod table;
pub mod tasks;
pub mod train;

pub use model::{
    Feature, FeatureKind, GroupId, Kind, Online, Prediction, Predictor, Rows, Settings, encode, fit,
};
pub use table::{Column, Table, Values};
