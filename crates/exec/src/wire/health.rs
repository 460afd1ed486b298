//! Whether a server lives.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// That the process lives, or is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok` or `ready`.
    pub status: String,
    /// The version of gswarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Health {
    /// That the process lives.
    #[must_use]
    pub fn ok() -> Health {
        Health { status: "ok".to_owned(), version: Some(env!("CARGO_PKG_VERSION").to_owned()) }
    }
}
