//! From the text of input files to a valid [`Scenario`], with every fault in them reported at once.

mod scenario;

pub use scenario::*;
