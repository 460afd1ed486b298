//! The loop with a model that fails on purpose.

use super::row::Job;
use super::worker::{Decoder, Worker};
use super::{EngineOptions, Shared};
use crate::config::ModelKind;
use crate::error::{Error, Result};
use crate::init::{ModelSize, model_files};
use crate::request::{FinishReason, GenerationEvent, RunningCompletion};
use crate::text::tokenizer::TextTokenizer;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::mpsc;

const VOCABULARY: usize = 256;

/// Counts upwards from the prompt's last token; `ERROR` and `PANIC` are what it cannot read.
struct Counting {
    /// Rows of every step.
    steps: Arc<Mutex<Vec<usize>>>,
}

const ERROR: u32 = 200;
const PANIC: u32 = 220;

fn after(token: u32) -> Result<Vec<f32>> {
    match token {
        ERROR => Err(Error::Compute("on purpose".to_string())),
        PANIC => panic!("on purpose"),
        _ => Ok((0..VOCABULARY as u32).map(|next| f32::from(u8::from(next == token + 1))).collect()),
    }
}

impl Decoder for Counting {
    type Sequence = usize;

    fn begin(&self) -> usize {
        0
    }

    fn read(&self, sequence: &mut usize, tokens: &[u32], scores: bool) -> Result<Option<Vec<f32>>> {
        *sequence += tokens.len();
        scores.then(|| after(tokens[tokens.len() - 1])).transpose()
    }

    fn step(&self, rows: &mut [(&mut usize, u32)]) -> Result<Vec<Vec<f32>>> {
        self.steps.lock().unwrap().push(rows.len());
        let scores = rows.iter().map(|(_, token)| after(*token)).collect::<Result<Vec<_>>>()?;
        rows.iter_mut().for_each(|(sequence, _)| **sequence += 1);
        Ok(scores)
    }
}

fn tokenizer() -> Arc<TextTokenizer> {
    let folder = tempfile::tempdir().unwrap();
    let files = model_files(ModelKind::Language, ModelSize::Tiny, 0).unwrap();
    let (_, bytes) = files.iter().find(|(name, _)| *name == "tokenizer.json").unwrap();
    let path = folder.path().join("tokenizer.json");
    std::fs::write(&path, bytes).unwrap();
    Arc::new(TextTokenizer::read(&path, 1 << 20).unwrap())
}

fn job(first: u32, max_tokens: usize) -> (Job, RunningCompletion) {
    let (events, receiver) = mpsc::unbounded_channel();
    let job = Job {
        prompt: vec![9, 9, first],
        max_tokens,
        eos: vec![255],
        temperature: 0.0,
        top_p: 1.0,
        seed: 0,
        tuning: crate::request::SamplingTuning::default(),
        stop: Vec::new(),
        guide: None,
        events,
        submitted: Instant::now(),
    };
    (job, RunningCompletion::new(receiver))
}

/// Runs the loop until all these jobs are answered; gives the rows of every step, and what the loop counted.
fn run(jobs: Vec<Job>, max_batch: usize) -> (Vec<usize>, Arc<Shared>) {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::new(Shared::new(max_batch));
    let options = EngineOptions { max_batch, prefill_chunk: 2, ..EngineOptions::default() };
    let (sender, receiver) = mpsc::unbounded_channel();
    shared.waiting.store(jobs.len(), Ordering::Relaxed);
    jobs.into_iter().for_each(|job| sender.send(job).ok().unwrap());
    drop(sender);
    Worker::new(Counting { steps: steps.clone() }, tokenizer(), options, shared.clone()).run(receiver);
    assert_eq!(shared.waiting.load(Ordering::Relaxed), 0);
    (steps.lock().unwrap().clone(), shared)
}

fn ids(mut completion: RunningCompletion) -> (Vec<u32>, Option<GenerationEvent>) {
    let mut ids = Vec::new();
    loop {
        match completion.next_blocking() {
            Some(GenerationEvent::Token { id, .. }) => ids.push(id),
            last => return (ids, last),
        }
    }
}

#[test]
fn rows_join_and_leave_between_steps() {
    let (jobs, answers): (Vec<_>, Vec<_>) =
        [(10, 6), (20, 2), (30, 4)].map(|(a, b)| job(a, b)).into_iter().unzip();
    let (steps, shared) = run(jobs, 2);
    for ((first, count), answer) in [(10, 6), (20, 2), (30, 4)].into_iter().zip(answers) {
        let (ids, last) = ids(answer);
        assert_eq!(ids, (first + 1..).take(count).collect::<Vec<u32>>());
        assert!(matches!(last, Some(GenerationEvent::Done(done)) if done.reason == FinishReason::Length));
    }
    assert!(steps.iter().all(|&rows| rows <= 2) && steps.contains(&2), "{steps:?}");
    assert_eq!(shared.finished.load(Ordering::Relaxed), 3);
    assert_eq!(shared.tokens.load(Ordering::Relaxed), 12);
}

#[test]
fn a_request_that_fails_fails_alone() {
    for poison in [ERROR, PANIC] {
        let (jobs, answers): (Vec<_>, Vec<_>) =
            [(10, 8), (poison - 3, 8), (poison, 8), (30, 8)].map(|(a, b)| job(a, b)).into_iter().unzip();
        run(jobs, 4);
        let mut answers = answers.into_iter().map(ids);
        assert_eq!(answers.next().unwrap().0.len(), 8);
        let (written, last) = answers.next().unwrap();
        // It fails in the step in which it would have to read the token that nobody can read.
        assert_eq!(written, [poison - 2, poison - 1, poison]);
        assert!(
            matches!(&last, Some(GenerationEvent::Failed(Error::Compute(reason))) if reason.contains("on purpose"))
        );
        let (written, last) = answers.next().unwrap();
        assert!(written.is_empty() && matches!(last, Some(GenerationEvent::Failed(_))));
        assert_eq!(answers.next().unwrap().0.len(), 8);
    }
}

#[test]
fn what_nobody_waits_for_is_not_computed() {
    let (left, answer) = job(10, 5);
    let (dropped, gone) = job(20, 1000);
    drop(gone);
    let (steps, shared) = run(vec![dropped, left], 4);
    assert_eq!(ids(answer).0.len(), 5);
    assert!(steps.iter().all(|&rows| rows == 1), "{steps:?}");
    assert_eq!(shared.tokens.load(Ordering::Relaxed), 5);
}

#[test]
fn the_end_of_a_text_ends_the_answer() {
    let (job, answer) = job(252, 100);
    run(vec![job], 1);
    let (ids, last) = ids(answer);
    assert_eq!(ids, [253, 254, 255]);
    assert!(
        matches!(last, Some(GenerationEvent::Done(done)) if done.reason == FinishReason::EndOfText && done.new_tokens == 3)
    );
}
