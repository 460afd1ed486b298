//! Model files: a mark, a version, a checksum, and the predictor.

use super::{Core, Predictor};
use crate::table::TableFaults;
use gswarm_core::input::{Code, Diagnostic};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What every model file starts with.
pub const MAGIC: &[u8; 8] = b"GSWMODEL";
/// The layout that this version writes and reads.
pub const FORMAT_VERSION: u32 = 2;
/// The mark, the version, the checksum of what follows, and its length.
const HEAD: usize = 8 + 4 + 4 + 8;

impl Predictor {
    /// The content of its file.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let body = postcard::to_stdvec(self).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(HEAD + body.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// The predictor of a file's content; it predicts to the bit what the one that was saved did.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Predictor, Vec<Diagnostic>> {
        let refuse = |code, message: String, hint: &str| {
            let mut faults = TableFaults::new(name);
            faults.add(code, None, "", message, Some(hint.to_owned()));
            Err(faults.into_diagnostics())
        };
        if !bytes.starts_with(MAGIC) {
            let message = if bytes.is_empty() { "the file is empty" } else { "this is not a model file" };
            return refuse(
                Code::NotAModel,
                message.to_owned(),
                "`gswarm train --out FILE` writes model files",
            );
        }
        let number = |from: usize| {
            let part = bytes.get(from..from + 4)?;
            Some(u32::from_le_bytes(part.try_into().ok()?))
        };
        let (Some(version), Some(checksum)) = (number(8), number(12)) else {
            return refuse(Code::ModelDamaged, "the file ends inside its header".to_owned(), "copy it again");
        };
        if version != FORMAT_VERSION {
            let message = format!("the file has version {version}; this gswarm reads {FORMAT_VERSION}");
            return refuse(Code::ModelVersion, message, "train again with this gswarm");
        }
        let body = bytes.get(HEAD..).unwrap_or_default();
        let length = bytes.get(16..HEAD).and_then(|part| part.try_into().ok()).map(u64::from_le_bytes);
        if length != Some(body.len() as u64) || crc32fast::hash(body) != checksum {
            let message = "the checksum does not match the content".to_owned();
            return refuse(Code::ModelDamaged, message, "copy it again, or train again");
        }
        match postcard::from_bytes::<Predictor>(body) {
            Ok(predictor) if predictor.is_sound() => Ok(predictor),
            _ => refuse(Code::ModelDamaged, "the content is not a model".to_owned(), "train again"),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Why it is none that this version can use.
    pub fn load(path: &Path) -> Result<Predictor, Vec<Diagnostic>> {
        let name = path.display().to_string();
        fs::read(path)
            .map_err(|error| unreadable(&name, &error))
            .and_then(|bytes| Predictor::from_bytes(&name, &bytes))
    }

    /// Writes the file: beside its place first, so that it is either whole or not there.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let bytes = self.to_bytes()?;
        let partial = partial(path);
        let written = fs::File::create(&partial)
            .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&partial, path));
        written.inspect_err(|_| drop(fs::remove_file(&partial)))
    }

    fn is_sound(&self) -> bool {
        let width = self.features.len();
        let core = match &self.core {
            Core::Trees(bins, trees) => bins.width() == width && trees.is_sound(width),
            Core::Linear(linear) => linear.width() == width,
            Core::LastTwo(last) => last.width() == width,
        };
        core && self.spread.is_sound(width) && self.history.is_none_or(|memory| memory.is_sound())
    }
}

fn unreadable(name: &str, error: &io::Error) -> Vec<Diagnostic> {
    let mut faults = TableFaults::new(name);
    faults.add(Code::NotAModel, None, "", format!("cannot read the file: {error}"), None);
    faults.into_diagnostics()
}

fn partial(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.partial", std::process::id()))
}
