//! `/v1/chat/completions`.

use super::body::Check;
use super::sampling::{Sampling, Stop, StreamOptions, text_request};
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
    Parts(Vec<ContentPart>),
}

/// A part of what is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentPart {
    /// `text`, `image_url`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// The text of a part that is one.
    pub text: Option<String>,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
        let wrong = || D::Error::custom("a string or a list of parts with a `type` is expected");
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Content::Text(text)),
            Value::Array(list) => {
                Vec::<ContentPart>::deserialize(Value::Array(list)).map(Content::Parts).map_err(|_| wrong())
            }
            _ => Err(wrong()),
        }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct ChatMessage {
    /// Who says it.
    pub role: Role,
    /// What is said; nothing where an assistant called a tool.
    pub content: Option<Content>,
}

impl ChatMessage {
    /// Its text; what is none is refused. `at` is the message's place.
    pub fn text(&self, at: usize) -> Result<String, Fault> {
        let refuse = |part: usize, kind: &str| {
            let message = format!("a part of type `{kind}`: the model reads only text");
            Err(Fault::param(format!("messages[{at}].content[{part}]"), message))
        };
        match &self.content {
            None => Ok(String::new()),
            Some(Content::Text(text)) => Ok(text.clone()),
            Some(Content::Parts(parts)) => {
                let text = |(place, part): (usize, &ContentPart)| match (part.kind.as_str(), &part.text) {
                    ("text", Some(text)) => Ok(text.clone()),
                    (kind, _) => refuse(place, kind),
                };
                parts.iter().enumerate().map(text).collect()
            }
        }
    }
}

text_request! {
    /// A request for `/v1/chat/completions`.
    pub struct ChatRequest {
        /// The model.
        pub model: String,
        /// The chat so far.
        #[schema(min_items = 1)]
        pub messages: Vec<ChatMessage>,
        /// Most tokens of the answer.
        #[schema(minimum = 1, maximum = 16777216)]
        pub max_tokens: Option<u32>,
        /// The same, by its newer name, which wins.
        #[schema(minimum = 1, maximum = 16777216)]
        pub max_completion_tokens: Option<u32>,
        /// Log-probabilities.
        pub logprobs: Option<bool>,
        /// The form of the answer.
        pub response_format: Option<ResponseFormat>,
    }
}

/// The form of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
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
        let most = [("max_tokens", self.max_tokens), ("max_completion_tokens", self.max_completion_tokens)];
        self.sampling().check(&most)
    }
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
