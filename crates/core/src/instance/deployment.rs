//! Models that stay where they are put.

use crate::id::{Gpus, ModelId};

/// A permanent assignment of models to GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// Each replica: a model and its GPUs.
    pub replicas: Vec<(ModelId, Gpus)>,
    /// Whether everything fits into memory. Where it does not, models take turns, and switches cannot be avoided.
    pub fits: bool,
    /// What a request does whose server is busy.
    pub routing: Routing,
}

named! {
    /// What a request does that one server can finish whole.
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Routing {
        /// It stays on that server.
        Whole = "whole",
        /// It uses other servers as well where these are free sooner.
        Spill = "spill",
    }
}

impl Deployment {
    /// The GPUs of a model's replicas.
    pub fn windows(&self, model: ModelId) -> impl Iterator<Item = Gpus> + '_ {
        self.replicas.iter().filter(move |&&(of, _)| of == model).map(|&(_, gpus)| gpus)
    }
}
