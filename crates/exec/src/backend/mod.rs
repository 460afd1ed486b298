//! Backends: one small trait, and an adapter for each kind of server.

mod abilities;
mod answer;
mod api;
mod attempt;
mod connect;
mod field;
pub(crate) mod http;
mod kinds;
pub(crate) mod managed;
mod openai;
mod preflight;
pub(crate) mod process;
mod program;
mod read;
mod schema;
mod sharing;
mod spec;

pub use abilities::{CallAbilities, Dialect};
pub use api::{Api, Brought, Held, LoadRecorder, LoadTime, ModelState, ServedModel, WeightTier};
pub use connect::{GpuPlace, KnownModel, ServerLink, connect, connect_at};
pub use field::{Described, Field, Shape};
pub use http::{ForwardResult, Http, HttpLimits, escaped, reason};
pub use kinds::*;
pub use managed::Managed;
pub use openai::{MOST_TOKENS, Servers, Wants};
pub use preflight::{Finding, Preflight};
pub use read::{BackendsReading, GivenFields, read_backends, read_backends_here};
pub use schema::json_schema;
pub use sharing::SharedReplica;
pub use spec::*;

pub use crate::replica::Replica;

use crate::call::Call;
use crate::forward::{Forward, Relay};
use gswarm_core::{ModelId, Span};
use serde_json::Value;

/// Errors of backends, classified by how to handle them.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BackendError {
    /// The server does not answer: it is taken out until it does.
    #[error("the server does not answer: {0}")]
    Gone(String),
    /// It took too long.
    #[error("no answer after {0:.1} s")]
    TimedOut(f64),
    /// The server is at fault, and answers: it is overloaded, failed inside, or is not the one that it should be. Whoever asked
    /// waits for it, and has not failed.
    #[error("the server is unhealthy: {0}")]
    Unwell(String),
    /// One of several servers has crashed under a call, and the others go on.
    #[error("its server has crashed: {0}")]
    Crashed(String),
    /// The server says that the request itself is at fault.
    #[error("the server refuses the request: {0}")]
    Refused(String),
    /// What was asked failed, or was answered by what cannot be understood.
    #[error("{0}")]
    Failed(String),
    /// The model cannot fit, whatever else is taken off.
    #[error("the model does not fit: {0}")]
    DoesNotFit(String),
    /// The server cannot be used for the model as it is configured: another try would end in the same way.
    #[error("the server's configuration is unusable: {0}")]
    Unusable(String),
}

impl BackendError {
    /// What an answer with this HTTP status means for whoever asked.
    #[must_use]
    pub fn of_status(status: u16, message: String) -> BackendError {
        match status {
            507 => BackendError::DoesNotFit(message),
            // Too early, in the way of another, too many: another time it may do.
            408 | 409 | 425 | 429 => BackendError::Unwell(message),
            // It knows no such thing, now or later.
            400..=499 | 501 => BackendError::Refused(message),
            500..=599 => BackendError::Unwell(message),
            _ => BackendError::Failed(message),
        }
    }

    /// Whether the request itself is at fault, so that the answer would be the same however often it were asked. Servers that
    /// lack memory, or the model, say so in these words too, and both may be there another time.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, BackendError::Refused(_)) && !self.lacks_memory() && !self.denies_the_model()
    }

    /// Whether the server says that it does not have the model.
    fn denies_the_model(&self) -> bool {
        let BackendError::Refused(why) = self else { return false };
        let why = why.to_lowercase();
        let words = ["not loaded", "not ready", "is loading", "unavailable", "not available"];
        words.iter().any(|words| why.contains(words))
    }

    /// What a load that failed says of the server: all that goes wrong with loads there is its fault, but for models that do not
    /// fit.
    pub(crate) fn of_load(self) -> BackendError {
        match self {
            BackendError::Failed(why) | BackendError::Refused(why) => BackendError::Unwell(why),
            other => other,
        }
    }

    /// Whether it says that there is not enough memory.
    fn lacks_memory(&self) -> bool {
        match self {
            BackendError::DoesNotFit(_) => true,
            BackendError::Failed(why) | BackendError::Refused(why) | BackendError::Unwell(why) => {
                speaks_of_memory(why)
            }
            _ => false,
        }
    }
}

/// Passes a request on as calls, and puts their answers into its form.
async fn forward_as_calls<B: Backend + ?Sized>(
    backend: &B,
    replica: Replica,
    forward: &Forward,
    relay: &mut Relay,
) -> Result<(), BackendError> {
    if forward.raw.is_some() {
        let why = "the model's server has no API to forward requests to";
        return Err(BackendError::Refused(why.to_owned()));
    }
    let mut answers = Vec::new();
    for call in forward.as_calls() {
        answers.push(backend.call(replica, &call).await?);
    }
    relay.whole(forward, &answers).await;
    Ok(())
}

/// Whether an error is about memory that is lacking, in the words that servers have for it.
fn speaks_of_memory(text: &str) -> bool {
    let text = text.to_lowercase();
    let words =
        ["out of memory", "outofmemory", "not enough memory", "insufficient memory", "more system memory"];
    let more =
        ["more memory", "does not fit", "unable to allocate", "failed to allocate", "no available memory"];
    words.iter().chain(&more).any(|words| text.contains(words))
}

/// A server, or several that are one to the scheduler, with GPUs of its own.
///
/// Every operation returns when it is done and seen to be done: a load when the model answers, an unload when it is gone.
#[async_trait::async_trait]
pub trait Backend: Send + Sync {
    /// Brings a model onto GPUs. `expected` is what the cost rules say it takes.
    async fn load(&self, replica: Replica, expected: Span) -> Result<(), BackendError>;

    /// Takes it off. Nothing calls it at this time.
    async fn unload(&self, replica: Replica) -> Result<(), BackendError>;

    /// Calls a model that is there.
    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError>;

    /// Passes somebody's request on, and its answer back as it comes. Servers that know no such API are
    /// [called](Backend::call), and their answer is put into its form.
    async fn forward(
        &self,
        replica: Replica,
        forward: &Forward,
        relay: &mut Relay,
    ) -> Result<(), BackendError> {
        forward_as_calls(self, replica, forward, relay).await
    }

    /// What it can do with requests in the form of the OpenAI API for a model.
    fn abilities(&self, _model: ModelId) -> CallAbilities {
        CallAbilities::default()
    }

    /// The file with what the process that serves a model said last, where it is one that was started for it.
    fn output(&self, _model: ModelId) -> Option<std::path::PathBuf> {
        None
    }

    /// Whether it answers, asked by somebody who wants to know.
    async fn answers(&self) -> bool {
        true
    }

    /// What is wrong with it, asked before anything is loaded. These models of it are used.
    async fn preflight(&self, _models: &[ModelId]) -> Preflight {
        Preflight::default()
    }

    /// Whether the server answers at all. Once it does, after it did not, nothing is loaded on it.
    async fn reset(&self) -> Result<(), BackendError>;
}
