//! `/v1/models`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An answer of `/v1/models`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ModelList {
    /// `list`.
    pub object: String,
    /// The models that can be called.
    pub data: Vec<ModelCard>,
}

/// A model that can be called.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ModelCard {
    /// Its name in requests.
    pub id: String,
    /// `model`.
    pub object: String,
    /// Seconds since 1970.
    pub created: u64,
    /// Who serves it.
    pub owned_by: String,
    /// Whether it only takes its time and computes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<bool>,
    /// Whether it is loaded, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ModelLoadStatus>,
}

/// Whether a model is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelLoadStatus {
    /// `loaded`, `loading` or `unloaded`.
    pub value: ModelLoad,
}

/// How far a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelLoad {
    /// It is on GPUs.
    Loaded,
    /// It is on its way.
    Loading,
    /// It is not there.
    Unloaded,
}
