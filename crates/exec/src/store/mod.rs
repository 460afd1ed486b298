//! Untrusted SQLite files: private, never opened through a link, and checked when opened. Each row has a checksum, so
//! only data that gswarm wrote is used.

mod checksum;
mod fault;
mod place;
mod wal;

pub use fault::{Durability, JournalError};
pub(crate) use place::Place;

use checksum::register;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file for this user alone. It is made where there is none, and a link in its place is refused.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let file = options.open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        // An earlier version made it readable to others. Where it belongs to somebody else, it stays as it is.
        let _ = file.set_permissions(Permissions::from_mode(0o600));
    }
    Ok(file)
}

/// The file of a name beside another: its own name with an ending.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The path with no link in its folder: SQLite, told to follow none, refuses those too, and they are the user's business.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(folder.canonicalize()?.join(path.file_name().unwrap_or_default()))
}

/// Opens a database to write it. Whoever calls this holds the lock that goes with it, given as `lock`.
pub(crate) fn open(path: &Path, lock: &File, durability: Durability) -> Result<Connection, JournalError> {
    wal::check(path, lock)?;
    let file = private_file(path).map_err(JournalError::Folder)?;
    let mut head = [0; 20];
    if file.read_at(&mut head, 0).is_ok_and(|read| read == head.len())
        && head[18..].iter().any(|&one| one > 2)
    {
        // SQLite would take it for one that it may not write.
        return Err(JournalError::Damaged("another version of SQLite wrote it".to_owned()));
    }
    drop(file);
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let level = match durability {
        Durability::Process => "NORMAL",
        Durability::Machine => "FULL",
    };
    let set = || {
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", level)?;
        db.execute_batch("BEGIN IMMEDIATE; COMMIT")
    };
    match set() {
        Err(error) if is_busy(&error) => Err(JournalError::InUse),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(db),
    }
}

/// Opens a database to read it, perhaps while it is written.
pub(crate) fn read(path: &Path) -> Result<Connection, JournalError> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// Opens a database that is there.
pub(crate) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, JournalError> {
    let path = without_links(path).map_err(JournalError::Folder)?;
    let flags = flags | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(Duration::from_secs(5))?;
    db.set_prepared_statement_cache_capacity(32);
    register(&db)?;
    Ok(db)
}

/// Whether a file that is about to be copied and read has lost something that was written to it.
pub(crate) fn check_log(path: &Path) -> Result<(), JournalError> {
    wal::check_frames(path, false)
}

/// Whether SQLite finds its pages in order, and the tables as they were made.
pub(crate) fn check(db: &Connection, schema: &str) -> Result<(), JournalError> {
    let verdict: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(JournalError::Damaged(verdict.lines().last().unwrap_or_default().to_owned()));
    }
    let tables = |db: &Connection| -> Result<Vec<(String, String)>, JournalError> {
        let sql = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
        let mut statement = db.prepare(sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    };
    let intended = Connection::open_in_memory()?;
    intended.execute_batch(schema)?;
    if tables(db)? != tables(&intended)? {
        return Err(JournalError::Damaged("its tables were changed".to_owned()));
    }
    Ok(())
}

/// Whether nothing has been written yet. A version of zero alone does not say so.
pub(crate) fn is_empty(db: &Connection) -> Result<bool, JournalError> {
    Ok(db.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))?)
}

/// Whether the checksum of every row of a table fits. `columns` are those that it is of.
pub(crate) fn check_rows(db: &Connection, table: &str, columns: &str) -> Result<(), JournalError> {
    let sql =
        format!("SELECT count(*) FROM {table} NOT INDEXED WHERE sum IS NOT row_sum('{table}', {columns})");
    let wrong: i64 = db.query_row(&sql, [], |row| row.get(0))?;
    if wrong > 0 {
        let rows = if wrong == 1 { "row" } else { "rows" };
        let why = format!("{wrong} {rows} of `{table}` do not match their checksums");
        return Err(JournalError::Damaged(why));
    }
    Ok(())
}

pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
