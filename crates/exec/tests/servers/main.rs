//! The adapters against servers of our own that keep the documented behaviour of each kind, at its worst; and against real
//! ones where they are installed.

mod adapters;
mod answers;
mod command;
mod documented;
mod file;
mod live;
mod mock;
mod preflight;
mod real;
mod support;
