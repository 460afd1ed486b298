//! `/v1/embeddings`.

use super::body::{Asked, Check};
use super::completions::TextInput;
use super::sampling::Usage;
use super::schema::Endpoint;
use crate::fault::Fault;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Most texts of one request.
pub const MAX_TEXTS: usize = 2048;

/// How vectors are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EncodingFormat {
    /// As numbers.
    #[default]
    Float,
    /// As the bytes of 32-bit floats, little end first, in Base64.
    Base64,
}

/// A request for `/v1/embeddings`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct EmbeddingRequest {
    /// The model.
    pub model: String,
    /// The texts.
    pub input: TextInput,
    /// How vectors are written.
    pub encoding_format: Option<EncodingFormat>,
    /// The length of vectors, where the model leaves a choice.
    #[schema(minimum = 1)]
    pub dimensions: Option<u32>,
}

impl Asked for EmbeddingRequest {
    const ENDPOINT: Endpoint = Endpoint::Embeddings;
}

impl Check for EmbeddingRequest {
    fn check(&self) -> Result<(), Fault> {
        if self.input.count() > MAX_TEXTS {
            return Err(Fault::param("input", format!("a request can have at most {MAX_TEXTS} texts")));
        }
        if self.dimensions == Some(0) {
            return Err(Fault::param("dimensions", "dimensions must be at least 1"));
        }
        Ok(())
    }
}

/// A vector, in the form that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Vector {
    /// As numbers.
    Float(Vec<f32>),
    /// As Base64.
    Base64(String),
}

impl Vector {
    /// In this form.
    #[must_use]
    pub fn new(values: Vec<f32>, format: EncodingFormat) -> Vector {
        match format {
            EncodingFormat::Float => Vector::Float(values),
            EncodingFormat::Base64 => {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                Vector::Base64(STANDARD.encode(bytes))
            }
        }
    }
}

/// An answer of `/v1/embeddings`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EmbeddingList {
    /// `list`.
    pub object: String,
    /// A vector for each text, in their order.
    pub data: Vec<Embedding>,
    /// The model.
    pub model: String,
    /// Tokens.
    pub usage: Usage,
    /// Whether no model computed this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<bool>,
}

/// A text's vector.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Embedding {
    /// `embedding`.
    pub object: String,
    /// Which text's.
    pub index: u32,
    /// The vector.
    pub embedding: Vector,
}
