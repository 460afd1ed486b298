//! The engine, the simulator and the policies: every schedule passes the independent checker.

mod engine;
mod failures;
mod generated;
mod planner;
mod properties;
mod real_files;
mod support;
