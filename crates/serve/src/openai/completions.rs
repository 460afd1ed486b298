//! `/v1/completions`.

use super::body::{Asked, Check, within};
use super::sampling::{Sampling, Stop, StreamOptions, text_request};
use super::schema::Endpoint;
use crate::fault::Fault;
use gswarm_infer::TokenChance;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Most prompts of one request.
pub const MAX_PROMPTS: usize = 128;

/// What is to be continued or embedded: one or several texts, as text or as tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum TextInput {
    /// A text.
    Text(String),
    /// Texts.
    Texts(Vec<String>),
    /// A text's tokens.
    Tokens(Vec<u32>),
    /// Tokens of several texts.
    TokenLists(Vec<Vec<u32>>),
}

impl<'de> Deserialize<'de> for TextInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextInput, D::Error> {
        let wrong =
            || D::Error::custom("a string, a list of strings, or tokens as whole numbers are expected");
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(TextInput::Text(text)),
            Value::Array(list) if list.is_empty() => Err(D::Error::custom("the list is empty")),
            Value::Array(list) => {
                let list = Value::Array(list);
                let texts = || Vec::<String>::deserialize(&list).map(TextInput::Texts);
                let tokens = || Vec::<u32>::deserialize(&list).map(TextInput::Tokens);
                let lists = || Vec::<Vec<u32>>::deserialize(&list).map(TextInput::TokenLists);
                texts().or_else(|_| tokens()).or_else(|_| lists()).map_err(|_| wrong())
            }
            _ => Err(wrong()),
        }
    }
}

impl TextInput {
    /// How many texts there are.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            TextInput::Text(_) | TextInput::Tokens(_) => 1,
            TextInput::Texts(texts) => texts.len(),
            TextInput::TokenLists(lists) => lists.len(),
        }
    }
}

text_request! {
    /// A request for `/v1/completions`.
    pub struct CompletionRequest {
        /// The model.
        pub model: String,
        /// What is to be continued.
        pub prompt: TextInput,
        /// Most tokens of the answer; 16 where nothing is said.
        #[schema(minimum = 1, maximum = 16777216)]
        pub max_tokens: Option<u32>,
        /// Whether the prompt is part of the answer.
        pub echo: Option<bool>,
        /// Log-probabilities of so many tokens.
        pub logprobs: Option<u32>,
    }
}

impl Asked for CompletionRequest {
    const ENDPOINT: Endpoint = Endpoint::Completions;
}

impl Check for CompletionRequest {
    fn check(&self) -> Result<(), Fault> {
        if self.prompt.count() > MAX_PROMPTS {
            return Err(Fault::param("prompt", format!("a request can have at most {MAX_PROMPTS} prompts")));
        }
        within("logprobs", self.logprobs.map(f64::from), 0.0, f64::from(super::MAX_LOGPROBS))?;
        self.sampling().check(&[("max_tokens", self.max_tokens)])
    }
}

/// One answer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CompletionChoice {
    /// Which.
    pub index: u32,
    /// Its text, or what a piece adds to it.
    pub text: String,
    /// How likely its tokens were, where that was asked for.
    #[schema(required)]
    pub logprobs: Option<TextLogprobs>,
    /// `stop` or `length`; null while it goes on.
    #[schema(required)]
    pub finish_reason: Option<String>,
}

/// How likely the tokens of a continued text were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TextLogprobs {
    /// Their texts.
    pub tokens: Vec<String>,
    /// The logarithms of their probabilities.
    pub token_logprobs: Vec<f32>,
    /// The likeliest in the place of each.
    pub top_logprobs: Vec<BTreeMap<String, f32>>,
    /// Where each begins in the answer, in characters.
    pub text_offset: Vec<usize>,
}

impl TextLogprobs {
    /// Of tokens in their order, behind so many characters.
    #[must_use]
    pub fn new(chances: &[TokenChance], mut offset: usize) -> TextLogprobs {
        let mut all = TextLogprobs::default();
        for chance in chances {
            all.tokens.push(chance.text.clone());
            all.token_logprobs.push(chance.logprob);
            all.top_logprobs.push(chance.top.iter().cloned().collect());
            all.text_offset.push(offset);
            offset += chance.text.chars().count();
        }
        all
    }
}
