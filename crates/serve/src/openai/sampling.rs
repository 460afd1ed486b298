//! What requests for text have in common.

use super::body::within;
use crate::fault::Fault;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Most answers to one prompt.
pub const MAX_CHOICES: u32 = 16;
/// Most strings that end an answer.
pub const MAX_STOPS: usize = 16;
/// Most tokens that can be asked for; models hold fewer.
pub const MAX_TOKENS: u32 = 1 << 24;

/// Strings that end an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Stop {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl<'de> Deserialize<'de> for Stop {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Stop, D::Error> {
        let wrong = || D::Error::custom("a string or a list of strings is expected");
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Stop::One(text)),
            Value::Array(list) => {
                let text = |value| match value {
                    Value::String(text) => Ok(text),
                    _ => Err(wrong()),
                };
                list.into_iter().map(text).collect::<Result<_, _>>().map(Stop::Several)
            }
            _ => Err(wrong()),
        }
    }
}

impl Stop {
    /// As a list.
    #[must_use]
    pub fn list(&self) -> Vec<String> {
        match self {
            Stop::One(text) => vec![text.clone()],
            Stop::Several(texts) => texts.clone(),
        }
    }
}

/// What a stream tells beside the text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamOptions {
    /// A last piece with the number of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_usage: Option<bool>,
}

/// How many tokens were read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    #[serde(default)]
    pub completion_tokens: u64,
    /// Both together.
    pub total_tokens: u64,
}

impl Usage {
    /// From both numbers.
    #[must_use]
    pub fn new(prompt: usize, completion: usize) -> Usage {
        let (prompt_tokens, completion_tokens) = (prompt as u64, completion as u64);
        Usage { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    }
}

/// The ranges that chats and completions share.
pub(super) struct Ranges<'a> {
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub presence_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub n: Option<u32>,
    pub max_tokens: Option<(&'static str, u32)>,
    pub stop: Option<&'a Stop>,
    pub stream: Option<bool>,
    pub stream_options: Option<&'a StreamOptions>,
}

impl Ranges<'_> {
    pub fn check(&self) -> Result<(), Fault> {
        within("temperature", self.temperature, 0.0, 2.0)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("presence_penalty", self.presence_penalty, -2.0, 2.0)?;
        within("frequency_penalty", self.frequency_penalty, -2.0, 2.0)?;
        within("n", self.n.map(f64::from), 1.0, f64::from(MAX_CHOICES))?;
        if let Some((name, count)) = self.max_tokens {
            within(name, Some(f64::from(count)), 1.0, f64::from(MAX_TOKENS))?;
        }
        if let Some(stop) = self.stop {
            let list = stop.list();
            if list.len() > MAX_STOPS {
                return Err(Fault::param("stop", format!("{MAX_STOPS} strings at most can end an answer")));
            }
            if list.iter().any(String::is_empty) {
                return Err(Fault::param("stop", "an empty string cannot end an answer"));
            }
        }
        if self.stream_options.is_some() && self.stream != Some(true) {
            return Err(Fault::param("stream_options", "stream_options go with `stream: true`"));
        }
        Ok(())
    }
}
