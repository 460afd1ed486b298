//! The policies that there are: `GET /v1/policies`, as [`PolicyKind::description`](gswarm_core::policy::PolicyKind::description)
//! describes each.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// All policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyList {
    /// In the order in which people should look at them.
    pub policies: Vec<PolicyOutline>,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyOutline {
    /// As requests and flags spell it.
    pub name: String,
    /// What it optimises and when to use it.
    pub about: String,
    /// How requests may arrive: `offline`, `online`.
    pub modes: Vec<String>,
    /// Whether it is there to be compared with, not to be used.
    pub yardstick: bool,
    /// Its parameters.
    pub parameters: Vec<PolicyParameter>,
}

/// A parameter of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyParameter {
    /// Its name.
    pub name: String,
    /// What it does.
    pub help: String,
    /// The values that it takes.
    pub value: ParameterValues,
    /// The value where none is given; null where the parameter is optional.
    #[schema(required)]
    pub default: Value,
}

/// The values that a parameter takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ParameterValues {
    /// `number`, `integer`, `seconds` or `choice`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The least number.
    pub min: Option<f64>,
    /// The greatest number.
    pub max: Option<f64>,
    /// The names to choose from.
    pub names: Option<Vec<String>>,
}
