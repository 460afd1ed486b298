//! Execution logs as files: written from an [`ExecutionLog`](crate::log::ExecutionLog), read back leniently for checks.
//!
//! The forms `.json`, `.jsonl` and `.parquet` hold the same fields; `docs/formats.md` describes them.

mod bound;
mod bound_file;
mod columns;
mod columns_read;
mod published;
mod raw;
mod read;
mod summary;
mod write;

pub(crate) use crate::shown::is_plain;
pub use crate::shown::shown;
pub use bound::{BoundClaim, BoundRecord, VisitPrice};
pub use bound_file::BoundFile;
pub use columns::write_parquet;
pub use raw::Record;
pub use summary::{Claims, ClusterClaims, DeploymentSummary, RunStatus, Summary, Timing};
pub(crate) use write::{digits, in_pieces};
pub use write::{write_json, write_jsonl};

use crate::cost::{SwitchCost, SwitchRule};
use crate::input::ClusterSpec;
use crate::instance::{Cluster, Mode, Residency};
use crate::violation::{Violation, ViolationCode};
use std::fmt::Display;
use std::sync::Arc;

/// The version of the format that this program writes, and the newest that it reads.
pub const SCHEMA: u64 = 1;

/// More GPUs than any run has: a damaged log must not make a check reserve memory for billions.
pub(crate) const MOST_GPUS: u32 = 1 << 20;

/// A log as it was read: all names and numbers as written, not yet validated.
#[derive(Clone, Debug, Default)]
pub struct LogFile {
    /// The file's `schema`; logs of other programs have none, and less is required of them.
    pub schema: Option<u64>,
    /// What the summary says.
    pub claims: Claims,
    /// The records of executions.
    pub executions: Vec<Record>,
    /// The records of loads made ahead of executions.
    pub loads: Vec<Record>,
    /// The records of lost GPUs.
    pub lost_gpus: Vec<Record>,
    /// The records of models that left though no other made them leave.
    pub unloads: Vec<Record>,
    /// What could not be read.
    pub faults: Vec<Violation>,
    names: Vec<Arc<str>>,
}

impl LogFile {
    /// Reads either form of text, told apart by content. Never fails: what cannot be read is in [`LogFile::faults`].
    #[must_use]
    pub fn read(text: &str) -> LogFile {
        read::read(text)
    }

    /// As [`LogFile::read`], from bytes that may not even be text, or hold columns.
    #[must_use]
    pub fn read_bytes(bytes: &[u8]) -> LogFile {
        read::read_bytes(bytes)
    }

    /// The text behind a name of a [`Record`].
    #[must_use]
    pub fn name(&self, name: u32) -> &str {
        &self.names[name as usize]
    }

    /// How many different names there are.
    pub(crate) fn names(&self) -> usize {
        self.names.len()
    }

    /// When requests arrived, as the summary says it.
    #[must_use]
    pub fn mode(&self) -> Option<Mode> {
        self.claims.mode.as_deref().and_then(Mode::of_name)
    }

    /// The cluster that the run was made on: the summary wins, then `spec`, then the usual values. The notes say where
    /// `spec` differs from the summary.
    #[must_use]
    pub fn cluster(&self, spec: &ClusterSpec) -> (Cluster, Vec<String>) {
        let mut notes = Vec::new();
        if self.schema.is_none() && self.faults.iter().all(|fault| fault.code != ViolationCode::Schema) {
            let code = ViolationCode::Schema;
            notes.push(format!(
                "{code}: the log has no `schema`; it is read as a log of the published programs"
            ));
        }
        let claims = &self.claims;
        let rules = claims.cluster.clone().unwrap_or_default();
        let seen = || {
            let highest = self.executions.iter().chain(&self.loads).flat_map(Record::gpus).max();
            highest.map_or(1, |gpu| u32::try_from(gpu).unwrap_or(0).saturating_add(1))
        };
        let claimed =
            claims.gpus.as_ref().map(|gpus| gpus.iter().max().map_or(0, |&most| most.saturating_add(1)));
        let mut gpus = merge("gpus", claimed, spec.gpus, &mut notes).unwrap_or_else(seen);
        if gpus > MOST_GPUS {
            notes.push(format!("the log names {gpus} GPUs; the limit is {MOST_GPUS}"));
            gpus = MOST_GPUS;
        }
        // A summary that says `null` means one server; one without the field says nothing.
        let per_server = match claims.gpus_per_server {
            Some(claimed) => merge_said("gpus_per_server", claimed, spec.gpus_per_server, &mut notes),
            None => spec.gpus_per_server,
        };
        let rule = rules.switch_cost.as_deref().and_then(SwitchRule::of_name);
        let residency = rules.residency.as_deref().and_then(Residency::of_name);
        let names = [rule, spec.switch_cost].map(|one| one.map(SwitchRule::name));
        merge("switch_cost", names[0], names[1], &mut notes);
        let names = [residency, spec.residency].map(|one| one.map(Residency::name));
        merge("residency", names[0], names[1], &mut notes);
        let defaults = Cluster::from_spec(&ClusterSpec { gpus: Some(gpus), ..ClusterSpec::default() });
        let (memory, pcie, overhead) = defaults.map_or((80.0, 16.0, 2.0), |usual| {
            (usual.gpu_memory_gb, usual.switch.pcie_gb_per_s, usual.switch.overhead_seconds)
        });
        let cluster = Cluster {
            gpus,
            gpus_per_server: per_server.filter(|&per| per > 0),
            gpu_memory_gb: merge("gpu_memory_gb", rules.gpu_memory_gb, spec.gpu_memory_gb, &mut notes)
                .unwrap_or(memory),
            gpu_memory_given: false,
            switch: SwitchCost {
                rule: rule.or(spec.switch_cost).unwrap_or(SwitchRule::Transfer),
                pcie_gb_per_s: merge("pcie_gb_per_s", rules.pcie_gb_per_s, spec.pcie_gb_per_s, &mut notes)
                    .unwrap_or(pcie),
                overhead_seconds: merge(
                    "switch_overhead_seconds",
                    rules.switch_overhead_seconds,
                    spec.switch_overhead_seconds,
                    &mut notes,
                )
                .unwrap_or(overhead),
            },
            residency: residency.or(spec.residency).unwrap_or(Residency::Single),
        };
        (cluster, notes)
    }
}

fn merge<T: PartialEq + Display + Copy>(
    field: &str,
    log: Option<T>,
    spec: Option<T>,
    notes: &mut Vec<String>,
) -> Option<T> {
    if let (Some(log), Some(spec)) = (log, spec)
        && log != spec
    {
        notes.push(format!("{field}: the run was made with {log}, the configuration says {spec}"));
    }
    log.or(spec)
}

/// As [`merge`] where the log's `None` is a statement too.
fn merge_said(field: &str, log: Option<u32>, spec: Option<u32>, notes: &mut Vec<String>) -> Option<u32> {
    if log.is_none() && spec.is_some() {
        notes
            .push(format!("{field}: the run used a single server, but the configuration sets a server size"));
        return None;
    }
    merge(field, log, spec, notes)
}
