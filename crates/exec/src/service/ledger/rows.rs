//! The tables of a ledger. Each row has a checksum of all its other columns.

use super::{Acceptance, FILE, Left, Write};
use crate::store::{self, JournalError};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};
use std::path::Path;

/// The version of the layout.
const VERSION: i64 = 2;

/// `aged` is how long the ledger had lived when a request ended: it is kept by that, not by the wall's clock.
const SCHEMA: &str = "
CREATE TABLE requests (id TEXT PRIMARY KEY, workflow TEXT NOT NULL, caller TEXT NOT NULL, accepted INTEGER NOT NULL,
    ended INTEGER, aged INTEGER, status TEXT NOT NULL, why TEXT, body TEXT NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX aged_requests ON requests (aged) WHERE aged IS NOT NULL;
CREATE TABLE outputs (request TEXT NOT NULL, node TEXT NOT NULL, value TEXT NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (request, node)) WITHOUT ROWID;
CREATE TABLE failures (request TEXT NOT NULL, number INTEGER NOT NULL, node TEXT NOT NULL, at INTEGER NOT NULL,
    why TEXT NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (request, number)) WITHOUT ROWID;
CREATE TABLE life (one INTEGER PRIMARY KEY, lived INTEGER NOT NULL, sum INTEGER NOT NULL);
";

/// The columns that a checksum is of, for each table.
const ROWS: [(&str, &str); 4] = [
    ("requests", REQUEST),
    ("outputs", "request, node, value"),
    ("failures", "request, number, node, at, why"),
    ("life", "one, lived"),
];
pub(super) const REQUEST: &str = "id, workflow, caller, accepted, ended, aged, status, why, body";

/// From the version that had no checksums.
const FROM_VERSION_1: &str = "
DROP INDEX open_requests; DROP INDEX ended_requests; DROP INDEX failures_of;
ALTER TABLE requests RENAME TO old_requests;
ALTER TABLE outputs RENAME TO old_outputs;
ALTER TABLE failures RENAME TO old_failures;
";
const FROM_OLD_TABLES: &str = "
INSERT INTO requests SELECT id, workflow, '', accepted, ended, iif(ended IS NULL, NULL, 0), status, why, body,
    row_sum('requests', id, workflow, '', accepted, ended, iif(ended IS NULL, NULL, 0), status, why, body) FROM old_requests;
INSERT INTO outputs SELECT request, node, value, row_sum('outputs', request, node, value) FROM old_outputs;
INSERT INTO failures SELECT request, number, node, at, why, row_sum('failures', request, number, node, at, why)
    FROM (SELECT *, row_number() OVER (PARTITION BY request ORDER BY at, rowid) AS number FROM old_failures);
DROP TABLE old_requests; DROP TABLE old_outputs; DROP TABLE old_failures;
";

/// The name under which a ledger that was deleted is written anew, until it is whole.
pub(super) fn restored(path: &Path) -> std::path::PathBuf {
    path.with_file_name(format!("{FILE}.restored"))
}

/// A process that was killed while it put a deleted ledger back may have had it whole.
pub(super) fn put_back(path: &Path) -> std::io::Result<()> {
    let restored = restored(path);
    if !path.exists() && restored.exists() {
        std::fs::rename(restored, path)?;
    }
    Ok(())
}

/// Makes the tables, or checks every page and row of those that are there.
pub(super) fn prepare(db: &Connection) -> Result<(), JournalError> {
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let made = format!("PRAGMA user_version = {VERSION};COMMIT");
    match version {
        0 => db.execute_batch(&format!("BEGIN IMMEDIATE;{SCHEMA}{made}"))?,
        1 => {
            db.execute_batch(&format!("BEGIN IMMEDIATE;{FROM_VERSION_1}{SCHEMA}{FROM_OLD_TABLES}{made}"))?;
        }
        VERSION => {}
        other => return Err(JournalError::other_version(other, VERSION)),
    }
    store::check(db, SCHEMA)?;
    ROWS.iter().try_for_each(|(table, columns)| store::check_rows(db, table, columns))
}

/// What had been accepted and had not ended, oldest first.
pub(super) fn left(db: &Connection) -> Result<Vec<Left>, JournalError> {
    // The rows were checked, an index was not.
    let sql = "SELECT id, body, caller, accepted FROM requests NOT INDEXED WHERE ended IS NULL ORDER BY accepted, id";
    let mut statement = db.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        let (id, body, caller) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Left { id, body, caller, accepted: row.get(3)?, outputs: Vec::new() })
    })?;
    let mut left: Vec<Left> = rows.collect::<Result<_, _>>()?;
    for request in &mut left {
        let object = |(node, value): (String, Value)| match value {
            Value::Object(fields) => Some((node, fields)),
            _ => None,
        };
        request.outputs = outputs_of(db, &request.id)?.into_iter().filter_map(object).collect();
    }
    Ok(left)
}

/// How long the ledger has been open in all, in microseconds.
pub(super) fn lived(db: &Connection) -> Result<i64, JournalError> {
    let sql =
        "SELECT max(coalesce((SELECT lived FROM life), 0), coalesce((SELECT max(aged) FROM requests), 0))";
    Ok(db.query_row(sql, [], |row| row.get(0))?)
}

/// What the nodes of a request wrote.
pub(super) fn outputs_of(db: &Connection, id: &str) -> Result<Vec<(String, Value)>, JournalError> {
    let sql =
        "SELECT node, value, sum IS row_sum('outputs', request, node, value) FROM outputs WHERE request = ?1";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([id])?;
    let mut outputs = Vec::new();
    while let Some(row) = rows.next()? {
        if !row.get::<_, bool>(2)? {
            return Err(altered(id));
        }
        let text: String = row.get(1)?;
        let value = serde_json::from_str::<Map<String, Value>>(&text);
        let value = value.map_err(|error| JournalError::Damaged(error.to_string()))?;
        outputs.push((row.get(0)?, Value::Object(value)));
    }
    Ok(outputs)
}

pub(super) fn altered(id: &str) -> JournalError {
    JournalError::Damaged(format!("the record of `{id}` does not match its checksum"))
}

/// Writes one thing; for a request that is to be accepted, whether there was none of its name.
pub(super) fn apply(db: &Connection, write: &Write) -> Result<bool, JournalError> {
    match write {
        Write::Accept(Acceptance { id, workflow, body, caller, at, .. }) => {
            let sql = "INSERT INTO requests VALUES (?1, ?2, ?3, ?4, NULL, NULL, 'open', NULL, ?5,
                row_sum('requests', ?1, ?2, ?3, ?4, NULL, NULL, 'open', NULL, ?5)) ON CONFLICT (id) DO NOTHING";
            let row = params![&**id, workflow, &**caller, at, body];
            return Ok(db.prepare_cached(sql)?.execute(row)? == 1);
        }
        Write::Output { id, node, value } => {
            let sql = "INSERT OR REPLACE INTO outputs VALUES (?1, ?2, ?3, row_sum('outputs', ?1, ?2, ?3))";
            db.prepare_cached(sql)?.execute(params![&**id, node, value])?;
        }
        Write::Failure { id, node, at, why } => {
            let sql = "INSERT INTO failures SELECT ?1, n, ?2, ?3, ?4, row_sum('failures', ?1, n, ?2, ?3, ?4)
                FROM (SELECT coalesce(max(number), 0) + 1 AS n FROM failures WHERE request = ?1)";
            db.prepare_cached(sql)?.execute(params![&**id, node, at, why])?;
        }
        Write::End { id, status, at, lived, why } => {
            // What else the row says was written before: it is not given a checksum unless it fits the one that it has.
            let sql = format!(
                "UPDATE requests SET ended = ?2, aged = ?3, status = ?4, why = ?5,
                    sum = row_sum('requests', id, workflow, caller, accepted, ?2, ?3, ?4, ?5, body)
                 WHERE id = ?1 AND sum IS row_sum('requests', {REQUEST})"
            );
            let row = params![&**id, at, lived, status, why];
            let is_there = db.prepare_cached(&sql)?.execute(row)? == 1;
            if !is_there {
                return Err(altered(id));
            }
        }
        Write::Prune { before, lived } => {
            let sql = "INSERT OR REPLACE INTO life VALUES (1, ?1, row_sum('life', 1, ?1))";
            db.prepare_cached(sql)?.execute([lived])?;
            before.map_or(Ok(()), |before| prune(db, before))?;
        }
        Write::Then(_) => {}
    }
    Ok(true)
}

/// Forgets what ended before a moment of the ledger's life.
fn prune(db: &Connection, before: i64) -> Result<(), JournalError> {
    // An index that was changed does not decide what is deleted: the row does.
    let ended = "SELECT id FROM requests WHERE id IN (SELECT id FROM requests INDEXED BY aged_requests
        WHERE aged < ?1) AND +aged < ?1";
    for table in ["outputs", "failures"] {
        db.execute(&format!("DELETE FROM {table} WHERE request IN ({ended})"), [before])?;
    }
    db.execute(&format!("DELETE FROM requests WHERE id IN ({ended})"), [before])?;
    Ok(())
}

/// Takes a promise back that nobody was given.
pub(super) fn withdraw(db: &Connection, id: &str) -> Result<(), JournalError> {
    db.prepare_cached("DELETE FROM requests WHERE id = ?1")?.execute([id])?;
    Ok(())
}

/// A value, where there is a row.
pub(super) fn optional<T>(found: rusqlite::Result<T>) -> Result<Option<T>, JournalError> {
    Ok(found.optional()?)
}
