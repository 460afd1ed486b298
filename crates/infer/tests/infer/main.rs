//! Models from disk to text and vectors, as a server uses them.

mod batching;
mod damage;
mod embeddings;
mod form;
mod numerics;
mod store;
mod support;
mod text;
