//! Explanations and sizing, on logs made by hand whose right answers follow by hand, and on runs of policies.

#[path = "explain/differences.rs"]
mod differences;
#[path = "explain/idle.rs"]
mod idle;
#[path = "explain/nodes.rs"]
mod nodes;
#[path = "explain/runs.rs"]
mod runs;
#[path = "explain/sizes.rs"]
mod sizes;
#[path = "check/support.rs"]
#[allow(dead_code)]
mod support;
