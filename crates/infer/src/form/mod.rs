//! Answers that are held to a form: any JSON object, JSON of a schema, one of several texts, or what a regular expression
//! matches. Tokens that would leave the form are never drawn.
//!
//! Every form becomes one regular expression, and that an automaton that is built as far as answers go into it.

mod guide;
mod schema;
mod tokens;

pub(crate) use guide::Guide;
pub(crate) use tokens::TokenBytes;

use crate::error::{Error, Result};
use regex_automata::MatchKind;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson;
use serde_json::Value;

/// What an answer has to look like.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerForm {
    /// A JSON object, whatever is in it.
    JsonObject,
    /// JSON that keeps to a schema.
    Schema(Value),
    /// One of these texts.
    Choice(Vec<String>),
    /// A text that matches as a whole.
    Regex(String),
}

/// Most bytes of a regular expression.
const MAX_PATTERN: usize = 1 << 20;
/// Most bytes of what it becomes.
const MAX_AUTOMATON: usize = 16 << 20;
/// Most bytes of the part of the automaton that an answer has gone into.
const MAX_CACHE: usize = 128 << 20;

impl AnswerForm {
    /// Whether answers can be held to it; why not, else.
    pub fn check(&self) -> std::result::Result<(), String> {
        self.automaton().map(drop)
    }

    fn pattern(&self) -> std::result::Result<String, String> {
        let pattern = match self {
            AnswerForm::JsonObject => schema::object(),
            AnswerForm::Schema(schema) => schema::pattern(schema)?,
            AnswerForm::Choice(texts) if texts.is_empty() => return Err("there is no choice".to_owned()),
            AnswerForm::Choice(texts) => {
                texts.iter().map(|text| regex_syntax::escape(text)).collect::<Vec<_>>().join("|")
            }
            AnswerForm::Regex(pattern) => pattern.clone(),
        };
        match pattern.len() {
            0..=MAX_PATTERN => Ok(pattern),
            _ => Err("it is too large".to_owned()),
        }
    }

    /// The automaton of texts that have the form.
    pub(crate) fn automaton(&self) -> std::result::Result<DFA, String> {
        let pattern = self.pattern()?;
        let sizes = thompson::Config::new().nfa_size_limit(Some(MAX_AUTOMATON));
        // All that may match is followed, not only what is preferred.
        let all = DFA::config().match_kind(MatchKind::All).cache_capacity(MAX_CACHE);
        let all = all.minimum_cache_clear_count(Some(0)).skip_cache_capacity_check(true);
        let built = DFA::builder().thompson(sizes).configure(all).build(&format!("(?:{pattern})"));
        built.map_err(|error| {
            let mut why = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(inner) = source {
                why = inner.to_string();
                source = inner.source();
            }
            why
        })
    }

    pub(crate) fn guide(&self, tokens: std::sync::Arc<TokenBytes>) -> Result<Guide> {
        let automaton = self.automaton();
        let automaton = automaton
            .map_err(|why| Error::Request(format!("the answer cannot be held to this form: {why}")))?;
        Guide::new(automaton, tokens)
    }
}
