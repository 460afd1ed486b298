//! A read-only view of a journal, possibly while it is being written. It creates no files.

use super::{
    JournalError, OUTPUTS, SCHEMA, VERSION, Written, entries_after, lock_of, meta_of, nothing_in, output_of,
};
use crate::store;
use gswarm_core::TaskId;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Value};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// How often a journal is opened that a run has locked and not begun.
const TRIES: u32 = 100;

/// A journal that is read.
pub struct JournalReader {
    db: Connection,
    /// Where nobody writes the journal, what is read is a copy: SQLite would put files of its own beside the journal, and
    /// what a process that was killed has left is not to be touched.
    is_copy: bool,
}

/// Whether somebody writes a journal just now.
#[must_use]
pub fn is_written(path: &Path) -> bool {
    match File::open(lock_of(path)) {
        Ok(lock) => lock.try_lock_shared().is_err(),
        Err(_) => false,
    }
}

/// Whether a file says by itself that it is a journal of this version. Where it does not, what was written last may: that is
/// in a log beside it.
pub(super) fn says_its_version(path: &Path) -> std::io::Result<bool> {
    // SQLite keeps the version at this place, whatever else is in the file.
    let (at, mut version) = (60, [0; 4]);
    let file = File::open(path)?;
    Ok(file.read_at(&mut version, at)? == version.len() && i64::from(u32::from_be_bytes(version)) == VERSION)
}

/// Whether a file says that a run writes it, and has no log beside it: it was copied without it.
pub(super) fn lacks_log(path: &Path) -> std::io::Result<bool> {
    // SQLite keeps the application's number at this place.
    let (at, mut number) = (68, [0; 4]);
    let read = File::open(path)?.read_at(&mut number, at)?;
    let in_use = read == number.len() && u32::from_be_bytes(number) == super::IN_USE;
    Ok(in_use && !store::beside(path, "-wal").exists())
}

impl JournalReader {
    /// Opens a journal as it is now.
    pub fn open(path: &Path) -> Result<JournalReader, JournalError> {
        JournalReader::open_begun(path, || std::thread::sleep(Duration::from_millis(20)))
    }

    /// The same; `wait` is called between tries while a run that begins has its file and nothing in it, as it has for a moment.
    pub(super) fn open_begun(path: &Path, mut wait: impl FnMut()) -> Result<JournalReader, JournalError> {
        for _ in 0..TRIES {
            match JournalReader::open_now(path) {
                Err(JournalError::Empty) if is_written(path) => wait(),
                opened => return opened,
            }
        }
        JournalReader::open_now(path)
    }

    fn open_now(path: &Path) -> Result<JournalReader, JournalError> {
        let copy = if is_written(path) { None } else { Some(copy_of(path)) };
        // Where somebody has begun to write meanwhile, the copy may be of no one moment.
        let copy = copy.filter(|_| !is_written(path)).transpose()?;
        let is_copy = copy.is_some();
        let db = copy.map_or_else(|| store::read(path), Ok)?;
        let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        match version {
            VERSION => {}
            0 => return Err(nothing_in(&db)?),
            other => return Err(JournalError::other_version(other, VERSION)),
        }
        if is_copy {
            store::check(&db, SCHEMA)?;
        }
        Ok(JournalReader { db, is_copy })
    }

    /// Whether the journal was being written when it was opened.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        !self.is_copy
    }

    /// One of the things that it was begun with.
    pub fn meta(&self, key: &str) -> Result<Option<Vec<u8>>, JournalError> {
        meta_of(&self.db, key)
    }

    /// What was written after an entry, in order, `limit` entries at most.
    pub fn after(&self, id: i64, limit: u32) -> Result<Vec<Written>, JournalError> {
        entries_after(&self.db, id, limit)
    }

    /// What a task wrote, where it has finished.
    pub fn output(&self, task: TaskId) -> Result<Option<Map<String, Value>>, JournalError> {
        let mut statement = self.db.prepare_cached(&format!("{OUTPUTS} WHERE task = ?1"))?;
        let mut rows = statement.query([task.0])?;
        rows.next()?.map(|row| Ok(output_of(row)?.1)).transpose()
    }
}

/// A copy of a journal of which no file has a name any more: it goes with whoever reads it, however that ends.
fn copy_of(path: &Path) -> Result<Connection, JournalError> {
    store::check_log(path)?;
    // A name that nobody can foresee, in a folder for the eyes of this user alone.
    let folder = tempfile::Builder::new().prefix("gswarm-view-").tempdir().map_err(JournalError::Folder)?;
    let copy = folder.path().join("journal.db");
    let copied = || -> std::io::Result<()> {
        std::fs::copy(path, &copy)?;
        let log = store::beside(path, "-wal");
        if log.exists() {
            std::fs::copy(log, store::beside(&copy, "-wal"))?;
        }
        Ok(())
    };
    copied().map_err(JournalError::Folder)?;
    let db = store::connect(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // What the log of a killed process holds is taken in: from here on the one file is all there is.
    db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    db.pragma_update(None, "journal_mode", "MEMORY")?;
    Ok(db)
}
