//! What every request passes before it reaches its route.

use super::bodies::BodyPool;
use super::connections::{Busy, Connection};
use super::{CALLER, GuardSettings};
use crate::fault::Fault;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use futures_util::FutureExt;
use gswarm_exec::service::Shares;
use hyper::body::{Frame, SizeHint};
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

/// What is said of a body that is something else.
pub const JSON_ONLY: &str = "the body must be JSON, with `Content-Type: application/json`";

pub(super) struct Guard {
    settings: GuardSettings,
    /// On this machine alone and with no token: then a page in a browser must not pass for somebody on this machine.
    local_names_only: bool,
    requests: Arc<Semaphore>,
    /// How many of them each caller has.
    shares: Arc<Mutex<Shares>>,
    /// Those who only listen have places of their own.
    listeners: Arc<Semaphore>,
    bodies: BodyPool,
    is_ending: watch::Receiver<bool>,
}

/// The places that a request holds until its answer has been sent. All are given back when it is dropped.
#[derive(Default)]
struct Places {
    _busy: Option<Busy>,
    _share: Option<Share>,
    _request: Option<OwnedSemaphorePermit>,
    _body: Option<OwnedSemaphorePermit>,
}

/// One of a caller's places.
struct Share {
    shares: Arc<Mutex<Shares>>,
    caller: Arc<str>,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.caller);
    }
}

impl Guard {
    /// `requests` has a permit for each request that may be answered at the same time.
    pub(super) fn new(
        settings: GuardSettings,
        address: SocketAddr,
        requests: Arc<Semaphore>,
        is_ending: watch::Receiver<bool>,
    ) -> Guard {
        let local_names_only = settings.token.is_none() && address.ip().is_loopback();
        let listeners = Arc::new(Semaphore::new(settings.limits.listeners));
        let bodies = BodyPool::new(settings.limits.all_bodies_bytes);
        let shares = Arc::default();
        Guard { settings, local_names_only, requests, shares, listeners, bodies, is_ending }
    }

    /// Who asks: by the token, where there are several, and else by what the request says of itself.
    fn caller(&self, headers: &HeaderMap, token: usize) -> Arc<str> {
        match &self.settings.token {
            Some(tokens) if tokens.count() > 1 => format!("token {}", token + 1).into(),
            _ => {
                let named = headers.get(CALLER).and_then(|name| name.to_str().ok()).unwrap_or_default();
                named.chars().take(LONGEST_CALLER).collect::<String>().into()
            }
        }
    }

    /// A place among the requests that are being answered.
    fn place(&self, caller: &Arc<str>) -> Result<(Share, OwnedSemaphorePermit), Fault> {
        let most = self.settings.limits.requests;
        let full = |_| {
            let message = format!("{most} requests are in progress, which is the maximum");
            Fault::unavailable("too_many_requests", message)
        };
        let permit = Arc::clone(&self.requests).try_acquire_owned().map_err(full)?;
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if !shares.may_take(caller, most) {
            let mine = shares.of(caller);
            let message = format!(
                "{mine} requests of this caller are in progress, and the remaining places are for others"
            );
            return Err(Fault { code: "over_fair_share", ..Fault::full(message) });
        }
        shares.add(caller);
        Ok((Share { shares: Arc::clone(&self.shares), caller: Arc::clone(caller) }, permit))
    }
}

/// Characters of a caller's name that count.
const LONGEST_CALLER: usize = 64;

/// The router behind all checks, with an answer for everything that it has no route for.
pub(super) fn guarded(router: Router, guard: Arc<Guard>) -> Router {
    router
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        // The limit on bodies is this module's, not the library's own of two megabytes.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(guard, pass))
        .layer(from_fn(calmly))
}

async fn no_route(uri: Uri) -> Response {
    Fault::not_found("no_such_route", "this path does not exist").for_path(uri.path())
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let message = format!("this path does not support {method}");
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message).for_path(uri.path())
}

/// A panic is an answer, in the form that the caller knows.
async fn calmly(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_string();
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(answer) => answer,
        Err(_) => Fault::internal("internal server error; see the server's log").for_path(&path),
    }
}

async fn pass(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_string();
    match checked(&guard, request, &path).await {
        Err(fault) => fault.for_path(&path),
        Ok((request, places)) => {
            let answer = match timeout(guard.settings.limits.request_time, next.run(request)).await {
                Ok(answer) => answer,
                Err(_) => {
                    let message = "the request timed out";
                    Fault::new(StatusCode::GATEWAY_TIMEOUT, "timed_out", message).for_path(&path)
                }
            };
            answer.map(|body| Body::new(Held { body, _places: places }))
        }
    }
}

async fn checked(guard: &Guard, mut request: Request, path: &str) -> Result<(Request, Places), Fault> {
    let headers = request.headers();
    if guard.local_names_only && headers.get(header::HOST).is_some_and(|host| !is_local(host.as_bytes())) {
        let message = "without a token, the server accepts only this machine's own host names";
        return Err(Fault::new(StatusCode::FORBIDDEN, "not_local", message));
    }
    let connection = request.extensions_mut().remove::<Arc<Connection>>();
    let busy = connection.as_ref().map(Connection::busy);
    // Whoever asks whether the server lives is told so, however many others keep it busy; what they send is not read.
    if guard.settings.open_paths.contains(&path) {
        return Ok((request.map(|_| Body::empty()), Places { _busy: busy, ..Places::default() }));
    }
    let token = match &guard.settings.token {
        None => 0,
        Some(tokens) => tokens.which(bearer(request.headers())).ok_or_else(|| {
            let message = "send the server's token as `Authorization: Bearer TOKEN`";
            Fault::new(StatusCode::UNAUTHORIZED, "invalid_token", message)
        })?,
    };
    let stopping =
        || Fault::unavailable("stopping", "the server is shutting down and accepts no more requests");
    let mut is_ending = guard.is_ending.clone();
    if *is_ending.borrow_and_update() {
        return Err(stopping());
    }
    if guard.settings.listening_paths.contains(&path) {
        let most = guard.settings.limits.listeners;
        let full = |_| {
            Fault::unavailable(
                "too_many_listeners",
                format!("{most} clients listen already, which is the maximum"),
            )
        };
        let permit = Arc::clone(&guard.listeners).try_acquire_owned().map_err(full)?;
        let places = Places { _busy: busy, _request: Some(permit), ..Places::default() };
        return Ok((request.map(|_| Body::empty()), places));
    }
    let caller = guard.caller(request.headers(), token);
    let (share, permit) = guard.place(&caller)?;
    let (mut parts, body) = request.into_parts();
    // What comes behind this reads it here.
    if let Ok(caller) = HeaderValue::from_str(&caller) {
        parts.headers.insert(CALLER, caller);
    }
    let (whole, room) = tokio::select! {
        biased;
        whole = guard.bodies.whole(body, &guard.settings.limits) => whole?,
        // Half a request is no request yet.
        Ok(_) = is_ending.wait_for(|is_ending| *is_ending) => return Err(stopping()),
    };
    let places = Places { _busy: busy, _share: Some(share), _request: Some(permit), _body: room };
    Ok((Request::from_parts(parts, Body::from(whole)), places))
}

/// What a request gives as its token.
fn bearer(headers: &HeaderMap) -> &[u8] {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, rest) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(rest)
    });
    given.unwrap_or_default()
}

/// Whether a `Host` means this machine by its own names.
fn is_local(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let by_name = name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    by_name || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A body that counts as a request until it has been sent.
struct Held {
    body: Body,
    _places: Places,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn names_of_this_machine() {
        for host in ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]:80", "[::1]", "a.localhost:8"] {
            assert!(is_local(host.as_bytes()), "{host}");
        }
        for host in ["example.org", "example.org:80", "10.0.0.1", "localhost.example.org", "", "\u{ff}"] {
            assert!(!is_local(host.as_bytes()), "{host}");
        }
    }
}
