pub use crate::core_stub::*;
