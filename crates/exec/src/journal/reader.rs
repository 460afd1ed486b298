//! A journal for those who only look, perhaps while somebody writes it. Nothing is written beside it.

use super::{JournalError, VERSION, Written, entries_after, lock_of};
use gswarm_core::TaskId;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use serde_json::{Map, Value};
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A journal that is read.
pub struct JournalReader {
    db: Connection,
    /// Where nobody writes the journal, what is read is a copy: SQLite would put files of its own beside the journal, and
    /// what a process that was killed has left is not to be touched.
    copy: Option<Copied>,
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

impl JournalReader {
    /// Opens a journal as it is now.
    pub fn open(path: &Path) -> Result<JournalReader, JournalError> {
        let copy = if is_written(path) { None } else { Some(Copied::of(path)?) };
        // Where somebody has begun to write meanwhile, the copy may be of no one moment.
        let copy = copy.filter(|_| !is_written(path));
        let file = copy.as_ref().map_or(path, |copy| &copy.file);
        // A copy may be written: that is how what the log of a killed process holds is taken in.
        let flags = match copy {
            Some(_) => OpenFlags::SQLITE_OPEN_READ_WRITE,
            None => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        let db = Connection::open_with_flags(file, flags)?;
        db.busy_timeout(Duration::from_secs(5))?;
        let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        match version {
            VERSION => Ok(JournalReader { db, copy }),
            0 => Err(JournalError::Empty),
            other => Err(JournalError::other_version(other, VERSION)),
        }
    }

    /// Whether the journal was being written when it was opened.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.copy.is_none()
    }

    /// One of the things that it was begun with.
    pub fn meta(&self, key: &str) -> Result<Option<Vec<u8>>, JournalError> {
        let found = self.db.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0));
        Ok(found.optional()?)
    }

    /// What was written after an entry, in order, `limit` entries at most.
    pub fn after(&self, id: i64, limit: u32) -> Result<Vec<Written>, JournalError> {
        entries_after(&self.db, id, limit)
    }

    /// What a task wrote, where it has finished.
    pub fn output(&self, task: TaskId) -> Result<Option<Map<String, Value>>, JournalError> {
        let sql = "SELECT value FROM outputs WHERE task = ?1";
        let text: Option<String> = self.db.query_row(sql, [task.0], |row| row.get(0)).optional()?;
        let read = |text: String| serde_json::from_str(&text);
        text.map(read).transpose().map_err(|error| JournalError::Damaged(error.to_string()))
    }
}

/// A copy of a journal that goes when nobody needs it any more.
struct Copied {
    folder: PathBuf,
    file: PathBuf,
}

impl Copied {
    fn of(path: &Path) -> Result<Copied, JournalError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("gswarm-view-{}-{number}", std::process::id()));
        let copied = Copied { file: folder.join("journal.db"), folder };
        let all = || -> std::io::Result<()> {
            // What models have written is for the eyes of this user alone.
            std::fs::DirBuilder::new().mode(0o700).create(&copied.folder)?;
            std::fs::copy(path, &copied.file)?;
            let beside = |path: &Path| {
                let mut name = path.as_os_str().to_owned();
                name.push("-wal");
                PathBuf::from(name)
            };
            if beside(path).exists() {
                std::fs::copy(beside(path), beside(&copied.file))?;
            }
            Ok(())
        };
        all().map_err(JournalError::Folder)?;
        Ok(copied)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // What cannot be removed is in a folder that the system clears.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
