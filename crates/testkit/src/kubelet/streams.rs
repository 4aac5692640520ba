//! exec, attach and portForward: the protocol upgrade (KA-24) and the stream after it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::body::{Answer, piece};
use super::channels;
use super::handler::{Asked, parameter, text};
use super::session::Session;
use super::spdy;
use super::state::{Open, State};

/// The subprotocols of an endpoint: those of WebSocket, then those of SPDY.
pub(super) type Protocols = (&'static [&'static str], &'static [&'static str]);

const CHANNELS: &[&str] = &["v5.channel.k8s.io", "v4.channel.k8s.io"];
pub(super) const REMOTE_COMMAND: Protocols = (CHANNELS, CHANNELS);
pub(super) const PORT_FORWARD: Protocols =
    (&["v5.channel.k8s.io", "v4.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"], &["portforward.k8s.io"]);

const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED_PROTOCOLS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");
const WEBSOCKET_PROTOCOL: HeaderName = HeaderName::from_static("sec-websocket-protocol");
const WEBSOCKET_KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const WEBSOCKET_ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");

/// The elements of a header that is a list, however many lines it has.
fn elements(headers: &HeaderMap, name: HeaderName) -> Vec<&str> {
    let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|element| !element.is_empty()).collect()
}

fn has(headers: &HeaderMap, name: HeaderName, wanted: &str) -> bool {
    elements(headers, name).iter().any(|element| element.eq_ignore_ascii_case(wanted))
}

/// The answer to a WebSocket key (RFC 6455, section 4.2.2).
fn accepted(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref())
}

/// Changes the protocol, or says why not.
pub(super) fn upgrade(
    asked: &Asked<'_>,
    mut request: Request<Incoming>,
    protocols: Protocols,
) -> Response<Answer> {
    let headers = request.headers();
    let websocket = has(headers, UPGRADE, "websocket");
    if !has(headers, CONNECTION, "upgrade") || !(websocket || has(headers, UPGRADE, "SPDY/3.1")) {
        return text(
            StatusCode::BAD_REQUEST,
            "unable to upgrade: the request asks for no protocol that is known here\n",
        );
    }
    let (name, known) =
        if websocket { (WEBSOCKET_PROTOCOL, protocols.0) } else { (STREAM_PROTOCOL, protocols.1) };
    let offered = elements(headers, name.clone());
    // The client's order decides.
    let chosen = offered.iter().find_map(|offered| known.iter().find(|known| *known == offered));
    if chosen.is_none() && !offered.is_empty() {
        let mut response =
            text(StatusCode::FORBIDDEN, "unable to upgrade: no subprotocol offered is known here\n");
        for known in known {
            response.headers_mut().append(ACCEPTED_PROTOCOLS, HeaderValue::from_static(known));
        }
        return response;
    }
    let mut response = Response::new(Answer::Whole(None));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(UPGRADE, HeaderValue::from_static(if websocket { "websocket" } else { "SPDY/3.1" }));
    if let Some(chosen) = chosen {
        answer.insert(name, HeaderValue::from_static(chosen));
    }
    if websocket {
        let Some(key) = headers.get(WEBSOCKET_KEY).and_then(|key| key.to_str().ok()) else {
            return text(StatusCode::BAD_REQUEST, "unable to upgrade: no Sec-WebSocket-Key\n");
        };
        answer.insert(WEBSOCKET_ACCEPT, accepted(key).parse().expect("base64"));
    }
    let mode = Mode::of(asked.query, websocket);
    let spoken = asked.state.options.shell.as_ref().map(|folder| Spoken::of(asked, folder, websocket));
    let (state, open) = (Arc::clone(asked.state), Open::new(&asked.state.open));
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let _open = open;
        if let Ok(upgraded) = upgraded.await {
            // A client that disconnects is no concern of a kubelet.
            let stream = TokioIo::new(upgraded);
            drop(match spoken {
                None => run(stream, mode, &state).await,
                Some(Spoken::Ports) => spdy::echo(stream, &state).await,
                Some(Spoken::Channels { has_input, session }) => {
                    channels::run(stream, has_input, session, &state).await
                }
                Some(Spoken::Streams { wanted, session }) => spdy::run(stream, wanted, session, &state).await,
            });
        }
    });
    response
}

/// A protocol that kubectl speaks.
enum Spoken {
    /// Port forwarding.
    Ports,
    /// A command by WebSocket.
    Channels { has_input: bool, session: Session },
    /// A command by SPDY, with these of its three streams.
    Streams { wanted: [bool; 3], session: Session },
}

impl Spoken {
    fn of(asked: &Asked<'_>, folder: &Path, websocket: bool) -> Self {
        if asked.path.starts_with("/portForward") {
            return Self::Ports;
        }
        let words = asked.query.split('&').filter_map(|pair| pair.strip_prefix("command="));
        let mut command: Vec<String> = words.map(decoded).collect();
        if command.is_empty() {
            // What runs in the container that is attached to.
            command.push("cat".to_owned());
        }
        let session = Session::start(&command, folder);
        let wanted = ["input", "output", "error"].map(|name| parameter(asked.query, name) == Some("1"));
        match websocket {
            true => Self::Channels { has_input: wanted[0], session },
            false => Self::Streams { wanted, session },
        }
    }
}

/// A value of a query.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let hex = after.first_chunk::<2>().and_then(|hex| std::str::from_utf8(hex).ok());
        match (first, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (b'+', _) => bytes.push(b' '),
            (other, _) => bytes.push(*other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What happens on a stream after the upgrade.
#[derive(Clone, Copy)]
enum Mode {
    /// All that comes is sent back.
    Echo,
    /// So much of the pattern is sent, then this half is closed, and the other read to its end.
    Source(u64),
    /// All is read; then the number of bytes is sent as text.
    Sink,
    /// The output of `id` and the status, in frames of the channel protocol.
    Id,
}

impl Mode {
    fn of(query: &str, websocket: bool) -> Self {
        match parameter(query, "mode") {
            Some("source") => {
                Self::Source(parameter(query, "bytes").and_then(|n| n.parse().ok()).unwrap_or(0))
            }
            Some("sink") => Self::Sink,
            None if websocket && parameter(query, "command") == Some("id") => Self::Id,
            _ => Self::Echo,
        }
    }
}

async fn run(stream: impl AsyncRead + AsyncWrite, mode: Mode, state: &State) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    match mode {
        Mode::Echo => {
            read(&mut reader, Some(&mut writer), state).await?;
            writer.write_all(&state.options.trailer).await?;
            writer.shutdown().await
        }
        Mode::Sink => {
            let count = read(&mut reader, None::<&mut tokio::io::Sink>, state).await?;
            writer.write_all(count.to_string().as_bytes()).await?;
            writer.shutdown().await
        }
        Mode::Source(bytes) => {
            let write = async {
                let mut left = bytes;
                while left > 0 {
                    let piece = piece(left);
                    writer.write_all(&piece).await?;
                    left -= piece.len() as u64;
                }
                writer.shutdown().await
            };
            tokio::try_join!(write, read(&mut reader, None::<&mut tokio::io::Sink>, state)).map(|_| ())
        }
        Mode::Id => {
            frame(&mut writer, 2, b"\x01uid=0(root) gid=0(root)\n").await?;
            frame(&mut writer, 2, b"\x03{\"metadata\":{},\"status\":\"Success\"}").await?;
            frame(&mut writer, 8, &1000_u16.to_be_bytes()).await?;
            writer.shutdown().await?;
            read(&mut reader, None::<&mut tokio::io::Sink>, state).await.map(|_| ())
        }
    }
}

/// Reads to the end, sends it on, and counts.
async fn read(
    reader: &mut (impl AsyncRead + Unpin),
    mut to: Option<&mut (impl AsyncWrite + Unpin)>,
    state: &State,
) -> io::Result<u64> {
    let mut buffer = vec![0; 64 * 1024];
    let mut count = 0;
    loop {
        let length = reader.read(&mut buffer).await?;
        if length == 0 {
            return Ok(count);
        }
        count += length as u64;
        state.received.fetch_add(length as u64, Ordering::Relaxed);
        if let Some(to) = &mut to {
            to.write_all(&buffer[..length]).await?;
            to.flush().await?;
        }
    }
}

/// A short, whole frame as a server sends it (RFC 6455, section 5.2).
async fn frame(writer: &mut (impl AsyncWrite + Unpin), code: u8, payload: &[u8]) -> io::Result<()> {
    let length = u8::try_from(payload.len()).expect("a short frame");
    writer.write_all(&[&[0x80 | code, length], payload].concat()).await
}

#[cfg(test)]
mod tests {
    #[test]
    fn keys_are_answered_as_the_example_of_rfc_6455_has_it() {
        assert_eq!(super::accepted("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
