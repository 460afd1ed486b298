//! What can be wrong with a log.

use std::fmt;

/// The rules, by code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// T01: every task of the workload is in the log once, and no other.
    Identity,
    /// T02: a share lies between nothing and the whole, and the task has the parts that it implies.
    Share,
    /// T03: a part is on a device that is there.
    Device,
    /// T04: a part takes its share of the task's run time on its device.
    Duration,
    /// T05: a transfer takes what its bytes and the link imply, and is over when its part starts.
    Transfer,
    /// T06: nothing of a task begins before it has come and all that it waits for is done.
    Early,
    /// T07: a task is done when its last part is.
    Finish,
    /// T08: a device runs one part at a time.
    Overlap,
    /// T09: the link carries one transfer at a time.
    Link,
    /// T10: memory is never taken beyond what there is, and held from a transfer's start to its part's end.
    Memory,
    /// T11: the summary says what the lines say.
    Summary,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 11] = [
        Rule::Identity,
        Rule::Share,
        Rule::Device,
        Rule::Duration,
        Rule::Transfer,
        Rule::Early,
        Rule::Finish,
        Rule::Overlap,
        Rule::Link,
        Rule::Memory,
        Rule::Summary,
    ];

    /// As reports show it.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Rule::Identity => "T01",
            Rule::Share => "T02",
            Rule::Device => "T03",
            Rule::Duration => "T04",
            Rule::Transfer => "T05",
            Rule::Early => "T06",
            Rule::Finish => "T07",
            Rule::Overlap => "T08",
            Rule::Link => "T09",
            Rule::Memory => "T10",
            Rule::Summary => "T11",
        }
    }
}

/// One way in which a log is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule it breaks.
    pub rule: Rule,
    /// The task, or the device.
    pub place: String,
    /// How.
    pub message: String,
}

impl Violation {
    /// Of this rule, there.
    #[must_use]
    pub fn new(rule: Rule, place: &str, message: impl Into<String>) -> Violation {
        Violation { rule, place: place.to_string(), message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.rule.code(), self.place, self.message)
    }
}
