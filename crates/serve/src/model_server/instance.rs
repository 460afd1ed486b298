//! A serving instance, whatever computes its answers.

use super::devices::Devices;
use super::engines::embedded::EmbeddedEngine;
use super::engines::emulated::EmulatedEngine;
use super::engines::{Busy, EmbedInput, EngineOutcome, EngineWork, Forecast, TextStream, WorkKind};
use super::gate::{Gate, Pass};
use super::registry::CameFrom;
use crate::fault::Fault;
use gswarm_infer::GenerateRequest;
use jiff::Timestamp;
use std::sync::Arc;

/// What computes the answers.
#[derive(Clone)]
pub enum InstanceEngine {
    /// A model in this process.
    Embedded(EmbeddedEngine),
    /// One that only takes its time.
    Emulated(Arc<EmulatedEngine>),
}

/// A serving instance.
pub struct ModelInstance {
    /// Six letters and digits.
    pub id: String,
    /// Its model.
    pub model: String,
    /// What sort of work it does.
    pub kind: WorkKind,
    /// Where it runs.
    pub devices: Devices,
    /// Where its weights were before it was started.
    pub came_from: CameFrom,
    /// Since when it serves.
    pub created: Timestamp,
    /// What computes the answers.
    engine: InstanceEngine,
    gate: Arc<Gate>,
}

impl ModelInstance {
    /// An instance that serves from now on.
    #[must_use]
    pub fn new(
        id: String,
        model: &str,
        kind: WorkKind,
        devices: Devices,
        engine: InstanceEngine,
        came_from: CameFrom,
    ) -> ModelInstance {
        let (model, created, gate) = (model.to_string(), Timestamp::now(), Arc::default());
        ModelInstance { id, model, kind, devices, came_from, created, engine, gate }
    }

    /// Whether nothing is computed.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        matches!(self.engine, InstanceEngine::Emulated(_))
    }

    /// Who is inside.
    #[must_use]
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Goes in for a call.
    pub fn enter(&self) -> Result<Pass, Fault> {
        self.gate.enter().ok_or_else(|| {
            let message = format!("the instance `{}` is being stopped", self.id);
            Fault::conflict("instance_stopping", message)
        })
    }

    /// What it is doing.
    #[must_use]
    pub fn busy(&self) -> Busy {
        match &self.engine {
            InstanceEngine::Embedded(embedded) => embedded.busy(),
            InstanceEngine::Emulated(emulated) => emulated.busy(),
        }
    }

    /// Begins a text.
    pub async fn generate(&self, request: GenerateRequest) -> Result<TextStream, Fault> {
        self.expect(&WorkKind::Language)?;
        match &self.engine {
            InstanceEngine::Embedded(embedded) => embedded.generate(request).await,
            InstanceEngine::Emulated(emulated) => emulated.generate(&request),
        }
    }

    /// Vectors of texts.
    pub async fn embed(&self, input: EmbedInput) -> Result<EngineOutcome, Fault> {
        self.expect(&WorkKind::Embedding)?;
        match (&self.engine, input) {
            (InstanceEngine::Embedded(embedded), input) => embedded.embed(input).await,
            (InstanceEngine::Emulated(emulated), EmbedInput::Texts(texts)) => {
                emulated.run(&EngineWork::Embed(texts)).await
            }
            (InstanceEngine::Emulated(emulated), EmbedInput::Tokens(lists)) => {
                let words = |tokens: Vec<u32>| tokens.iter().map(|token| format!("{token} ")).collect();
                emulated.run(&EngineWork::Embed(lists.into_iter().map(words).collect())).await
            }
        }
    }

    /// The tokens of a text, and how many the model can hold.
    pub async fn tokenize(&self, text: String) -> Result<(Vec<u32>, usize), Fault> {
        match &self.engine {
            InstanceEngine::Embedded(embedded) => embedded.tokenize(text).await,
            InstanceEngine::Emulated(_) => Err(Fault::param("model", "an emulated model has no tokens")),
        }
    }

    /// Anything else.
    pub async fn run(&self, work: &EngineWork) -> Result<EngineOutcome, Fault> {
        match &self.engine {
            InstanceEngine::Emulated(emulated) => emulated.run(work).await,
            InstanceEngine::Embedded(_) => {
                Err(Fault::invalid("this model only generates text or embeddings"))
            }
        }
    }

    /// How long something would take if it came now.
    pub async fn forecast(&self, work: EngineWork) -> Result<Forecast, Fault> {
        match (&self.engine, work) {
            (InstanceEngine::Emulated(emulated), work) => emulated.forecast(&work),
            (InstanceEngine::Embedded(embedded), EngineWork::Text(request)) => {
                embedded.forecast_text(*request).await
            }
            (InstanceEngine::Embedded(embedded), EngineWork::Embed(texts)) => {
                embedded.forecast_embedding(texts).await
            }
            (InstanceEngine::Embedded(_), EngineWork::Other { .. }) => {
                Err(Fault::invalid("this model only generates text or embeddings"))
            }
        }
    }

    fn expect(&self, kind: &WorkKind) -> Result<(), Fault> {
        if self.kind == *kind {
            return Ok(());
        }
        let (model, own, wanted) = (&self.model, self.kind.name(), kind.name());
        Err(Fault::param(
            "model",
            format!("`{model}` is a model of type {own}; this call needs type {wanted}"),
        ))
    }
}
