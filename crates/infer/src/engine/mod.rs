//! A serving instance of a language model: a thread that generates for many requests at once.
//!
//! Between two steps, requests that wait join the batch while it has places; in a step, all that have read their prompts
//! get one token each by a single pass; those that are complete leave at once. A prompt is read in chunks, one chunk
//! a step, so that a long one does not hold up the others.

mod row;
mod worker;
#[cfg(test)]
mod worker_tests;

use crate::decoder::LanguageModel;
use crate::error::{Error, Result};
use crate::form::{AnswerForm, Guide};
use crate::rates::{Rates, TimeEstimate};
use crate::request::{GenerateRequest, Prompt, RunningCompletion};
use row::Job;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::mpsc;
use worker::{Decoder, Worker};

/// Bounds of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Most requests that generate at the same time.
    pub max_batch: usize,
    /// Most requests that wait for a place.
    pub max_waiting: usize,
    /// Tokens of a prompt that are read in one step.
    pub prefill_chunk: usize,
    /// Maximum context: tokens of prompt and answer together; never more than the model can hold.
    pub max_context: usize,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions { max_batch: 8, max_waiting: 256, prefill_chunk: 128, max_context: 4096 }
    }
}

/// What an instance is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineLoad {
    /// Requests in the batch.
    pub running: usize,
    /// Requests that wait for a place.
    pub waiting: usize,
    /// Requests that were answered in full.
    pub finished: usize,
    /// Tokens that were generated.
    pub tokens: usize,
    /// Steps in which tokens were generated: tokens over steps is how large batches are.
    pub steps: usize,
}

/// What the thread and those who ask both see.
struct Shared {
    stop: AtomicBool,
    running: AtomicUsize,
    waiting: AtomicUsize,
    finished: AtomicUsize,
    tokens: AtomicUsize,
    steps: AtomicUsize,
    rates: Rates,
}

/// A serving instance. Dropping it stops the thread; what is not answered then fails with [`Error::Stopped`].
pub struct InferenceEngine {
    model: LanguageModel,
    options: EngineOptions,
    shared: Arc<Shared>,
    jobs: Option<mpsc::UnboundedSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl InferenceEngine {
    /// Measures how fast the model is here, and starts the thread.
    pub fn start(model: LanguageModel, options: EngineOptions) -> Result<InferenceEngine> {
        let options = EngineOptions {
            max_batch: options.max_batch.max(1),
            max_waiting: options.max_waiting.max(1),
            prefill_chunk: options.prefill_chunk.max(1),
            max_context: options.max_context.min(model.config().max_positions),
        };
        let shared = Arc::new(Shared::new(options.max_batch));
        worker::measure(&model, &options, &shared.rates)?;
        let (jobs, queue) = mpsc::unbounded_channel();
        let worker = Worker::new(model.clone(), model.shared_tokenizer(), options, shared.clone());
        let thread =
            std::thread::Builder::new().name("gswarm-engine".to_string()).spawn(|| worker.run(queue));
        let thread =
            thread.map_err(|error| Error::Compute(format!("no thread could be started: {error}")))?;
        Ok(InferenceEngine { model, options, shared, jobs: Some(jobs), thread: Some(thread) })
    }

    /// The model that it serves.
    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    /// Its bounds.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// What it is doing.
    pub fn load(&self) -> EngineLoad {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        EngineLoad {
            running: count(&self.shared.running),
            waiting: count(&self.shared.waiting),
            finished: count(&self.shared.finished),
            tokens: count(&self.shared.tokens),
            steps: count(&self.shared.steps),
        }
    }

    /// Puts a request into the queue. It is checked and its prompt encoded first, on the caller's thread.
    pub fn submit(&self, request: &GenerateRequest) -> Result<RunningCompletion> {
        let (prompt, max_tokens) = self.prepare(request)?;
        let (events, receiver) = mpsc::unbounded_channel();
        let eos = if request.ignore_eos { Vec::new() } else { self.model.config().eos.clone() };
        let job = Job {
            prompt,
            max_tokens,
            eos,
            temperature: request.temperature,
            top_p: request.top_p,
            seed: request.seed,
            tuning: request.tuning.clone(),
            stop: request.stop.clone(),
            guide: request.form.as_ref().map(|form| self.guide(form)).transpose()?,
            events,
            submitted: Instant::now(),
        };
        let Some(jobs) = &self.jobs else { return Err(Error::Stopped) };
        let most = self.options.max_waiting;
        let one_more = |waiting: usize| (waiting < most).then_some(waiting + 1);
        let counted = self.shared.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.map_err(|waiting| Error::Full { waiting })?;
        jobs.send(job).map_err(|_| Error::Stopped)?;
        Ok(RunningCompletion::new(receiver))
    }

    fn guide(&self, form: &AnswerForm) -> Result<Guide> {
        let tokens = self.model.tokenizer().token_bytes();
        let unknown =
            "the model's tokenizer does not say which bytes its tokens are: answers cannot be held to a form";
        form.guide(tokens.ok_or_else(|| Error::Request(unknown.to_owned()))?)
    }

    /// How long a request would take if it came now and nothing ended its answer early: from the measured pace of reading
    /// and writing, what is running, and what waits.
    pub fn estimate(&self, request: &GenerateRequest) -> Result<TimeEstimate> {
        let (prompt, new) = self.prepare(request)?;
        let load = self.load();
        Ok(self.shared.rates.estimate(prompt.len(), new, load.running, load.waiting))
    }

    /// The prompt's tokens, and how many may follow.
    fn prepare(&self, request: &GenerateRequest) -> Result<(Vec<u32>, usize)> {
        request.check()?;
        let config = self.model.config();
        let mut prompt = match &request.prompt {
            Prompt::Text(text) => self.model.tokenizer().encode(text, true)?,
            Prompt::Chat(said) => {
                let chat = self.model.chat();
                self.model.tokenizer().encode(&chat.prompt(said)?, chat.needs_special_tokens())?
            }
            Prompt::Tokens(tokens) => tokens.clone(),
        };
        if let Some(token) = prompt.iter().find(|&&token| token as usize >= config.vocab_size) {
            return Err(Error::Request(format!("the model has no token {token}")));
        }
        let biased = request.tuning.logit_bias.iter().map(|&(token, _)| token);
        if let Some(token) = biased.into_iter().find(|&token| token as usize >= config.vocab_size) {
            return Err(Error::Request(format!("logit_bias: the model has no token {token}")));
        }
        if prompt.is_empty() {
            prompt.extend(config.bos);
        }
        let most = self.options.max_context;
        match prompt.len() {
            0 => Err(Error::Request(
                "the prompt is empty, and the model has no token to begin with".to_string(),
            )),
            count if count >= most || (request.exact && request.max_tokens > most - count) => {
                let answer = if request.exact { request.max_tokens } else { 1 };
                Err(Error::TooLong { context: most, prompt: count, answer })
            }
            count => Ok((prompt, request.max_tokens.min(most - count))),
        }
    }
}

impl Drop for InferenceEngine {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // The thread lets no panic out; were there one, those who wait have seen their channel close.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn new(max_batch: usize) -> Shared {
        Shared {
            stop: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            tokens: AtomicUsize::new(0),
            steps: AtomicUsize::new(0),
            rates: Rates::new(max_batch),
        }
    }
}

impl Decoder for LanguageModel {
    type Sequence = crate::decoder::Sequence;

    fn begin(&self) -> Self::Sequence {
        self.sequence()
    }

    fn read(&self, sequence: &mut Self::Sequence, tokens: &[u32], scores: bool) -> Result<Option<Vec<f32>>> {
        LanguageModel::read(self, sequence, tokens, scores)
    }

    fn step(&self, rows: &mut [(&mut Self::Sequence, u32)]) -> Result<Vec<Vec<f32>>> {
        LanguageModel::step(self, rows)
    }
}
