//! The batching loop. Nothing that happens to a request ends it.

use super::row::{Job, Row};
use super::{EngineOptions, Shared};
use crate::error::{Error, Result};
use crate::rates::Rates;
use crate::request::FinishReason;
use crate::text::tokenizer::TextTokenizer;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedReceiver;

/// What the loop needs of a model; in tests also one that fails on purpose.
pub(super) trait Decoder: Send + 'static {
    /// What it remembers of a text. After an error it is as before the call.
    type Sequence: Send;
    /// The beginning of a text.
    fn begin(&self) -> Self::Sequence;
    /// Reads a piece of a text.
    fn read(&self, sequence: &mut Self::Sequence, tokens: &[u32], scores: bool) -> Result<Option<Vec<f32>>>;
    /// Adds a token to each of several texts.
    fn step(&self, rows: &mut [(&mut Self::Sequence, u32)]) -> Result<Vec<Vec<f32>>>;
}

/// The loop of one instance.
pub(super) struct Worker<D: Decoder> {
    model: D,
    tokenizer: Arc<TextTokenizer>,
    options: EngineOptions,
    shared: Arc<Shared>,
    /// In the order in which they joined.
    rows: Vec<Row<D::Sequence>>,
    /// In the order in which they came.
    waiting: VecDeque<Job>,
}

impl<D: Decoder> Worker<D> {
    pub(super) fn new(
        model: D,
        tokenizer: Arc<TextTokenizer>,
        options: EngineOptions,
        shared: Arc<Shared>,
    ) -> Worker<D> {
        Worker { model, tokenizer, options, shared, rows: Vec::new(), waiting: VecDeque::new() }
    }

    /// Until it is stopped, or nobody can send requests any more and all are answered.
    pub(super) fn run(mut self, mut jobs: UnboundedReceiver<Job>) {
        while !self.stopped() && self.admit(&mut jobs) {
            self.read_chunk();
            self.step();
            self.shared.running.store(self.rows.len(), Ordering::Relaxed);
        }
        jobs.close();
        self.rows.drain(..).for_each(|row| row.fail(Error::Stopped));
        while let Ok(job) = jobs.try_recv() {
            self.waiting.push_back(job);
        }
        self.waiting.drain(..).for_each(|job| job.fail(Error::Stopped));
        self.shared.running.store(0, Ordering::Relaxed);
        self.shared.waiting.store(0, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Lets go of those that nobody waits for, and takes in others while there are places. Where there is nothing to do
    /// it waits; `false` when nothing more can come.
    fn admit(&mut self, jobs: &mut UnboundedReceiver<Job>) -> bool {
        self.rows.retain(|row| !row.abandoned());
        loop {
            while let Ok(job) = jobs.try_recv() {
                self.waiting.push_back(job);
            }
            let before = self.waiting.len();
            self.waiting.retain(|job| !job.abandoned());
            let mut gone = before - self.waiting.len();
            while self.rows.len() < self.options.max_batch {
                let Some(job) = self.waiting.pop_front() else { break };
                self.rows.push(Row::new(job, self.model.begin()));
                gone += 1;
            }
            // A request is counted as running before it no longer counts as waiting: it is never nowhere.
            self.shared.running.store(self.rows.len(), Ordering::Relaxed);
            self.shared.waiting.fetch_sub(gone, Ordering::Relaxed);
            if !self.rows.is_empty() {
                return true;
            }
            match jobs.blocking_recv() {
                Some(job) => self.waiting.push_back(job),
                None => return false,
            }
        }
    }

    /// Reads the next chunk of the prompt that has waited longest.
    fn read_chunk(&mut self) {
        let Some(at) = self.rows.iter().position(|row| !row.is_writing()) else { return };
        let row = &mut self.rows[at];
        let (sequence, tokens, last) = row.chunk(self.options.prefill_chunk);
        let (start, count) = (Instant::now(), tokens.len());
        let scores = attempt(|| self.model.read(sequence, tokens, last));
        self.shared.rates.was_read(count, start.elapsed().as_secs_f64());
        row.was_read(count);
        match scores {
            Ok(None) => {}
            Ok(Some(scores)) => {
                let outcome = accept(row, &scores, &self.tokenizer);
                self.settle(vec![(at, outcome)]);
            }
            Err(error) => self.rows.remove(at).fail(error),
        }
    }

    /// One token for each that is writing.
    fn step(&mut self) {
        let writing: Vec<usize> = (0..self.rows.len()).filter(|&at| self.rows[at].is_writing()).collect();
        if writing.is_empty() {
            return;
        }
        let start = Instant::now();
        let mut inputs: Vec<(&mut D::Sequence, u32)> =
            self.rows.iter_mut().filter(|row| row.is_writing()).map(Row::next).collect();
        let scores: Vec<Result<Vec<f32>>> = match attempt(|| self.model.step(&mut inputs)) {
            Ok(scores) => {
                self.shared.rates.stepped(writing.len(), start.elapsed().as_secs_f64());
                scores.into_iter().map(Ok).collect()
            }
            // One of them is at fault: each goes alone, so that the others do not suffer for it.
            Err(error) if inputs.len() == 1 => vec![Err(error)],
            Err(_) => {
                inputs.iter_mut().map(|(sequence, token)| alone(&self.model, sequence, *token)).collect()
            }
        };
        self.shared.steps.fetch_add(1, Ordering::Relaxed);
        let outcomes = writing.into_iter().zip(scores).map(|(at, scores)| {
            let outcome = scores.and_then(|scores| accept(&mut self.rows[at], &scores, &self.tokenizer));
            (at, outcome)
        });
        let outcomes = outcomes.collect();
        self.settle(outcomes);
    }

    /// Those that are complete, or failed, leave. Later places first, so that the earlier stay where they are.
    fn settle(&mut self, outcomes: Vec<(usize, Result<Option<FinishReason>>)>) {
        for (at, outcome) in outcomes.into_iter().rev() {
            if outcome.is_ok() {
                self.shared.tokens.fetch_add(1, Ordering::Relaxed);
            }
            match outcome {
                Ok(None) => {}
                Ok(Some(reason)) => {
                    let row = self.rows.remove(at);
                    self.shared.finished.fetch_add(1, Ordering::Relaxed);
                    self.shared.rates.finished(row.finish(reason).as_secs_f64());
                }
                Err(error) => self.rows.remove(at).fail(error),
            }
        }
    }
}

/// A step of one text.
fn alone<D: Decoder>(model: &D, sequence: &mut D::Sequence, token: u32) -> Result<Vec<f32>> {
    let mut scores = attempt(|| model.step(&mut [(sequence, token)]))?;
    scores.pop().ok_or_else(|| Error::Compute("the model gave no scores".to_string()))
}

/// Choosing a token and finding its text, with panics caught too: tokenizers come from files of others.
fn accept<S>(row: &mut Row<S>, scores: &[f32], tokenizer: &TextTokenizer) -> Result<Option<FinishReason>> {
    attempt(|| row.accept(scores, tokenizer))
}

/// A panic in a library below is an error like any other.
fn attempt<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Error::Compute(format!("it panicked: {}", text.unwrap_or_default())))
    })
}

/// Reads and writes some tokens to know the pace before the first request. The first pass of all is slower than those
/// that follow; it does not count.
pub(super) fn measure<D: Decoder>(model: &D, options: &EngineOptions, rates: &Rates) -> Result<()> {
    let tokens = vec![0; options.prefill_chunk.min(32).min(options.max_context / 2).max(1)];
    attempt(|| model.read(&mut model.begin(), &tokens, true))?;
    let start = Instant::now();
    model.read(&mut model.begin(), &tokens, true)?;
    rates.was_read(tokens.len(), start.elapsed().as_secs_f64());
    for rows in [1, options.max_batch] {
        let mut sequences: Vec<D::Sequence> = (0..rows).map(|_| model.begin()).collect();
        let start = Instant::now();
        model.step(&mut sequences.iter_mut().map(|sequence| (sequence, 0)).collect::<Vec<_>>())?;
        rates.stepped(rows, start.elapsed().as_secs_f64());
    }
    Ok(())
}
