//! Models that only take their time: loads, tokens and batches last as long as the configuration says.

use super::{AbortOnDrop, Busy, EngineOutcome, EngineWork, Forecast, TextStream, WorkKind, fault};
use crate::fault::Fault;
use gswarm_core::cost::slowdown_table;
use gswarm_core::input::{ClusterSpec, ModelSpec};
use gswarm_core::{Span, Time};
use gswarm_exec::backend::SharedReplica;
use gswarm_exec::clock::Clock;
use gswarm_infer::{Error, FinishReason, FinishedGeneration, GenerateRequest, GenerationEvent, Prompt};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Most tokens that an emulated model writes.
const MAX_TOKENS: usize = 1 << 17;
/// Pieces that a text comes in.
const PIECES: usize = 32;
const WORDS: [&str; 8] = [" nothing", " was", " computed", " here", " and", " time", " went", " by"];
const DEFAULT_PCIE_GB_PER_S: f64 = 16.0;

/// A model of the configuration.
#[derive(Clone, Debug)]
pub struct EmulatedModel {
    spec: ModelSpec,
    kind: WorkKind,
    slowdown: Vec<u32>,
    /// From host memory onto the GPUs.
    transfer: Span,
    /// From disk to host memory.
    fetch: Span,
}

impl EmulatedModel {
    /// What the configuration says of it.
    #[must_use]
    pub fn new(spec: &ModelSpec, cluster: &ClusterSpec) -> EmulatedModel {
        let kind = match spec.kind.as_deref() {
            Some("llm") => WorkKind::Language,
            Some("embedding") => WorkKind::Embedding,
            Some(other) => WorkKind::Other(other.to_string()),
            None if spec.tokens_per_second.is_some() => WorkKind::Language,
            None => WorkKind::Other("other".to_string()),
        };
        let slowdown = match &spec.batching {
            Some(batching) => slowdown_table(&batching.slowdown, batching.max_batch),
            None => vec![1_000_000],
        };
        // A load is a read from disk and a transfer; both together take what the configuration says.
        let pcie = cluster.pcie_gb_per_s.unwrap_or(DEFAULT_PCIE_GB_PER_S);
        let load = Span::from_seconds(spec.load_time_seconds);
        let transfer = Span::from_seconds(spec.memory_gb / pcie).min(load);
        let fetch = Span(load.0 - transfer.0);
        EmulatedModel { spec: spec.clone(), kind, slowdown, transfer, fetch }
    }

    /// What the configuration says.
    #[must_use]
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// What sort of work it does.
    #[must_use]
    pub fn kind(&self) -> &WorkKind {
        &self.kind
    }

    /// From disk to host memory.
    #[must_use]
    pub fn fetch_time(&self) -> Span {
        self.fetch
    }

    /// From host memory onto the GPUs.
    #[must_use]
    pub fn transfer_time(&self) -> Span {
        self.transfer
    }

    /// What a call takes alone.
    pub fn alone(&self, work: &EngineWork) -> Result<Forecast, Fault> {
        let spec = &self.spec;
        let unknown = || {
            let message = format!(
                "the configuration has no time for `{}`: give it `inference_time_mean`, or `tokens_per_second` and \
                 `token_mean`",
                spec.id
            );
            Fault::conflict("no_time_known", message)
        };
        let token_time = |tokens: f64| spec.tokens_per_second.map(|rate| tokens / rate);
        match work {
            EngineWork::Text(request) => {
                let tokens = self.tokens(request);
                // A mean time is that of a mean number of tokens.
                let share =
                    spec.token_mean.filter(|mean| *mean > 0.0).map_or(1.0, |mean| tokens as f64 / mean);
                let by_mean = spec.inference_time_mean.map(|mean| mean * share);
                let seconds = token_time(tokens as f64).or(by_mean).ok_or_else(unknown)?;
                let prompt_tokens = Some(prompt_tokens(&request.prompt));
                Ok(Forecast { seconds, prompt_tokens, new_tokens: Some(tokens) })
            }
            EngineWork::Embed(texts) => {
                let mean = spec.inference_time_mean.or(spec.token_mean.and_then(token_time));
                let seconds = mean.ok_or_else(unknown)? * texts.len().max(1) as f64;
                let tokens = texts.iter().map(|text| words(text)).sum();
                Ok(Forecast { seconds, prompt_tokens: Some(tokens), new_tokens: None })
            }
            EngineWork::Other { steps } => {
                let mean = spec.inference_time_mean.or(spec.token_mean.and_then(token_time));
                let mean = mean.ok_or_else(unknown)?;
                let share = match (steps, self.usual_steps()) {
                    (Some(steps), Some(usual)) => f64::from(*steps) / usual,
                    _ => 1.0,
                };
                Ok(Forecast { seconds: mean * share, prompt_tokens: None, new_tokens: None })
            }
        }
    }

    /// The mean of the steps that the configuration lists: what its mean time is taken to be for.
    fn usual_steps(&self) -> Option<f64> {
        let steps = ["steps", "num_inference_steps"].iter().find_map(|key| self.spec.config.get(*key))?;
        let list: Vec<f64> = match steps {
            Value::Array(list) => list.iter().filter_map(Value::as_f64).collect(),
            one => one.as_f64().into_iter().collect(),
        };
        let mean = list.iter().sum::<f64>() / list.len() as f64;
        (mean.is_finite() && mean > 0.0).then_some(mean)
    }

    /// As many as asked for, or as the model usually writes, whichever is fewer.
    fn tokens(&self, request: &GenerateRequest) -> usize {
        let usual = self.spec.token_mean.map_or(64, |mean| mean.round().max(1.0) as usize);
        let usual = if request.ignore_eos { MAX_TOKENS } else { usual };
        request.max_tokens.min(usual).clamp(1, MAX_TOKENS)
    }
}

/// An instance: those who share it, and those who wait for a place.
pub struct EmulatedEngine {
    model: Arc<EmulatedModel>,
    clock: Clock,
    places: Arc<Semaphore>,
    inside: AtomicUsize,
    most: usize,
    company: SharedReplica,
}

impl EmulatedEngine {
    /// An instance that lets so many calls wait.
    #[must_use]
    pub fn new(model: Arc<EmulatedModel>, clock: Clock, max_waiting: usize) -> Arc<EmulatedEngine> {
        let places = model.slowdown.len();
        Arc::new(EmulatedEngine {
            places: Arc::new(Semaphore::new(places)),
            most: places + max_waiting,
            inside: AtomicUsize::new(0),
            company: SharedReplica::new(clock.clone(), model.slowdown.clone()),
            model,
            clock,
        })
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<EmulatedModel> {
        &self.model
    }

    /// What it is doing.
    #[must_use]
    pub fn busy(&self) -> Busy {
        let inside = self.inside.load(Ordering::Relaxed);
        let running = inside.min(self.model.slowdown.len());
        Busy { running, waiting: inside - running }
    }

    /// How long a call would take if it came now.
    pub fn forecast(&self, work: &EngineWork) -> Result<Forecast, Fault> {
        let alone = self.model.alone(work)?;
        let (busy, most) = (self.busy(), self.model.slowdown.len());
        let company = (busy.running + busy.waiting + 1).min(most);
        let slowed = alone.seconds * f64::from(self.model.slowdown[company - 1]) / 1e6;
        // Places become free one after the other: a full batch of them in the time that a call takes.
        let ahead = (busy.running + busy.waiting + 1 - company) as f64 / most as f64;
        Ok(Forecast { seconds: slowed * (1.0 + ahead), ..alone })
    }

    /// Begins a text.
    pub fn generate(self: &Arc<EmulatedEngine>, request: &GenerateRequest) -> Result<TextStream, Fault> {
        let alone = self.model.alone(&EngineWork::Text(Box::new(request.clone())))?;
        let (tokens, prompt_tokens) = (alone.new_tokens.unwrap_or(1), alone.prompt_tokens.unwrap_or(0));
        let ticket = Ticket::take(self)?;
        let (sender, events) = mpsc::unbounded_channel();
        let all = request.max_tokens;
        let task = tokio::spawn(async move {
            let (clock, asked) = (ticket.instance.clock.clone(), ticket.instance.clock.now());
            let Ok(_place) = ticket.place().await else { return };
            let start = clock.now();
            let (mut text, mut first, mut ahead) = (String::new(), start, Span::ZERO);
            for piece in 0..PIECES.min(tokens) {
                // Work is parted exactly: the ends of the pieces are shares of the whole.
                let pieces = PIECES.min(tokens);
                let until =
                    |piece: usize| (tokens * piece / pieces, alone.seconds * piece as f64 / pieces as f64);
                let ((from, began), (to, ends)) = (until(piece), until(piece + 1));
                let work = Span(Span::from_seconds(ends).0 - Span::from_seconds(began).0);
                // What a late timer did of this piece already is not done again.
                let left = Span(work.0.saturating_sub(ahead.0));
                ahead = Span(ahead.0.saturating_sub(work.0)) + ticket.instance.company.share(left).await;
                if piece == 0 {
                    first = clock.now();
                }
                let added: String = (from..to).map(|word| WORDS[word % WORDS.len()]).collect();
                text.push_str(&added);
                if sender
                    .send(GenerationEvent::Token { id: piece as u32, text: added, chance: None })
                    .is_err()
                {
                    return;
                }
            }
            let reason = if tokens < all { FinishReason::EndOfText } else { FinishReason::Length };
            let finished = FinishedGeneration {
                text,
                reason,
                prompt_tokens,
                new_tokens: tokens,
                waited: between(asked, start),
                prefill: between(start, first),
                decode: between(first, clock.now()),
            };
            let _ = sender.send(GenerationEvent::Done(finished));
        });
        Ok(TextStream::Emulated(events, AbortOnDrop(task.abort_handle())))
    }

    /// Does what is no text.
    pub async fn run(self: &Arc<EmulatedEngine>, work: &EngineWork) -> Result<EngineOutcome, Fault> {
        let alone = self.model.alone(work)?;
        let ticket = Ticket::take(self)?;
        let start = self.clock.now();
        let _place = ticket.place().await.map_err(|()| fault(Error::Stopped))?;
        self.company.share(Span::from_seconds(alone.seconds)).await;
        let vectors = match work {
            EngineWork::Embed(texts) => texts.iter().map(|text| stand_in(text)).collect(),
            _ => Vec::new(),
        };
        let seconds = (self.clock.now() - start).seconds();
        Ok(EngineOutcome { vectors, tokens: alone.prompt_tokens.unwrap_or(0), seconds })
    }
}

/// A call that counts as inside from being taken on to its end.
struct Ticket {
    instance: Arc<EmulatedEngine>,
}

impl Ticket {
    fn take(instance: &Arc<EmulatedEngine>) -> Result<Ticket, Fault> {
        let one_more = |inside: usize| (inside < instance.most).then_some(inside + 1);
        match instance.inside.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(Ticket { instance: Arc::clone(instance) }),
            Err(inside) => Err(fault(Error::Full { waiting: inside - instance.model.slowdown.len() })),
        }
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit, ()> {
        Arc::clone(&self.instance.places).acquire_owned().await.map_err(drop)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.instance.inside.fetch_sub(1, Ordering::Relaxed);
    }
}

fn between(start: Time, end: Time) -> Duration {
    Duration::from_micros(end.since(start).0)
}

/// Words stand for tokens.
fn words(text: &str) -> usize {
    text.split_whitespace().count().max(1)
}

fn prompt_tokens(prompt: &Prompt) -> usize {
    match prompt {
        Prompt::Text(text) => words(text),
        Prompt::Chat(chat) => chat.messages.iter().map(|message| words(&message.content)).sum(),
        Prompt::Tokens(tokens) => tokens.len(),
    }
}

/// A vector of length one that is the same for the same text and means nothing.
fn stand_in(text: &str) -> Vec<f32> {
    let raw: Vec<f32> = Sha256::digest(text).iter().map(|&byte| f32::from(byte) - 127.5).collect();
    let length = raw.iter().map(|value| value * value).sum::<f32>().sqrt();
    raw.iter().map(|value| value / length).collect()
}
