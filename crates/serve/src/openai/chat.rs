//! `/v1/chat/completions`.

use super::body::{Asked, Check, within};
use super::sampling::{Sampling, Stop, StreamOptions, text_request};
use super::schema::Endpoint;
use crate::fault::Fault;
use gswarm_infer::{AnswerForm, TokenChance};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Most messages of a chat.
pub const MAX_MESSAGES: usize = 4096;
/// Most of the likeliest tokens that are told.
pub const MAX_LOGPROBS: u32 = 20;

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
    /// Who exactly says it.
    pub name: Option<String>,
    /// The tools that an assistant called.
    pub tool_calls: Option<Vec<ToolCall>>,
    /// The call that a tool's result answers.
    pub tool_call_id: Option<String>,
}

/// A tool that an assistant calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolCall {
    /// Names the call.
    pub id: String,
    /// `function`.
    #[serde(rename = "type", default = "function")]
    pub kind: String,
    /// What is called.
    pub function: CalledFunction,
}

fn function() -> String {
    "function".to_owned()
}

/// A function that an assistant calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CalledFunction {
    /// Its name.
    pub name: String,
    /// Its arguments, as JSON in a text.
    pub arguments: String,
}

impl ChatMessage {
    /// What templates read beside who says what.
    #[must_use]
    pub fn more(&self) -> Map<String, Value> {
        let mut more = Map::new();
        // Templates have arguments as values, the API has them as a text.
        let called = |call: &ToolCall| {
            let arguments = serde_json::from_str(&call.function.arguments);
            let arguments = arguments.unwrap_or_else(|_| Value::from(call.function.arguments.clone()));
            let function = serde_json::json!({"name": call.function.name, "arguments": arguments});
            serde_json::json!({"id": call.id, "type": call.kind, "function": function})
        };
        more.extend(self.name.clone().map(|name| ("name".to_owned(), name.into())));
        more.extend(self.tool_call_id.clone().map(|id| ("tool_call_id".to_owned(), id.into())));
        let calls = self.tool_calls.as_ref().map(|calls| calls.iter().map(called).collect::<Vec<_>>());
        more.extend(calls.map(|calls| ("tool_calls".to_owned(), calls.into())));
        more
    }

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
        /// Whether to tell how likely each token was.
        pub logprobs: Option<bool>,
        /// How many of the likeliest tokens to tell with each.
        #[schema(minimum = 0, maximum = 20)]
        pub top_logprobs: Option<u32>,
        /// Tools that the model may call.
        #[schema(value_type = Option<Vec<Object>>)]
        pub tools: Option<Vec<Value>>,
        /// Whether it may, or has to: `auto`, `none`, `required` or a function.
        #[schema(value_type = Option<Object>)]
        pub tool_choice: Option<Value>,
        /// Further values for the model's template.
        #[schema(value_type = Option<Object>)]
        pub chat_template_kwargs: Option<Map<String, Value>>,
    }
}

impl ChatRequest {
    /// How many of the likeliest tokens are told with each, where they are.
    #[must_use]
    pub fn told(&self) -> Option<u32> {
        (self.logprobs == Some(true)).then(|| self.top_logprobs.unwrap_or(0))
    }

    /// The tools that the model may call.
    #[must_use]
    pub fn tools(&self) -> Vec<Value> {
        let none = self.tool_choice.as_ref().is_some_and(|choice| choice == "none");
        self.tools.clone().filter(|_| !none).unwrap_or_default()
    }

    /// What the answer is held to: a tool that has to be called, or the form that is asked for.
    pub fn form(&self) -> Result<Option<AnswerForm>, Fault> {
        let tools = self.tools.as_deref().unwrap_or_default();
        match super::form::of_tools(self.tool_choice.as_ref(), tools)? {
            Some(form) => Ok(Some(form)),
            None => self.sampling().form(),
        }
    }

    /// Most tokens of the answer, where it says so.
    #[must_use]
    pub fn token_limit(&self) -> Option<u32> {
        self.max_completion_tokens.or(self.max_tokens)
    }
}

impl Asked for ChatRequest {
    const ENDPOINT: Endpoint = Endpoint::Chat;
}

impl Check for ChatRequest {
    fn check(&self) -> Result<(), Fault> {
        if self.messages.is_empty() || self.messages.len() > MAX_MESSAGES {
            let message = format!("a chat has from 1 to {MAX_MESSAGES} messages");
            return Err(Fault::param("messages", message));
        }
        within("top_logprobs", self.top_logprobs.map(f64::from), 0.0, f64::from(MAX_LOGPROBS))?;
        if self.top_logprobs.is_some() && self.logprobs != Some(true) {
            return Err(Fault::param("top_logprobs", "top_logprobs needs `logprobs: true`"));
        }
        for (at, tool) in self.tools.iter().flatten().enumerate() {
            if !tool.pointer("/function/name").is_some_and(Value::is_string) {
                let message = "a tool is `{\"type\": \"function\", \"function\": {\"name\": ...}}`";
                return Err(Fault::param(format!("tools[{at}]"), message));
            }
        }
        self.form()?;
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
    /// How likely its tokens were, where that was asked for.
    #[schema(required)]
    pub logprobs: Option<ChatLogprobs>,
    /// `stop`, `length` or `tool_calls`.
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
    /// The tools that it calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
}

/// How likely the tokens of an answer were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatLogprobs {
    /// One for each token.
    pub content: Vec<TokenLogprob>,
}

/// How likely a token was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenLogprob {
    /// Its text.
    pub token: String,
    /// The logarithm of its probability.
    pub logprob: f32,
    /// The bytes of its text.
    pub bytes: Vec<u8>,
    /// The likeliest in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    pub top_logprobs: Option<Vec<TokenLogprob>>,
}

impl From<&TokenChance> for TokenLogprob {
    fn from(chance: &TokenChance) -> TokenLogprob {
        let alone = |(token, logprob): &(String, f32)| TokenLogprob {
            token: token.clone(),
            logprob: *logprob,
            bytes: token.as_bytes().to_vec(),
            top_logprobs: None,
        };
        let top = chance.top.iter().map(alone).collect();
        TokenLogprob { top_logprobs: Some(top), ..alone(&(chance.text.clone(), chance.logprob)) }
    }
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
    /// How likely its tokens were, where that was asked for.
    #[schema(required)]
    pub logprobs: Option<ChatLogprobs>,
    /// `stop`, `length` or `tool_calls`; null while it goes on.
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
    /// Tools that are called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub tool_calls: Option<Vec<Value>>,
}
