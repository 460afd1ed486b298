//! What can go wrong, in types: callers turn these into status codes and messages.

use std::io;
use std::path::{Path, PathBuf};

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A model's name that could lead out of the folder, or is none.
    #[error("`{name}` cannot be the name of a model: {reason}")]
    Name {
        /// What was given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is no such model.
    #[error("there is no model `{name}` in {}", folder.display())]
    NotFound {
        /// The model.
        name: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// A file that could not be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file that is not what it should be.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A model of a kind, or with a feature, that is not supported.
    #[error("{}: {what} is not supported", path.display())]
    Unsupported {
        /// The file that asks for it.
        path: PathBuf,
        /// What it asks for.
        what: String,
    },
    /// A request that cannot be carried out as it is.
    #[error("{0}")]
    Request(String),
    /// A prompt and answer that are longer than the model can hold.
    #[error(
        "This model's maximum context length is {context} tokens, but {} were requested: {prompt} of the prompt and {answer} of the answer", prompt + answer
    )]
    TooLong {
        /// Tokens that there is room for.
        context: usize,
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens of the answer; at least one.
        answer: usize,
    },
    /// As many requests are waiting as may.
    #[error("{waiting} requests are waiting already")]
    Full {
        /// How many.
        waiting: usize,
    },
    /// The instance was stopped before the request was answered.
    #[error("the instance was stopped")]
    Stopped,
    /// The computation failed.
    #[error("the computation failed: {0}")]
    Compute(String),
}

impl Error {
    pub(crate) fn invalid(path: &Path, reason: impl Into<String>) -> Error {
        Error::Invalid { path: path.to_path_buf(), reason: reason.into() }
    }

    pub(crate) fn unsupported(path: &Path, what: impl Into<String>) -> Error {
        Error::Unsupported { path: path.to_path_buf(), what: what.into() }
    }

    pub(crate) fn file(path: &Path, source: io::Error) -> Error {
        Error::File { path: path.to_path_buf(), source }
    }
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Error {
        // Where it was raised inside the library is of no use to those who read this.
        let text = error.to_string();
        Error::Compute(text.lines().next().unwrap_or_default().to_string())
    }
}
