//! The checksum of a row, as a function of SQL: `row_sum(table, column, ...)`.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use twox_hash::XxHash3_64;

/// Makes the function known to a connection.
pub(crate) fn register(db: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("row_sum", -1, flags, |values| {
        let mut hash = XxHash3_64::with_seed(0);
        for at in 0..values.len() {
            add(&mut hash, values.get_raw(at));
        }
        use std::hash::Hasher;
        Ok(hash.finish().cast_signed())
    })
}

/// A value with its kind and length, so that two rows never look the same.
fn add(hash: &mut XxHash3_64, value: ValueRef<'_>) {
    use std::hash::Hasher;
    let (kind, bytes): (u8, &[u8]) = match &value {
        ValueRef::Null => (0, &[]),
        ValueRef::Integer(number) => (1, &number.to_le_bytes()),
        ValueRef::Real(number) => (2, &number.to_bits().to_le_bytes()),
        ValueRef::Text(bytes) => (3, bytes),
        ValueRef::Blob(bytes) => (4, bytes),
    };
    hash.write(&[kind]);
    hash.write(&(bytes.len() as u64).to_le_bytes());
    hash.write(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_differ_have_other_sums() {
        let db = Connection::open_in_memory().unwrap();
        register(&db).unwrap();
        let rows =
            ["'a', 'b'", "'ab', ''", "'', 'ab'", "'ab', NULL", "x'6162', ''", "1, 2", "12, NULL", "1.0, 2"];
        let sum = |row: &&str| -> i64 {
            db.query_row(&format!("SELECT row_sum('t', {row})"), [], |row| row.get(0)).unwrap()
        };
        let sums: std::collections::BTreeSet<i64> = rows.iter().map(sum).collect();
        assert_eq!(sums.len(), rows.len());
        assert_eq!(sum(&"1, 2"), sum(&"1, 2"));
    }
}
