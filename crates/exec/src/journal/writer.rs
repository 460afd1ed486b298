//! A database written in batches: everything since the last commit counts, or nothing of it.

use super::JournalError;
use rusqlite::Connection;
use std::ops::Deref;

/// The one that writes it. Reading goes to the connection itself.
pub(crate) struct Writer {
    db: Connection,
    open: bool,
}

impl Writer {
    pub fn new(db: Connection) -> Writer {
        Writer { db, open: false }
    }

    /// Whatever is written next belongs to a batch.
    pub fn begin(&mut self) -> Result<(), JournalError> {
        if !std::mem::replace(&mut self.open, true) {
            self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        }
        Ok(())
    }

    /// Everything since the last commit counts, or nothing of it.
    pub fn commit(&mut self) -> Result<(), JournalError> {
        if std::mem::take(&mut self.open) {
            self.db.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(())
    }
}

impl Deref for Writer {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.db
    }
}
