//! Results of a run: metrics, and their text. Everything here reads only the instance and the log, so simulated and
//! real runs are measured alike. `docs/metrics.md` defines each figure.

mod events;
mod gpus;
mod loads;
mod metrics;
mod predictions;
mod requests;
mod stats;
mod text;
mod unfinished;

pub use events::write_events;
pub use gpus::{GpuMetrics, Utilisation};
pub use metrics::{DeploymentMetrics, Metrics, ModelMetrics, RunInfo, metrics, summary};
pub use predictions::{Accuracy, LearnedModel, PredictionMetrics};
pub use requests::{ServerMetrics, WorkflowMetrics, request_latencies};
pub use stats::Stats;
pub use text::render_text;
pub use unfinished::{Unfinished, unfinished};
