//! A serving instance, whatever computes its answers.

use super::devices::Devices;
use super::engines::embedded::Embedded;
use super::engines::emulated::Emulated;
use super::engines::{Busy, Forecast, Generation, Kind, Outcome, Work};
use super::gate::{Gate, Pass};
use super::registry::CameFrom;
use crate::fault::Fault;
use gswarm_infer::GenerateRequest;
use jiff::Timestamp;
use std::sync::Arc;

/// What computes the answers.
#[derive(Clone)]
pub enum Engine {
    /// A model in this process.
    Embedded(Embedded),
    /// One that only takes its time.
    Emulated(Arc<Emulated>),
}

/// A serving instance.
pub struct Instance {
    /// Six letters and digits.
    pub id: String,
    /// Its model.
    pub model: String,
    /// What sort of work it does.
    pub kind: Kind,
    /// Where it runs.
    pub devices: Devices,
    /// Where its weights were before it was started.
    pub came_from: CameFrom,
    /// Since when it serves.
    pub created: Timestamp,
    /// What computes the answers.
    engine: Engine,
    gate: Arc<Gate>,
}

impl Instance {
    /// An instance that serves from now on.
    #[must_use]
    pub fn new(
        id: String,
        model: &str,
        kind: Kind,
        devices: Devices,
        engine: Engine,
        came_from: CameFrom,
    ) -> Instance {
        let (model, created, gate) = (model.to_string(), Timestamp::now(), Arc::default());
        Instance { id, model, kind, devices, came_from, created, engine, gate }
    }

    /// Whether nothing is computed.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        matches!(self.engine, Engine::Emulated(_))
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
            Engine::Embedded(embedded) => embedded.busy(),
            Engine::Emulated(emulated) => emulated.busy(),
        }
    }

    /// Begins a text.
    pub async fn generate(&self, request: GenerateRequest) -> Result<Generation, Fault> {
        self.expect(&Kind::Language)?;
        match &self.engine {
            Engine::Embedded(embedded) => embedded.generate(request).await,
            Engine::Emulated(emulated) => emulated.generate(&request),
        }
    }

    /// Vectors of texts.
    pub async fn embed(&self, texts: Vec<String>) -> Result<Outcome, Fault> {
        self.expect(&Kind::Embedding)?;
        match &self.engine {
            Engine::Embedded(embedded) => embedded.embed(texts).await,
            Engine::Emulated(emulated) => emulated.run(&Work::Embed(texts)).await,
        }
    }

    /// Anything else.
    pub async fn run(&self, work: &Work) -> Result<Outcome, Fault> {
        match &self.engine {
            Engine::Emulated(emulated) => emulated.run(work).await,
            Engine::Embedded(_) => Err(Fault::invalid("this model writes text or makes embeddings")),
        }
    }

    /// How long something would take if it came now.
    pub async fn forecast(&self, work: Work) -> Result<Forecast, Fault> {
        match (&self.engine, work) {
            (Engine::Emulated(emulated), work) => emulated.forecast(&work),
            (Engine::Embedded(embedded), Work::Text(request)) => embedded.forecast_text(request).await,
            (Engine::Embedded(embedded), Work::Embed(texts)) => embedded.forecast_embedding(texts).await,
            (Engine::Embedded(_), Work::Other { .. }) => {
                Err(Fault::invalid("this model writes text or makes embeddings"))
            }
        }
    }

    fn expect(&self, kind: &Kind) -> Result<(), Fault> {
        if self.kind == *kind {
            return Ok(());
        }
        let (model, own, wanted) = (&self.model, self.kind.name(), kind.name());
        Err(Fault::param(
            "model",
            format!("`{model}` is a model of type {own}; this takes one of type {wanted}"),
        ))
    }
}
