//! `/tokenize`, as vLLM and llama.cpp have it.

use super::body::{Asked, Check};
use super::schema::Endpoint;
use crate::fault::Fault;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request for `/tokenize`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct TokenizeRequest {
    /// The model.
    pub model: String,
    /// The text.
    pub prompt: String,
}

impl Asked for TokenizeRequest {
    const ENDPOINT: Endpoint = Endpoint::Tokenize;
}

impl Check for TokenizeRequest {
    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}

/// An answer of `/tokenize`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TokenizeAnswer {
    /// How many tokens there are.
    pub count: usize,
    /// Most tokens of prompt and answer together.
    pub max_model_len: usize,
    /// The tokens.
    pub tokens: Vec<u32>,
}
