//! Records finished phases with their settings and file checksums.

use super::phases::Phase;
use super::report;
use crate::failure::Failure;
use crate::output::files::Batch;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file that records finished phases.
const FILE: &str = "pipeline_state.json";

/// The phases that are done, by name.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct State(BTreeMap<String, Record>);

#[derive(Serialize, Deserialize)]
struct Record {
    /// Its settings, those of the phases before it, and what it read of them.
    made_from: String,
    /// The checksum of each file that it left.
    files: BTreeMap<String, String>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its files are those that it left.
    Done,
    /// It was never done, or with other settings.
    Open,
    /// It was done, and this is wrong with its files.
    Damaged(String),
}

impl State {
    /// What a folder says. A state that cannot be read is as if no phase were done; why it cannot be comes with it.
    pub fn read(folder: &Path) -> (State, Option<String>) {
        let path = folder.join(FILE);
        let found = match std::fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(|error| format!("{FILE} is damaged ({error})"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return (State::default(), None),
            Err(error) => Err(format!("{FILE} cannot be read ({error})")),
        };
        match found {
            Ok(state) => (state, None),
            Err(fault) => (State::default(), Some(fault)),
        }
    }

    /// Files in the way that no pipeline wrote belong to somebody else.
    pub fn keep_foreign_files(&self, folder: &Path, force: bool) -> Result<(), Failure> {
        if force || !self.0.is_empty() || folder.join(FILE).exists() {
            return Ok(());
        }
        let ours = Phase::ALL.iter().flat_map(|phase| phase.files()).chain(&report::FILES);
        let theirs = ours.into_iter().find(|file| folder.join(file).exists());
        match theirs {
            None => Ok(()),
            Some(file) => Err(Failure::input(format!(
                "{} exists, but was not written by a pipeline",
                folder.join(file).display()
            ))
            .hint("choose another folder, or pass --force to replace its files")),
        }
    }

    /// Whether the files of all phases before this one, which it has read, are still those that they left.
    pub fn unchanged(&self, before: Phase, folder: &Path) -> Result<(), Failure> {
        let earlier = Phase::ALL.iter().take_while(|&&phase| phase != before);
        let records = earlier.filter_map(|phase| self.0.get(phase.name()));
        for (file, sum) in records.flat_map(|record| &record.files) {
            let path = folder.join(file);
            if checksum(&path).ok().as_ref() != Some(sum) {
                return Err(Failure::input(format!("{} changed while it was being read", path.display())));
            }
        }
        Ok(())
    }

    pub fn write(&self, folder: &Path) -> Result<(), Failure> {
        let mut batch = Batch::new(folder)?;
        batch.add(FILE, |out| {
            serde_json::to_writer_pretty(&mut *out, &self)?;
            out.write_all(b"\n")
        })?;
        batch.commit().map(drop)
    }

    /// The files that `name` left.
    pub fn files(&self, name: &str) -> Vec<String> {
        self.0.get(name).into_iter().flat_map(|record| record.files.keys().cloned()).collect()
    }

    /// Whether `name` was done from the same, and its files are as it left them.
    pub fn standing(&self, name: &str, files: &[&str], made_from: &str, folder: &Path) -> Standing {
        let Some(record) = self.0.get(name).filter(|record| record.made_from == made_from) else {
            return Standing::Open;
        };
        for &file in files {
            let path = folder.join(file);
            match checksum(&path) {
                Ok(found) if record.files.get(file) == Some(&found) => {}
                Ok(_) => return Standing::Damaged(format!("{file} has changed since it was written")),
                Err(_) if !path.exists() => return Standing::Damaged(format!("{file} is missing")),
                Err(error) => return Standing::Damaged(format!("{file} cannot be read: {error}")),
            }
        }
        Standing::Done
    }

    /// `name` is done, and these are its files.
    pub fn done(
        &mut self,
        name: &str,
        files: &[&str],
        made_from: &str,
        folder: &Path,
    ) -> Result<(), Failure> {
        let sum = |&file: &&str| {
            let path = folder.join(file);
            let sum = checksum(&path).map_err(|error| Failure::file("read", &path, &error))?;
            Ok((file.to_owned(), sum))
        };
        let files = files.iter().map(sum).collect::<Result<_, Failure>>()?;
        self.0.insert(name.to_owned(), Record { made_from: made_from.to_owned(), files });
        Ok(())
    }

    /// What later phases read of a phase that is done: if that comes out otherwise when it is done again, so may they.
    pub fn handed_on(&self, phase: Phase) -> String {
        let sum = |file: &&str| {
            let sum = self.0.get(phase.name()).and_then(|record| record.files.get(*file));
            format!("\n{file} {}", sum.map_or("", String::as_str))
        };
        phase.read_later().iter().map(sum).collect()
    }

    /// What all files look like.
    pub fn all(&self) -> String {
        let phases = Phase::ALL.iter().filter_map(|phase| self.0.get(phase.name()));
        phases.flat_map(|record| &record.files).map(|(file, sum)| format!("\n{file} {sum}")).collect()
    }
}

/// The file that is locked while a pipeline works in a folder.
const LOCK: &str = ".pipeline.lock";

/// Keeps other pipelines out of a folder as long as it lives.
pub struct Lock {
    folder: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // What cannot be removed is found unlocked by the next one. A folder in which nothing was left goes too.
        let _ = std::fs::remove_file(self.folder.join(LOCK));
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Takes a folder for a pipeline.
pub fn lock(folder: &Path) -> Result<Lock, Failure> {
    let path = folder.join(LOCK);
    let elsewhere = |failure: Failure| failure.hint("choose another place with --out");
    let unusable = |error: &io::Error| elsewhere(Failure::file("write", &path, error));
    loop {
        std::fs::create_dir_all(folder)
            .map_err(|error| elsewhere(Failure::file("create the folder", folder, &error)))?;
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let file = open.map_err(|error| unusable(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::input(format!("another pipeline is running in {}", folder.display()))
                    .hint("wait until it has ended, or choose another folder with --out"));
            }
            Err(TryLockError::Error(error)) => return Err(Failure::file("lock", &path, &error)),
        }
        // The one before may have removed the file meanwhile: then somebody else can lock another of its name.
        let own = file.metadata().map_err(|error| unusable(&error))?.ino();
        if std::fs::metadata(&path).is_ok_and(|there| there.ino() == own) {
            return Ok(Lock { folder: folder.to_owned(), _file: file });
        }
    }
}

fn checksum(path: &Path) -> io::Result<String> {
    let sum = Sha256::digest(std::fs::read(path)?);
    Ok(sum.iter().map(|byte| format!("{byte:02x}")).collect())
}
