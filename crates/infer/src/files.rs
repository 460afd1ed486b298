//! Reading files with a limit: nothing that is no regular file is opened, nothing larger than its limit is read.

use crate::error::{Error, Result};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Most bytes of a configuration.
const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// Opens a regular file, and says how long it is.
pub(crate) fn open(path: &Path) -> Result<(File, u64)> {
    // A pipe would block on opening: ask first.
    let found = fs::metadata(path).map_err(|error| Error::file(path, error))?;
    if !found.is_file() {
        return Err(Error::invalid(path, "this is not a regular file"));
    }
    let file = File::open(path).map_err(|error| Error::file(path, error))?;
    Ok((file, found.len()))
}

/// The whole of a file of `limit` bytes at most.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let (file, length) = open(path)?;
    if length > limit {
        return Err(Error::invalid(path, format!("{length} bytes exceed the limit of {limit}")));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(limit).read_to_end(&mut bytes).map_err(|error| Error::file(path, error))?;
    Ok(bytes)
}

/// A JSON file that holds an object.
pub(crate) fn read_json(path: &Path) -> Result<Value> {
    let value: Value = serde_json::from_slice(&read(path, MAX_CONFIG_BYTES)?)
        .map_err(|error| Error::invalid(path, format!("this is not JSON: {error}")))?;
    if !value.is_object() {
        return Err(Error::invalid(path, "this is not a JSON object"));
    }
    Ok(value)
}

/// The same, where there need not be one.
pub(crate) fn read_json_if_there(path: &Path) -> Result<Option<Value>> {
    if path.exists() { read_json(path).map(Some) } else { Ok(None) }
}
