//! The engine, the simulator and the policies: every schedule passes the independent checker.

mod adaptive;
mod batched;
mod counts;
mod engine;
mod exact;
mod failures;
mod fidelity;
mod generated;
mod onward;
mod parameters;
mod partition;
mod placement;
mod planner;
mod properties;
mod real_files;
mod service;
mod streams;
mod support;
mod truth;
mod withdrawn;
