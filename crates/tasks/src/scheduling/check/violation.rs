//! What can be wrong with a log.

use gswarm_core::named;
use serde::{Serialize, Serializer};
use std::fmt;

named! {
    /// The rules, by code.
    pub enum TaskRule {
        /// T01: every task of the workload is in the log once, and no other.
        Identity = "T01",
        /// T02: a share lies between nothing and the whole, and the task has the parts that it implies.
        Share = "T02",
        /// T03: a part is on a device that is there.
        DeviceIndex = "T03",
        /// T04: a part takes its share of the task's run time on its device.
        Duration = "T04",
        /// T05: a transfer takes what its bytes and the link imply, and is over when its part starts.
        Transfer = "T05",
        /// T06: nothing of a task begins before it has come and all that it waits for is done.
        Early = "T06",
        /// T07: a task is done when its last part is.
        Finish = "T07",
        /// T08: a device runs one part at a time.
        Overlap = "T08",
        /// T09: the link carries one transfer at a time.
        Link = "T09",
        /// T10: memory is never taken beyond what there is, and held from a transfer's start to its part's end.
        Memory = "T10",
        /// T11: the summary says what the lines say.
        Summary = "T11",
    }
}

/// One way in which a log is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskViolation {
    /// Which rule it breaks.
    #[serde(serialize_with = "by_code")]
    pub rule: TaskRule,
    /// The task, or the device.
    pub place: String,
    /// How.
    pub message: String,
}

fn by_code<S: Serializer>(rule: &TaskRule, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(rule.name())
}

impl TaskViolation {
    /// Of this rule, there.
    pub fn new(rule: TaskRule, place: &str, message: impl Into<String>) -> TaskViolation {
        TaskViolation { rule, place: place.to_string(), message: message.into() }
    }
}

impl fmt::Display for TaskViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.rule.name(), self.place, self.message)
    }
}
