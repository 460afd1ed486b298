//! From tables to predictions: what is read, learned, kept and refused.

mod files;
mod intervals;
mod nodes;
mod support;
mod table;
mod train;
mod trees;
