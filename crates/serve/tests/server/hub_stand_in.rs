//! A hub on this machine that keeps the layout of Hugging Face's, and misbehaves where a test wants it to.

use crate::support::Server;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use gswarm_infer::ModelKind;
use gswarm_infer::init::{ModelSize, model_files};
use gswarm_serve::guard::GuardSettings;
use serde_json::{Value, json};
use sha1::{Digest, Sha1};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";

/// How the hub behaves.
#[derive(Default)]
pub struct Manners {
    /// Sizes and checksums are in the list of files; otherwise they have to be asked for one by one.
    pub tells_all: bool,
    /// Connections are cut after so many bytes.
    pub cut_after: Option<usize>,
    /// What is sent of this file is damaged.
    pub damages: Option<&'static str>,
    /// Ranges are passed over: the whole file is always sent.
    pub no_ranges: bool,
    /// Names that are listed beside the real ones.
    pub also_lists: Vec<&'static str>,
    /// The list says that files are this much longer than they are.
    pub claims_more: u64,
    /// What is sent is this much longer than the list says.
    pub sends_more: usize,
    /// Wants this token.
    pub token: Option<&'static str>,
    /// No checksums at all.
    pub no_checksums: bool,
}

pub struct StandIn {
    files: BTreeMap<String, Vec<u8>>,
    pub manners: Mutex<Manners>,
    /// Each request for a file: its name, and where its range began.
    pub asked: Mutex<Vec<(String, Option<u64>)>>,
}

impl StandIn {
    /// A hub with one model, `team/tiny`.
    pub async fn start(manners: Manners) -> (Server, Arc<StandIn>) {
        let files = model_files(ModelKind::Language, ModelSize::Tiny, 3).unwrap();
        let files = files.into_iter().map(|(name, bytes)| (name.to_string(), bytes)).collect();
        let hub = Arc::new(StandIn { files, manners: Mutex::new(manners), asked: Mutex::default() });
        let routes = Router::new()
            .route("/api/models/{owner}/{name}/revision/{revision}", get(list))
            .route("/{owner}/{name}/resolve/{revision}/{file}", get(resolve))
            .route("/cdn/{file}", get(content))
            .with_state(Arc::clone(&hub));
        (Server::of(GuardSettings::local(0), |_| routes).await, hub)
    }

    pub fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }
}

fn is_large(name: &str) -> bool {
    name.ends_with(".safetensors")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn tag(name: &str, bytes: &[u8]) -> String {
    match is_large(name) {
        true => hex(&Sha256::digest(bytes)),
        false => {
            let mut sum = Sha1::new();
            sum.update(format!("blob {}\0", bytes.len()));
            sum.update(bytes);
            hex(&sum.finalize())
        }
    }
}

async fn list(
    State(hub): State<Arc<StandIn>>,
    Path((owner, name, revision)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Response {
    let manners = hub.manners.lock().unwrap();
    if manners.token.is_some_and(|token| {
        headers.get("authorization").is_none_or(|given| given != &format!("Bearer {token}"))
    }) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if (owner.as_str(), name.as_str(), revision.as_str()) != ("team", "tiny", "main") {
        return StatusCode::NOT_FOUND.into_response();
    }
    let mut siblings: Vec<Value> = Vec::new();
    for (name, bytes) in &hub.files {
        let size = bytes.len() as u64 + manners.claims_more;
        siblings.push(match (manners.tells_all, is_large(name)) {
            (false, _) => json!({"rfilename": name}),
            (true, false) => json!({"rfilename": name, "size": size, "blobId": tag(name, bytes)}),
            (true, true) => {
                json!({"rfilename": name, "size": size, "lfs": {"sha256": tag(name, bytes), "size": size}})
            }
        });
    }
    siblings.extend(
        ["README.md", "onnx/model.onnx"]
            .iter()
            .chain(&manners.also_lists)
            .map(|name| json!({"rfilename": name})),
    );
    Json(json!({"id": "team/tiny", "sha": REVISION, "siblings": siblings})).into_response()
}

/// Large files lie elsewhere; what they are is said before the redirection.
async fn resolve(
    State(hub): State<Arc<StandIn>>,
    Path((_, _, revision, file)): Path<(String, String, String, String)>,
    headers: HeaderMap,
) -> Response {
    assert_eq!(revision, REVISION);
    let Some(bytes) = hub.files.get(&file) else { return StatusCode::NOT_FOUND.into_response() };
    let hides = hub.manners.lock().unwrap().no_checksums;
    if is_large(&file) {
        let mut answer = (StatusCode::FOUND, [(header::LOCATION, format!("/cdn/{file}"))]).into_response();
        if !hides {
            answer
                .headers_mut()
                .insert("x-linked-etag", format!("\"{}\"", tag(&file, bytes)).parse().unwrap());
        }
        answer.headers_mut().insert("x-linked-size", bytes.len().into());
        return answer;
    }
    let mut answer = content(State(hub.clone()), Path(file.clone()), headers).await;
    if !hides {
        answer.headers_mut().insert(header::ETAG, format!("\"{}\"", tag(&file, bytes)).parse().unwrap());
    }
    answer
}

async fn content(State(hub): State<Arc<StandIn>>, Path(file): Path<String>, headers: HeaderMap) -> Response {
    let Some(bytes) = hub.files.get(&file) else { return StatusCode::NOT_FOUND.into_response() };
    let manners = hub.manners.lock().unwrap();
    let range = headers
        .get(header::RANGE)
        .and_then(|value| value.to_str().ok()?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    hub.asked.lock().unwrap().push((file.clone(), range));
    let mut bytes = bytes.clone();
    if manners.damages == Some(file.as_str()) {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
    }
    bytes.extend(std::iter::repeat_n(b' ', manners.sends_more));
    let total = bytes.len();
    let from = range.filter(|_| !manners.no_ranges).unwrap_or(0) as usize;
    let rest = Bytes::from(bytes).slice(from..);
    let length = rest.len();
    let body = match manners.cut_after.filter(|&cut| cut < length) {
        Some(cut) => {
            let parts = [Ok(rest.slice(..cut)), Err(std::io::Error::other("cut"))];
            Body::from_stream(futures_util::stream::iter(parts))
        }
        None => Body::from(rest),
    };
    let mut answer = body.into_response();
    answer.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    if from > 0 {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {from}-{}/{total}", total - 1);
        answer.headers_mut().insert(header::CONTENT_RANGE, range.parse().unwrap());
    }
    answer
}
