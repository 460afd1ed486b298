//! What every server of gswarm is served by: where it listens, who may ask, how much, and for how long.
//!
//! A server listens on this machine alone unless it is told otherwise, and then it wants a token from everybody. Bodies,
//! headers, time and the number of requests have limits; a fault is always an answer in JSON, whoever found it.

mod accept;
mod bodies;
mod connections;
mod layer;
mod secret;
mod stall;
mod tls;

pub use layer::JSON_ONLY;
pub use secret::Secret;
pub use tls::{TlsFiles, install_crypto};

use axum::Router;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// The header that says on whose behalf a request is made: each caller has a fair share of what there is. Where there are
/// several tokens, the token says so instead.
pub const CALLER: &str = "x-gswarm-caller";

/// How much a server takes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Most bytes of a request's body; more are answered with 413.
    pub body_bytes: usize,
    /// Most bytes of a request's head; more are answered with 431.
    pub head_bytes: usize,
    /// A request's head has to be there after this time, and so has a connection's handshake.
    pub head_time: Duration,
    /// A request's body has to be there after this time; 408.
    pub body_time: Duration,
    /// Some more of a body has to come within this time; 408.
    pub body_pause: Duration,
    /// Most bytes of all bodies together, from when they come until they are answered; more are answered with 503.
    pub all_bodies_bytes: usize,
    /// A connection that takes nothing of its answer for this time is closed.
    pub stall_time: Duration,
    /// An answer has to begin after this time; 504.
    pub request_time: Duration,
    /// Maximum concurrent requests; further ones get 503 and when to come back.
    pub requests: usize,
    /// Most callers that listen to what happens; more are answered with 503. They are not counted as requests.
    pub listeners: usize,
    /// Most connections at the same time. For another, one gives way that asks for nothing.
    pub connections: usize,
    /// Most connections from one address.
    pub connections_of_one: usize,
    /// How long requests that are being answered have to end when the server is told to.
    pub drain_time: Duration,
}

impl Default for RequestLimits {
    fn default() -> RequestLimits {
        RequestLimits {
            body_bytes: 8 << 20,
            head_bytes: 64 << 10,
            head_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
            body_pause: Duration::from_secs(10),
            all_bodies_bytes: 256 << 20,
            stall_time: Duration::from_secs(60),
            request_time: Duration::from_secs(600),
            requests: 1024,
            listeners: 128,
            connections: 4096,
            connections_of_one: 2048,
            drain_time: Duration::from_secs(30),
        }
    }
}

/// Where and how to serve.
#[derive(Clone, Debug)]
pub struct GuardSettings {
    /// Where to listen; port 0 lets the system choose.
    pub address: SocketAddr,
    /// What callers have to send as `Authorization: Bearer`; needed wherever others than this machine can call.
    pub token: Option<Secret>,
    /// Paths that need no token and are always answered: for those who only ask whether the server lives.
    pub open_paths: &'static [&'static str],
    /// Paths whose answers do not end: whoever asks for one listens to what happens.
    pub listening_paths: &'static [&'static str],
    /// The certificate and its key, where connections are to be encrypted.
    pub tls: Option<TlsFiles>,
    /// How much it takes on.
    pub limits: RequestLimits,
}

impl GuardSettings {
    /// On this machine alone, with no token.
    #[must_use]
    pub fn local(port: u16) -> GuardSettings {
        GuardSettings {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            token: None,
            open_paths: &["/health"],
            listening_paths: &[],
            tls: None,
            limits: RequestLimits::default(),
        }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Others could call, and nothing would stop them.
    #[error("{0} can be reached from other machines, but there is no token")]
    NoToken(IpAddr),
    /// A token that is too short to be one.
    #[error("the token has {0} characters; it needs at least {least}", least = Secret::LEAST)]
    WeakToken(usize),
    /// The address cannot be had.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    /// The certificate or its key cannot be used.
    #[error("{0}")]
    Tls(String),
}

/// A server that has its address, and answers nothing yet.
pub struct BoundServer {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    settings: GuardSettings,
}

/// Whether all requests that were being answered got their answers before the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEnd {
    /// They did.
    Drained,
    /// The time for it was over before.
    CutOff,
}

/// Checks the settings and takes the address.
pub async fn bind(settings: GuardSettings) -> Result<BoundServer, StartError> {
    if settings.token.is_none() && !settings.address.ip().is_loopback() {
        return Err(StartError::NoToken(settings.address.ip()));
    }
    if let Some(token) = settings.token.as_ref().filter(|token| token.length() < Secret::LEAST) {
        return Err(StartError::WeakToken(token.length()));
    }
    let acceptor = settings.tls.as_ref().map(tls::acceptor).transpose()?;
    let refused = |error| StartError::Listen(settings.address, error);
    let listener = TcpListener::bind(settings.address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok(BoundServer { listener, address, acceptor, settings })
}

/// Binds and serves until `shutdown` is there.
pub async fn serve(
    router: Router,
    settings: GuardSettings,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<ServerEnd, StartError> {
    Ok(bind(settings).await?.serve(router, shutdown).await)
}

impl BoundServer {
    /// Where it listens, with the port that it really has.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How it is called, as in `http://127.0.0.1:8000`.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.acceptor.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Serves until `shutdown` is there, then lets requests that are being answered end. Routes that are not there,
    /// wrong methods and panics are answered here, so that a router needs none of that itself.
    pub async fn serve(self, router: Router, shutdown: impl Future<Output = ()> + Send) -> ServerEnd {
        let BoundServer { listener, address, acceptor, settings } = self;
        let (limits, is_ending) = (settings.limits, watch::Sender::new(false));
        let requests = Arc::new(Semaphore::new(limits.requests));
        let guard = layer::Guard::new(settings, address, Arc::clone(&requests), is_ending.subscribe());
        let router = layer::guarded(router, Arc::new(guard));
        let door = accept::Door { acceptor, router, limits, requests, is_ending };
        accept::accept(listener, door, shutdown).await
    }
}

/// Returns when the process is asked to end, by Ctrl-C or by TERM.
pub async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    let wait = |kind| async move {
        match signal(kind) {
            Ok(mut signals) => drop(signals.recv().await),
            // Without a handler the signal ends the process by itself.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = wait(SignalKind::interrupt()) => {}
        () = wait(SignalKind::terminate()) => {}
    }
}
