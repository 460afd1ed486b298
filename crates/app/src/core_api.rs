//! The parts of the library that the commands call, in one place.

pub use gswarm_core::bound::lower_bound;
pub use gswarm_core::check::{check, check_log, report as render_violations, to_json as violations_to_json};
pub use gswarm_core::input::{Diagnostic, Severity, Source, read_config, read_scenario, render};
pub use gswarm_core::log_file::{LogFile, Summary, write_json, write_jsonl};
pub use gswarm_core::policy::{PolicyKind, PolicyParams, deploy};
pub use gswarm_core::report::{Metrics, RunInfo, metrics, render_text, summary, write_events};
pub use gswarm_core::sim::{Faults, SimOptions, simulate};
