//! Runs under the real and the virtual clock.

mod against_the_simulator;
mod crashes;
mod damaged;
mod ending;
mod keeper;
mod losses;
mod other_times;
mod retries;
mod service;
mod support;
