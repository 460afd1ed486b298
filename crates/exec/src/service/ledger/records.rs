//! A reader of the ledger, also while it is being written.

use super::rows::{altered, optional, outputs_of};
use crate::store::{self, JournalError, Place};
use crate::wire::{RequestFailure, RequestRecord, RequestState};
use rusqlite::{Connection, Row};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

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

/// A reader of the ledger, also while it is being written.
#[derive(Clone, Debug)]
pub struct Records {
    path: PathBuf,
    place: Arc<Mutex<Place>>,
}

impl Records {
    pub(super) fn new(path: PathBuf, place: Arc<Mutex<Place>>) -> Records {
        Records { path, place }
    }

    /// A request as it was sent.
    pub fn body(&self, id: &str) -> Result<Option<String>, JournalError> {
        let db = self.connect()?;
        let sql = format!("{SUMMARY}, body FROM requests WHERE id = ?1");
        match optional(db.query_row(&sql, [id], |row| Ok((row.get(6)?, row.get(7)?))))? {
            Some((false, _)) => Err(altered(id)),
            found => Ok(found.map(|(_, body)| body)),
        }
    }

    /// All that is known of a request: its status, what its nodes wrote, and what went wrong.
    pub fn request(&self, id: &str) -> Result<Option<RequestRecord>, JournalError> {
        let db = self.connect()?;
        let sql = format!("{SUMMARY}, body FROM requests WHERE id = ?1");
        let with_body = |row: &Row<'_>| Ok((summary(row)?, row.get::<_, String>(7)?));
        let Some((found, body)) = optional(db.query_row(&sql, [id], with_body))? else { return Ok(None) };
        let mut found = found.ok_or_else(|| altered(id))?;
        as_sent(&mut found, &body);
        let outputs: Map<String, Value> = outputs_of(&db, id)?.into_iter().collect();
        let mut statement = db.prepare(
            "SELECT node, at, why, sum IS row_sum('failures', request, number, node, at, why)
                FROM failures WHERE request = ?1 ORDER BY number",
        )?;
        let failures = statement.query_map([id], |row| {
            let (node, at, why): (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(row.get::<_, bool>(3)?.then_some(RequestFailure { node, at: seconds(at), why }))
        })?;
        let failures: Vec<Option<RequestFailure>> = failures.collect::<Result<_, _>>()?;
        let failures: Option<Vec<RequestFailure>> = failures.into_iter().collect();
        found.outputs = Some(outputs);
        found.failures = Some(failures.ok_or_else(|| altered(id))?);
        Ok(Some(found))
    }

    /// The requests that were accepted last, without what came of them.
    pub fn latest(&self, limit: u32) -> Result<Vec<RequestRecord>, JournalError> {
        let db = self.connect()?;
        let mut statement =
            db.prepare(&format!("{SUMMARY} FROM requests ORDER BY accepted DESC LIMIT ?1"))?;
        let rows = statement.query_map([limit], summary)?;
        let rows: Vec<Option<RequestRecord>> = rows.collect::<Result<_, _>>()?;
        let rows: Option<Vec<RequestRecord>> = rows.into_iter().collect();
        rows.ok_or_else(|| altered("a request"))
    }

    fn connect(&self) -> Result<Connection, JournalError> {
        // Another file in its place has nothing to say.
        self.place.lock().unwrap_or_else(PoisonError::into_inner).has_database()?;
        store::read(&self.path)
    }
}

/// What [`summary`] reads, the last of it being whether the row is as it was written.
const SUMMARY: &str = "SELECT id, workflow, accepted, ended, status, why,
    sum IS row_sum('requests', id, workflow, caller, accepted, ended, aged, status, why, body)";

/// A request in short; `None` where the row is not as it was written.
fn summary(row: &Row<'_>) -> rusqlite::Result<Option<RequestRecord>> {
    if !row.get::<_, bool>(6)? {
        return Ok(None);
    }
    let (ended, status): (Option<i64>, String) = (row.get(3)?, row.get(4)?);
    Ok(Some(RequestRecord {
        request_id: row.get(0)?,
        workflow_id: row.get(1)?,
        status: RequestState::named(&status).unwrap_or(RequestState::Open),
        why: row.get(5)?,
        accepted_at: Some(seconds(row.get(2)?)),
        ended_at: ended.map(seconds),
        ..RequestRecord::default()
    }))
}

fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
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
