//! Downloads that are under way: one a model, whoever asks for it, and to its end even where its caller goes.

use super::fetch::disk;
use super::{Hub, listing};
use crate::fault::Fault;
use gswarm_infer::Store;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Where unfinished downloads lie; no model's name begins with a dot.
const PARTIAL: &str = ".partial";

/// Most downloads at the same time.
const MAX_DOWNLOADS: usize = 8;

/// How far a download is.
#[derive(Debug, Default)]
pub struct DownloadProgress {
    /// Files that it has.
    pub total_files: AtomicU64,
    /// Of which so many are there.
    pub files: AtomicU64,
    /// Bytes of all files.
    pub total_bytes: AtomicU64,
    /// Of which so many are there.
    pub bytes: AtomicU64,
}

/// How a download ended, once it has.
type Ending = Option<Result<PathBuf, Fault>>;

/// The downloads that are under way.
#[derive(Default)]
pub struct Downloads {
    running: Arc<Mutex<BTreeMap<String, Running>>>,
}

#[derive(Clone)]
struct Running {
    progress: Arc<DownloadProgress>,
    ending: watch::Receiver<Ending>,
}

impl Downloads {
    /// What is under way, by model.
    pub fn progress(&self) -> Vec<(String, Arc<DownloadProgress>)> {
        let running = lock(&self.running);
        running.iter().map(|(name, download)| (name.clone(), Arc::clone(&download.progress))).collect()
    }

    /// Downloads a model, whose name has been checked, or waits for who is doing it already.
    pub async fn get(&self, hub: &Hub, store: &Store, name: &str) -> Result<PathBuf, Fault> {
        let mut ending = self.start(hub, store, name)?.ending;
        loop {
            if let Some(ending) = ending.borrow_and_update().clone() {
                return ending;
            }
            if ending.changed().await.is_err() {
                return Err(Fault::internal("the download panicked; see the server's log"));
            }
        }
    }

    fn start(&self, hub: &Hub, store: &Store, name: &str) -> Result<Running, Fault> {
        let mut running = lock(&self.running);
        if let Some(download) = running.get(name) {
            return Ok(download.clone());
        }
        if running.len() >= MAX_DOWNLOADS {
            return Err(Fault::full(format!("{MAX_DOWNLOADS} models are being downloaded already")));
        }
        let (sender, ending) = watch::channel(None);
        let download = Running { progress: Arc::default(), ending };
        running.insert(name.to_string(), download.clone());
        drop(running);
        let (hub, store, name) = (hub.clone(), store.clone(), name.to_string());
        let (progress, all) = (Arc::clone(&download.progress), Arc::clone(&self.running));
        tokio::spawn(async move {
            let _listed = Listed { all, name: name.clone() };
            let ended = download_model(&hub, &store, &name, &progress).await;
            sender.send_replace(Some(ended));
        });
        Ok(download)
    }
}

/// An entry of the list, until the download has ended in whatever way.
struct Listed {
    all: Arc<Mutex<BTreeMap<String, Running>>>,
    name: String,
}

impl Drop for Listed {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.name);
    }
}

async fn download_model(
    hub: &Hub,
    store: &Store,
    name: &str,
    progress: &DownloadProgress,
) -> Result<PathBuf, Fault> {
    let wanted: Vec<listing::WantedFile> = hub.wanted(name).await?;
    progress.total_files.store(wanted.len() as u64, Ordering::Relaxed);
    progress.total_bytes.store(wanted.iter().map(|file| file.size).sum(), Ordering::Relaxed);
    // No name has an @ in it: OWNER/NAME becomes one folder that no other name becomes.
    let partial = store.root().join(PARTIAL).join(name.replace('/', "@"));
    tokio::fs::create_dir_all(&partial).await.map_err(|error| disk(&partial, &error))?;
    for file in &wanted {
        hub.fetch(file, &partial, progress).await?;
        progress.files.fetch_add(1, Ordering::Relaxed);
    }
    let (store, name) = (store.clone(), name.to_string());
    let moved = tokio::task::spawn_blocking(move || {
        let place = store.place(&name).map_err(crate::model_server::engines::fault)?;
        remove_strangers(&partial, &wanted).map_err(|error| disk(&partial, &error))?;
        if let Some(owner) = place.parent() {
            std::fs::create_dir_all(owner).map_err(|error| disk(owner, &error))?;
        }
        std::fs::rename(&partial, &place).map_err(|error| disk(&place, &error))?;
        Ok(place)
    });
    moved.await.unwrap_or_else(|_| Err(Fault::internal("the download could not be put in its place")))
}

/// What an earlier download of another revision left.
fn remove_strangers(folder: &std::path::Path, wanted: &[listing::WantedFile]) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !wanted.iter().any(|file| entry.file_name() == file.name.as_str()) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
