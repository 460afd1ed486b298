//! Connections: taken, perhaps encrypted, served, and let go when the server ends.

use super::stall::Unstalled;
use super::{Ended, Limits};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Header lines that a request may have.
const MAX_HEADERS: usize = 100;

pub(super) async fn accept(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> Ended {
    let connections = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_headers(MAX_HEADERS)
        // hyper takes no less.
        .max_buf_size(limits.head_bytes.max(8192));
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Most likely there are no file descriptors left: others have to end first.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else {
            tracing::warn!("{} connections are open: another was closed", limits.connections);
            continue;
        };
        // Tokens go out one by one: none waits for the next.
        let _ = stream.set_nodelay(true);
        let stream = Unstalled::new(stream, limits.stall_time);
        let (router, http, watcher) = (router.clone(), http.clone(), graceful.watcher());
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let _permit = permit;
            match acceptor {
                None => connection(stream, router, &http, watcher).await,
                Some(acceptor) => {
                    let handshake = tokio::time::timeout(limits.head_time, acceptor.accept(stream));
                    if let Ok(Ok(stream)) = handshake.await {
                        connection(stream, router, &http, watcher).await;
                    }
                }
            }
        });
    }
    drop(listener);
    match tokio::time::timeout(limits.drain_time, graceful.shutdown()).await {
        Ok(()) => Ended::Drained,
        Err(_) => Ended::CutOff,
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    http: &http1::Builder,
    watcher: Watcher,
) {
    let service = TowerToHyperService::new(router);
    let served = watcher.watch(http.serve_connection(TokioIo::new(stream), service));
    // Callers that go away in the middle, or say what is no HTTP, are their own affair.
    if let Err(error) = served.await {
        tracing::debug!("a connection ended early: {error}");
    }
}
