//! The byte stream of one connection, which outlives the HTTP state on top of it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::connection::Connection;
use super::table::TLS_BYTES;

/// The most that is read and dropped of a request whose answer was sent early, and at once. In bytes.
const MOST_DROPPED: usize = 2 * 1024 * 1024;
const DROPPED_AT_ONCE: usize = 16 * 1024;
/// Headers of this size are in the size of a connection. In bytes.
const SMALL_HEAD: usize = 8 * 1024;

/// A TLS session, and the bytes that were read and not yet used.
pub(super) struct Wire<P> {
    /// On the heap, because a wire is moved several times and would be large in each place.
    stream: Box<TlsStream<TcpStream>>,
    unread: Bytes,
    /// Whether the wire is kept after its protocol ends: then a shutdown only flushes it.
    outlives: bool,
    connection: Arc<Connection<P>>,
    /// The number of bytes that were read from a stranger.
    read: usize,
}

impl<P> Wire<P> {
    pub(super) fn new(stream: Box<TlsStream<TcpStream>>, connection: Arc<Connection<P>>) -> Self {
        Self { stream, unread: Bytes::new(), outlives: false, connection, read: 0 }
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

    /// Charges a stranger for headers that are not complete. On HTTP/2 they are charged in advance.
    fn charge(&mut self, bytes: usize) {
        let Connection { place, is_http2, .. } = &*self.connection;
        if bytes > 0 && !is_http2 && !place.is_known() {
            self.read = self.read.saturating_add(bytes);
            if self.read > SMALL_HEAD {
                place.holds(TLS_BYTES.saturating_add(self.read));
            }
        }
    }

    /// Closes the connection gracefully.
    pub(super) async fn end(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    /// Closes the connection of a peer that is still sending. What it sends is read, within bounds, and dropped: with bytes
    /// unread, the system would reset the connection, and the peer would not see its answer.
    pub(super) async fn end_unread(&mut self) -> io::Result<()> {
        self.end().await?;
        let mut dropped = vec![0; DROPPED_AT_ONCE];
        let mut left = MOST_DROPPED;
        while left > 0 {
            match self.stream.read(&mut dropped).await? {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
        Ok(())
    }
}

impl<P> AsyncRead for Wire<P> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            let before = into.filled().len();
            let outcome = Pin::new(&mut *self.stream).poll_read(cx, into);
            self.charge(into.filled().len().saturating_sub(before));
            return outcome;
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
