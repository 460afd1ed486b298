//! Files that carry bounds and no run: those of `gswarm bound --out`, and plans.

use super::{BoundRecord, Claims, LogFile};
use crate::violation::{Place, Violation, ViolationCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The content of such a file, not yet validated.
#[derive(Clone, Debug, Default)]
pub struct BoundFile {
    /// The cluster and the mode, as a log would state them.
    pub head: LogFile,
    /// The bounds and why they hold.
    pub bounds: Vec<BoundRecord>,
    /// The file's `lower_bound`: the largest of them.
    pub lower_bound: Option<f64>,
    /// Whether it is a plan.
    pub is_plan: bool,
    /// Whether a search has proved the plan to be the shortest: then `lower_bound` may be above the bounds.
    pub is_proved: bool,
}

impl BoundFile {
    /// Reads either kind; `None` where the file is neither. What cannot be read is in the head's faults.
    #[must_use]
    pub fn read_bytes(bytes: &[u8]) -> Option<BoundFile> {
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(bytes) else { return None };
        let is_plan = fields.contains_key("plan");
        if !is_plan && !fields.contains_key("bounds") {
            return None;
        }
        let mut file = BoundFile { is_plan, ..BoundFile::default() };
        if is_plan && let Some(witness) = fields.remove("bound") {
            let own = fields.get("bound_seconds").filter(|seconds| !seconds.is_null());
            let seconds = own.or_else(|| fields.get("lower_bound")).cloned().unwrap_or_default();
            file.is_proved = fields.get("proof").and_then(Value::as_str) == Some("search");
            let one = serde_json::json!({ "seconds": seconds, "witness": witness });
            file.bounds = file.take::<BoundRecord>("bound", Some(one)).into_iter().collect();
        } else if let Some(Value::Array(all)) = fields.remove("bounds") {
            let all = all.into_iter().filter_map(|one| file.take("bounds", Some(one))).collect();
            file.bounds = all;
        }
        file.lower_bound = file.take("lower_bound", fields.remove("lower_bound"));
        let gpus: Option<u32> = file.take("gpus", fields.remove("gpus"));
        let claims = Claims {
            mode: file.take("mode", fields.remove("mode")),
            gpus: gpus.filter(|&gpus| gpus <= super::MOST_GPUS).map(|gpus| (0..gpus).collect()),
            gpus_per_server: fields
                .get("gpus_per_server")
                .cloned()
                .map(|per| file.take("gpus_per_server", Some(per))),
            cluster: file.take("cluster", fields.remove("cluster")),
            ..Claims::default()
        };
        file.head.claims = claims;
        file.head.schema = Some(super::SCHEMA);
        Some(file)
    }

    fn take<T: DeserializeOwned>(&mut self, name: &str, value: Option<Value>) -> Option<T> {
        match value {
            None | Some(Value::Null) => None,
            Some(value) => match T::deserialize(value) {
                Ok(value) => Some(value),
                Err(error) => {
                    let message = format!("the file's `{name}`: {error}");
                    let fault = Violation::new(ViolationCode::Record, Place::default(), message);
                    self.head.faults.push(fault);
                    None
                }
            },
        }
    }
}
