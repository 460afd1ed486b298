//! One file a command; each is a thin call of the library.

pub mod bound;
pub mod calibrate;
pub mod check;
pub mod compare;
pub mod completions;
pub mod diff;
pub mod explain;
pub mod fidelity;
pub mod generate;
pub mod import;
pub mod model_server;
pub mod models;
pub mod plan;
pub mod policies;
pub mod report;
pub mod resume;
pub mod run;
pub mod sample;
pub mod schema;
pub mod serve;
pub mod size;
pub mod tasks;
pub mod top;
pub mod trace;
pub mod train;
pub mod view;
