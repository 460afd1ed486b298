//! What every request passes before it reaches its route.

use super::GuardSettings;
use crate::fault::Fault;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use futures_util::{FutureExt, StreamExt};
use hyper::body::{Frame, SizeHint};
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

/// What is said of a body that is something else.
pub const JSON_ONLY: &str = "the body has to be JSON, with `Content-Type: application/json`";

pub(super) struct Guard {
    settings: GuardSettings,
    /// On this machine alone and with no token: then a page in a browser must not pass for somebody on this machine.
    local_names_only: bool,
    requests: Arc<Semaphore>,
    is_ending: watch::Receiver<bool>,
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
        Guard { settings, local_names_only, requests, is_ending }
    }
}

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
    Fault::not_found("no_such_route", "there is nothing at this path").for_path(uri.path())
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let message = format!("this path has no method {method}");
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message).for_path(uri.path())
}

/// A panic is an answer, in the form that the caller knows.
async fn calmly(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_string();
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(answer) => answer,
        Err(_) => Fault::internal("this is a fault of the server; its log has the details").for_path(&path),
    }
}

async fn pass(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_string();
    match checked(&guard, request, &path).await {
        Err(fault) => fault.for_path(&path),
        Ok((request, permit)) => {
            let answer = match timeout(guard.settings.limits.request_time, next.run(request)).await {
                Ok(answer) => answer,
                Err(_) => {
                    let message = "there was no answer in the time that a request has";
                    Fault::new(StatusCode::GATEWAY_TIMEOUT, "timed_out", message).for_path(&path)
                }
            };
            answer.map(|body| Body::new(Held { body, _permit: permit }))
        }
    }
}

async fn checked(
    guard: &Guard,
    request: Request,
    path: &str,
) -> Result<(Request, Option<OwnedSemaphorePermit>), Fault> {
    let headers = request.headers();
    if guard.local_names_only && headers.get(header::HOST).is_some_and(|host| !is_local(host.as_bytes())) {
        let message = "a server with no token answers only to this machine's own names";
        return Err(Fault::new(StatusCode::FORBIDDEN, "not_local", message));
    }
    // Whoever asks whether the server lives is told so, however many others keep it busy; what they send is not read.
    if guard.settings.open_paths.contains(&path) {
        return Ok((request.map(|_| Body::empty()), None));
    }
    if let Some(token) = &guard.settings.token {
        let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
        let given = given.and_then(|value| {
            let (scheme, rest) = value.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(rest)
        });
        if !token.is(given.unwrap_or_default()) {
            let message = "send the server's token as `Authorization: Bearer TOKEN`";
            return Err(Fault::new(StatusCode::UNAUTHORIZED, "invalid_token", message));
        }
    }
    let stopping = || Fault::unavailable("stopping", "the server is ending: it takes nothing more on");
    let mut is_ending = guard.is_ending.clone();
    if *is_ending.borrow_and_update() {
        return Err(stopping());
    }
    let permit = Arc::clone(&guard.requests).try_acquire_owned().map_err(|_| {
        let most = guard.settings.limits.requests;
        Fault::unavailable("too_many_requests", format!("{most} requests are being answered already"))
    })?;
    let (parts, body) = request.into_parts();
    let limits = &guard.settings.limits;
    let whole = tokio::select! {
        biased;
        whole = timeout(limits.body_time, whole(body, limits.body_bytes)) => whole,
        // Half a request is no request yet.
        Ok(_) = is_ending.wait_for(|is_ending| *is_ending) => return Err(stopping()),
    };
    let whole = whole.map_err(|_| {
        Fault::new(StatusCode::REQUEST_TIMEOUT, "slow_body", "the body did not come in time")
    })??;
    Ok((Request::from_parts(parts, Body::from(whole)), Some(permit)))
}

/// The whole of a body, which the limits on its size and on the number of requests keep small enough to hold.
async fn whole(body: Body, most: usize) -> Result<Bytes, Fault> {
    let too_large = || {
        let message = format!("the body is larger than the {most} bytes that are taken");
        Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    };
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    let mut parts = body.into_data_stream();
    let mut held: Vec<u8> = Vec::new();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|_| Fault::invalid("the body ended before it was complete"))?;
        if held.len() + part.len() > most {
            return Err(too_large());
        }
        held.extend_from_slice(&part);
    }
    Ok(Bytes::from(held))
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
    _permit: Option<OwnedSemaphorePermit>,
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
