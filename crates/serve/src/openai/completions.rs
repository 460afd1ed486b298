//! `/v1/completions`.

use super::body::Check;
use super::sampling::{Ranges, Stop, StreamOptions, Usage};
use crate::fault::Fault;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
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

/// A request for `/v1/completions`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CompletionRequest {
    /// The model.
    pub model: String,
    /// What is to be continued.
    pub prompt: TextInput,
    /// Most tokens of the answer; 16 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 16777216)]
    pub max_tokens: Option<u32>,
    /// How freely tokens are drawn; 0 takes the likeliest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// Only the likeliest tokens with this share are drawn from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub top_p: Option<f64>,
    /// Answers to each prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 16)]
    pub n: Option<u32>,
    /// Whether to send the answer as it comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// What a stream tells beside the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_options: Option<StreamOptions>,
    /// What ends the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// For every random choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Whether the prompt is part of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<bool>,
    /// Log-probabilities of so many tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<u32>,
    /// Candidates that the answer is chosen from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_of: Option<u32>,
    /// Makes what was said less likely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -2, maximum = 2)]
    pub presence_penalty: Option<f64>,
    /// Makes what was said often less likely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -2, maximum = 2)]
    pub frequency_penalty: Option<f64>,
    /// Go on where the model would end: for measuring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_eos: Option<bool>,
}

impl Check for CompletionRequest {
    fn check(&self) -> Result<(), Fault> {
        if self.prompt.count() > MAX_PROMPTS {
            return Err(Fault::param("prompt", format!("{MAX_PROMPTS} prompts at most fit into a request")));
        }
        Ranges {
            temperature: self.temperature,
            top_p: self.top_p,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            n: self.n,
            max_tokens: self.max_tokens.map(|count| ("max_tokens", count)),
            stop: self.stop.as_ref(),
            stream: self.stream,
            stream_options: self.stream_options.as_ref(),
        }
        .check()
    }
}

/// An answer of `/v1/completions`, or a piece of one.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Completion {
    /// The request's id.
    pub id: String,
    /// `text_completion`.
    pub object: String,
    /// Seconds since 1970.
    pub created: u64,
    /// The model.
    pub model: String,
    /// The answers.
    pub choices: Vec<CompletionChoice>,
    /// Tokens; of a stream, the last piece has it where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether no model computed this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<bool>,
}

/// One answer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CompletionChoice {
    /// Which.
    pub index: u32,
    /// Its text, or what a piece adds to it.
    pub text: String,
    /// Always null: there are none.
    #[schema(required)]
    pub logprobs: Option<Value>,
    /// `stop` or `length`; null while it goes on.
    #[schema(required)]
    pub finish_reason: Option<String>,
}
