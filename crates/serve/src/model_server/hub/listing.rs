//! What files a model has on a hub, and which of them are wanted.

use super::checksum::Checksum;
use super::{Hub, hub_fault, unreachable};
use crate::fault::Fault;
use axum::http::StatusCode;
use futures_util::StreamExt;
use serde::Deserialize;

/// Most bytes of a listing.
const MAX_LISTING: usize = 16 << 20;
/// Most bytes of a file that is no weights.
const MAX_SMALL: u64 = 256 << 20;

/// The small files that are wanted, where they are there.
const SMALL: [&str; 7] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
];

#[derive(Deserialize)]
struct Listing {
    sha: Option<String>,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: Option<String>,
    oid: Option<String>,
    size: Option<u64>,
}

/// A file to be downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedFile {
    /// Its name: a plain one, checked.
    pub name: String,
    /// How long it is.
    pub size: u64,
    /// What it has to add up to.
    pub checksum: Checksum,
    /// Its path on the hub.
    pub path: String,
}

impl Hub {
    /// The files of a model that are wanted, each with its length and checksum. `name` has been checked.
    pub(super) async fn wanted(&self, name: &str) -> Result<Vec<WantedFile>, Fault> {
        let listing = self.listing(name).await?;
        let revision = listing.sha.as_deref().filter(|sha| is_revision(sha)).unwrap_or("main").to_string();
        if let Some(hostile) = listing.siblings.iter().find(|file| leads_out(&file.rfilename)) {
            let shown: String = hostile.rfilename.chars().take(80).collect();
            return Err(hub_fault(format!("the hub lists a file outside its folder: `{shown:?}`")));
        }
        let kept: Vec<&Sibling> = listing.siblings.iter().filter(|file| is_wanted(&file.rfilename)).collect();
        let has = |name: &str| kept.iter().any(|file| file.rfilename == name);
        let weights = kept.iter().any(|file| file.rfilename.ends_with(".safetensors"));
        if !(has("config.json") && has("tokenizer.json") && weights) {
            let message = format!(
                "`{name}` has no config.json, tokenizer.json and safetensors weights: it cannot be run here"
            );
            return Err(Fault::new(StatusCode::UNPROCESSABLE_ENTITY, "model_unusable", message));
        }
        let mut wanted = Vec::new();
        for file in kept {
            let path = format!("/{name}/resolve/{revision}/{}", file.rfilename);
            let lfs = file.lfs.as_ref();
            let large = lfs.and_then(|lfs| lfs.sha256.as_ref().or(lfs.oid.as_ref()));
            let said = large.or(file.blob.as_ref()).and_then(|tag| Checksum::from_tag(tag));
            let length = lfs.and_then(|lfs| lfs.size).or(file.size);
            let (checksum, size) = match (said, length) {
                (Some(checksum), Some(size)) => (checksum, size),
                _ => self.described(&path).await?,
            };
            if size > MAX_SMALL && SMALL.contains(&file.rfilename.as_str()) {
                return Err(too_large(&file.rfilename, size, MAX_SMALL));
            }
            wanted.push(WantedFile { name: file.rfilename.clone(), size, checksum, path });
        }
        let total = wanted.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size));
        match total > self.options.max_bytes {
            true => Err(too_large(name, total, self.options.max_bytes)),
            false => Ok(wanted),
        }
    }

    async fn listing(&self, name: &str) -> Result<Listing, Fault> {
        let paths = [
            format!("/api/models/{name}/revision/main?blobs=true"),
            format!("/api/models/{name}?blobs=true"),
        ];
        for path in paths {
            let answer = self.get(&self.bodies, &path).send().await.map_err(unreachable)?;
            match answer.status().as_u16() {
                200 => return parse(answer).await,
                404 => {}
                401 | 403 => {
                    let message = format!("the hub denies access to `{name}`: is HF_TOKEN set?");
                    return Err(Fault::new(StatusCode::FORBIDDEN, "hub_refused", message));
                }
                status => return Err(hub_fault(format!("the hub answered {status} for `{name}`"))),
            }
        }
        Err(Fault::not_found("model_not_found", format!("the hub has no model `{name}`")))
    }

    /// Checksum and length of a file, from what the hub says of it before any redirection.
    async fn described(&self, path: &str) -> Result<(Checksum, u64), Fault> {
        let answer = self.head(path).send().await.map_err(unreachable)?;
        let status = answer.status();
        if !(status.is_success() || status.is_redirection()) {
            return Err(hub_fault(format!("the hub answered {} for {path}", status.as_u16())));
        }
        let text = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let checksum =
            [text("x-linked-etag"), text("etag")].into_iter().flatten().find_map(Checksum::from_tag);
        let size = text("x-linked-size").or(text("content-length")).and_then(|size| size.parse().ok());
        match (checksum, size) {
            (Some(checksum), Some(size)) => Ok((checksum, size)),
            (None, _) => Err(hub_fault(format!("the hub gives no checksum of {path}"))),
            (_, None) => Err(hub_fault(format!("the hub gives no size for {path}"))),
        }
    }
}

async fn parse(answer: reqwest::Response) -> Result<Listing, Fault> {
    let (mut bytes, mut parts) = (Vec::new(), answer.bytes_stream());
    while let Some(part) = parts.next().await {
        bytes.extend_from_slice(&part.map_err(unreachable)?);
        if bytes.len() > MAX_LISTING {
            return Err(hub_fault("the hub's list of files is too long"));
        }
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| hub_fault(format!("the hub's list of files is damaged: {error}")))
}

pub(super) fn too_large(what: &str, size: u64, most: u64) -> Fault {
    let message = format!("`{what}` has {size} bytes; the limit is {most}");
    Fault::new(StatusCode::UNPROCESSABLE_ENTITY, "model_too_large", message)
}

fn is_revision(sha: &str) -> bool {
    sha.len() == 40 && sha.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The files that the engine reads: plain names, and only those.
fn is_wanted(name: &str) -> bool {
    let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    SMALL.contains(&name) || (plain(name) && name.starts_with("model") && name.ends_with(".safetensors"))
}

/// Whether a path would leave the folder that it is in. Nothing but plain names is ever written; a hub that lists such
/// a path is not to be trusted at all.
fn leads_out(name: &str) -> bool {
    name.starts_with('/')
        || name.contains(['\\', '\0'])
        || name.split('/').any(|part| part == ".." || part == "." || part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{is_wanted, leads_out};

    #[test]
    fn what_is_wanted_of_a_model() {
        for name in ["config.json", "model.safetensors", "model-00001-of-00002.safetensors"] {
            assert!(is_wanted(name) && !leads_out(name), "{name}");
        }
        for name in [
            "README.md",
            "onnx/model.onnx",
            "pytorch_model.bin",
            "sub/model.safetensors",
            "model\n.safetensors",
        ] {
            assert!(!is_wanted(name), "{name}");
        }
        for name in
            ["../model.safetensors", "/etc/passwd", "a/../../b", "..", "a\\..\\b", "a//b", "./config.json"]
        {
            assert!(leads_out(name) && !is_wanted(name), "{name}");
        }
    }
}
