//! Terminal output, and the files of a run.

pub mod advice;
pub mod curve;
pub mod described;
pub mod diff;
pub mod explain;
pub mod interrupt;
pub mod notation;
pub mod progress;
pub mod story;
pub mod table;
pub mod terminal;
pub mod unfinished;
mod watch;

pub use gswarm_run::files;
pub use gswarm_run::output::count;

use crate::failure::Failure;
use owo_colors::OwoColorize;
use std::io::{self, Write};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Prints to standard output. A reader that has gone away (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Failure> {
    settle(anstream::stdout().lock().write_all(text.as_bytes()))
}

/// As [`print()`], with the end of a line.
pub fn line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Prints a value as one line of JSON, its fields in the order of their names.
pub fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    line(&serde_json::to_value(value).map_err(Failure::internal)?.to_string())
}

/// As [`json`], over several lines.
pub fn json_lines(value: &impl serde::Serialize) -> Result<(), Failure> {
    line(&format!("{:#}", serde_json::to_value(value).map_err(Failure::internal)?))
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

/// Prints warnings of the program below, such as servers that do not answer, as they happen and with their times; and how far
/// servers are that take long to start.
pub fn tell_warnings() {
    let levels =
        Targets::new().with_default(LevelFilter::WARN).with_target("gswarm_exec::backend", LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer().with_target(false).with_ansi(false).with_writer(io::stderr);
    let _ = tracing_subscriber::registry().with(lines.with_filter(levels)).try_init();
}

/// An error, on standard error.
pub fn error(text: &str) {
    // A finding in a file says itself that it is an error, and with which code.
    match text.strip_prefix("error[") {
        Some(finding) => note(&format!("{}{finding}", "error[".red().bold())),
        None => note(&format!("{} {text}", "error:".red().bold())),
    }
}

/// Columns to write text in: those of the terminal, 100 at most; 80 where there is none.
pub fn width() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0)).clamp(40, 100)
}

/// Text in lines of at most [`width`] columns, each after `indent` spaces.
pub fn wrapped(text: &str, indent: usize, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && indent + last + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    let pad = " ".repeat(indent);
    lines.iter().map(|line| format!("{pad}{line}")).collect::<Vec<_>>().join("\n")
}

pub fn heading(text: &str) -> String {
    text.bold().to_string()
}

pub fn settle(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let failure = Failure::file("write to", "standard output".as_ref(), &error);
            // Files that were asked for may be there by now: the same command would not replace them.
            Err(match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    failure.hint("free some space; files that the command has written are complete")
                }
                _ => failure,
            })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(count(1, "attempt"), "1 attempt");
        assert_eq!((count(0, "attempt"), count(2, "switch")), ("0 attempts".into(), "2 switches".into()));
    }

    #[test]
    fn lines_keep_to_the_width() {
        let text = wrapped("one two three four", 2, 10);
        assert_eq!(text, "  one two\n  three\n  four");
    }
}
