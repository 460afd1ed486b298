//! What a user's own servers were measured to take: loads, executions by length and batch, and what follows from it for the
//! nodes of requests.
//!
//! Measurements -> [`fit`] -> [`Calibration`] (a file) -> [`apply`] -> a scenario with measured costs, which is scheduled,
//! checked and reported like any other.

mod apply;
mod fit;
mod lengths;
mod mixed;
mod read;
mod types;

pub use apply::{ApplyOptions, Beyond, Misfit, StartsFrom, apply};
pub use fit::{fit, summarise};
pub use lengths::{Length, Sizes, lengths};
pub use mixed::{Passed, mixed};
pub use read::{BadCalibration, read};
pub use types::{
    Answers, CALIBRATION, Calibration, Cost, Loads, MeasuredPoint, ModelCalibration, Quartiles, SCHEMA, Tier,
    Unit, Work,
};
