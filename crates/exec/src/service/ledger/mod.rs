//! The accepted requests of a service and their results: one SQLite file that outlives the process.
//!
//! It does not record GPUs and loads. After a crash the servers are queried again, and unfinished nodes are repeated;
//! finished ones are not. A separate thread writes: a slow disk delays only acceptances. While the disk cannot be
//! written, nothing new is accepted, and pending records wait in memory.

mod records;
mod rows;
mod writer;

pub use records::Records;
pub use writer::{StorageFault, StorageTrouble};

use crate::chronicle::End;
use crate::store::{self, Durability, JournalError, Place};
use serde_json::{Map, Value};
use std::fs::File;
use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use writer::LedgerWriter;

const FILE: &str = "requests.db";
const LOCK: &str = "lock";

/// A request that had been accepted and had not ended when the service stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// What people call it.
    pub id: String,
    /// As it was sent.
    pub body: String,
    /// Who sent it.
    pub caller: String,
    /// When it was accepted, in microseconds since 1970.
    pub accepted: i64,
    /// What its nodes have written.
    pub outputs: Vec<(String, Map<String, Value>)>,
}

/// A request that is to be accepted.
pub struct Acceptance {
    /// What people call it.
    pub id: Arc<str>,
    /// Of this workflow.
    pub workflow: String,
    /// As it was sent.
    pub body: String,
    /// Who sent it.
    pub caller: Arc<str>,
    /// When, in microseconds since 1970.
    pub at: i64,
    /// Told when it is written: `false` where there is one of this name.
    pub reply: Box<dyn FnOnce(Result<bool, StorageTrouble>) + Send>,
}

/// Something that is to be written, in its turn.
enum Write {
    Accept(Acceptance),
    Output {
        id: Arc<str>,
        node: String,
        value: String,
    },
    Failure {
        id: Arc<str>,
        node: String,
        at: i64,
        why: String,
    },
    End {
        id: Arc<str>,
        status: &'static str,
        at: i64,
        lived: i64,
        why: Option<String>,
    },
    /// Forgets what ended before this much of the ledger's life had passed.
    Prune {
        before: Option<i64>,
        lived: i64,
    },
    /// To be called once everything before it is written.
    Then(Box<dyn FnOnce() + Send>),
}

/// The ledger, for the one that writes it.
pub struct Ledger {
    /// Writes since the last commit.
    batch: Vec<Write>,
    sender: Option<mpsc::Sender<Vec<Write>>>,
    thread: Option<JoinHandle<Result<(), JournalError>>>,
    trouble: Arc<Mutex<Option<StorageTrouble>>>,
    /// What the ledger had lived until it was opened, in microseconds.
    lived: i64,
    opened: Instant,
    records: Records,
}

impl Ledger {
    /// Opens the ledger in a folder, or begins one; and gives what had been accepted and had not ended, oldest first.
    pub fn open(folder: &Path, durability: Durability) -> Result<(Ledger, Vec<Left>), JournalError> {
        let made = std::fs::DirBuilder::new().recursive(true).create(folder);
        made.map_err(JournalError::Folder)?;
        let lock = locked(folder)?;
        let path = folder.join(FILE);
        rows::put_back(&path).map_err(JournalError::Folder)?;
        let db = store::open(&path, &lock, durability)?;
        rows::prepare(&db)?;
        // Nobody else writes; a program that copies the file may hold it for a while.
        db.busy_timeout(Duration::from_secs(60))?;
        let (left, lived) = (rows::left(&db)?, rows::lived(&db)?);
        let place = Arc::new(Mutex::new(Place::of(&path, &folder.join(LOCK))));
        let (sender, inbox) = mpsc::channel();
        let trouble = Arc::default();
        let writer =
            LedgerWriter::new(db, lock, folder, durability, Arc::clone(&place), Arc::clone(&trouble));
        let thread = std::thread::Builder::new().name("ledger".to_owned());
        let thread = thread.spawn(move || writer.run(&inbox)).map_err(JournalError::Folder)?;
        let ledger = Ledger {
            batch: Vec::new(),
            sender: Some(sender),
            thread: Some(thread),
            trouble,
            lived,
            opened: Instant::now(),
            records: Records::new(path, place),
        };
        Ok((ledger, left))
    }

    /// The ledger, to be read.
    pub fn records(&self) -> Records {
        self.records.clone()
    }

    /// Why nothing can be written at the moment, where that is so.
    pub fn trouble(&self) -> Option<StorageTrouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes a request down.
    pub fn accept(&mut self, acceptance: Acceptance) {
        self.batch.push(Write::Accept(acceptance));
    }

    /// What a node wrote. It is there exactly once, however often the node was tried.
    pub fn output(
        &mut self,
        id: &Arc<str>,
        node: &str,
        value: &Map<String, Value>,
    ) -> Result<(), JournalError> {
        let value = serde_json::to_string(value).map_err(|error| JournalError::Damaged(error.to_string()))?;
        self.batch.push(Write::Output { id: Arc::clone(id), node: node.to_owned(), value });
        Ok(())
    }

    /// Why an attempt at a node failed.
    pub fn failure(&mut self, id: &Arc<str>, node: &str, at: i64, why: &str) {
        let (node, why) = (node.to_owned(), why.to_owned());
        self.batch.push(Write::Failure { id: Arc::clone(id), node, at, why });
    }

    /// A request has ended.
    pub fn end(&mut self, id: &Arc<str>, end: End, at: i64, why: Option<&str>) {
        let (lived, why) = (self.age(), why.map(str::to_owned));
        self.batch.push(Write::End { id: Arc::clone(id), status: end.state().name(), at, lived, why });
    }

    /// Forgets what ended so long ago. Only the time in which the ledger was open counts, by a clock that nobody sets: one
    /// that jumps ahead deletes nothing.
    pub fn prune(&mut self, keep: Option<Duration>) {
        let lived = self.age();
        let keep = keep.map(|keep| i64::try_from(keep.as_micros()).unwrap_or(i64::MAX));
        self.batch.push(Write::Prune { before: keep.map(|keep| lived.saturating_sub(keep)), lived });
    }

    /// Calls this once everything until now is written.
    pub fn then(&mut self, call: impl FnOnce() + Send + 'static) {
        self.batch.push(Write::Then(Box::new(call)));
    }

    /// Hands what has come since the last time to the thread that writes. It counts as a whole, or not at all.
    pub fn commit(&mut self) {
        if let Some(sender) = self.sender.as_ref().filter(|_| !self.batch.is_empty()) {
            // The thread lives as long as its sender.
            let _ = sender.send(std::mem::take(&mut self.batch));
        }
    }

    /// Writes all that is left, or says why that cannot be done.
    pub fn close(&mut self) -> Result<(), JournalError> {
        self.prune(None);
        self.commit();
        self.sender = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(written)) => written,
            Some(Err(_)) => Err(JournalError::Damaged("the thread that writes it has ended".to_owned())),
            None => Ok(()),
        }
    }

    /// How long the ledger has been open in all, in microseconds.
    fn age(&self) -> i64 {
        self.lived.saturating_add(i64::try_from(self.opened.elapsed().as_micros()).unwrap_or(i64::MAX))
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // Whoever wants to know whether all was written has closed it before.
        let _ = self.close();
    }
}

/// The lock of a folder, held.
fn locked(folder: &Path) -> Result<File, JournalError> {
    let lock = store::private_file(&folder.join(LOCK)).map_err(JournalError::Folder)?;
    lock.try_lock().map_err(|_| JournalError::InUse)?;
    Ok(lock)
}

#[cfg(test)]
mod tests;
