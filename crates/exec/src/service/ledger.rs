//! The requests that a service has accepted, and what has come of them: one SQLite file that outlives the process.
//!
//! It keeps no account of GPUs and loads. After a crash the servers are asked anew, and whatever was not finished is done
//! again; a node that has finished is not.

use crate::chronicle::End;
use crate::journal::writer::{Writer, level};
use crate::journal::{Durability, JournalError};
use crate::wire::{RequestFailure, RequestRecord, RequestState};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The version of the file's layout.
const VERSION: i64 = 1;

const SCHEMA: &str = "
CREATE TABLE requests (id TEXT PRIMARY KEY, workflow TEXT NOT NULL, body TEXT NOT NULL, accepted INTEGER NOT NULL,
    ended INTEGER, status TEXT NOT NULL, why TEXT) WITHOUT ROWID;
CREATE INDEX open_requests ON requests (accepted) WHERE ended IS NULL;
CREATE INDEX ended_requests ON requests (ended) WHERE ended IS NOT NULL;
CREATE TABLE outputs (request TEXT NOT NULL, node TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (request, node)) WITHOUT ROWID;
CREATE TABLE failures (request TEXT NOT NULL, node TEXT NOT NULL, at INTEGER NOT NULL, why TEXT NOT NULL);
CREATE INDEX failures_of ON failures (request);
";

const FILE: &str = "requests.db";
const LOCK: &str = "lock";

/// A request that had been accepted and had not ended when the service stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// What people call it.
    pub id: String,
    /// As it was sent.
    pub body: String,
    /// When it was accepted, in microseconds since 1970.
    pub accepted: i64,
    /// What its nodes have written.
    pub outputs: Vec<(String, Map<String, Value>)>,
}

/// The ledger, for the one that writes it.
pub struct Ledger {
    db: Writer,
    /// Held as long as the ledger is.
    _lock: std::fs::File,
}

impl Ledger {
    /// Opens the ledger in a folder, or begins one.
    pub fn open(folder: &Path, durability: Durability) -> Result<Ledger, JournalError> {
        std::fs::create_dir_all(folder).map_err(JournalError::Folder)?;
        let lock = std::fs::File::create(folder.join(LOCK)).map_err(JournalError::Folder)?;
        lock.try_lock().map_err(|_| JournalError::InUse)?;
        let db = Connection::open(folder.join(FILE))?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", level(durability))?;
        let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        match version {
            0 => {
                db.execute_batch(&format!("BEGIN;{SCHEMA}PRAGMA user_version = {VERSION};COMMIT"))?;
            }
            VERSION => {}
            other => return Err(JournalError::other_version(other, VERSION)),
        }
        Ok(Ledger { db: Writer::new(db), _lock: lock })
    }

    /// What had been accepted and had not ended, oldest first.
    pub fn left(&self) -> Result<Vec<Left>, JournalError> {
        let sql = "SELECT id, body, accepted FROM requests WHERE ended IS NULL ORDER BY accepted, id";
        let mut statement = self.db.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            Ok(Left { id: row.get(0)?, body: row.get(1)?, accepted: row.get(2)?, outputs: Vec::new() })
        })?;
        let mut left: Vec<Left> = rows.collect::<Result<_, _>>()?;
        for request in &mut left {
            let outputs = outputs_of(&self.db, &request.id)?;
            let object = |(node, value): (String, Value)| match value {
                Value::Object(fields) => Some((node, fields)),
                _ => None,
            };
            request.outputs = outputs.into_iter().filter_map(object).collect();
        }
        Ok(left)
    }

    /// Writes a request down. `false` where there is one of this name.
    pub fn accept(&mut self, id: &str, workflow: &str, body: &str, at: i64) -> Result<bool, JournalError> {
        self.db.begin()?;
        let sql =
            "INSERT INTO requests (id, workflow, body, accepted, status) VALUES (?1, ?2, ?3, ?4, 'open')
                   ON CONFLICT (id) DO NOTHING";
        Ok(self.db.prepare_cached(sql)?.execute(params![id, workflow, body, at])? == 1)
    }

    /// What a node wrote. It is there exactly once, however often the node was tried.
    pub fn output(&mut self, id: &str, node: &str, value: &Map<String, Value>) -> Result<(), JournalError> {
        self.db.begin()?;
        let text = serde_json::to_string(value).map_err(|error| JournalError::Damaged(error.to_string()))?;
        let sql = "INSERT OR REPLACE INTO outputs VALUES (?1, ?2, ?3)";
        self.db.prepare_cached(sql)?.execute(params![id, node, text])?;
        Ok(())
    }

    /// Why an attempt at a node failed.
    pub fn failure(&mut self, id: &str, node: &str, at: i64, why: &str) -> Result<(), JournalError> {
        self.db.begin()?;
        let sql = "INSERT INTO failures VALUES (?1, ?2, ?3, ?4)";
        self.db.prepare_cached(sql)?.execute(params![id, node, at, why])?;
        Ok(())
    }

    /// A request has ended.
    pub fn end(&mut self, id: &str, end: End, at: i64, why: Option<&str>) -> Result<(), JournalError> {
        self.db.begin()?;
        let sql = "UPDATE requests SET ended = ?2, status = ?3, why = ?4 WHERE id = ?1";
        self.db.prepare_cached(sql)?.execute(params![id, at, end.state().name(), why])?;
        Ok(())
    }

    /// Forgets what ended before a moment.
    pub fn prune(&mut self, before: i64) -> Result<usize, JournalError> {
        self.db.begin()?;
        let ended = "SELECT id FROM requests WHERE ended < ?1";
        for table in ["outputs", "failures"] {
            let sql = format!("DELETE FROM {table} WHERE request IN ({ended})");
            self.db.execute(&sql, params![before])?;
        }
        Ok(self.db.execute("DELETE FROM requests WHERE ended < ?1", params![before])?)
    }

    /// Everything since the last commit counts, or nothing of it.
    pub fn commit(&mut self) -> Result<(), JournalError> {
        self.db.commit()
    }
}

/// Adds what the submission said for its sender alone, and whether the deadline was met.
fn as_sent(found: &mut RequestRecord, body: &str) {
    let sent: Value = serde_json::from_str(body).unwrap_or_default();
    let number = |name: &str| sent.get(name)?.as_number().cloned();
    found.priority = number("priority");
    found.deadline_seconds = number("deadline_seconds");
    found.metadata = sent.get("metadata").filter(|value| !value.is_null()).cloned();
    let took = found.ended_at.zip(found.accepted_at).map(|(ended, accepted)| ended - accepted);
    let deadline = found.deadline_seconds.as_ref().and_then(|seconds| seconds.as_f64());
    found.deadline_missed = took.zip(deadline).map(|(took, deadline)| took > deadline);
}

/// The ledger, for those who read it while it is written.
#[derive(Clone, Debug)]
pub struct Records {
    path: PathBuf,
}

impl Records {
    /// Of the ledger in a folder.
    #[must_use]
    pub fn of(folder: &Path) -> Records {
        Records { path: folder.join(FILE) }
    }

    /// A request as it was sent.
    pub fn body(&self, id: &str) -> Result<Option<String>, JournalError> {
        let sql = "SELECT body FROM requests WHERE id = ?1";
        Ok(self.connect()?.query_row(sql, [id], |row| row.get(0)).optional()?)
    }

    /// All that is known of a request: its status, what its nodes wrote, and what went wrong.
    pub fn request(&self, id: &str) -> Result<Option<RequestRecord>, JournalError> {
        let db = self.connect()?;
        let sql = "SELECT id, workflow, accepted, ended, status, why, body FROM requests WHERE id = ?1";
        let with_body = |row: &Row<'_>| Ok((summary(row)?, row.get::<_, String>(6)?));
        let Some((mut found, body)) = db.query_row(sql, [id], with_body).optional()? else { return Ok(None) };
        as_sent(&mut found, &body);
        let outputs: Map<String, Value> = outputs_of(&db, id)?.into_iter().collect();
        let mut statement =
            db.prepare("SELECT node, at, why FROM failures WHERE request = ?1 ORDER BY at")?;
        let failures = statement.query_map([id], |row| {
            let (node, at, why): (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(RequestFailure { node, at: seconds(at), why })
        })?;
        found.outputs = Some(outputs);
        found.failures = Some(failures.collect::<Result<_, _>>()?);
        Ok(Some(found))
    }

    /// The requests that were accepted last, without what came of them.
    pub fn latest(&self, limit: u32) -> Result<Vec<RequestRecord>, JournalError> {
        let db = self.connect()?;
        let sql =
            "SELECT id, workflow, accepted, ended, status, why FROM requests ORDER BY accepted DESC LIMIT ?1";
        let mut statement = db.prepare(sql)?;
        let rows = statement.query_map([limit], summary)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn connect(&self) -> Result<Connection, JournalError> {
        let db = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        db.busy_timeout(std::time::Duration::from_secs(5))?;
        Ok(db)
    }
}

fn summary(row: &Row<'_>) -> rusqlite::Result<RequestRecord> {
    let (ended, status): (Option<i64>, String) = (row.get(3)?, row.get(4)?);
    Ok(RequestRecord {
        request_id: row.get(0)?,
        workflow_id: row.get(1)?,
        status: RequestState::named(&status).unwrap_or(RequestState::Open),
        why: row.get(5)?,
        accepted_at: Some(seconds(row.get(2)?)),
        ended_at: ended.map(seconds),
        ..RequestRecord::default()
    })
}

fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

fn outputs_of(db: &Connection, id: &str) -> Result<Vec<(String, Value)>, JournalError> {
    let mut statement = db.prepare_cached("SELECT node, value FROM outputs WHERE request = ?1")?;
    let mut rows = statement.query([id])?;
    let mut outputs = Vec::new();
    while let Some(row) = rows.next()? {
        let text: String = row.get(1)?;
        let value = serde_json::from_str(&text).map_err(|error| JournalError::Damaged(error.to_string()))?;
        outputs.push((row.get(0)?, value));
    }
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_sent_comes_back_with_whether_it_was_in_time() {
        let body = r#"{"request_id": "r", "deadline_seconds": 2, "metadata": {"user": 7}, "priority": null}"#;
        for (ended, missed) in [(12.5, true), (11.5, false)] {
            let mut found =
                RequestRecord { accepted_at: Some(10.0), ended_at: Some(ended), ..RequestRecord::default() };
            as_sent(&mut found, body);
            assert_eq!(found.deadline_missed, Some(missed));
            assert_eq!((found.metadata, found.deadline_seconds), (Some(json!({"user": 7})), Some(2.into())));
            assert_eq!(found.priority, None);
        }
        let mut open = RequestRecord { accepted_at: Some(10.0), ..RequestRecord::default() };
        as_sent(&mut open, body);
        assert_eq!(open.deadline_missed, None, "it may still be in time");
    }
}
