//! A connection whose other end has to take what it is sent. One that does not would hold an instance for ever.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream that fails where nothing can be written to it for a time.
pub(super) struct Unstalled<S> {
    stream: S,
    patience: Duration,
    timer: Pin<Box<Sleep>>,
    waits: bool,
}

impl<S> Unstalled<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Unstalled<S> {
        Unstalled { stream, patience, timer: Box::pin(tokio::time::sleep(patience)), waits: false }
    }

    /// What came of an attempt to write: where there was no room, time begins to run.
    fn timed<T>(&mut self, context: &mut Context<'_>, attempt: Poll<Result<T>>) -> Poll<Result<T>> {
        if attempt.is_ready() {
            self.waits = false;
            return attempt;
        }
        if !self.waits {
            self.waits = true;
            self.timer.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstalled<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, attempt)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_flush(context);
        self.timed(context, attempt)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_shutdown(context);
        self.timed(context, attempt)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.timed(context, attempt)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
