//! Connections: taken, perhaps encrypted, served, and let go when the server ends.

use super::connections::{Connection, Connections};
use super::stall::Unstalled;
use super::{RequestLimits, ServerEnd};
use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// Header lines that a request may have.
const MAX_HEADERS: usize = 100;

/// What connections are served by.
pub(super) struct Door {
    pub acceptor: Option<TlsAcceptor>,
    pub router: Router,
    pub limits: RequestLimits,
    /// Of requests that are being answered: all are there when nobody is.
    pub requests: Arc<Semaphore>,
    /// Set when the server ends: from then on the router refuses what it would have done, and says why.
    pub is_ending: watch::Sender<bool>,
}

/// How long connections have to end by themselves once nobody is being answered any more: those that have sent half of
/// something may never send the rest.
const LINGER: Duration = Duration::from_secs(3);

/// Takes connections until `shutdown`. While those that are being served end, others are still taken, to be told that the
/// server ends: one that only closes its port looks like one that has crashed.
pub(super) async fn accept(
    listener: TcpListener,
    door: Door,
    shutdown: impl Future<Output = ()>,
) -> ServerEnd {
    let connections = Connections::new(door.limits.connections, door.limits.connections_of_one);
    let graceful = GracefulShutdown::new();
    let take = || async {
        let Ok((stream, peer)) = listener.accept().await else {
            // Most likely there are no file descriptors left: another connection has to end first.
            connections.make_room();
            tokio::time::sleep(Duration::from_millis(20)).await;
            return None;
        };
        let connection = connections.open(peer.ip());
        if connection.is_none() {
            tracing::warn!(
                "{} connections are open, which is the maximum: another was closed",
                door.limits.connections
            );
        }
        Some((stream, connection?))
    };
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            taken = take() => if let Some((stream, connection)) = taken {
                let watcher = graceful.watcher();
                tokio::spawn(door.serve(stream, connection, Some(watcher)));
            },
        }
    }
    door.is_ending.send_replace(true);
    let all_answered = async {
        let all = u32::try_from(door.limits.requests).unwrap_or(u32::MAX);
        // Nobody closes it.
        let _ = door.requests.acquire_many(all).await;
        tokio::time::sleep(LINGER).await;
    };
    let ends = async {
        tokio::select! {
            () = graceful.shutdown() => {}
            () = all_answered => {}
        }
    };
    let drained = tokio::time::timeout(door.limits.drain_time, ends);
    tokio::pin!(drained);
    loop {
        tokio::select! {
            biased;
            drained = &mut drained => return if drained.is_ok() { ServerEnd::Drained } else { ServerEnd::CutOff },
            taken = take() => if let Some((stream, connection)) = taken {
                tokio::spawn(door.serve(stream, connection, None));
            },
        }
    }
}

impl Door {
    /// Serves a connection; one that nobody watches is closed after its first answer.
    fn serve(
        &self,
        stream: TcpStream,
        connection: Arc<Connection>,
        watcher: Option<Watcher>,
    ) -> impl Future<Output = ()> + use<> {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .keep_alive(watcher.is_some())
            .header_read_timeout(self.limits.head_time)
            .max_headers(MAX_HEADERS)
            // hyper takes no less.
            .max_buf_size(self.limits.head_bytes.max(8192));
        // Tokens go out one by one: none waits for the next.
        let _ = stream.set_nodelay(true);
        let stream = Unstalled::new(stream, self.limits.stall_time);
        let (router, acceptor, head_time) =
            (self.router.clone(), self.acceptor.clone(), self.limits.head_time);
        async move {
            let served = async {
                match acceptor {
                    None => serve_http(stream, router, Arc::clone(&connection), &http, watcher).await,
                    Some(acceptor) => {
                        let handshake = tokio::time::timeout(head_time, acceptor.accept(stream));
                        if let Ok(Ok(stream)) = handshake.await {
                            serve_http(stream, router, Arc::clone(&connection), &http, watcher).await;
                        }
                    }
                }
            };
            tokio::select! {
                () = served => {}
                () = connection.gives_way() => {}
            }
        }
    }
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    connection: Arc<Connection>,
    http: &http1::Builder,
    watcher: Option<Watcher>,
) {
    let service = TowerToHyperService::new(router);
    // The guard has to know over which connection a request came.
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&connection));
        service.call(request)
    });
    let connection = http.serve_connection(TokioIo::new(stream), service);
    let served = match watcher {
        Some(watcher) => watcher.watch(connection).await,
        None => connection.await,
    };
    // Callers that go away in the middle, or say what is no HTTP, are their own affair.
    if let Err(error) = served {
        tracing::debug!("a connection ended early: {error}");
    }
}
