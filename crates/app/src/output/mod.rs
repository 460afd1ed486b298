//! What people see, and the files that a run leaves.

pub mod files;
pub mod progress;
pub mod table;

use crate::failure::Failure;
use owo_colors::OwoColorize;
use std::io::{self, Write};

/// Prints to standard output. A reader that has gone away (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Failure> {
    settle(anstream::stdout().lock().write_all(text.as_bytes()))
}

/// As [`print()`], with the end of a line.
pub fn line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Prints what `write` writes, without holding all of it in memory.
pub fn stream(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    settle(write(&mut out).and_then(|()| out.flush()))
}

/// A note beside the result, on standard error.
pub fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// An error, on standard error.
pub fn error(text: &str) {
    note(&format!("{} {text}", "error:".red().bold()));
}

/// A heading.
pub fn heading(text: &str) -> String {
    text.bold().to_string()
}

fn settle(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::file("write to", "standard output".as_ref(), &error))
        }
        _ => Ok(()),
    }
}
