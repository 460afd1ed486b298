//! Why a run went as it did: what a node waited for, where a request's time went, why a GPU was idle.
//!
//! Everything is computed from the instance and the log alone, so simulated and real runs of any policy are explained
//! alike. `docs/explain.md` describes the answers and their limits.

mod alternatives;
mod find;
mod gaps;
mod gpu;
mod idle;
mod node;
mod request;
mod slowest;
mod timeline;
mod wait;

pub use alternatives::Alternative;
pub use find::{Unknown, find_request, find_task};
pub use gaps::{Cause, CauseShare, Example, Gap};
pub use gpu::{GpuStory, ModelShare, gpu};
pub use idle::{IdleStory, idle};
pub use node::{Holder, NodeInput, NodeStory, QueuePosition, Replaced, node};
pub use request::{NodeSlack, PathStep, RequestStory, request};
pub use slowest::{SLOWEST, SlowRequest, slowest};
pub use timeline::Timeline;
pub use wait::Wait;

use crate::time::{Span, Time};
use serde::Serializer;

/// A moment as seconds.
fn moment<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.seconds())
}

/// A length of time as seconds.
fn length<S: Serializer>(span: &Span, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.seconds())
}

/// A share of a whole; zero of nothing.
fn share(part: u128, whole: u128) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
