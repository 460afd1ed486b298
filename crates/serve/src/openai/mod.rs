//! The shape of the OpenAI-compatible endpoints: requests, answers, and what is wrong with them.
//!
//! Fields that are not known are passed over, as the API itself does; those that are known have to be of their type and
//! within their range, and what is not is said with its name.

mod body;
mod chat;
mod completions;
mod embeddings;
mod models;
mod sampling;

pub use body::{Body, Check, parse};
pub(crate) use body::{json_bytes, says_json, within};
pub use chat::*;
pub use completions::*;
pub use embeddings::*;
pub use models::*;
pub use sampling::*;
