//! Downloads from a hub that keeps the layout of Hugging Face's.
//!
//! By hand over HTTP: the hub's own client library keeps a cache of links and blobs where this wants plain folders, leaves
//! checksums to others, and brings another TLS stack.
//!
//! Files are written beside the models under another name, checked against the hub's checksums, and the folder takes its
//! name when all of them are there. What was cut off goes on where it stopped.

mod checksum;
mod download;
mod fetch;
mod listing;

pub use download::{DownloadProgress, Downloads};

use crate::fault::Fault;
use crate::guard::install_crypto;
use axum::http::StatusCode;
use std::fmt;
use std::time::Duration;

/// Where models are downloaded from.
#[derive(Clone)]
pub struct HubOptions {
    /// Its address, without a path.
    pub url: String,
    /// What it is to know its caller by; never shown.
    pub token: Option<String>,
    /// Most bytes of one model.
    pub max_bytes: u64,
}

impl fmt::Debug for HubOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "not shown");
        f.debug_struct("HubOptions")
            .field("url", &self.url)
            .field("token", &token)
            .field("max_bytes", &self.max_bytes)
            .finish()
    }
}

/// A hub.
#[derive(Clone)]
pub struct Hub {
    options: HubOptions,
    /// Without following redirections: what a file is, is said before them.
    heads: reqwest::Client,
    bodies: reqwest::Client,
}

impl Hub {
    /// A hub at this address.
    #[must_use]
    pub fn new(mut options: HubOptions) -> Hub {
        install_crypto();
        let client = |policy| {
            let built = reqwest::Client::builder()
                .redirect(policy)
                .connect_timeout(Duration::from_secs(10))
                .read_timeout(Duration::from_secs(30))
                .user_agent(concat!("gswarm/", env!("CARGO_PKG_VERSION")))
                .build();
            built.unwrap_or_default()
        };
        options.url.truncate(options.url.trim_end_matches('/').len());
        let heads = client(reqwest::redirect::Policy::none());
        let bodies = client(reqwest::redirect::Policy::limited(5));
        Hub { options, heads, bodies }
    }

    fn get(&self, client: &reqwest::Client, path: &str) -> reqwest::RequestBuilder {
        self.authorised(client.get(format!("{}{path}", self.options.url)))
    }

    fn head(&self, path: &str) -> reqwest::RequestBuilder {
        self.authorised(self.heads.head(format!("{}{path}", self.options.url)))
    }

    fn authorised(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.options.token {
            // The client takes it off again where a redirection leads to another host.
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }
}

/// What is answered where nobody said where to download from.
pub fn no_hub() -> Fault {
    Fault::invalid(
        "no hub is set: start the server with `--hub URL`, or with HF_ENDPOINT in its environment, to download models; \
         or put the model's folder into the folder of models",
    )
}

/// A hub that cannot be reached, or says what makes no sense.
fn hub_fault(message: impl Into<String>) -> Fault {
    Fault::new(StatusCode::BAD_GATEWAY, "hub_failed", message)
}

/// What went wrong with a request, without its address, which could have a token in it.
fn unreachable(error: reqwest::Error) -> Fault {
    hub_fault(format!("the hub sent an unexpected answer: {}", error.without_url()))
}
