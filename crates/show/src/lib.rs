//! What runs looked like: charts, self-contained pages, Markdown, and traces for trace viewers.
//!
//! Everything is made from files that runs leave behind: an instance and its log, or the folder of a pipeline. Nothing here
//! schedules, and nothing here knows a figure that is not in those files.

pub mod advice;
pub mod chart;
pub mod comparison;
pub mod fidelity;
pub mod gantt;
mod number;
pub mod page;
pub mod pipeline;
pub mod report;
pub mod run;
#[cfg(test)]
mod testing;
pub mod trace;
