//! Errors of stored files, and the durability that is required.

use gswarm_core::input::Code;
use std::path::PathBuf;

/// What goes wrong with a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// SQLite says so.
    #[error("the journal cannot be used: {0}")]
    Sqlite(#[source] rusqlite::Error),
    /// Somebody else writes it.
    #[error("another process is using this journal")]
    InUse,
    /// A run was killed before it had begun, or what it wrote is in a file that is not here.
    #[error("the journal holds no run")]
    Empty,
    /// There is a run in it already.
    #[error("there is a journal of an earlier run")]
    Taken,
    /// Another version of this program wrote it.
    #[error("{code}: another version of gswarm wrote this journal: {0}", code = Code::JournalVersion)]
    Version(String),
    /// What was accepted does not fit the configuration any more.
    #[error("{count} accepted requests do not match this configuration, the first is `{first}`: {why}")]
    OtherConfiguration {
        /// How many.
        count: usize,
        /// One of them.
        first: String,
        /// What is wrong with it.
        why: String,
    },
    /// Its folder cannot be used.
    #[error("it cannot be stored there: {0}")]
    Folder(std::io::Error),
    /// What it holds was never written, or cannot be read.
    #[error("{code}: the journal is damaged: {0}", code = Code::JournalDamaged)]
    Damaged(String),
    /// It was deleted or moved while it was used: what is written there would be lost.
    #[error("{} was deleted, moved or replaced while in use", .0.display())]
    Gone(PathBuf),
}

impl JournalError {
    /// A file whose layout has another version than the one that is read.
    pub(crate) fn other_version(found: i64, read: i64) -> JournalError {
        let why = format!("its format has version {found}; this program reads version {read}");
        JournalError::Version(why)
    }
}

impl From<rusqlite::Error> for JournalError {
    fn from(error: rusqlite::Error) -> JournalError {
        use rusqlite::Error::{
            FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
        };
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, Unknown};
        match error {
            // The file can be read, and what is in it is not of the kind that was written.
            FromSqlConversionFailure(..)
            | IntegralValueOutOfRange(..)
            | InvalidColumnType(..)
            | Utf8Error(..) => JournalError::Damaged(error.to_string()),
            // What is asked of SQLite never changes: where it finds a fault in that, the tables are not those that were made.
            error if matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase | Unknown)) => {
                JournalError::Damaged(error.to_string())
            }
            other => JournalError::Sqlite(other),
        }
    }
}

/// How much is asked of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Survives the death of the process at any moment.
    #[default]
    Process,
    /// Survives the death of the machine: every step waits for the disk.
    Machine,
}
