//! The client of a service, usable from any number of tasks.

use super::events::EventSender;
use super::ledger::{Records, StorageTrouble};
use super::status::ServiceView;
use crate::backend::CallAbilities;
use crate::forward::{Answering, Forward};
use gswarm_core::input::{ModelSpec, RequestSpec, Scenario};
use gswarm_core::{Instance, ModelId, Span};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// A direct call that was taken on.
pub struct Ticket {
    /// For [hanging up](Client::hang_up).
    pub number: u64,
    /// Where the answer comes.
    pub answering: Answering,
}

/// A request that was accepted: it is in the ledger, and will be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// What it is called.
    pub id: String,
    /// When, in microseconds since 1970.
    pub accepted: i64,
}

/// Why a request was not taken on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too many are open.
    #[error("{open} requests are open, which is the maximum; try again later")]
    Full {
        /// How many are.
        open: usize,
    },
    /// The service is about to end.
    #[error("the service is stopping")]
    Stopping,
    /// There is another request of this name.
    #[error("another request has this name")]
    Taken,
    /// This caller has as many open as there is room for, beside what others may need.
    #[error(
        "{mine} requests of this caller are open, and the remaining places are for others; try again later"
    )]
    Share {
        /// How many.
        mine: usize,
    },
    /// The ledger cannot be written: nothing can be promised.
    #[error("{0}")]
    Storage(StorageTrouble),
}

/// A question that the service answers between two steps.
pub(super) type Question = Box<dyn FnOnce(&ServiceView<'_>) + Send>;

pub(super) enum Command {
    Direct {
        model: ModelId,
        forward: Forward,
        priority: i32,
        caller: Arc<str>,
        reply: oneshot::Sender<Result<Ticket, Refusal>>,
    },
    Submit {
        spec: Arc<RequestSpec>,
        body: String,
        caller: Arc<str>,
        reply: oneshot::Sender<Result<Accepted, Refusal>>,
    },
    Hangup {
        ticket: u64,
    },
    Cancel {
        id: String,
        reply: oneshot::Sender<bool>,
    },
    Wait {
        id: String,
        reply: oneshot::Sender<()>,
    },
    Unload {
        models: Vec<ModelId>,
        reply: oneshot::Sender<Vec<ModelId>>,
    },
    Ask(Question),
    Stop,
}

/// A line to a service.
#[derive(Clone)]
pub struct Client {
    /// The configuration, with a workflow of one node for each model behind its own workflows.
    pub scenario: Arc<Scenario>,
    /// The ledger, to be read.
    pub records: Records,
    /// What happens.
    pub told: EventSender,
    /// The problem without its requests.
    pub instance: Arc<Instance>,
    /// What the servers can do with each model.
    abilities: Arc<[CallAbilities]>,
    /// Further names of models.
    aliases: Arc<BTreeMap<String, String>>,
    /// On whose behalf requests are brought: each has a fair share.
    caller: Arc<str>,
    sender: mpsc::UnboundedSender<Command>,
}

impl Client {
    pub(super) fn new(
        scenario: Arc<Scenario>,
        instance: Instance,
        abilities: Arc<[CallAbilities]>,
        sender: mpsc::UnboundedSender<Command>,
        told: EventSender,
        records: Records,
    ) -> Client {
        Client {
            scenario,
            records,
            told,
            instance: Arc::new(instance),
            abilities,
            aliases: Arc::default(),
            caller: "".into(),
            sender,
        }
    }

    /// The same line, on behalf of somebody.
    #[must_use]
    pub fn on_behalf_of(&self, caller: &str) -> Client {
        Client { caller: caller.into(), ..self.clone() }
    }

    /// The same line, with further names of models.
    #[must_use]
    pub fn with_aliases(self, aliases: BTreeMap<String, String>) -> Client {
        Client { aliases: Arc::new(aliases), ..self }
    }

    /// The configuration's own workflows.
    #[must_use]
    pub fn workflows(&self) -> &[gswarm_core::input::WorkflowSpec] {
        &self.scenario.workflows[..self.scenario.workflows.len() - self.scenario.models.len()]
    }

    /// A model by its key in the configuration, or by another of its names.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<ModelId> {
        let of = |name: &str| self.scenario.models.iter().position(|model| model.id == name);
        let found = of(name).or_else(|| of(self.aliases.get(name)?));
        found.map(ModelId::from)
    }

    /// What the servers can do with a model.
    #[must_use]
    pub fn abilities(&self, model: ModelId) -> &CallAbilities {
        &self.abilities[model.index()]
    }

    /// Why a model can never run here, where it cannot.
    #[must_use]
    pub fn cannot_run(&self, model: ModelId) -> Option<String> {
        let (spec, cluster) = (&self.instance.models[model], &self.instance.cluster);
        let has = gswarm_core::cost::megabytes(cluster.gpu_memory_gb);
        let needs = spec.memory_per_gpu + spec.slot_per_gpu;
        if spec.windows().next().is_none() {
            return Some(format!(
                "model `{}` needs {} consecutive GPUs, but the cluster has {}",
                spec.name, spec.gpus, cluster.gpus
            ));
        }
        (needs > has).then(|| {
            let (needs, has) = (needs as f64 / 1000.0, has as f64 / 1000.0);
            format!("model `{}` needs {needs} GB on each of its GPUs, but a GPU has {has} GB", spec.name)
        })
    }

    /// Asks a model directly.
    pub async fn call(&self, model: ModelId, forward: Forward, priority: i32) -> Result<Ticket, Refusal> {
        let (reply, answer) = oneshot::channel();
        let caller = Arc::clone(&self.caller);
        self.send(Command::Direct { model, forward, priority, caller, reply });
        answer.await.unwrap_or(Err(Refusal::Stopping))
    }

    /// Whoever asked a model directly does not wait any more.
    pub fn hang_up(&self, ticket: u64) {
        self.send(Command::Hangup { ticket });
    }

    /// Brings a request of a workflow. `body` is what it was read from.
    pub async fn submit(&self, spec: Arc<RequestSpec>, body: String) -> Result<Accepted, Refusal> {
        let (reply, answer) = oneshot::channel();
        let caller = Arc::clone(&self.caller);
        self.send(Command::Submit { spec, body, caller, reply });
        answer.await.unwrap_or(Err(Refusal::Stopping))
    }

    /// Takes a request back; `false` where none of this name is open.
    pub async fn cancel(&self, id: String) -> bool {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Cancel { id, reply });
        answer.await.unwrap_or(false)
    }

    /// Returns when a request is not open, or not any more.
    pub async fn wait(&self, id: String) {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Wait { id, reply });
        let _ = answer.await;
    }

    /// Takes models off their GPUs, once nothing of them executes. Says which of them are there. `None` where the service has
    /// ended.
    pub async fn unload(&self, models: Vec<ModelId>) -> Option<Vec<ModelId>> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Unload { models, reply });
        answer.await.ok()
    }

    /// Asks how things stand. `None` where the service has ended.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&ServiceView<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let question: Question = Box::new(move |standing| drop(reply.send(question(standing))));
        self.send(Command::Ask(question));
        answer.await.ok()
    }

    /// The service takes nothing on any more, and ends when what is under way has ended.
    pub fn stop(&self) {
        self.send(Command::Stop);
    }

    /// What a direct call is expected to take: by the tokens that it asks for, where the model says how fast it is. A service that
    /// predicts goes by its prediction instead.
    #[must_use]
    pub fn estimate(&self, model: ModelId, body: &Map<String, Value>) -> Span {
        let spec: &ModelSpec = &self.scenario.models[usize::from(model)];
        let asked = ["max_completion_tokens", "max_tokens"];
        let tokens = asked.iter().find_map(|&name| body.get(name)?.as_u64());
        match (tokens, spec.tokens_per_second) {
            (Some(tokens), Some(rate)) => {
                gswarm_core::cost::execution_span((tokens as f64 / rate).min(LONGEST_CALL))
            }
            _ => super::usual(spec),
        }
    }

    fn send(&self, command: Command) {
        // Where the service has ended, the answer's end is dropped with the command.
        let _ = self.sender.send(command);
    }
}

/// No call is expected to take longer, in seconds, whatever it asks for.
const LONGEST_CALL: f64 = 86_400.0;
