//! The gswarm command.
fn main() {}
