//! The shape of the OpenAI-compatible endpoints: requests, answers, and what is wrong with them.
//!
//! [`schema`] lists every parameter. What a model cannot do is refused with the name of the parameter, before anything is
//! scheduled.

mod body;
mod chat;
mod completions;
mod embeddings;
mod form;
mod models;
mod rerank;
mod sampling;
pub mod schema;
mod tokens;

pub use body::{Asked, Body, Check, parse};
pub(crate) use body::{checked, json_bytes, says_json, within};
pub use chat::*;
pub use completions::*;
pub use embeddings::*;
pub use models::*;
pub use rerank::*;
pub use sampling::*;
pub use tokens::*;
