//! A folder of models. Names from outside become paths here and nowhere else, so that none leads out of the folder.

mod folder;
mod name;

pub use folder::ModelFolder;

use crate::config::ModelConfig;
use crate::error::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of models: `NAME` or `OWNER/NAME` below it, each with a `config.json`.
#[derive(Clone, Debug)]
pub struct Store {
    /// With all links followed, so that paths can be compared with it.
    root: PathBuf,
}

/// One model of a listing; what cannot be used is listed too, with the reason.
#[derive(Debug)]
pub struct StoreEntry {
    /// `NAME` or `OWNER/NAME`.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
    /// What it is, or why it cannot be used.
    pub config: Result<ModelConfig>,
}

impl Store {
    /// The models below `root`, which has to be there.
    pub fn open(root: impl AsRef<Path>) -> Result<Store> {
        let root = root.as_ref();
        let resolved = fs::canonicalize(root).map_err(|error| Error::file(root, error))?;
        if !resolved.is_dir() {
            return Err(Error::invalid(root, "this is not a folder"));
        }
        Ok(Store { root: resolved })
    }

    /// Whether a model may have this name, in any folder.
    pub fn check_name(name: &str) -> Result<()> {
        name::check(name)
    }

    /// The folder itself, with links followed.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a model of this name has its place, whether it is there or not. The name is checked; where something is
    /// there, so is where it leads.
    pub fn place(&self, name: &str) -> Result<PathBuf> {
        name::check(name)?;
        let path = self.root.join(name);
        // An owner's folder could be a link out of here before the model itself is there.
        for part in path.ancestors().take_while(|part| *part != self.root) {
            if let Ok(resolved) = fs::canonicalize(part) {
                self.inside(name, &resolved)?;
            }
        }
        Ok(path)
    }

    /// A model that is there.
    pub fn model(&self, name: &str) -> Result<ModelFolder> {
        let path = self.place(name)?;
        if !path.join("config.json").exists() {
            return Err(Error::NotFound { name: name.to_string(), folder: self.root.clone() });
        }
        let folder = ModelFolder::new(name, path);
        for file in folder.files()? {
            let resolved = fs::canonicalize(&file).map_err(|error| Error::file(&file, error))?;
            self.inside(name, &resolved)?;
        }
        Ok(folder)
    }

    /// All models, in the order of their names.
    pub fn list(&self) -> Result<Vec<StoreEntry>> {
        let mut names = Vec::new();
        for owner in folders(&self.root)? {
            if self.root.join(&owner).join("config.json").exists() {
                names.push(owner);
                continue;
            }
            // A folder that cannot be read has nothing to offer; the others still have.
            let inner = folders(&self.root.join(&owner)).unwrap_or_default();
            let inner = inner.into_iter().map(|name| format!("{owner}/{name}"));
            names.extend(inner.filter(|name| self.root.join(name).join("config.json").exists()));
        }
        names.sort();
        Ok(names.into_iter().map(|name| self.entry(name)).collect())
    }

    fn entry(&self, name: String) -> StoreEntry {
        let path = self.root.join(&name);
        let folder = self.model(&name);
        let bytes = folder.as_ref().ok().and_then(|folder| folder.bytes().ok()).unwrap_or(0);
        let config = folder.and_then(|folder| folder.config());
        StoreEntry { name, path, bytes, config }
    }

    fn inside(&self, name: &str, resolved: &Path) -> Result<()> {
        match resolved.starts_with(&self.root) {
            true => Ok(()),
            false => Err(Error::Name {
                name: name.to_string(),
                reason: "a link points outside the folder of models",
            }),
        }
    }
}

/// The folders in `path` whose names models may have.
fn folders(path: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(path).map_err(|error| Error::file(path, error))?;
    let names = entries.flatten().filter(|entry| entry.path().is_dir());
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| name::check(name).is_ok()).collect())
}
