//! The location of a database: a deleted or moved file can still be written, but those writes are lost.

use super::{JournalError, beside};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What tells a file from every other.
type FileId = (u64, u64);

/// The files of an open database, as they were when it was opened.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    files: Vec<(PathBuf, Option<FileId>)>,
}

impl Place {
    /// Of a database that has been written since it was opened, and of its lock.
    pub fn of(path: &Path, lock: &Path) -> Place {
        let files = [path.to_owned(), beside(path, "-wal"), lock.to_owned()];
        Place { files: files.into_iter().map(|file| (file.clone(), id(&file))).collect() }
    }

    /// Whether all files are still there, under their names.
    pub fn check(&self) -> Result<(), JournalError> {
        match self.files.iter().find(|(file, was)| id(file) != *was) {
            Some((file, _)) => Err(JournalError::Gone(file.clone())),
            None => Ok(()),
        }
    }

    /// Whether the database itself is there, for those who only read it.
    pub fn has_database(&self) -> Result<(), JournalError> {
        let (file, was) = &self.files[0];
        if id(file) == *was { Ok(()) } else { Err(JournalError::Gone(file.clone())) }
    }

    /// Whether nothing else has taken the database's name: nobody's file is to be replaced.
    pub fn is_free(&self) -> bool {
        let (file, was) = &self.files[0];
        id(file).is_none_or(|found| Some(found) == *was)
    }

    /// Whether the lock is the one that is held.
    pub fn has_lock(&self) -> bool {
        let (file, was) = &self.files[2];
        id(file) == *was
    }
}

fn id(path: &Path) -> Option<FileId> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}
