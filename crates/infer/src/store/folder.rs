//! One model on disk.

use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::files;
use crate::text::chat::ChatTemplate;
use crate::weights::Weights;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A model's folder, which lies inside a [`Store`](crate::Store).
#[derive(Clone, Debug)]
pub struct ModelFolder {
    name: String,
    path: PathBuf,
}

impl ModelFolder {
    pub(super) fn new(name: &str, path: PathBuf) -> ModelFolder {
        ModelFolder { name: name.to_string(), path }
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is, and how large; or what is wrong with its files, as far as can be told without reading the tensors.
    pub fn config(&self) -> Result<ModelConfig> {
        Weights::inspect(&self.path)
    }

    /// Its chat template.
    pub fn chat_template(&self) -> Result<ChatTemplate> {
        ChatTemplate::read(&self.path)
    }

    /// Its files, in the order of their names; hidden ones and folders are not the model's.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(&self.path).map_err(|error| Error::file(&self.path, error))?;
        let shown = entries.flatten().filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
        let mut files: Vec<PathBuf> = shown.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        files.sort();
        Ok(files)
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> Result<u64> {
        let length = |path: &PathBuf| fs::metadata(path).map(|found| found.len());
        let lengths = self.files()?.iter().map(length).collect::<std::io::Result<Vec<u64>>>();
        lengths.map(|lengths| lengths.iter().sum()).map_err(|error| Error::file(&self.path, error))
    }

    /// SHA-256 over the names, lengths and bytes of its files: two folders have the same only if they hold the same.
    pub fn checksum(&self) -> Result<String> {
        let mut hash = Sha256::new();
        let mut block = vec![0; 1 << 20];
        for path in self.files()? {
            let (mut file, length) = files::open(&path)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
            hash.update(length.to_le_bytes());
            loop {
                match file.read(&mut block).map_err(|error| Error::file(&path, error))? {
                    0 => break,
                    read => hash.update(&block[..read]),
                }
            }
        }
        Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}
