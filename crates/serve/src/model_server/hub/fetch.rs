//! One file from a hub, which may take several attempts: each goes on where the one before was cut off.

use super::checksum::Sum;
use super::download::DownloadProgress;
use super::listing::WantedFile;
use super::{Hub, hub_fault};
use crate::fault::Fault;
use axum::http::StatusCode;
use futures_util::StreamExt;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_RANGE, RANGE};
use std::io::SeekFrom;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::fs::{self, File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

/// Attempts in a row that bring nothing.
const FRUITLESS: u32 = 4;

/// A file that is partly there, and what there is adds up to.
struct Partial {
    file: File,
    length: u64,
    sum: Sum,
}

impl Hub {
    /// Brings a file into `folder`, whole and checked, or not at all. What is there of it already is kept.
    pub(super) async fn fetch(
        &self,
        wanted: &WantedFile,
        folder: &Path,
        progress: &DownloadProgress,
    ) -> Result<(), Fault> {
        let whole = folder.join(&wanted.name);
        // The checksum is part of the name: of another revision's file nothing is kept.
        let part = folder.join(format!("{}.{}.part", wanted.name, wanted.checksum.hex()));
        if fs::try_exists(&whole).await.unwrap_or(false) {
            // Left by a download that was cut off; whether it is of this revision its bytes say.
            rename(&whole, &part).await?;
        }
        let mut partial = Partial::open(&part, wanted).await?;
        progress.add(partial.length);
        let mut fruitless = 0;
        while partial.length < wanted.size {
            let before = partial.length;
            match self.attempt(wanted, &mut partial, progress).await {
                Ok(()) => {}
                Err(Trouble::Final(fault)) => return Err(fault),
                Err(Trouble::Passing(reason)) => {
                    fruitless = if partial.length > before { 0 } else { fruitless + 1 };
                    if fruitless >= FRUITLESS {
                        return Err(hub_fault(format!("{} could not be downloaded: {reason}", wanted.name)));
                    }
                    tracing::info!("{}: {reason}; resuming at {} bytes", wanted.name, partial.length);
                    tokio::time::sleep(Duration::from_millis(100 << (2 * fruitless))).await;
                }
            }
        }
        partial.file.sync_all().await.map_err(|error| disk(&part, &error))?;
        if !partial.sum.is(&wanted.checksum) {
            let _ = fs::remove_file(&part).await;
            progress.take_back(wanted.size);
            let message = format!("the checksum of {} differs from the hub's", wanted.name);
            return Err(Fault::new(StatusCode::BAD_GATEWAY, "checksum_mismatch", message));
        }
        rename(&part, &whole).await
    }

    async fn attempt(
        &self,
        wanted: &WantedFile,
        partial: &mut Partial,
        progress: &DownloadProgress,
    ) -> Result<(), Trouble> {
        let from = partial.length;
        // Compressed, a range would be of other bytes.
        let mut request = self.get(&self.bodies, &wanted.path).header(ACCEPT_ENCODING, "identity");
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        let passing = |error: reqwest::Error| Trouble::Passing(error.without_url().to_string());
        let answer = request.send().await.map_err(passing)?;
        match answer.status().as_u16() {
            206 if from > 0 && starts_at(&answer, from) => {}
            // The whole, or a range that nobody asked for: from the beginning.
            200 => partial.restart(wanted, progress).await?,
            206 | 416 => {
                partial.restart(wanted, progress).await?;
                return Err(Trouble::Passing("the hub sent another range than requested".to_string()));
            }
            status @ (408 | 429 | 500..=599) => {
                return Err(Trouble::Passing(format!("the hub answers {status}")));
            }
            status => {
                let message = format!("the hub answered {status} for {}", wanted.name);
                return Err(Trouble::Final(hub_fault(message)));
            }
        }
        let mut parts = answer.bytes_stream();
        while let Some(bytes) = parts.next().await {
            let bytes = bytes.map_err(passing)?;
            if partial.length + bytes.len() as u64 > wanted.size {
                let message =
                    format!("the hub sends more of {} than the {} bytes it has", wanted.name, wanted.size);
                return Err(Trouble::Final(hub_fault(message)));
            }
            partial.file.write_all(&bytes).await.map_err(|error| Trouble::disk(&wanted.name, &error))?;
            partial.sum.add(&bytes);
            partial.length += bytes.len() as u64;
            progress.add(bytes.len() as u64);
        }
        match partial.length < wanted.size {
            true => Err(Trouble::Passing("the connection ended early".to_string())),
            false => Ok(()),
        }
    }
}

impl Partial {
    async fn open(path: &Path, wanted: &WantedFile) -> Result<Partial, Fault> {
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).await;
        let mut file = opened.map_err(|error| disk(path, &error))?;
        let (mut length, mut sum) = (0, wanted.checksum.start(wanted.size));
        let mut block = vec![0; 1 << 20];
        loop {
            match file.read(&mut block).await.map_err(|error| disk(path, &error))? {
                0 => break,
                read => {
                    sum.add(&block[..read]);
                    length += read as u64;
                }
            }
        }
        let mut partial = Partial { file, length, sum };
        if length > wanted.size {
            partial.empty(wanted).await.map_err(|error| disk(path, &error))?;
        }
        Ok(partial)
    }

    async fn restart(&mut self, wanted: &WantedFile, progress: &DownloadProgress) -> Result<(), Trouble> {
        progress.take_back(self.length);
        self.empty(wanted).await.map_err(|error| Trouble::disk(&wanted.name, &error))
    }

    async fn empty(&mut self, wanted: &WantedFile) -> std::io::Result<()> {
        self.file.set_len(0).await?;
        self.file.seek(SeekFrom::Start(0)).await?;
        (self.length, self.sum) = (0, wanted.checksum.start(wanted.size));
        Ok(())
    }
}

impl DownloadProgress {
    fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn take_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Why an attempt failed, by whether another may not.
enum Trouble {
    Passing(String),
    Final(Fault),
}

impl Trouble {
    fn disk(name: &str, error: &std::io::Error) -> Trouble {
        Trouble::Final(disk(Path::new(name), error))
    }
}

fn starts_at(answer: &reqwest::Response, from: u64) -> bool {
    let range = answer.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    range
        .and_then(|range| range.strip_prefix("bytes "))
        .is_some_and(|range| range.starts_with(&format!("{from}-")))
}

async fn rename(from: &Path, to: &Path) -> Result<(), Fault> {
    fs::rename(from, to).await.map_err(|error| disk(to, &error))
}

pub(super) fn disk(path: &Path, error: &std::io::Error) -> Fault {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Fault::new(StatusCode::INSUFFICIENT_STORAGE, "cannot_write", format!("cannot write {name}: {error}"))
}
