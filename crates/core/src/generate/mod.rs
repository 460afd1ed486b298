//! Generated workloads: typical configurations, and requests for any configuration.
//!
//! Everything follows the seed alone. Random numbers come from ChaCha, whose output is fixed, the functions applied to
//! them are computed in portable code, and what is written is rounded to milliseconds, so the same seed gives the same
//! bytes on every machine. Arrivals, the choice of workflows and the times have streams of their own: changing the
//! arrival process leaves the times of each request as they were.

mod arrivals;
mod presets;
mod requests;
mod scenario;
mod write;

pub use arrivals::Arrivals;
pub use presets::Preset;
pub use requests::{GeneratedRequests, RequestOptions, Sampled, requests};
pub use scenario::{write_config, write_scenario_requests};
pub use write::{Format, write_requests};

/// Why no requests can be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// The configuration has no workflow.
    #[error("the configuration has no workflow")]
    NoWorkflow,
    /// The mix names a workflow that there is not.
    #[error("the mix names `{name}`, but the workflows are {known}")]
    UnknownWorkflow {
        /// What the mix says.
        name: String,
        /// What there is.
        known: String,
    },
    /// A weight that no share can be made of.
    #[error(
        "the weight of `{name}` is {weight}: weights are zero or greater, and at least one is above zero"
    )]
    BadWeight {
        /// The workflow.
        name: String,
        /// Its weight.
        weight: f64,
    },
    /// A model whose time cannot be drawn.
    #[error(
        "no execution time can be drawn for model `{model}`: give it `inference_time_mean`, \
         or `token_mean` and `tokens_per_second`"
    )]
    NoTime {
        /// The model.
        model: String,
    },
}
