//! A broken or hostile kubelet (NC-12, NC-13): it sends the bytes that the test gives it, and records what it still
//! receives on the connection.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::certificates::Peer;
use super::options::{Fault, Then};
use super::state::{Seen, State};

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
