//! A request of the OpenAI API that is forwarded to a server, and the path of its answer back.

use crate::call::Call;
use bytes::Bytes;
use gswarm_core::Span;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot};

/// A request in the form of the OpenAI API, to be passed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Forward {
    /// Where to, as `/v1/chat/completions`.
    pub path: &'static str,
    /// The body; its `model` is that of the configuration.
    pub body: Map<String, Value>,
    /// What sort of model it asks: `llm`, `embedding`, ...
    pub kind: Option<String>,
    /// What it is expected to take on a replica of its own.
    pub estimate: Span,
    /// Sent as it is instead, whatever it is.
    pub raw: Option<Arc<RawCall>>,
}

/// A request of any sort, for the server of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct RawCall {
    /// As HTTP names it.
    pub method: String,
    /// Where to, with what is asked of it: `/tokens?of=text`.
    pub path: String,
    /// What the body is.
    pub content_type: Option<String>,
    /// The body.
    pub body: Bytes,
}

impl Forward {
    /// Whether the answer is wanted piece by piece.
    #[must_use]
    pub fn streams(&self) -> bool {
        self.body.get("stream").and_then(Value::as_bool).unwrap_or(false)
    }

    /// Whether a streamed answer is to say how many tokens there are.
    #[must_use]
    pub fn wants_usage(&self) -> bool {
        let options = self.body.get("stream_options");
        options.and_then(|options| options.get("include_usage")).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The same as calls of a model, one for each text, for servers that know no such API.
    #[must_use]
    pub fn as_calls(&self) -> Vec<Call> {
        let several = ["prompt", "input"].iter().find_map(|&name| self.body.get(name)?.as_array());
        let texts = match several.filter(|texts| texts.iter().all(Value::is_string)) {
            Some(texts) => texts.iter().map(text_of).collect(),
            None => {
                let said = ["messages", "prompt", "input"].iter().find_map(|&name| self.body.get(name));
                vec![said.map(text_of).unwrap_or_default()]
            }
        };
        let estimate = Span(self.estimate.0 / texts.len().max(1) as u64);
        texts.into_iter().map(|text| self.call_with(text, estimate)).collect()
    }

    fn call_with(&self, text: String, estimate: Span) -> Call {
        let leaves_out = |name: &str| matches!(name, "messages" | "prompt" | "input" | "model" | "stream");
        let config = self.body.iter().filter(|(name, _)| !leaves_out(name));
        Call {
            name: self.path.to_owned(),
            inputs: Map::from_iter([("prompt".to_owned(), Value::String(text))]),
            config: config.map(|(name, value)| (name.clone(), value.clone())).collect(),
            kind: self.kind.clone(),
            estimate,
        }
    }

    /// Answers to [the calls](Forward::as_calls) in the form of the API: the content type and the body.
    #[must_use]
    pub fn shaped(&self, answers: &[Value]) -> (&'static str, String) {
        let text = |answer: &Value| {
            let places = ["text", "response", "output", "generated_text"];
            let found = places.iter().find_map(|&name| answer.get(name).and_then(Value::as_str));
            found.map_or_else(|| text_of(answer), str::to_owned)
        };
        let numbered = |item: &dyn Fn(usize, &Value) -> Value| -> Vec<Value> {
            answers.iter().enumerate().map(|(index, answer)| item(index, answer)).collect()
        };
        let model = self.body.get("model").cloned().unwrap_or_default();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (now, seconds) = (since.as_nanos(), since.as_secs());
        let mut whole = match self.path {
            "/v1/embeddings" => {
                let data = numbered(&|index, answer| {
                    let embedding = answer.get("embedding").cloned().unwrap_or_else(|| json!([]));
                    json!({"object": "embedding", "index": index, "embedding": embedding})
                });
                json!({"object": "list", "data": data, "model": model})
            }
            "/v1/chat/completions" => {
                let part = if self.streams() { "delta" } else { "message" };
                let object = if self.streams() { "chat.completion.chunk" } else { "chat.completion" };
                let choices = numbered(&|index, answer| {
                    let said = json!({"role": "assistant", "content": text(answer)});
                    json!({"index": index, part: said, "logprobs": null, "finish_reason": "stop"})
                });
                json!({"id": format!("chatcmpl-{now:x}"), "object": object, "created": seconds, "model": model,
                       "choices": choices})
            }
            _ => {
                let choices = numbered(
                    &|index, answer| json!({"index": index, "text": text(answer), "logprobs": null, "finish_reason": "stop"}),
                );
                json!({"id": format!("cmpl-{now:x}"), "object": "text_completion", "created": seconds, "model": model,
                       "choices": choices})
            }
        };
        if let Some(usage) = usage_of(answers) {
            whole["usage"] = usage;
        }
        if let Some(emulated) = answers.first().and_then(|answer| answer.get("emulated")) {
            whole["emulated"] = emulated.clone();
        }
        if self.streams() {
            ("text/event-stream", format!("data: {whole}\n\ndata: [DONE]\n\n"))
        } else {
            ("application/json", whole.to_string())
        }
    }
}

/// The tokens of all answers together.
fn usage_of(answers: &[Value]) -> Option<Value> {
    let mut all = Map::new();
    for usage in answers.iter().filter_map(|answer| answer.get("usage")?.as_object()) {
        for (name, count) in usage.iter().filter_map(|(name, count)| Some((name, count.as_u64()?))) {
            let so_far = all.get(name).and_then(Value::as_u64).unwrap_or(0);
            all.insert(name.clone(), (so_far + count).into());
        }
    }
    (!all.is_empty()).then_some(Value::Object(all))
}

/// What messages, prompts and inputs say, as one text.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => {
            let text = fields.get("content").or_else(|| fields.get("text"));
            text.map_or_else(|| value.to_string(), text_of)
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The beginning of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// As HTTP numbers it.
    pub status: u16,
    /// As HTTP names it.
    pub content_type: String,
}

/// Of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Some of it.
    Data(Bytes),
    /// It was whole.
    End,
}

/// Where an answer goes, piece by piece.
pub struct Relay {
    head: Option<oneshot::Sender<Result<Head, String>>>,
    pieces: mpsc::Sender<Piece>,
}

/// The reading end of an answer.
pub struct Answering {
    /// Comes when the answer begins, or says why it never will.
    pub head: oneshot::Receiver<Result<Head, String>>,
    /// The pieces. Where no [`Piece::End`] comes, the answer was cut off.
    pub pieces: mpsc::Receiver<Piece>,
}

/// Pieces that may wait for a slow reader.
const PIECES: usize = 16;

impl Relay {
    /// Both ends of an answer.
    pub(crate) fn new() -> (Relay, Answering) {
        let (head, head_comes) = oneshot::channel();
        let (pieces, pieces_come) = mpsc::channel(PIECES);
        (Relay { head: Some(head), pieces }, Answering { head: head_comes, pieces: pieces_come })
    }

    /// The answer begins: from here on it cannot be asked for anew elsewhere.
    pub fn head(&mut self, status: u16, content_type: &str) {
        if let Some(sender) = self.head.take() {
            // Whoever asked may have gone; then the call is cancelled soon.
            let _ = sender.send(Ok(Head { status, content_type: content_type.to_owned() }));
        }
    }

    /// A piece of it. Waits where the reader is slower than the server.
    pub async fn piece(&self, piece: impl Into<Bytes>) {
        let _ = self.pieces.send(Piece::Data(piece.into())).await;
    }

    /// The answer is whole.
    pub(crate) async fn end(&self) {
        let _ = self.pieces.send(Piece::End).await;
    }

    /// There will be no answer. One that has begun is simply not whole.
    pub(crate) fn fail(self, why: String) {
        if let Some(sender) = self.head {
            let _ = sender.send(Err(why));
        }
    }

    /// The answers to [calls](Forward::as_calls), in the form of the API.
    pub async fn whole(&mut self, forward: &Forward, answers: &[Value]) {
        let (content_type, body) = forward.shaped(answers);
        self.head(200, content_type);
        self.piece(body).await;
    }

    /// Whether the answer has begun.
    #[must_use]
    pub fn begun(&self) -> bool {
        self.head.is_none()
    }
}
