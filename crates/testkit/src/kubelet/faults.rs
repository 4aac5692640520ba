//! A kubelet that is broken or in hostile hands (NC-12, NC-13): it answers what it was told to, byte for byte, and
//! writes down all that still comes on the connection.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::certificates::Peer;
use super::{Seen, State};

/// What happens after a wrong answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The connection stays open; what comes on it is kept for [`super::FakeKubelet::strays`].
    KeepOpen,
    /// The connection is cut, without a word in TLS.
    Cut,
}

/// A wrong answer. Requests that it is not for get an empty 200.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Whether it is only for requests that ask for a change of protocol.
    pub upgrades_only: bool,
    /// All the bytes that are sent.
    pub answer: Vec<u8>,
    /// What happens after them.
    pub then: Then,
}

impl Fault {
    /// Answers every request with these bytes and cuts the connection.
    pub fn cut_after(answer: impl Into<Vec<u8>>) -> Self {
        Self { upgrades_only: false, answer: answer.into(), then: Then::Cut }
    }

    /// Answers a change of protocol with this code and these header lines (each with its line end) and an empty body,
    /// and keeps the connection open: `302` with a `Location` (NC-12), `403` (NC-13), `200`.
    pub fn refused_upgrade(code: u16, headers: &str) -> Self {
        let answer = format!("HTTP/1.1 {code} Refused\r\n{headers}Content-Length: 0\r\n\r\n");
        Self { upgrades_only: true, answer: answer.into(), then: Then::KeepOpen }
    }

    /// Changes to a protocol that nobody asked for, on every request.
    pub fn unasked_upgrade(protocol: &str) -> Self {
        let answer =
            format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n");
        Self { upgrades_only: false, answer: answer.into(), then: Then::KeepOpen }
    }

    /// Announces 1000 bytes, sends ten, and cuts the connection.
    pub fn broken_body() -> Self {
        Self::cut_after(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n0123456789",
        )
    }

    /// Sends one whole chunk and a part of the next, and cuts the connection.
    pub fn broken_chunk() -> Self {
        Self::cut_after("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nff\r\nabc")
    }

    /// Sends half a head and cuts the connection.
    pub fn half_head() -> Self {
        Self::cut_after("HTTP/1.1 200 OK\r\nContent-Le")
    }

    /// Sends a head with one header of so many bytes.
    pub fn huge_head(bytes: usize) -> Self {
        Self::cut_after(format!(
            "HTTP/1.1 200 OK\r\nX-Huge: {}\r\nContent-Length: 0\r\n\r\n",
            "x".repeat(bytes)
        ))
    }

    /// Never answers.
    pub fn silence() -> Self {
        Self { upgrades_only: false, answer: Vec::new(), then: Then::KeepOpen }
    }
}

/// The longest head that is read.
const LONGEST_HEAD: usize = 1 << 20;

/// Serves a connection with a fault.
pub(super) async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    fault: &Fault,
    peer: &Peer,
    state: &Arc<State>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if bytes.len() > LONGEST_HEAD || stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        bytes.drain(..end);
        let seen = parse(&head, peer);
        let has = |name: &str, value: &str| {
            seen.header(name).is_some_and(|v| v.to_ascii_lowercase().contains(value))
        };
        let upgrade = has("connection", "upgrade") && has("upgrade", "");
        let length = seen.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        state.note(|| seen);
        while bytes.len() < length {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        }
        bytes.drain(..length);
        if fault.upgrades_only && !upgrade {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await?;
            stream.flush().await?;
            continue;
        }
        // Before the answer, for who reads that looks here next.
        let kept = (fault.then == Then::KeepOpen).then(|| state.stray(&bytes));
        stream.write_all(&fault.answer).await?;
        stream.flush().await?;
        let Some(kept) = kept else { return Ok(()) };
        loop {
            bytes.clear();
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
            state.stray_more(kept, &bytes);
        }
    }
}

fn parse(head: &str, peer: &Peer) -> Seen {
    let mut lines = head.trim_end().split("\r\n");
    let mut line = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let headers = lines.filter_map(|line| line.split_once(':'));
    Seen {
        method: line.next().unwrap_or_default(),
        path: line.next().unwrap_or_default(),
        headers: headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect(),
        certificate: peer.shown.clone(),
    }
}
