//! Measures a server through the adapters and the clock of a run: loads, unloads, and concurrent calls.

use crate::backend::{Backend, BackendError, Replica};
use crate::call::Call;
use crate::clock::Clock;
use gswarm_core::Span;
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::task::JoinSet;

/// A model on a server that is measured.
#[derive(Clone)]
pub struct Probe {
    /// The server.
    pub backend: Arc<dyn Backend>,
    /// The model and its GPUs.
    pub replica: Replica,
    /// The clock of the measurement.
    pub clock: Clock,
    /// The kind of the model, which says how it is called.
    pub kind: Option<String>,
    /// What is expected of a load: how long an emulated one takes.
    pub expected_load: Span,
}

/// A call that is to be made.
#[derive(Clone, Debug)]
pub struct ProbeQuestion {
    /// What the model reads.
    pub prompt: String,
    /// The settings of the call.
    pub settings: Map<String, Value>,
    /// What is expected of it: how long an emulated one takes.
    pub estimate: Span,
}

/// What an answer says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProbeAnswer {
    /// What the call took, in seconds.
    pub seconds: f64,
    /// Tokens of the prompt, where the server counts them.
    pub read: Option<u64>,
    /// Tokens that were written, where the server counts them.
    pub written: Option<u64>,
    /// Characters that the answer has in the prompt of whoever reads it.
    pub characters: u64,
}

/// A call among others that came and went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passage {
    /// When it was made, in seconds from the first.
    pub begun: f64,
    /// When it had its answer.
    pub ended: f64,
    /// What it said; its seconds are those of this call alone.
    pub answer: ProbeAnswer,
}

impl Probe {
    /// Loads the model; the seconds that it took.
    pub async fn load(&self) -> Result<f64, BackendError> {
        let since = self.clock.now();
        self.backend.load(self.replica, self.expected_load).await?;
        Ok((self.clock.now() - since).seconds())
    }

    /// Takes it off; the seconds that it took.
    pub async fn unload(&self) -> Result<f64, BackendError> {
        let since = self.clock.now();
        self.backend.unload(self.replica).await?;
        Ok((self.clock.now() - since).seconds())
    }

    /// Makes all calls at once: the seconds until the last has its answer, and the answers. Where one goes wrong, the others
    /// are given up.
    pub async fn ask(&self, questions: &[ProbeQuestion]) -> Result<(f64, Vec<ProbeAnswer>), BackendError> {
        let since = self.clock.now();
        let mut calls = JoinSet::new();
        for (number, question) in questions.iter().enumerate() {
            let (probe, call) = (self.clone(), self.call(number, question));
            calls.spawn(async move {
                let result = probe.backend.call(probe.replica, &call).await;
                let seconds = (probe.clock.now() - since).seconds();
                result.map(|value| ProbeAnswer { seconds, ..ProbeAnswer::of(&value) })
            });
        }
        let mut answers = Vec::with_capacity(questions.len());
        while let Some(ended) = calls.join_next().await {
            let ended = ended.map_err(|error| BackendError::Failed(format!("a call was lost: {error}")))?;
            answers.push(ended?);
        }
        let last = answers.iter().map(|answer| answer.seconds).fold(0.0, f64::max);
        Ok((last, answers))
    }

    /// Keeps so many calls under way until all have been made: one begins when another has its answer. They are given in the
    /// order of the questions.
    pub async fn flow(
        &self,
        questions: &[ProbeQuestion],
        at_once: usize,
    ) -> Result<Vec<Passage>, BackendError> {
        let first = self.clock.now();
        let mut waiting = questions.iter().enumerate();
        let mut calls = JoinSet::new();
        let mut passages = vec![None; questions.len()];
        loop {
            for (number, question) in waiting.by_ref().take(at_once.max(1) - calls.len()) {
                let (probe, call) = (self.clone(), self.call(number, question));
                calls.spawn(async move {
                    let begun = probe.clock.now();
                    let value = probe.backend.call(probe.replica, &call).await?;
                    let ended = probe.clock.now();
                    let answer =
                        ProbeAnswer { seconds: (ended - begun).seconds(), ..ProbeAnswer::of(&value) };
                    let [begun, ended] = [begun, ended].map(|at| (at - first).seconds());
                    Ok::<_, BackendError>((number, Passage { begun, ended, answer }))
                });
            }
            let Some(ended) = calls.join_next().await else { break };
            let ended = ended.map_err(|error| BackendError::Failed(format!("a call was lost: {error}")))?;
            let (number, passage) = ended?;
            passages[number] = Some(passage);
        }
        Ok(passages.into_iter().flatten().collect())
    }

    fn call(&self, number: usize, question: &ProbeQuestion) -> Call {
        Call {
            name: format!("calibration/{number}"),
            inputs: Map::from_iter([("prompt".to_owned(), Value::from(question.prompt.clone()))]),
            config: question.settings.clone(),
            kind: self.kind.clone(),
            estimate: question.estimate,
        }
    }
}

impl ProbeAnswer {
    fn of(value: &Value) -> ProbeAnswer {
        let usage = |name: &str| value.get("usage")?.get(name)?.as_u64();
        let written = usage("completion_tokens");
        let characters = match value.get("text") {
            Some(Value::String(text)) => text.chars().count(),
            _ => value.to_string().chars().count(),
        };
        ProbeAnswer { seconds: 0.0, read: usage("prompt_tokens"), written, characters: characters as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::EmulatedBackend;
    use gswarm_core::{Gpus, ModelId};

    /// A load of 30 s, calls of 2 s, and a curve: under the virtual clock all come out as they are.
    #[tokio::test(start_paused = true)]
    async fn an_emulated_server_takes_what_it_is_told_to() {
        let clock = Clock::virtual_clock();
        let slowdown = vec![vec![1_000_000, 1_100_000, 1_500_000]];
        let probe = Probe {
            backend: Arc::new(EmulatedBackend::new(clock.clone(), slowdown)),
            replica: Replica { model: ModelId(0), gpus: Gpus::new(0, 1) },
            clock: clock.clone(),
            kind: None,
            expected_load: Span(30_000_000),
        };
        let question =
            ProbeQuestion { prompt: "a b".to_owned(), settings: Map::new(), estimate: Span(2_000_000) };
        let measured = async {
            let load = probe.load().await.unwrap();
            let (alone, _) = probe.ask(std::slice::from_ref(&question)).await.unwrap();
            let (three, answers) = probe.ask(&[question.clone(), question.clone(), question]).await.unwrap();
            (load, alone, three, answers.len(), probe.unload().await.unwrap())
        };
        let (load, alone, three, answers, unload) = clock.run(measured).await;
        assert_eq!((load, alone, three, answers, unload), (30.0, 2.0, 3.0, 3, 0.0));
    }
}
