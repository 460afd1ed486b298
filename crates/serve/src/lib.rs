//! gswarm over HTTP: the model server, and the front door to a cluster.
//!
//! [`guard`] is what both are served by: where they listen, who may ask, how much and for how long. [`openai`] is the shape of
//! the OpenAI-compatible endpoints, [`model_server`] serves models of this machine, [`dash`] is the dashboard, [`fault`] is what is answered when something cannot be done.

pub mod dash;
pub mod embedded;
mod extract;
pub mod fault;
pub mod front;
pub mod guard;
pub mod model_server;
pub mod openai;
