//! The file that says which servers there are, of which kind, with which GPUs and models.

mod read;

pub use read::{BackendsReading, gpu_range, read_backends, read_backends_for};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The servers of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackendsFile {
    /// In order of preference, where several could serve.
    pub backends: Vec<BackendSpec>,
}

/// One server, or several that are one to the scheduler because they share GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendSpec {
    /// What people call it; its kind where none is given.
    pub name: Option<String>,
    /// What sort of server it is.
    pub kind: BackendKind,
    /// Its GPUs, as the cluster numbers them: `3`, or `0-7`; all of them where none are given.
    pub gpus: Option<String>,
    /// The models that it serves, by their names in the configuration; all of them, under their own names, where none
    /// are given.
    pub models: BTreeMap<String, ModelAt>,
    /// Of `emulated`: how many times as fast as the clock on the wall.
    pub speed: Option<f64>,
    /// Where it listens.
    pub url: Option<String>,
    /// The environment variable that holds its token. The token itself is never written anywhere.
    pub token_env: Option<String>,
    /// How long it may take to answer.
    pub timeouts: Timeouts,
    /// How text models are called.
    pub calls: Calls,
    /// Of `vllm` and `sglang`: 1 where weights wait in host memory, 2 where they are read from disk again.
    pub level: Option<u32>,
    /// Of `gswarm`: `cuda`, `cpu` or `auto`.
    pub device: Device,
    /// Of `gswarm` and `command`: the number that the server gives to the first of its GPUs.
    pub first_device: Option<u32>,
    /// Of `kserve`: the input that takes the text, where the model does not say.
    pub input: Option<String>,
    /// Of `command`: the program and its arguments.
    pub command: Vec<String>,
    /// Of `command`: what answers once the model can be called.
    pub health: Option<String>,
    /// Of `command`: what is added to the environment.
    pub env: BTreeMap<String, String>,
    /// Of `command`: seconds between the request to end and the end by force.
    pub grace: Option<f64>,
}

/// A model as a server knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelAt {
    /// Its name there; the same as in the configuration where none is given.
    pub name: Option<String>,
    /// Where it listens, if it has a server of its own.
    pub url: Option<String>,
}

/// Limits in seconds; the driver of a run has limits of its own beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeouts {
    /// Until a connection stands.
    pub connect: Option<f64>,
    /// Until a question about the server's state is answered; a server that takes longer counts as gone.
    pub answer: Option<f64>,
    /// Until a model can be called.
    pub load: Option<f64>,
    /// Until a model is seen to be gone.
    pub unload: Option<f64>,
}

/// How text models are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Calls {
    /// As a conversation, with the model's template.
    #[default]
    Chat,
    /// As a text to go on with, for models that have no template.
    Completions,
}

/// Where gswarm's own model server puts instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// On the GPUs that the scheduler chose.
    #[default]
    Cuda,
    /// On the processor.
    Cpu,
    /// Wherever the server likes.
    Auto,
}

/// The sorts of servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// Takes its time, and nothing else.
    #[default]
    Emulated,
    /// gswarm's own model server.
    Gswarm,
    /// Any server with OpenAI's interface; its models are always there.
    OpenAi,
    /// vLLM, with sleep and wake.
    Vllm,
    /// SGLang, with release and resume.
    Sglang,
    /// Ollama.
    Ollama,
    /// The router of llama.cpp.
    LlamaCpp,
    /// Triton, MLServer, and others with the KServe V2 interface.
    KServe,
    /// A process for each model.
    Command,
}

impl BackendKind {
    /// Every kind, by the name that files give it.
    pub const ALL: [(&'static str, BackendKind); 9] = [
        ("emulated", BackendKind::Emulated),
        ("gswarm", BackendKind::Gswarm),
        ("openai", BackendKind::OpenAi),
        ("vllm", BackendKind::Vllm),
        ("sglang", BackendKind::Sglang),
        ("ollama", BackendKind::Ollama),
        ("llamacpp", BackendKind::LlamaCpp),
        ("kserve", BackendKind::KServe),
        ("command", BackendKind::Command),
    ];

    /// As files spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        BackendKind::ALL.iter().find(|&&(_, kind)| kind == self).map_or("", |&(name, _)| name)
    }

    /// Whether one process holds one model, so that each model has an address of its own.
    #[must_use]
    pub fn holds_one_model(self) -> bool {
        matches!(self, BackendKind::Vllm | BackendKind::Sglang)
    }
}

impl BackendSpec {
    /// A server of a kind, of which nothing else is known.
    #[must_use]
    pub fn of(kind: BackendKind) -> BackendSpec {
        BackendSpec { kind, ..BackendSpec::default() }
    }

    /// What messages call it.
    #[must_use]
    pub fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.kind.name().to_owned())
    }
}
