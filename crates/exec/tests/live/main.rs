//! Runs under the real and the virtual clock.

mod against_the_simulator;
mod crashes;
mod keeper;
mod service;
mod support;
