//! The journal of a run: everything is recorded before it is done, so a killed run resumes from here.
//!
//! One SQLite file. What the engine is told and what the policy decides is written in the order in which it happens, and
//! reading it back into an engine gives the state at the moment of the kill.

mod reader;
pub(crate) mod replay;
#[cfg(test)]
mod tests;
pub(crate) mod writer;

pub use crate::store::{Durability, JournalError};
pub use reader::{JournalReader, is_written};

use crate::store;
use gswarm_core::engine::{Decision, Event};
use gswarm_core::{GpuId, Gpus, ModelId, RequestId, TaskId, Time};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use writer::Writer;

/// The version of the file's layout.
const VERSION: i64 = 2;

/// How often what is in SQLite's log is brought into the file itself.
const SAVED_EVERY: Duration = Duration::from_secs(1);
/// What the file says of itself while a run writes it; else zero. A file that says so and has no log beside it lacks the last
/// writes.
const IN_USE: u32 = 1;

/// Each row ends with its checksum, which is of everything before it.
const SCHEMA: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE entries (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind INTEGER NOT NULL, a INTEGER NOT NULL,
    b INTEGER NOT NULL, c INTEGER NOT NULL, d INTEGER NOT NULL, note TEXT, sum INTEGER NOT NULL);
CREATE TABLE outputs (task INTEGER PRIMARY KEY, value TEXT NOT NULL, sum INTEGER NOT NULL);
";

/// What is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalEntry {
    /// Something happened.
    Event(Event),
    /// The policy decided something.
    Decision(Decision),
}

/// An entry as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its place in the journal.
    pub id: i64,
    /// When.
    pub at: Time,
    /// What.
    pub entry: JournalEntry,
    /// Why, where something went wrong.
    pub note: Option<String>,
}

/// A task that has finished, and what it wrote.
pub type Output = (TaskId, Map<String, Value>);

/// A journal that is being written.
pub struct Journal {
    db: Writer,
    /// The number of the next entry.
    next: i64,
    /// When the file alone was last whole: what is written since may be in SQLite's log beside it.
    saved: Instant,
    /// Held as long as the journal is.
    _lock: std::fs::File,
}

impl Journal {
    /// Begins a journal. `meta` is what a reader needs to make the same problem again.
    pub fn create(
        path: &Path,
        durability: Durability,
        meta: &[(&str, &[u8])],
    ) -> Result<Journal, JournalError> {
        let mut journal = Journal::begin(path, durability, meta)?;
        journal.save();
        Ok(journal)
    }

    /// The same, with all of it in SQLite's log.
    fn begin(path: &Path, durability: Durability, meta: &[(&str, &[u8])]) -> Result<Journal, JournalError> {
        let journal = connect(path, durability)?;
        let version: i64 = journal.db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version != 0 {
            return Err(JournalError::Taken);
        }
        journal.db.execute_batch("BEGIN EXCLUSIVE")?;
        journal.db.execute_batch(SCHEMA)?;
        for (key, value) in meta {
            let sql = "INSERT INTO meta VALUES (?1, ?2, row_sum('meta', ?1, ?2))";
            journal.db.execute(sql, params![key, value])?;
        }
        journal.db.pragma_update(None, "user_version", VERSION)?;
        journal.db.pragma_update(None, "application_id", IN_USE)?;
        journal.db.execute_batch("COMMIT")?;
        Ok(journal)
    }

    /// Opens a journal to go on with it. One in which there is no run is left as it is.
    pub fn open(path: &Path, durability: Durability) -> Result<Journal, JournalError> {
        // To open a file for writing is to write to it: one that may be no journal is looked at first.
        if !reader::says_its_version(path).map_err(JournalError::Folder)? {
            until(|| !reader::is_written(path))?;
            JournalReader::open(path)?;
        }
        let lacks_log = reader::lacks_log(path).map_err(JournalError::Folder)?;
        let mut journal = connect(path, durability)?;
        let version: i64 = journal.db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        match version {
            VERSION => {}
            0 => return Err(nothing_in(&journal.db)?),
            other => return Err(JournalError::other_version(other, VERSION)),
        }
        store::check(&journal.db, SCHEMA)?;
        let last = "SELECT coalesce(max(id), 0) FROM entries";
        journal.next = journal.db.query_row(last, [], |row| row.get::<_, i64>(0))?.saturating_add(1);
        if lacks_log {
            tracing::warn!(
                "{} is missing: work that {} does not record is repeated",
                store::beside(path, "-wal").display(),
                path.display()
            );
        }
        journal.db.pragma_update(None, "application_id", IN_USE)?;
        Ok(journal)
    }

    /// Whether somebody is writing the journal at this path. It is only looked at: where there is none, none is made.
    #[must_use]
    pub fn is_in_use(path: &Path) -> bool {
        reader::is_written(path)
    }

    /// One of the things that it was begun with.
    pub fn meta(&self, key: &str) -> Result<Option<Vec<u8>>, JournalError> {
        meta_of(&self.db, key)
    }

    /// Everything that was written, in order.
    pub fn entries(&self) -> Result<Vec<Written>, JournalError> {
        entries_after(&self.db, 0, u32::MAX)
    }

    /// What the tasks that have finished wrote.
    pub fn outputs(&self) -> Result<Vec<Output>, JournalError> {
        let mut statement = self.db.prepare(&format!("{OUTPUTS} ORDER BY task"))?;
        let mut rows = statement.query([])?;
        let mut outputs = Vec::new();
        while let Some(row) = rows.next()? {
            outputs.push(output_of(row)?);
        }
        Ok(outputs)
    }

    /// Writes an entry; it counts once it is [committed](Journal::commit).
    pub fn append(&mut self, at: Time, entry: JournalEntry, note: Option<&str>) -> Result<(), JournalError> {
        // A wake-up changes nothing that is not asked for again.
        let Some((kind, [a, b, c, d])) = encode(entry) else { return Ok(()) };
        self.db.begin()?;
        let sql = "INSERT INTO entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,
            row_sum('entries', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8))";
        self.db.prepare_cached(sql)?.execute(params![self.next, at.0 as i64, kind, a, b, c, d, note])?;
        self.next += 1;
        Ok(())
    }

    /// Writes what a task gave. It is there exactly once, however often the task was tried.
    pub fn output(&mut self, task: TaskId, value: &Map<String, Value>) -> Result<(), JournalError> {
        self.db.begin()?;
        let text = serde_json::to_string(value).map_err(|error| JournalError::Damaged(error.to_string()))?;
        let sql = "INSERT OR REPLACE INTO outputs VALUES (?1, ?2, row_sum('outputs', ?1, ?2))";
        self.db.prepare_cached(sql)?.execute(params![task.0, text])?;
        Ok(())
    }

    /// Everything since the last commit counts, or nothing of it.
    pub fn commit(&mut self) -> Result<(), JournalError> {
        self.db.commit()?;
        if self.saved.elapsed() >= SAVED_EVERY {
            self.save();
        }
        Ok(())
    }

    /// Brings what is in SQLite's log into the file, so that the file alone is whole.
    fn save(&mut self) {
        self.saved = Instant::now();
        // Where that fails, on a full disk, everything stays in the log, and the next commit says so.
        let _ = self.db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Who closes a journal has brought everything into the file. Where that fails, it says what it said before.
        let _ = self.db.pragma_update(None, "application_id", 0);
    }
}

fn connect(path: &Path, durability: Durability) -> Result<Journal, JournalError> {
    // One process at a time writes; others may read meanwhile, so that the lock is a file of its own.
    let lock = store::private_file(&lock_of(path)).map_err(JournalError::Folder)?;
    until(|| lock.try_lock().is_ok())?;
    let db = store::open(path, &lock, durability)?;
    Ok(Journal { db: Writer::new(db), next: 1, saved: Instant::now(), _lock: lock })
}

/// One of the things that a journal was begun with.
fn meta_of(db: &Connection, key: &str) -> Result<Option<Vec<u8>>, JournalError> {
    let sql = "SELECT value, sum IS row_sum('meta', key, value) FROM meta WHERE key = ?1";
    match db.query_row(sql, [key], |row| Ok((row.get(0)?, row.get(1)?))).optional()? {
        Some((_, false)) => Err(altered(&format!("`{key}`"))),
        found => Ok(found.map(|(value, _)| value)),
    }
}

const OUTPUTS: &str = "SELECT task, value, sum IS row_sum('outputs', task, value) FROM outputs";

fn output_of(row: &rusqlite::Row<'_>) -> Result<Output, JournalError> {
    let (task, text): (u32, String) = (row.get(0)?, row.get(1)?);
    if !row.get::<_, bool>(2)? {
        return Err(altered(&format!("the output of task {task}")));
    }
    let value = serde_json::from_str(&text).map_err(|error| JournalError::Damaged(error.to_string()))?;
    Ok((TaskId(task), value))
}

/// What is wrong with a journal of version zero.
fn nothing_in(db: &Connection) -> Result<JournalError, JournalError> {
    let damaged = || JournalError::Damaged("its version was changed".to_owned());
    Ok(if store::is_empty(db)? { JournalError::Empty } else { damaged() })
}

fn altered(what: &str) -> JournalError {
    JournalError::Damaged(format!("{what} does not match its checksum"))
}

/// Makes the checksums of a journal fit what it holds: for tests that change what it says.
#[doc(hidden)]
pub fn reseal(path: &Path) -> Result<(), JournalError> {
    let db = store::connect(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    Ok(db.execute_batch(
        "UPDATE meta SET sum = row_sum('meta', key, value);
         UPDATE entries SET sum = row_sum('entries', id, at, kind, a, b, c, d, note);
         UPDATE outputs SET sum = row_sum('outputs', task, value);",
    )?)
}

/// The file that whoever writes a journal holds a lock on.
fn lock_of(path: &Path) -> PathBuf {
    store::beside(path, ".lock")
}

/// Waits a moment for a lock: whoever only looks whether it is taken holds it, and so does a process that was killed until it is gone.
fn until(is_free: impl Fn() -> bool) -> Result<(), JournalError> {
    for _ in 0..100 {
        if is_free() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(JournalError::InUse)
}

/// What was written after an entry, in order, `limit` entries at most; all of it from the first on where `id` is 0.
fn entries_after(db: &Connection, id: i64, limit: u32) -> Result<Vec<Written>, JournalError> {
    // An output is written together with the entry that says that its task has finished.
    let sql = "SELECT id, at, kind, a, b, c, d, note, kind = 0 AND NOT EXISTS (SELECT 1 FROM outputs WHERE task = a),
        sum IS row_sum('entries', id, at, kind, a, b, c, d, note) FROM entries WHERE id > ?1 ORDER BY id LIMIT ?2";
    let mut statement = db.prepare_cached(sql)?;
    // Entries are counted from 1. One before that was not written by a run, and is found by not being the first.
    let mut rows = statement.query((if id == 0 { i64::MIN } else { id }, limit))?;
    let mut entries = Vec::new();
    let mut last = id;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        if id != last + 1 {
            return Err(JournalError::Damaged(format!("entry {id} follows entry {last}")));
        }
        if !row.get::<_, bool>(9)? {
            return Err(altered(&format!("entry {id}")));
        }
        let number = |at: usize| {
            let value = row.get::<_, i64>(at)?;
            let damaged =
                |_| JournalError::Damaged(format!("entry {id} contains the invalid number {value}"));
            u32::try_from(value).map_err(damaged)
        };
        let entry = decode(id, row.get(2)?, [number(3)?, number(4)?, number(5)?, number(6)?])?;
        let at: i64 = row.get(1)?;
        let at = u64::try_from(at).map_err(|_| {
            JournalError::Damaged(format!("entry {id} is dated {at} microseconds after the start of the run"))
        })?;
        if row.get(8)? {
            return Err(JournalError::Damaged(format!("the output of the task of entry {id} is missing")));
        }
        entries.push(Written { id, at: Time(at), entry, note: row.get(7)? });
        last = id;
    }
    Ok(entries)
}

const NOBODY: u32 = u32::MAX;

fn encode(entry: JournalEntry) -> Option<(i64, [u32; 4])> {
    Some(match entry {
        JournalEntry::Event(Event::Finished(task)) => (0, [task.0, 0, 0, 0]),
        JournalEntry::Event(Event::Failed(task)) => (1, [task.0, 0, 0, 0]),
        JournalEntry::Event(Event::LoadFailed(lead)) => (2, [lead.0, 0, 0, 0]),
        JournalEntry::Event(Event::Lost(gpu)) => (3, [gpu.0, 0, 0, 0]),
        JournalEntry::Event(Event::Loaded(lead)) => (4, [lead.0, 0, 0, 0]),
        JournalEntry::Event(Event::Returned(gpu)) => (5, [gpu.0, 0, 0, 0]),
        JournalEntry::Event(Event::Arrived(request)) => (6, [request.0, 0, 0, 0]),
        JournalEntry::Event(Event::Withdrawn(request)) => (7, [request.0, 0, 0, 0]),
        JournalEntry::Decision(Decision::Start { task, gpus }) => (8, [task.0, gpus.first.0, gpus.count, 0]),
        JournalEntry::Decision(Decision::Load { model, gpus, ahead_of }) => {
            (9, [model.0, gpus.first.0, gpus.count, ahead_of.map_or(NOBODY, |task| task.0)])
        }
        JournalEntry::Event(Event::Refused(task)) => (10, [task.0, 0, 0, 0]),
        JournalEntry::Event(Event::Held(task)) => (11, [task.0, 0, 0, 0]),
        JournalEntry::Event(Event::Released(task)) => (12, [task.0, 0, 0, 0]),
        JournalEntry::Event(Event::Reopened(request)) => (13, [request.0, 0, 0, 0]),
        JournalEntry::Event(Event::Deferred(task)) => (20, [task.0, 0, 0, 0]),
        JournalEntry::Event(Event::LoadDeferred(lead)) => (21, [lead.0, 0, 0, 0]),
        JournalEntry::Event(Event::Abandoned(task)) => (22, [task.0, 0, 0, 0]),
        JournalEntry::Event(Event::Dismissed(model)) => (23, [model.0, 0, 0, 0]),
        JournalEntry::Event(Event::Woken) | JournalEntry::Decision(Decision::Wake { .. }) => return None,
    })
}

fn decode(id: i64, kind: i64, numbers: [u32; 4]) -> Result<JournalEntry, JournalError> {
    let [a, b, c, d] = numbers;
    let entry = match kind {
        0 => JournalEntry::Event(Event::Finished(TaskId(a))),
        1 => JournalEntry::Event(Event::Failed(TaskId(a))),
        2 => JournalEntry::Event(Event::LoadFailed(GpuId(a))),
        3 => JournalEntry::Event(Event::Lost(GpuId(a))),
        4 => JournalEntry::Event(Event::Loaded(GpuId(a))),
        5 => JournalEntry::Event(Event::Returned(GpuId(a))),
        6 => JournalEntry::Event(Event::Arrived(RequestId(a))),
        7 => JournalEntry::Event(Event::Withdrawn(RequestId(a))),
        8 => JournalEntry::Decision(Decision::Start { task: TaskId(a), gpus: Gpus::new(b, c) }),
        9 => JournalEntry::Decision(Decision::Load {
            model: ModelId(a),
            gpus: Gpus::new(b, c),
            ahead_of: (d != NOBODY).then_some(TaskId(d)),
        }),
        10 => JournalEntry::Event(Event::Refused(TaskId(a))),
        11 => JournalEntry::Event(Event::Held(TaskId(a))),
        12 => JournalEntry::Event(Event::Released(TaskId(a))),
        13 => JournalEntry::Event(Event::Reopened(RequestId(a))),
        20 => JournalEntry::Event(Event::Deferred(TaskId(a))),
        21 => JournalEntry::Event(Event::LoadDeferred(GpuId(a))),
        22 => JournalEntry::Event(Event::Abandoned(TaskId(a))),
        23 => JournalEntry::Event(Event::Dismissed(ModelId(a))),
        other => return Err(JournalError::Damaged(format!("entry {id} is of kind {other}"))),
    };
    if encode(entry) != Some((kind, numbers)) {
        return Err(JournalError::Damaged(format!("entry {id} has fields that its kind does not have")));
    }
    Ok(entry)
}
