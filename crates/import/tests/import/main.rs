//! Importers: what they make of small files, of every real file that is beside the checkout, and of damaged ones.

mod damaged;
mod docs;
mod kinds;
mod real;
mod spans;
mod support;
