//! What is asked of a language model, and what comes back.

use crate::error::{Error, Result};
use crate::form::AnswerForm;
use crate::text::chat::Chat;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// What a text is to begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A text.
    Text(String),
    /// A chat, which the model's template turns into a text.
    Chat(Chat),
    /// Tokens as they are.
    Tokens(Vec<u32>),
}

/// A text to be continued.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateRequest {
    /// What it begins with.
    pub prompt: Prompt,
    /// Most tokens of the answer; fewer where the model can hold no more.
    pub max_tokens: usize,
    /// How freely tokens are drawn; 0 takes the likeliest each time.
    pub temperature: f64,
    /// Only the likeliest tokens that together have this share are drawn from.
    pub top_p: f64,
    /// For every random choice: the same seed gives the same answer.
    pub seed: u64,
    /// Strings that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// Go on where the model would end.
    pub ignore_eos: bool,
    /// Refuse where there is no room for `max_tokens` behind the prompt, instead of writing fewer.
    pub exact: bool,
    /// What else bears on how tokens are drawn.
    pub tuning: SamplingTuning,
    /// What the answer has to look like, where that is asked for.
    pub form: Option<AnswerForm>,
}

/// Settings of drawing that few requests have.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingTuning {
    /// Only so many of the likeliest tokens are drawn from; 0 is all.
    pub top_k: usize,
    /// Only tokens at least so likely, compared with the likeliest, are drawn from.
    pub min_p: f64,
    /// Taken off the score of each token that the answer has.
    pub presence_penalty: f64,
    /// Taken off for each time that the answer has it.
    pub frequency_penalty: f64,
    /// Divides positive scores of tokens that prompt or answer have, multiplies negative ones.
    pub repetition_penalty: f64,
    /// Added to the scores of tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// The model ends no answer before it has so many tokens.
    pub min_tokens: usize,
    /// Tell how likely each token was, with so many of the likeliest in its place.
    pub logprobs: Option<usize>,
}

impl Default for SamplingTuning {
    fn default() -> SamplingTuning {
        SamplingTuning {
            top_k: 0,
            min_p: 0.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            logit_bias: Vec::new(),
            min_tokens: 0,
            logprobs: None,
        }
    }
}

impl GenerateRequest {
    /// 64 tokens at most, the likeliest each time.
    pub fn new(prompt: Prompt) -> GenerateRequest {
        GenerateRequest {
            prompt,
            max_tokens: 64,
            temperature: 0.0,
            top_p: 1.0,
            seed: 0,
            stop: Vec::new(),
            ignore_eos: false,
            exact: false,
            tuning: SamplingTuning::default(),
            form: None,
        }
    }

    /// The same for a text.
    pub fn text(prompt: impl Into<String>) -> GenerateRequest {
        GenerateRequest::new(Prompt::Text(prompt.into()))
    }

    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |reason: &str| Err(Error::Request(reason.to_string()));
        if self.max_tokens == 0 {
            return refuse("max_tokens is 0: ask for one token or more");
        }
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return refuse("temperature must be a number of 0 or more");
        }
        if !(0.0..=1.0).contains(&self.top_p) {
            return refuse("top_p must be a number from 0 to 1");
        }
        let tuning = &self.tuning;
        if !(0.0..=1.0).contains(&tuning.min_p) {
            return refuse("min_p must be a number from 0 to 1");
        }
        if !(tuning.repetition_penalty.is_finite() && tuning.repetition_penalty > 0.0) {
            return refuse("repetition_penalty must be a number above 0");
        }
        if !(tuning.presence_penalty.is_finite() && tuning.frequency_penalty.is_finite()) {
            return refuse("penalties must be numbers");
        }
        Ok(())
    }
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// It has as many tokens as asked for, or as the model can hold.
    Length,
    /// The model ended it.
    EndOfText,
    /// One of the request's strings came.
    Stop(String),
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedGeneration {
    /// Its text: that of all [`GenerationEvent::Token`] together.
    pub text: String,
    /// Why it ended.
    pub reason: FinishReason,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens that were generated, the one that ended the text included.
    pub new_tokens: usize,
    /// From being submitted to joining the batch.
    pub waited: Duration,
    /// From joining the batch to the first token.
    pub prefill: Duration,
    /// From the first token to the last.
    pub decode: Duration,
}

/// What happens to a request. The last event is `Done` or `Failed`.
#[derive(Debug)]
pub enum GenerationEvent {
    /// One more token; its text is empty while a character or a stop string is incomplete.
    Token {
        /// The token.
        id: u32,
        /// What it adds to the text.
        text: String,
        /// How likely it was, where that was asked for.
        chance: Option<TokenChance>,
    },
    /// The answer is complete.
    Done(FinishedGeneration),
    /// It will not be.
    Failed(Error),
}

/// How likely a token was, before anything was done to the model's scores.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenChance {
    /// The token's text.
    pub text: String,
    /// The logarithm of its probability.
    pub logprob: f32,
    /// The likeliest tokens in its place, the likeliest first.
    pub top: Vec<(String, f32)>,
}

/// The events of one request. Dropping it cancels the request.
#[derive(Debug)]
pub struct RunningCompletion {
    events: UnboundedReceiver<GenerationEvent>,
}

impl RunningCompletion {
    pub(crate) fn new(events: UnboundedReceiver<GenerationEvent>) -> RunningCompletion {
        RunningCompletion { events }
    }

    /// The next event, for async callers; `None` after the last.
    pub async fn next(&mut self) -> Option<GenerationEvent> {
        self.events.recv().await
    }

    /// The next event, for threads that may block; `None` after the last.
    pub fn next_blocking(&mut self) -> Option<GenerationEvent> {
        self.events.blocking_recv()
    }

    /// The whole answer; blocks.
    pub fn wait(mut self) -> Result<FinishedGeneration> {
        loop {
            match self.next_blocking() {
                Some(GenerationEvent::Token { .. }) => {}
                Some(GenerationEvent::Done(finished)) => return Ok(finished),
                Some(GenerationEvent::Failed(error)) => return Err(error),
                None => return Err(Error::Stopped),
            }
        }
    }
}
