//! The gswarm engine under the real clock: it drives real model servers, records everything before it acts, and resumes
//! after a crash.

pub mod backend;
pub mod call;
pub mod capacity;
pub mod chronicle;
pub mod clock;
pub mod config;
pub mod drive;
pub mod fleet;
pub mod forward;
pub mod health;
pub mod journal;
pub mod keeper;
pub mod preflight;
pub mod probe;
pub mod ray;
pub mod replica;
pub mod scene;
pub mod service;
mod store;
pub mod telemetry;
pub mod watched;
pub mod wire;
pub mod work;
