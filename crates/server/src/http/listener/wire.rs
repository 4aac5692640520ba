//! The byte stream of one connection, which outlives the HTTP state on top of it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::connection::Connection;

/// A TLS session, and the bytes that were read and not yet used.
pub(super) struct Wire<P> {
    /// On the heap, because a wire is moved several times and would be large in each place.
    stream: Box<TlsStream<TcpStream>>,
    unread: Bytes,
    /// Whether the wire is kept after its protocol ends: then a shutdown only flushes it.
    outlives: bool,
    connection: Arc<Connection<P>>,
}

impl<P> Wire<P> {
    pub(super) fn new(stream: Box<TlsStream<TcpStream>>, connection: Arc<Connection<P>>) -> Self {
        Self { stream, unread: Bytes::new(), outlives: false, connection }
    }

    /// Returns the wire with these bytes to be read first.
    pub(super) fn rewound(mut self, unread: Bytes) -> Self {
        // Do not keep an empty buffer alive.
        self.unread = if unread.is_empty() { Bytes::new() } else { unread };
        self
    }

    /// Sets whether the wire is kept after its protocol ends.
    pub(super) fn outliving(mut self, outlives: bool) -> Self {
        self.outlives = outlives;
        self
    }

    /// Returns whether there are bytes that were read before and not used.
    pub(super) fn is_rewound(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Waits until the peer has sent data or closed the connection.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.stream.get_ref().0.readable().await
    }

    /// Closes the connection gracefully.
    pub(super) async fn end(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }
}

impl<P> AsyncRead for Wire<P> {
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

impl<P> AsyncWrite for Wire<P> {
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
