//! Answers that are sent as they come, as server-sent events.

use super::call::{finished_with_chances, reason};
use super::openai::{Call, Head};
use super::tools;
use crate::fault::{ErrorDetail, Fault, OpenAiError};
use crate::model_server::engines::{self, TextStream};
use crate::openai::{ChatDelta, ChatLogprobs, CompletionChoice, Delta, Role, TextLogprobs, ToolCall, Usage};
use axum::response::Sse;
use axum::response::sse::{Event as Sent, KeepAlive};
use futures_util::stream::{self, Stream, StreamExt};
use gswarm_infer::{FinishedGeneration, GenerationEvent, TokenChance};
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
    Opening,
    Text(String, Vec<TokenChance>),
    Tools(Vec<ToolCall>),
    End { reason: String, prompt_tokens: usize, new_tokens: usize },
    Failed(Fault),
}

/// What a piece of an answer tells.
enum Told {
    /// Who speaks.
    Opening,
    /// Text, and how likely its tokens were.
    Text(String, Vec<TokenChance>),
    /// Tools that are called.
    Tools(Vec<ToolCall>),
    /// Why it ended.
    End(String),
}

/// A completion, as it comes.
pub(super) fn completion(
    head: Head,
    call: Call,
    usage: bool,
) -> Sse<impl Stream<Item = Result<Sent, Infallible>>> {
    let mut offsets = vec![0; call.choices.len()];
    let piece = move |head: &Head, index: u32, told: Told| {
        let (text, chances, finish_reason) = match told {
            Told::Text(text, chances) => (text, chances, None),
            Told::End(reason) => (String::new(), Vec::new(), Some(reason)),
            Told::Opening | Told::Tools(_) => (String::new(), Vec::new(), None),
        };
        let offset = &mut offsets[index as usize];
        let logprobs = (!chances.is_empty()).then(|| TextLogprobs::new(&chances, *offset));
        *offset += text.chars().count();
        let choice = CompletionChoice { index, text, logprobs, finish_reason };
        sent(&head.answer("text_completion", vec![choice], None))
    };
    let total = |head: &Head, usage: Usage| {
        sent(&head.answer("text_completion", Vec::<CompletionChoice>::new(), Some(usage)))
    };
    events(head, call, (usage, false, false), piece, total)
}

/// A chat's answer, as it comes; where it may call tools, once it is known whether it does.
pub(super) fn chat(
    head: Head,
    call: Call,
    usage: bool,
    calls_tools: bool,
) -> Sse<impl Stream<Item = Result<Sent, Infallible>>> {
    let chunk =
        |head: &Head, choices: Vec<ChatDelta>, usage| head.answer("chat.completion.chunk", choices, usage);
    let piece = move |head: &Head, index: u32, told: Told| {
        let (mut delta, mut logprobs, mut finish_reason) = (Delta::default(), None, None);
        match told {
            Told::Opening => {
                delta.role = Some(Role::Assistant);
                delta.content = Some(String::new());
            }
            Told::Text(text, chances) => {
                delta.content = Some(text);
                let content: Vec<_> = chances.iter().map(Into::into).collect();
                logprobs = (!content.is_empty()).then_some(ChatLogprobs { content });
            }
            Told::Tools(calls) => {
                let numbered = |(index, call): (usize, &ToolCall)| {
                    let mut call = serde_json::to_value(call).unwrap_or_default();
                    call["index"] = index.into();
                    call
                };
                delta.tool_calls = Some(calls.iter().enumerate().map(numbered).collect());
            }
            Told::End(reason) => finish_reason = Some(reason),
        }
        sent(&chunk(head, vec![ChatDelta { index, delta, logprobs, finish_reason }], None))
    };
    let total = move |head: &Head, usage: Usage| sent(&chunk(head, Vec::new(), Some(usage)));
    events(head, call, (usage, true, calls_tools), piece, total)
}

fn events(
    head: Head,
    call: Call,
    (usage, opening, calls_tools): (bool, bool, bool),
    mut piece: impl FnMut(&Head, u32, Told) -> Sent + Send + 'static,
    total: impl Fn(&Head, Usage) -> Sent + Send + 'static,
) -> Sse<impl Stream<Item = Result<Sent, Infallible>>> {
    let Call { choices, pass, instance } = call;
    let count = choices.len() as u32;
    let each = choices.into_iter().enumerate().map(|(index, choice)| match calls_tools {
        true => stream::once(whole(index as u32, choice)).flat_map(stream::iter).boxed(),
        false => steps(index as u32, choice).boxed(),
    });
    // A chat begins by saying who speaks, in a piece of its own.
    let opening = (0..if opening { count } else { 0 }).map(|index| Some((index, Step::Opening)));
    let steps = stream::select_all(each).map(Some).chain(stream::once(std::future::ready(None)));
    let merged = stream::iter(opening).chain(steps);
    let (mut read, mut written, mut failed) = (0, 0, false);
    let told = merged.flat_map(move |step| {
        // The instance is in use until the last event has been made.
        let _in_use = (&pass, &instance);
        let events = match step {
            Some((index, Step::Opening)) => vec![piece(&head, index, Told::Opening)],
            Some((index, Step::Text(text, chances))) => vec![piece(&head, index, Told::Text(text, chances))],
            Some((index, Step::Tools(calls))) => vec![piece(&head, index, Told::Tools(calls))],
            Some((index, Step::End { reason, prompt_tokens, new_tokens })) => {
                read += prompt_tokens;
                written += new_tokens;
                vec![piece(&head, index, Told::End(reason))]
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
    let first = (!prefix.is_empty()).then_some((index, Step::Text(prefix, Vec::new())));
    // Tokens whose text is not complete are told with the one that completes it.
    let rest = stream::unfold(Some((generation, Vec::new())), move |going| async move {
        let (mut generation, mut chances) = going?;
        loop {
            return match generation.next().await {
                GenerationEvent::Token { text, chance, .. } if text.is_empty() => {
                    chances.extend(chance);
                    continue;
                }
                GenerationEvent::Token { text, chance, .. } => {
                    chances.extend(chance);
                    Some(((index, Step::Text(text, chances)), Some((generation, Vec::new()))))
                }
                GenerationEvent::Done(done) => Some(((index, end(&done, counts_prompt)), None)),
                GenerationEvent::Failed(error) => Some(((index, Step::Failed(engines::fault(error))), None)),
            };
        }
    });
    stream::iter(first).chain(rest)
}

fn end(done: &FinishedGeneration, counts_prompt: bool) -> Step {
    let prompt_tokens = if counts_prompt { done.prompt_tokens } else { 0 };
    Step::End { reason: reason(&done.reason), prompt_tokens, new_tokens: done.new_tokens }
}

/// All steps of an answer that may call tools: which it does is known at its end.
async fn whole(index: u32, choice: Choice) -> Vec<(u32, Step)> {
    let (done, chances) = match finished_with_chances(choice.generation).await {
        Ok(finished) => finished,
        Err(fault) => return vec![(index, Step::Failed(fault))],
    };
    let mut last = end(&done, choice.counts_prompt);
    let (said, calls) = tools::apart(done.text, true);
    let said = said.map(|text| Step::Text(text, chances));
    if let (Some(_), Step::End { reason, .. }) = (&calls, &mut last) {
        *reason = "tool_calls".to_string();
    }
    let steps = said.into_iter().chain(calls.map(Step::Tools)).chain([last]);
    steps.map(|step| (index, step)).collect()
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
