//! One request in the batch.

use crate::error::{Error, Result};
use crate::form::Guide;
use crate::request::{FinishReason, FinishedGeneration, GenerationEvent, SamplingTuning, TokenChance};
use crate::sample::Sampler;
use crate::text::pieces::Pieces;
use crate::text::stop::StopStrings;
use crate::text::tokenizer::TextTokenizer;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// A request on its way into the batch.
pub(super) struct Job {
    pub(super) prompt: Vec<u32>,
    pub(super) max_tokens: usize,
    pub(super) eos: Vec<u32>,
    pub(super) temperature: f64,
    pub(super) top_p: f64,
    pub(super) seed: u64,
    pub(super) tuning: SamplingTuning,
    pub(super) stop: Vec<String>,
    pub(super) guide: Option<Guide>,
    pub(super) events: UnboundedSender<GenerationEvent>,
    pub(super) submitted: Instant,
}

impl Job {
    /// Whether nobody waits for the answer any more.
    pub(super) fn abandoned(&self) -> bool {
        self.events.is_closed()
    }

    /// Tells that there will be no answer.
    pub(super) fn fail(self, error: Error) {
        // Nobody may be listening any more.
        let _ = self.events.send(GenerationEvent::Failed(error));
    }
}

/// A request in the batch, with what the model remembers of it.
pub(super) struct Row<S> {
    pub(super) sequence: S,
    job: Job,
    /// Tokens of the prompt that were read.
    read: usize,
    /// The token that the next step adds.
    last: u32,
    sampler: Sampler,
    pieces: Pieces,
    stop: StopStrings,
    text: String,
    joined: Instant,
    first: Option<Instant>,
}

impl<S> Row<S> {
    pub(super) fn new(mut job: Job, sequence: S) -> Row<S> {
        let guide = job.guide.take();
        Row {
            sequence,
            read: 0,
            last: 0,
            sampler: Sampler::new(job.temperature, job.top_p, job.seed)
                .tuned(job.tuning.clone(), &job.prompt, &job.eos)
                .guided(guide),
            pieces: Pieces::default(),
            stop: StopStrings::new(&job.stop),
            text: String::new(),
            joined: Instant::now(),
            first: None,
            job,
        }
    }

    pub(super) fn abandoned(&self) -> bool {
        self.job.abandoned()
    }

    pub(super) fn fail(self, error: Error) {
        self.job.fail(error);
    }

    /// Whether all of the prompt was read.
    pub(super) fn is_writing(&self) -> bool {
        self.read == self.job.prompt.len()
    }

    /// The next piece of the prompt, whether it is the last, and where to remember it.
    pub(super) fn chunk(&mut self, most: usize) -> (&mut S, &[u32], bool) {
        let end = self.job.prompt.len().min(self.read + most);
        (&mut self.sequence, &self.job.prompt[self.read..end], end == self.job.prompt.len())
    }

    /// The piece was read.
    pub(super) fn was_read(&mut self, tokens: usize) {
        self.read += tokens;
    }

    /// What the next step needs.
    pub(super) fn next(&mut self) -> (&mut S, u32) {
        (&mut self.sequence, self.last)
    }

    /// Chooses a token by the model's scores and sends it; gives why the answer ended, if it did.
    pub(super) fn accept(
        &mut self,
        scores: &[f32],
        tokenizer: &TextTokenizer,
    ) -> Result<Option<FinishReason>> {
        let token = self.sampler.next(scores)?;
        let chance =
            self.job.tuning.logprobs.map(|most| chance(token, scores, most, tokenizer)).transpose()?;
        self.first.get_or_insert_with(Instant::now);
        self.last = token;
        let piece = self.pieces.push(token, tokenizer)?;
        let (mut text, hit) = self.stop.push(&piece);
        let mut reason = hit.map(FinishReason::Stop);
        if reason.is_none() {
            if self.job.eos.contains(&token) || self.sampler.is_over()? {
                reason = Some(FinishReason::EndOfText);
            } else if self.pieces.count() >= self.job.max_tokens {
                reason = Some(FinishReason::Length);
            }
            if reason.is_some() {
                let (rest, hit) = self.stop.push(&self.pieces.finish(tokenizer)?);
                text += &rest;
                match hit {
                    Some(string) => reason = Some(FinishReason::Stop(string)),
                    None => text += &self.stop.finish(),
                }
            }
        }
        self.text += &text;
        // That nobody listens is seen before the next step.
        let _ = self.job.events.send(GenerationEvent::Token { id: token, text, chance });
        Ok(reason)
    }

    /// Sends the whole answer, and says how long the request was in the batch.
    pub(super) fn finish(self, reason: FinishReason) -> Duration {
        let now = Instant::now();
        let first = self.first.unwrap_or(now);
        let finished = FinishedGeneration {
            text: self.text,
            reason,
            prompt_tokens: self.job.prompt.len(),
            new_tokens: self.pieces.count(),
            waited: self.joined - self.job.submitted,
            prefill: first - self.joined,
            decode: now - first,
        };
        let _ = self.job.events.send(GenerationEvent::Done(finished));
        now - self.joined
    }
}

/// How likely a token was, and which were the likeliest.
fn chance(token: u32, scores: &[f32], most: usize, tokenizer: &TextTokenizer) -> Result<TokenChance> {
    let (logprob, top) = crate::sample::logprobs(scores, token, most);
    let named = |(token, logprob): (u32, f32)| Ok((tokenizer.decode(&[token])?, logprob));
    let top = top.into_iter().map(named).collect::<Result<_>>()?;
    Ok(TokenChance { text: tokenizer.decode(&[token])?, logprob, top })
}
