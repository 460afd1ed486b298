//! Servers over real connections.

mod calls;
mod dashboard_types;
mod document;
mod emulated;
mod guarded;
mod hub;
mod hub_stand_in;
mod in_process;
mod lifecycle;
mod openai;
mod schema;
mod support;
