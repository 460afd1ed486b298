//! What a check can find: a closed list of codes, and where and by how much a log breaks a rule.

use crate::shown::shown;
use serde::Serialize;
use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $title:literal;)*) => {
        /// The rules that a log can break. Each is described in `docs/checks.md`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ViolationCode { $($(#[$doc])* $name,)* }

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
    /// The file is not JSON, or not a log.
    File = "C-FILE", "the file cannot be read as an execution log";
    /// A newer or unknown version of the format, or none where there should be one.
    Schema = "C-SCHEMA", "the log's schema is missing or not one this program knows";
    /// A record of the wrong shape.
    Record = "C-RECORD", "a record cannot be read";
    /// A field that the format requires is not there.
    Field = "C-FIELD", "a required field is missing";
    /// A name that the inputs do not have.
    Unknown = "C-UNKNOWN", "a request, node, workflow or model that the inputs do not have";
    /// Another workflow than the request's.
    Workflow = "C-WORKFLOW", "a record names another workflow than its request's";
    /// Another model than the node's.
    Model = "C-MODEL", "a record names another model than its node's";
    /// A node without an execution.
    NodeMissing = "C-NODE-MISSING", "a node has not run";
    /// A node that ran again after it had completed.
    NodeTwice = "C-NODE-TWICE", "a node has run more than once";
    /// Attempts that do not follow one another.
    Attempt = "C-ATTEMPT", "the attempts at a node do not follow one another";
    /// Lost, where no GPU was lost.
    Lost = "C-LOST", "work is marked lost where no GPU of it was lost";
    /// Negative, not a number, or out of range.
    Time = "C-TIME", "a time is negative, not a number or out of range";
    /// End, start and length contradict one another.
    TimeSum = "C-TIME-SUM", "times do not add up";
    /// Another arrival than the request's.
    Arrival = "C-ARRIVAL", "the arrival time is not the request's";
    /// Another ready time than arrival and inputs give.
    Ready = "C-READY", "the ready time is not that of arrival and inputs";
    /// Another estimate than the node's batch-1 time.
    Estimate = "C-ESTIMATE", "the estimated time is not the node's";
    /// A start before the request was there.
    BeforeArrival = "C-BEFORE-ARRIVAL", "a node starts before its request arrives";
    /// A start before an input was there.
    BeforeInput = "C-BEFORE-INPUT", "a node starts before its inputs are there";
    /// A GPU that the run did not have.
    GpuUnknown = "C-GPU-UNKNOWN", "a GPU that the run does not have";
    /// Too few or too many GPUs.
    GpuCount = "C-GPU-COUNT", "a model does not hold the number of GPUs that it needs";
    /// GPUs that are not consecutive, or lie across servers without need.
    GpuWindow = "C-GPU-WINDOW", "GPUs that are not consecutive or not a legal window";
    /// Work on a GPU after it was lost.
    GpuLost = "C-GPU-LOST", "work on a lost GPU";
    /// A GPU that the plan did not give the model, or a plan that contradicts itself.
    Assignment = "C-ASSIGNMENT", "a static run is not the deployment that it states";
    /// Two executions at once.
    Overlap = "C-OVERLAP", "executions overlap on a GPU";
    /// More executions than the batch limit.
    BatchLimit = "C-BATCH-LIMIT", "more executions at once than the model's batch limit";
    /// A load while something else holds the GPU.
    SwitchOverlap = "C-SWITCH-OVERLAP", "a load overlaps work or another load";
    /// An execution without its model.
    SwitchMissing = "C-SWITCH-MISSING", "an execution starts where its model is not loaded";
    /// A load shorter than it costs.
    SwitchShort = "C-SWITCH-SHORT", "a load is shorter than it costs";
    /// A load longer than it costs.
    SwitchLong = "C-SWITCH-LONG", "a load is longer than it costs";
    /// An eviction of what was not there.
    Evicted = "C-EVICTED", "a load evicts a model that is not there";
    /// More models than fit.
    Memory = "C-MEMORY", "models on a GPU exceed its memory";
    /// More executions than fit beside the models.
    SlotMemory = "C-SLOT-MEMORY", "executions and models on a GPU exceed its memory";
    /// Another batch size than the log shows.
    BatchSize = "C-BATCH-SIZE", "the batch size is not the number of executions on the replica";
    /// An execution that ended too soon.
    WorkLittle = "C-WORK-LITTLE", "an execution has done less than its work";
    /// An execution that ended too late.
    WorkMuch = "C-WORK-MUCH", "an execution has done more than its work";
    /// Makespan.
    SumMakespan = "C-SUM-MAKESPAN", "the summary's makespan is not that of the executions";
    /// Numbers of requests and nodes, and status.
    SumCounts = "C-SUM-COUNTS", "the summary's counts are not those of the executions";
    /// Switches, cold loads and their time.
    SumSwitches = "C-SUM-SWITCHES", "the summary's switches are not those of the executions";
    /// Server metrics.
    SumServers = "C-SUM-SERVERS", "the summary's server metrics are not those of the executions";
    /// Bound and gap.
    SumBound = "C-SUM-BOUND", "the summary's bound or gap is not one of its makespan";
    /// A witness that is none of these inputs.
    BoundWitness = "C-BOUND-WITNESS", "the bound's witness does not fit the inputs";
    /// A bound that does not follow.
    BoundValue = "C-BOUND-VALUE", "the lower bound is above what its witness gives";
    /// The cluster of the summary is none, or not that of the check.
    SumCluster = "C-SUM-CLUSTER", "the summary's mode or cluster is impossible or not that of the check";
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
    #[must_use]
    pub fn line(line: u32) -> Place {
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

/// The violations for programs: `{"valid": bool, "violations": [{code, place, message}]}`.
#[must_use]
pub fn to_json(violations: &[Violation]) -> serde_json::Value {
    serde_json::json!({ "valid": violations.is_empty(), "violations": violations })
}
