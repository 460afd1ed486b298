//! What answers calls: a model on the CPU of this machine, or one that only takes its time.

pub mod embedded;
pub mod emulated;

use crate::fault::Fault;
use axum::http::StatusCode;
use gswarm_infer::{Error, GenerateRequest, GenerationEvent, RunningCompletion};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// What sort of work a model does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// It continues texts.
    Language,
    /// It makes vectors of texts.
    Embedding,
    /// Anything else, by its name in the configuration; such models are always emulated.
    Other(String),
}

impl WorkKind {
    /// `llm`, `embedding`, `image_generation`, ...
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            WorkKind::Language => "llm",
            WorkKind::Embedding => "embedding",
            WorkKind::Other(name) => name,
        }
    }
}

/// What an instance is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Calls that are being worked on.
    pub running: usize,
    /// Calls that wait for a place.
    pub waiting: usize,
}

/// What a call asks for.
#[derive(Clone, Debug)]
pub enum EngineWork {
    /// A text to be continued.
    Text(Box<GenerateRequest>),
    /// Texts to be embedded.
    Embed(Vec<String>),
    /// Anything else, with the number of steps where it has one.
    Other {
        /// Steps of the computation.
        steps: Option<u32>,
    },
}

/// Texts to be embedded: as texts, or as the model's own tokens.
#[derive(Clone, Debug)]
pub enum EmbedInput {
    /// Texts.
    Texts(Vec<String>),
    /// Tokens of texts.
    Tokens(Vec<Vec<u32>>),
}

/// How long something will take, and what that was reckoned from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Seconds; for emulated models those of the model, whatever the speed.
    pub seconds: f64,
    /// Tokens to be read.
    pub prompt_tokens: Option<usize>,
    /// Tokens to be written, if nothing ends the answer sooner.
    pub new_tokens: Option<usize>,
}

/// A text on its way. Dropping it cancels the call.
pub enum TextStream {
    /// By a model.
    Embedded(RunningCompletion),
    /// By one that only takes its time.
    Emulated(mpsc::UnboundedReceiver<GenerationEvent>, AbortOnDrop),
}

impl TextStream {
    /// The next event; after the last, a failure.
    pub async fn next(&mut self) -> GenerationEvent {
        let event = match self {
            TextStream::Embedded(completion) => completion.next().await,
            TextStream::Emulated(events, _) => events.recv().await,
        };
        event.unwrap_or(GenerationEvent::Failed(Error::Stopped))
    }
}

/// A task that ends when nobody wants its result.
pub struct AbortOnDrop(pub AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What came of something else than a text.
#[derive(Clone, Debug, Default)]
pub struct EngineOutcome {
    /// Vectors of texts.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of the texts.
    pub tokens: usize,
    /// What it took, in seconds; for emulated models those of the model, whatever the speed.
    pub seconds: f64,
}

/// What is answered to a failure of a model.
pub fn fault(error: Error) -> Fault {
    let message = error.to_string();
    match error {
        Error::Name { .. } => Fault::param("model_name", message),
        Error::NotFound { name, .. } => Fault::not_found(
            "model_not_found",
            format!("there is no model `{name}` here: download it, or put its folder there"),
        ),
        Error::Request(_) => Fault::invalid(message),
        Error::TooLong { .. } => Fault { code: "context_length_exceeded", ..Fault::invalid(message) },
        Error::Full { .. } => Fault::full(message),
        Error::Stopped => Fault::unavailable("instance_stopped", message),
        Error::File { .. } | Error::Invalid { .. } | Error::Unsupported { .. } => {
            Fault::new(StatusCode::UNPROCESSABLE_ENTITY, "model_unusable", message)
        }
        Error::Compute(_) => Fault::internal(message),
    }
}

/// Runs what takes a processor's time on a thread of its own.
pub async fn in_thread<T: Send + 'static>(
    work: impl FnOnce() -> gswarm_infer::Result<T> + Send + 'static,
) -> Result<T, Fault> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(fault),
        Err(_) => Err(Fault::internal("the computation panicked; see the server's log")),
    }
}

/// Seconds of a length of time.
pub fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
