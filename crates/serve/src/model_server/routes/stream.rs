//! Answers that are sent as they come, as server-sent events.

use super::call::reason;
use super::openai::{Call, Head};
use crate::fault::{ErrorDetail, Fault, OpenAiError};
use crate::model_server::engines::{self, TextStream};
use crate::openai::{ChatDelta, CompletionChoice, Delta, Role, Usage};
use axum::response::Sse;
use axum::response::sse::{Event as Sent, KeepAlive};
use futures_util::stream::{self, Stream, StreamExt};
use gswarm_infer::GenerationEvent;
use serde::Serialize;
use std::convert::Infallible;

/// One of the answers, on its way.
pub(super) struct Choice {
    pub generation: TextStream,
    /// What its text begins with.
    pub prefix: String,
    /// Whether its prompt is the one that counts: several answers share a prompt.
    pub counts_prompt: bool,
}

/// What happens to one of the answers.
enum Step {
    Text(String),
    End { reason: String, prompt_tokens: usize, new_tokens: usize },
    Failed(Fault),
}

/// A completion, as it comes.
pub(super) fn completion(
    head: Head,
    call: Call,
    usage: bool,
) -> Sse<impl Stream<Item = Result<Sent, Infallible>>> {
    let piece = |head: &Head, index: u32, text: String, finish_reason: Option<String>| {
        let choice = CompletionChoice { index, text, logprobs: None, finish_reason };
        sent(&head.answer("text_completion", vec![choice], None))
    };
    let total = |head: &Head, usage: Usage| {
        sent(&head.answer("text_completion", Vec::<CompletionChoice>::new(), Some(usage)))
    };
    events(head, call, usage, false, piece, total)
}

/// A chat's answer, as it comes.
pub(super) fn chat(head: Head, call: Call, usage: bool) -> Sse<impl Stream<Item = Result<Sent, Infallible>>> {
    let chunk =
        |head: &Head, choices: Vec<ChatDelta>, usage| head.answer("chat.completion.chunk", choices, usage);
    let piece = move |head: &Head, index: u32, text: String, finish_reason: Option<String>| {
        let delta = match (&finish_reason, text.is_empty()) {
            (Some(_), _) => Delta::default(),
            // The first piece says who speaks.
            (None, true) => Delta { role: Some(Role::Assistant), content: Some(text) },
            (None, false) => Delta { role: None, content: Some(text) },
        };
        sent(&chunk(head, vec![ChatDelta { index, delta, logprobs: None, finish_reason }], None))
    };
    let total = move |head: &Head, usage: Usage| sent(&chunk(head, Vec::new(), Some(usage)));
    events(head, call, usage, true, piece, total)
}

fn events(
    head: Head,
    call: Call,
    usage: bool,
    opening: bool,
    piece: impl Fn(&Head, u32, String, Option<String>) -> Sent + Send + 'static,
    total: impl Fn(&Head, Usage) -> Sent + Send + 'static,
) -> Sse<impl Stream<Item = Result<Sent, Infallible>>> {
    let Call { choices, pass, instance } = call;
    let count = choices.len() as u32;
    let each = choices.into_iter().enumerate().map(|(index, choice)| steps(index as u32, choice).boxed());
    // A chat begins by saying who speaks, in a piece of its own.
    let opening = (0..if opening { count } else { 0 }).map(|index| Some((index, Step::Text(String::new()))));
    let steps = stream::select_all(each).map(Some).chain(stream::once(std::future::ready(None)));
    let merged = stream::iter(opening).chain(steps);
    let (mut read, mut written, mut failed) = (0, 0, false);
    let told = merged.flat_map(move |step| {
        // The instance is in use until the last event has been made.
        let _in_use = (&pass, &instance);
        let events = match step {
            Some((index, Step::Text(text))) => vec![piece(&head, index, text, None)],
            Some((index, Step::End { reason, prompt_tokens, new_tokens })) => {
                read += prompt_tokens;
                written += new_tokens;
                vec![piece(&head, index, String::new(), Some(reason))]
            }
            Some((_, Step::Failed(fault))) => {
                failed = true;
                vec![sent(&failure(fault))]
            }
            None => {
                let tokens = (usage && !failed).then(|| total(&head, Usage::new(read, written)));
                tokens.into_iter().chain([Sent::default().data("[DONE]")]).collect()
            }
        };
        stream::iter(events)
    });
    Sse::new(told.map(Ok)).keep_alive(KeepAlive::default())
}

/// The steps of one answer.
fn steps(index: u32, choice: Choice) -> impl Stream<Item = (u32, Step)> + Send {
    let Choice { generation, prefix, counts_prompt } = choice;
    let first = (!prefix.is_empty()).then_some((index, Step::Text(prefix)));
    let rest = stream::unfold(Some(generation), move |generation| async move {
        let mut generation = generation?;
        loop {
            return match generation.next().await {
                GenerationEvent::Token { text, .. } if text.is_empty() => continue,
                GenerationEvent::Token { text, .. } => Some(((index, Step::Text(text)), Some(generation))),
                GenerationEvent::Done(done) => {
                    let prompt_tokens = if counts_prompt { done.prompt_tokens } else { 0 };
                    let new_tokens = done.new_tokens;
                    Some((
                        (index, Step::End { reason: reason(&done.reason), prompt_tokens, new_tokens }),
                        None,
                    ))
                }
                GenerationEvent::Failed(error) => Some(((index, Step::Failed(engines::fault(error))), None)),
            };
        }
    });
    stream::iter(first).chain(rest)
}

fn failure(fault: Fault) -> OpenAiError {
    OpenAiError {
        error: ErrorDetail {
            message: fault.message,
            kind: "server_error".to_string(),
            param: None,
            code: Some(fault.code.to_string()),
        },
    }
}

fn sent(value: &impl Serialize) -> Sent {
    // What is sent is made here, of strings and numbers: there is nothing in it that has no JSON.
    Sent::default().data(serde_json::to_string(value).unwrap_or_default())
}
