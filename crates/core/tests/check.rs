//! The checker, tested by damaging good logs; the log files; the metrics, held against sums done by hand.

#[path = "check/batch.rs"]
mod batch;
#[path = "check/bounds.rs"]
mod bounds;
#[path = "check/damage.rs"]
mod damage;
#[path = "check/failures.rs"]
mod failures;
#[path = "check/files.rs"]
mod files;
#[path = "check/memory.rs"]
mod memory;
#[path = "check/metrics.rs"]
mod metrics;
#[path = "check/scale.rs"]
mod scale;
#[path = "check/slots.rs"]
mod slots;
#[path = "check/stream.rs"]
mod stream;
#[path = "check/support.rs"]
mod support;
