//! The writer thread of a ledger. Failed writes wait and are retried.

use super::rows::{self, apply};
use super::{FILE, LOCK, Write, locked};
use crate::store::{self, Durability, JournalError, Place};
use rusqlite::Connection;
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What keeps a ledger from being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageFault {
    /// The disk takes no more.
    Full,
    /// The file was deleted, moved or replaced.
    Gone,
    /// It holds what was never written.
    Damaged,
}

/// Why nothing can be written down, and so nothing be promised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state cannot be written, so no new requests are accepted: {why}")]
pub struct StorageTrouble {
    /// What is wrong.
    pub fault: StorageFault,
    /// In words.
    pub why: String,
}

impl StorageTrouble {
    fn of(error: &JournalError) -> StorageTrouble {
        let (fault, what) = match error {
            JournalError::Gone(_) | JournalError::InUse => (StorageFault::Gone, "restore it, or restart"),
            JournalError::Damaged(_) => (StorageFault::Damaged, "restore a copy and restart"),
            // Where a disk is full, SQLite says so or that it cannot write.
            _ => (StorageFault::Full, "is the disk full? Accepted requests continue once there is space"),
        };
        StorageTrouble { fault, why: format!("{error}; {what}") }
    }
}

/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_millis(250);
/// How often it is seen whether the files are still there while there is nothing to write.
const IDLE: Duration = Duration::from_secs(2);
/// Writes in one transaction.
const TOGETHER: usize = 4096;
/// Attempts at what is left when the service ends.
const LAST_ATTEMPTS: u32 = 4;

pub(super) struct LedgerWriter {
    db: Connection,
    lock: File,
    folder: PathBuf,
    durability: Durability,
    place: Arc<Mutex<Place>>,
    trouble: Arc<Mutex<Option<StorageTrouble>>>,
    /// What has not been written.
    queue: VecDeque<Write>,
    /// Why the last attempt failed, where it did.
    last: Option<JournalError>,
    tried: Instant,
}

impl LedgerWriter {
    pub fn new(
        db: Connection,
        lock: File,
        folder: &Path,
        durability: Durability,
        place: Arc<Mutex<Place>>,
        trouble: Arc<Mutex<Option<StorageTrouble>>>,
    ) -> LedgerWriter {
        let (folder, queue, tried) = (folder.to_owned(), VecDeque::new(), Instant::now());
        LedgerWriter { db, lock, folder, durability, place, trouble, queue, last: None, tried }
    }

    /// Writes what comes until nothing more will.
    pub fn run(mut self, inbox: &Receiver<Vec<Write>>) -> Result<(), JournalError> {
        let mut last_attempts = 0;
        loop {
            let wait = if self.last.is_some() { RETRY.saturating_sub(self.tried.elapsed()) } else { IDLE };
            let is_open = self.take(inbox, wait);
            if self.last.is_some() {
                self.refuse();
                if is_open && self.tried.elapsed() < RETRY {
                    continue;
                }
            }
            self.attempt();
            if !is_open {
                last_attempts += 1;
                match self.last.take() {
                    None if self.queue.is_empty() => return Ok(()),
                    Some(error) if last_attempts >= LAST_ATTEMPTS => return Err(error),
                    Some(error) => {
                        self.last = Some(error);
                        std::thread::sleep(RETRY);
                    }
                    None => {}
                }
            }
        }
    }

    /// Takes in what has come; `false` where nothing more will.
    fn take(&mut self, inbox: &Receiver<Vec<Write>>, wait: Duration) -> bool {
        if self.queue.is_empty() || self.last.is_some() {
            match inbox.recv_timeout(wait) {
                Ok(writes) => self.queue.extend(writes),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        while self.queue.len() < TOGETHER
            && let Ok(writes) = inbox.try_recv()
        {
            self.queue.extend(writes);
        }
        true
    }

    /// Writes what waits, as one transaction.
    fn attempt(&mut self) {
        self.tried = Instant::now();
        let written = self.write().or_else(|error| match error {
            JournalError::Gone(_) => self.restore().and_then(|()| self.write()),
            other => Err(other),
        });
        match written {
            Ok(()) => {
                if self.last.take().is_some() {
                    tracing::warn!("{}: the state can be written again", self.folder.display());
                    self.say(None);
                }
            }
            Err(error) => {
                let trouble = StorageTrouble::of(&error);
                if self.last.is_none() {
                    tracing::warn!("{}: {trouble}", self.folder.display());
                }
                self.say(Some(trouble));
                self.last = Some(error);
                self.refuse();
            }
        }
    }

    fn say(&self, trouble: Option<StorageTrouble>) {
        metrics::gauge!("gswarm_storage_trouble").set(if trouble.is_some() { 1.0 } else { 0.0 });
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// Tells those who wait to be accepted that they are not.
    fn refuse(&mut self) {
        let Some(trouble) = self.last.as_ref().map(StorageTrouble::of) else { return };
        let (accepts, others) =
            std::mem::take(&mut self.queue).into_iter().partition(|write| matches!(write, Write::Accept(_)));
        self.queue = others;
        let accepts: VecDeque<Write> = accepts;
        for accept in accepts {
            if let Write::Accept(acceptance) = accept {
                (acceptance.reply)(Err(trouble.clone()));
            }
        }
    }

    /// Writes up to so many things, sees that they are where they will be looked for, and only then says so.
    fn write(&mut self) -> Result<(), JournalError> {
        let check = |place: &Mutex<Place>| place.lock().unwrap_or_else(PoisonError::into_inner).check();
        check(&self.place)?;
        let count = self.queue.len().min(TOGETHER);
        // Where nothing waits, a write tells whether the trouble is over.
        if count == 0 && self.last.is_none() {
            return Ok(());
        }
        let writes: Vec<&Write> = self.queue.iter().take(count).collect();
        let news = transaction(&self.db, &writes)?;
        if let Err(gone) = check(&self.place) {
            // Nobody was told: it is as if nothing had been accepted.
            for (write, &is_new) in writes.iter().zip(&news) {
                if let (Write::Accept(acceptance), true) = (write, is_new) {
                    rows::withdraw(&self.db, &acceptance.id)?;
                }
            }
            return Err(gone);
        }
        for (write, is_new) in self.queue.drain(..count).zip(news) {
            match write {
                Write::Accept(acceptance) => (acceptance.reply)(Ok(is_new)),
                Write::Then(call) => call(),
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts a ledger that was deleted or moved back: the open file still has all of it. A file that somebody else put in its
    /// place is left alone.
    fn restore(&mut self) -> Result<(), JournalError> {
        let (path, place) = (self.folder.join(FILE), Arc::clone(&self.place));
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if !place.is_free() {
            return Err(JournalError::Gone(path));
        }
        std::fs::create_dir_all(&self.folder).map_err(JournalError::Folder)?;
        if !place.has_lock() {
            self.lock = locked(&self.folder)?;
        }
        let copy = rows::restored(&path);
        let _ = std::fs::remove_file(&copy);
        let file = store::private_file(&copy).map_err(JournalError::Folder)?;
        let name = copy.to_str().ok_or_else(|| JournalError::Gone(path.clone()))?;
        self.db.execute("VACUUM INTO ?1", [name])?;
        let moved = || -> std::io::Result<()> {
            file.sync_all()?;
            // The log belongs to the file that has gone, not to this one.
            for ending in ["-wal", "-shm"] {
                let _ = std::fs::remove_file(store::beside(&path, ending));
            }
            std::fs::rename(&copy, &path)
        };
        moved().map_err(JournalError::Folder)?;
        // To close a file gives up the locks that this process has on it: SQLite has none yet.
        drop(file);
        // Closed before the new one is opened: SQLite deletes the log by its name.
        drop(std::mem::replace(&mut self.db, Connection::open_in_memory()?));
        self.db = store::open(&path, &self.lock, self.durability)?;
        rows::prepare(&self.db)?;
        *place = Place::of(&path, &self.folder.join(LOCK));
        tracing::warn!("{} was deleted or moved: it was rewritten in full", path.display());
        Ok(())
    }
}

/// All of it, or nothing; and for each whether it was new. Where there is nothing, the disk is tried.
fn transaction(db: &Connection, writes: &[&Write]) -> Result<Vec<bool>, JournalError> {
    db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let all = || {
        if writes.is_empty() {
            db.execute("UPDATE life SET lived = lived", [])?;
        }
        let news = writes.iter().map(|write| apply(db, write)).collect::<Result<_, _>>()?;
        db.prepare_cached("COMMIT")?.execute([])?;
        Ok(news)
    };
    let written: Result<Vec<bool>, JournalError> = all();
    if written.is_err() && !db.is_autocommit() {
        // SQLite has taken most failures back by itself.
        let _ = db.execute_batch("ROLLBACK");
    }
    written
}
