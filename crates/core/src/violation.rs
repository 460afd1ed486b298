//! What a check can find: a closed list of codes, and where and by how much a log breaks a rule.

use crate::shown::shown;
use serde::Serialize;
use std::fmt;

macro_rules! codes {
    ($($name:ident = $code:literal, $title:literal;)*) => {
        /// The rules that a log can break. Each is described in `docs/checks.md`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ViolationCode { $(#[doc = concat!($code, ": ", $title, ".")] $name,)* }

        impl ViolationCode {
            /// All of them, in the order of reports.
            pub const ALL: &'static [ViolationCode] = &[$(ViolationCode::$name,)*];

            /// As reports and documentation spell it.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $(ViolationCode::$name => $code,)* }
            }

            /// The rule in a few words.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(ViolationCode::$name => $title,)* }
            }
        }
    };
}

codes! {
    File = "C-FILE", "the file cannot be read as an execution log";
    Schema = "C-SCHEMA", "the log's schema is missing or unknown";
    Record = "C-RECORD", "a record cannot be read";
    Field = "C-FIELD", "a required field is missing";
    Unknown = "C-UNKNOWN", "a request, node, workflow or model that the inputs do not define";
    Workflow = "C-WORKFLOW", "a record names the wrong workflow for its request";
    Model = "C-MODEL", "a record names the wrong model for its node";
    NodeMissing = "C-NODE-MISSING", "a node has not run";
    NodeTwice = "C-NODE-TWICE", "a node has run more than once";
    Attempt = "C-ATTEMPT", "the attempts at a node are out of sequence";
    Lost = "C-LOST", "work is marked as lost, but none of its GPUs was lost";
    Time = "C-TIME", "a time is negative, not a number or out of range";
    TimeSum = "C-TIME-SUM", "times do not add up";
    Arrival = "C-ARRIVAL", "the arrival time differs from the request's";
    Ready = "C-READY", "the ready time does not follow from arrival and inputs";
    Estimate = "C-ESTIMATE", "the estimated time differs from the node's";
    BeforeArrival = "C-BEFORE-ARRIVAL", "a node starts before its request arrives";
    BeforeInput = "C-BEFORE-INPUT", "a node starts before its inputs are available";
    GpuUnknown = "C-GPU-UNKNOWN", "a GPU that the run does not have";
    GpuCount = "C-GPU-COUNT", "a model runs on the wrong number of GPUs";
    GpuWindow = "C-GPU-WINDOW", "GPUs that are not consecutive or not a legal window";
    GpuLost = "C-GPU-LOST", "work on a lost GPU";
    Assignment = "C-ASSIGNMENT", "a static run deviates from its stated deployment";
    Overlap = "C-OVERLAP", "executions overlap on a GPU";
    BatchLimit = "C-BATCH-LIMIT", "more concurrent executions than the model's batch limit";
    SwitchOverlap = "C-SWITCH-OVERLAP", "a load overlaps work or another load";
    SwitchMissing = "C-SWITCH-MISSING", "an execution starts where its model is not loaded";
    SwitchShort = "C-SWITCH-SHORT", "a load takes less time than it costs";
    SwitchLong = "C-SWITCH-LONG", "a load takes more time than it costs";
    Evicted = "C-EVICTED", "a load evicts a model that is not loaded there";
    Unload = "C-UNLOAD", "an unload of a model that is in use or not loaded there";
    Memory = "C-MEMORY", "models on a GPU exceed its memory";
    SlotMemory = "C-SLOT-MEMORY", "executions and models on a GPU exceed its memory";
    BatchSize = "C-BATCH-SIZE", "the batch size differs from the number of executions on the replica";
    WorkLittle = "C-WORK-LITTLE", "an execution did less work than its node has";
    WorkMuch = "C-WORK-MUCH", "an execution did more work than its node has";
    SumMakespan = "C-SUM-MAKESPAN", "the summary's makespan does not match the executions";
    SumCounts = "C-SUM-COUNTS", "the summary's counts do not match the executions";
    SumSwitches = "C-SUM-SWITCHES", "the summary's switches do not match the executions";
    SumServers = "C-SUM-SERVERS", "the summary's server metrics do not match the executions";
    SumBound = "C-SUM-BOUND", "the summary's bound or gap contradicts its makespan";
    BoundWitness = "C-BOUND-WITNESS", "the bound's witness does not match the inputs";
    BoundValue = "C-BOUND-VALUE", "the lower bound is above what its witness gives";
    SumCluster = "C-SUM-CLUSTER", "the summary's mode or cluster is impossible, or differs from that of the check";
}

impl fmt::Display for ViolationCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Serialize for ViolationCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

/// Where in a log a rule is broken, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Index into `executions`, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<usize>,
    /// Index into `loads`, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<usize>,
    /// Line of the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The node of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
}

impl Place {
    /// A line of the file.
    pub(crate) fn line(line: u32) -> Place {
        Place { line: Some(line), ..Place::default() }
    }

    /// The same place, on one GPU.
    #[must_use]
    pub fn on(mut self, gpu: u32) -> Place {
        self.gpu = Some(gpu);
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.line.map(|line| format!("line {line}")));
        parts.extend(self.record.map(|record| format!("executions[{record}]")));
        parts.extend(self.load.map(|load| format!("loads[{load}]")));
        match (&self.request, &self.node) {
            (Some(request), Some(node)) => parts.push(format!("{request}/{node}")),
            (Some(request), None) => parts.push(request.clone()),
            (None, Some(node)) => parts.push(node.clone()),
            (None, None) => {}
        }
        parts.extend(self.gpu.map(|gpu| format!("GPU {gpu}")));
        f.write_str(if parts.is_empty() { "log" } else { "" })?;
        f.write_str(&shown(&parts.join(", ")))
    }
}

/// One rule broken at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which rule.
    pub code: ViolationCode,
    /// Where.
    pub place: Place,
    /// How, with the numbers.
    pub message: String,
}

impl Violation {
    /// A violation.
    pub fn new(code: ViolationCode, place: Place, message: impl Into<String>) -> Violation {
        Violation { code, place, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.place, shown(&self.message))
    }
}

/// Violations shown of each code; the rest is counted.
const SHOWN: usize = 5;

/// The violations for people: grouped by code, counted, the first few of each in full.
#[must_use]
pub fn report(violations: &[Violation]) -> String {
    use std::fmt::Write;
    if violations.is_empty() {
        return "No violation found.\n".to_string();
    }
    let mut groups: std::collections::BTreeMap<ViolationCode, Vec<&Violation>> = Default::default();
    violations.iter().for_each(|violation| groups.entry(violation.code).or_default().push(violation));
    let of = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let mut text = format!("{} of {} found.\n", of(violations.len(), "violation"), of(groups.len(), "kind"));
    for (code, group) in groups {
        let _ = writeln!(text, "\n{code}: {} ({})", code.title(), group.len());
        for violation in group.iter().take(SHOWN) {
            let _ = writeln!(text, "  {}: {}", violation.place, shown(&violation.message));
        }
        if group.len() > SHOWN {
            let _ = writeln!(text, "  ... and {} more", group.len() - SHOWN);
        }
    }
    text
}
