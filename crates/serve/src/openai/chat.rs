//! `/v1/chat/completions`.

use super::body::Check;
use super::sampling::{Ranges, Stop, StreamOptions, Usage};
use crate::fault::Fault;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Most messages of a chat.
pub const MAX_MESSAGES: usize = 4096;

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions.
    System,
    /// Instructions, by their newer name.
    Developer,
    /// Who asks.
    User,
    /// Who answers.
    Assistant,
    /// The result of a tool.
    Tool,
    /// The result of a function.
    Function,
}

impl Role {
    /// As templates have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::System | Role::Developer => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::Function => "function",
        }
    }
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Content {
    /// A text.
    Text(String),
    /// Parts, of which texts are understood here.
    Parts(Vec<Part>),
}

/// A part of what is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Part {
    /// `text`, `image_url`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// The text of a part that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
        let wrong = || D::Error::custom("a string or a list of parts with a `type` is expected");
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Content::Text(text)),
            Value::Array(list) => {
                Vec::<Part>::deserialize(Value::Array(list)).map(Content::Parts).map_err(|_| wrong())
            }
            _ => Err(wrong()),
        }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatMessage {
    /// Who says it.
    pub role: Role,
    /// What is said; nothing where an assistant called a tool.
    #[serde(default)]
    pub content: Option<Content>,
}

impl ChatMessage {
    /// Its text; what is none is refused. `at` is the message's place.
    pub fn text(&self, at: usize) -> Result<String, Fault> {
        let refuse = |part: usize, kind: &str| {
            let message = format!("a part of type `{kind}`: the model reads text alone");
            Err(Fault::param(format!("messages[{at}].content[{part}]"), message))
        };
        match &self.content {
            None => Ok(String::new()),
            Some(Content::Text(text)) => Ok(text.clone()),
            Some(Content::Parts(parts)) => {
                let text = |(place, part): (usize, &Part)| match (part.kind.as_str(), &part.text) {
                    ("text", Some(text)) => Ok(text.clone()),
                    (kind, _) => refuse(place, kind),
                };
                parts.iter().enumerate().map(text).collect()
            }
        }
    }
}

/// A request for `/v1/chat/completions`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChatRequest {
    /// The model.
    pub model: String,
    /// The chat so far.
    #[schema(min_items = 1)]
    pub messages: Vec<ChatMessage>,
    /// Most tokens of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 16777216)]
    pub max_tokens: Option<u32>,
    /// The same, by its newer name, which wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 16777216)]
    pub max_completion_tokens: Option<u32>,
    /// How freely tokens are drawn; 0 takes the likeliest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// Only the likeliest tokens with this share are drawn from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub top_p: Option<f64>,
    /// Answers.
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
    /// Log-probabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<bool>,
    /// The form of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
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

/// The form of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResponseFormat {
    /// `text`, `json_object` or `json_schema`.
    #[serde(rename = "type")]
    pub kind: String,
}

impl ChatRequest {
    /// Most tokens of the answer, where it says so.
    #[must_use]
    pub fn token_limit(&self) -> Option<u32> {
        self.max_completion_tokens.or(self.max_tokens)
    }
}

impl Check for ChatRequest {
    fn check(&self) -> Result<(), Fault> {
        if self.messages.is_empty() || self.messages.len() > MAX_MESSAGES {
            let message = format!("a chat has from 1 to {MAX_MESSAGES} messages");
            return Err(Fault::param("messages", message));
        }
        let limit = |name, count: Option<u32>| count.map(|count| (name, count));
        let limits = [
            limit("max_tokens", self.max_tokens),
            limit("max_completion_tokens", self.max_completion_tokens),
        ];
        for max_tokens in limits {
            Ranges {
                temperature: self.temperature,
                top_p: self.top_p,
                presence_penalty: self.presence_penalty,
                frequency_penalty: self.frequency_penalty,
                n: self.n,
                max_tokens,
                stop: self.stop.as_ref(),
                stream: self.stream,
                stream_options: self.stream_options.as_ref(),
            }
            .check()?;
        }
        Ok(())
    }
}

/// An answer of `/v1/chat/completions`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChatCompletion {
    /// The request's id.
    pub id: String,
    /// `chat.completion`.
    pub object: String,
    /// Seconds since 1970.
    pub created: u64,
    /// The model.
    pub model: String,
    /// The answers.
    pub choices: Vec<ChatChoice>,
    /// Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether no model computed this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<bool>,
}

/// One answer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChatChoice {
    /// Which.
    pub index: u32,
    /// What the assistant says.
    pub message: AssistantMessage,
    /// Always null: there are none.
    #[schema(required)]
    pub logprobs: Option<Value>,
    /// `stop` or `length`.
    #[schema(required)]
    pub finish_reason: Option<String>,
}

/// What the assistant says.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AssistantMessage {
    /// `assistant`.
    pub role: Role,
    /// The text.
    #[schema(required)]
    pub content: Option<String>,
}

/// An event of a streamed answer.
#[derive(Clone, Debug, ToSchema)]
#[allow(dead_code, reason = "it only describes what is sent")]
pub struct StreamEvent {
    /// A piece of the answer as JSON, like a whole answer with a `delta` for its message; `[DONE]` at the end.
    data: String,
}

/// A piece of a streamed answer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChatChunk {
    /// The request's id.
    pub id: String,
    /// `chat.completion.chunk`.
    pub object: String,
    /// Seconds since 1970.
    pub created: u64,
    /// The model.
    pub model: String,
    /// What is new; nothing in the piece that tells the tokens.
    pub choices: Vec<ChatDelta>,
    /// Tokens, in the last piece where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether no model computed this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<bool>,
}

/// What is new in one of the answers.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChatDelta {
    /// Which.
    pub index: u32,
    /// What it adds.
    pub delta: Delta,
    /// Always null: there are none.
    #[schema(required)]
    pub logprobs: Option<Value>,
    /// `stop` or `length`; null while it goes on.
    #[schema(required)]
    pub finish_reason: Option<String>,
}

/// What a piece adds.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Delta {
    /// In the first piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}
