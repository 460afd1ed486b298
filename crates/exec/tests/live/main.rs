//! Runs under the real and the virtual clock.

mod against_the_simulator;
mod crashes;
mod damaged;
mod ending;
mod health;
mod histories;
mod idle;
mod keeper;
mod losses;
mod moods;
mod other_times;
mod reopened;
mod retries;
mod service;
mod support;
