//! The engine, the simulator and the policies: every schedule passes the independent checker.

mod adaptive;
mod engine;
mod generated;
mod planner;
mod properties;
mod real_files;
mod streams;
mod support;
