//! What a machine can do: run times per operation, size and device, as they were measured, and what follows from them.

mod builtin;
mod law;
mod types;

pub use builtin::described;
pub use law::{Law, NoLaw};
pub use types::{Device, DeviceKind, HardwareProfile, Link, Measurement, Operation, VERSION};
