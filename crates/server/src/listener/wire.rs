//! The bytes of one connection, which outlive the HTTP that is spoken over them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::Connection;

/// A TLS session, and what was read from it that nobody has used yet.
pub(super) struct Wire {
    /// On the heap: a wire is handed on several times, and each place for it would be as large.
    stream: Box<TlsStream<TcpStream>>,
    unread: Bytes,
    /// Whether it outlives what is spoken over it: whoever shuts it down flushes it only.
    outlives: bool,
    connection: Arc<Connection>,
}

impl Wire {
    pub(super) fn new(stream: Box<TlsStream<TcpStream>>, connection: Arc<Connection>) -> Self {
        Self { stream, unread: Bytes::new(), outlives: false, connection }
    }

    /// The same, from which these bytes are read first.
    pub(super) fn rewound(mut self, unread: Bytes) -> Self {
        // Nothing is held of a buffer in which there is nothing.
        self.unread = if unread.is_empty() { Bytes::new() } else { unread };
        self
    }

    /// The same, which outlives what is spoken over it, or does not.
    pub(super) fn outliving(mut self, outlives: bool) -> Self {
        self.outlives = outlives;
        self
    }

    /// Whether there is something to read that was read before.
    pub(super) fn is_rewound(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Waits until the peer has sent something, or closed.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.stream.get_ref().0.readable().await
    }

    /// Tells the peer that this is the end.
    pub(super) async fn end(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            return Pin::new(&mut *self.stream).poll_read(cx, into);
        }
        let count = self.unread.len().min(into.remaining());
        into.put_slice(&self.unread.copy_to_bytes(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.connection.activity.wrote(true);
        Pin::new(&mut *self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.connection.activity.wrote(true);
        Pin::new(&mut *self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut *self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.connection.activity.wrote(false);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outlives {
            return self.poll_flush(cx);
        }
        Pin::new(&mut *self.stream).poll_shutdown(cx)
    }
}
