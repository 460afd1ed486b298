//! A batch or a stream under the real clock: events of backends go to the engine, the policy decides, the journal is
//! written, and only then the backends act.

mod acts;
mod batch;
mod losses;
mod machine;
mod pauses;
mod resume;
mod servers;
mod unfit;

pub use batch::{FinishedRun, Live, LiveProblem};
pub(crate) use machine::{Book, Happening, Machine, Trouble};

use crate::journal::JournalError;
use gswarm_core::engine::Rejected;
use gswarm_core::{Span, TaskId, Time};

/// Time limits and retries of a run.
#[derive(Clone, Debug)]
pub struct Patience {
    /// Attempts at a node before its request is given up.
    pub max_attempts: u32,
    /// A call may take this many times what it is expected to ...
    pub call_factor: f64,
    /// ... and this much more.
    pub call_grace: Span,
    /// Or this much, whatever is expected, where it is said.
    pub call_limit: Option<Span>,
    /// The same for loads and unloads.
    pub load_grace: Span,
    /// The pause after a first failure; each further one doubles it.
    pub backoff: Span,
    /// How long a request waits for unhealthy servers. A run with no server left ends after that, to be resumed.
    pub for_servers: Span,
}

impl Default for Patience {
    fn default() -> Patience {
        let seconds = |seconds: u64| Span(seconds * 1_000_000);
        Patience {
            max_attempts: 3,
            call_factor: 10.0,
            call_grace: seconds(60),
            call_limit: None,
            load_grace: seconds(600),
            backoff: Span(250_000),
            for_servers: seconds(600),
        }
    }
}

/// Why a live run ended before its time. What it did is in the journal.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The journal cannot be written any more.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The policy proposed something that cannot be done.
    #[error("the policy made an illegal decision at {at}: {why}")]
    Rejected {
        /// When.
        at: Time,
        /// Why.
        why: Rejected,
    },
    /// Work is left and nothing will happen any more.
    #[error("the run stalls at {at} with {left} unfinished nodes")]
    Stalled {
        /// When.
        at: Time,
        /// Nodes not done.
        left: usize,
    },
    /// Every backend is gone and none came back.
    #[error("no server has answered for {seconds:.0} s; waited for {waited}; {left} nodes are unfinished")]
    NoBackends {
        /// For how long.
        seconds: f64,
        /// The servers, and why each is out.
        waited: String,
        /// Nodes not done.
        left: usize,
    },
    /// Somebody asked for it.
    #[error("interrupted; {left} nodes are not done")]
    Interrupted {
        /// Nodes not done.
        left: usize,
    },
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFailure {
    /// When.
    pub at: Time,
    /// Of which node.
    pub task: TaskId,
    /// Why.
    pub why: String,
}
