//! What requests for text have in common.

use super::body::within;
use super::form::FormFields;
use crate::fault::Fault;
use gswarm_infer::{AnswerForm, SamplingTuning};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
pub struct StreamOptions {
    /// A last piece with the number of tokens.
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

/// How answers are drawn and sent: what chats and completions share.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    /// See [`ChatRequest`](super::ChatRequest), as all that follow.
    pub temperature: Option<f64>,
    pub(super) presence_penalty: Option<f64>,
    pub(super) frequency_penalty: Option<f64>,
    pub(super) repetition_penalty: Option<f64>,
    pub(super) top_k: Option<i64>,
    pub(super) min_p: Option<f64>,
    pub(super) min_tokens: Option<u32>,
    pub(super) logit_bias: BTreeMap<String, f64>,
    /// The share of the likeliest tokens.
    pub top_p: Option<f64>,
    /// Answers to each prompt.
    pub n: Option<u32>,
    /// What ends an answer.
    pub stop: Vec<String>,
    /// For every random choice.
    pub seed: Option<i64>,
    /// Go on where the model would end.
    pub ignore_eos: bool,
    /// Send the answer as it comes.
    pub stream: bool,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) form: FormFields,
}

impl Sampling {
    /// What the answer is held to.
    pub fn form(&self) -> Result<Option<AnswerForm>, Fault> {
        self.form.form()
    }

    /// The first thing that is out of its range. `most` are limits on tokens, by name.
    pub(super) fn check(&self, most: &[(&str, Option<u32>)]) -> Result<(), Fault> {
        within("temperature", self.temperature, 0.0, 2.0)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("presence_penalty", self.presence_penalty, -2.0, 2.0)?;
        within("frequency_penalty", self.frequency_penalty, -2.0, 2.0)?;
        within("repetition_penalty", self.repetition_penalty, 0.01, 100.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("top_k", self.top_k.map(|count| count as f64), -1.0, f64::from(MAX_TOKENS))?;
        within("min_tokens", self.min_tokens.map(f64::from), 0.0, f64::from(MAX_TOKENS))?;
        self.biases()?;
        self.form()?;
        within("n", self.n.map(f64::from), 1.0, f64::from(MAX_CHOICES))?;
        for (name, count) in most {
            within(name, count.map(f64::from), 1.0, f64::from(MAX_TOKENS))?;
        }
        if self.stop.len() > MAX_STOPS {
            return Err(Fault::param("stop", format!("stop takes at most {MAX_STOPS} strings")));
        }
        if self.stop.iter().any(String::is_empty) {
            return Err(Fault::param("stop", "stop strings cannot be empty"));
        }
        if self.stream_options.is_some() && !self.stream {
            return Err(Fault::param("stream_options", "stream_options need `stream: true`"));
        }
        Ok(())
    }

    /// How tokens are drawn, with so many of the likeliest told.
    pub fn tuning(&self, logprobs: Option<u32>) -> Result<SamplingTuning, Fault> {
        Ok(SamplingTuning {
            // -1 and 0 are all of them.
            top_k: self.top_k.map_or(0, |count| count.max(0) as usize),
            min_p: self.min_p.unwrap_or(0.0),
            presence_penalty: self.presence_penalty.unwrap_or(0.0),
            frequency_penalty: self.frequency_penalty.unwrap_or(0.0),
            repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
            logit_bias: self.biases()?,
            min_tokens: self.min_tokens.unwrap_or(0) as usize,
            logprobs: logprobs.map(|count| count as usize),
        })
    }

    fn biases(&self) -> Result<Vec<(u32, f32)>, Fault> {
        let bias = |(token, &bias): (&String, &f64)| match token.parse() {
            Ok(token) if (-100.0..=100.0).contains(&bias) => Ok((token, bias as f32)),
            Ok(_) => Err(Fault::param("logit_bias", "a bias must be a number from -100 to 100")),
            Err(_) => Err(Fault::param("logit_bias", "logit_bias maps token ids to numbers")),
        };
        self.logit_bias.iter().map(bias).collect()
    }

    /// Whether a stream ends with the number of tokens.
    #[must_use]
    pub fn includes_usage(&self) -> bool {
        self.stream_options.as_ref().and_then(|options| options.include_usage) == Some(true)
    }
}

/// A request for text: its own fields, and those of [`Sampling`].
macro_rules! text_request {
    ($(#[$about:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, ToSchema)]
        pub struct $name {
            $($own)*
            /// How freely tokens are drawn; 0 takes the likeliest.
            #[schema(minimum = 0, maximum = 2)]
            pub temperature: Option<f64>,
            /// Only the likeliest tokens with this share are drawn from.
            #[schema(minimum = 0, maximum = 1)]
            pub top_p: Option<f64>,
            /// Answers to each prompt.
            #[schema(minimum = 1, maximum = 16)]
            pub n: Option<u32>,
            /// Whether to send the answer as it comes.
            pub stream: Option<bool>,
            /// What a stream tells beside the text.
            pub stream_options: Option<StreamOptions>,
            /// What ends the answer.
            pub stop: Option<Stop>,
            /// For every random choice.
            pub seed: Option<i64>,
            /// Makes what was said less likely.
            #[schema(minimum = -2, maximum = 2)]
            pub presence_penalty: Option<f64>,
            /// Makes what was said often less likely.
            #[schema(minimum = -2, maximum = 2)]
            pub frequency_penalty: Option<f64>,
            /// Makes what was said or asked less likely: 1 changes nothing.
            pub repetition_penalty: Option<f64>,
            /// Only so many of the likeliest tokens are drawn from.
            pub top_k: Option<i64>,
            /// Only tokens at least so likely, compared with the likeliest, are drawn from.
            #[schema(minimum = 0, maximum = 1)]
            pub min_p: Option<f64>,
            /// No end before so many tokens.
            pub min_tokens: Option<u32>,
            /// Added to the scores of tokens, by their numbers.
            pub logit_bias: Option<std::collections::BTreeMap<String, f64>>,
            /// Go on where the model would end: for measuring.
            pub ignore_eos: Option<bool>,
            /// What the answer is held to: JSON, or JSON of a schema.
            #[schema(value_type = Option<Object>)]
            pub response_format: Option<serde_json::Value>,
            /// The same as vLLM has it: `json`, `json_object`, `regex` or `choice`.
            #[schema(value_type = Option<Object>)]
            pub structured_outputs: Option<serde_json::Map<String, serde_json::Value>>,
            /// A schema, by an older name.
            #[schema(value_type = Option<Object>)]
            pub guided_json: Option<serde_json::Value>,
            /// A regular expression, by an older name.
            pub guided_regex: Option<String>,
            /// Texts of which the answer is one, by an older name.
            pub guided_choice: Option<Vec<String>>,
        }

        impl $name {
            /// How its answers are drawn and sent.
            #[must_use]
            pub fn sampling(&self) -> Sampling {
                Sampling {
                    temperature: self.temperature,
                    presence_penalty: self.presence_penalty,
                    frequency_penalty: self.frequency_penalty,
                    repetition_penalty: self.repetition_penalty,
                    top_k: self.top_k,
                    min_p: self.min_p,
                    min_tokens: self.min_tokens,
                    logit_bias: self.logit_bias.clone().unwrap_or_default(),
                    top_p: self.top_p,
                    n: self.n,
                    stop: self.stop.as_ref().map(Stop::list).unwrap_or_default(),
                    seed: self.seed,
                    ignore_eos: self.ignore_eos == Some(true),
                    stream: self.stream == Some(true),
                    stream_options: self.stream_options.clone(),
                    form: crate::openai::form::FormFields {
                        response_format: self.response_format.clone(),
                        structured_outputs: self.structured_outputs.clone(),
                        guided_json: self.guided_json.clone(),
                        guided_regex: self.guided_regex.clone(),
                        guided_choice: self.guided_choice.clone(),
                    },
                }
            }
        }
    };
}
pub(super) use text_request;

/// An answer for people or programs: all of it, or a piece of one that is streamed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TextAnswer<C> {
    /// The request's id.
    pub id: String,
    /// `chat.completion`, `chat.completion.chunk` or `text_completion`.
    pub object: String,
    /// Seconds since 1970.
    pub created: u64,
    /// The model.
    pub model: String,
    /// The answers, or what is new in each; nothing in the piece that tells the tokens.
    pub choices: Vec<C>,
    /// Tokens; of a stream, the last piece has it where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether no model computed this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<bool>,
}
