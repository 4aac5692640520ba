//! SPDY/3.1 as far as kubectl speaks it: exec, attach and port forwarding on a connection that was changed to it.
//!
//! Headers of streams are not read: kubectl opens the streams of a session in one order. Answers have none, in stored blocks
//! without a dictionary, which a zlib stream may have.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use super::session::{Piece, Session};
use super::state::State;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
/// No more data in this direction of the stream.
const FIN: u8 = 1;
/// The largest frame that is taken. In bytes.
const MOST: usize = 1 << 20;

/// A frame.
enum Frame {
    Data { stream: u32, is_last: bool, bytes: Vec<u8> },
    Control { kind: u16, bytes: Vec<u8> },
}

async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let mut head = [0; 8];
    from.read_exact(&mut head).await?;
    let first = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
    if length > MOST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame that is too large"));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).await?;
    Ok(match first >> 31 {
        0 => Frame::Data { stream: first, is_last: head[4] & FIN != 0, bytes },
        _ => Frame::Control { kind: (first & 0xffff) as u16, bytes },
    })
}

fn frame(first: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("a short frame");
    let mut out = first.to_be_bytes().to_vec();
    out.extend((u32::from(flags) << 24 | length).to_be_bytes());
    out.extend(bytes);
    out
}

fn data(stream: u32, is_last: bool, bytes: &[u8]) -> Vec<u8> {
    frame(stream, u8::from(is_last), bytes)
}

fn control(kind: u16, bytes: &[u8]) -> Vec<u8> {
    frame(0x8003_0000 | u32::from(kind), 0, bytes)
}

/// Accepts a stream with a block of no headers: the number 0 in a stored block, and an empty one behind it.
fn accept(stream: u32, is_first: bool) -> Vec<u8> {
    let mut bytes = stream.to_be_bytes().to_vec();
    if is_first {
        bytes.extend([0x78, 0x01]);
    }
    bytes.extend([0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0]);
    bytes.extend([0, 0, 0, 0xff, 0xff]);
    control(SYN_REPLY, &bytes)
}

fn stream_of(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes) & 0x7fff_ffff)
}

/// Writes the frames that come, one after the other.
async fn write(mut to: impl AsyncWrite + Unpin, mut frames: Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(frame) = frames.recv().await {
        to.write_all(&frame).await?;
        to.flush().await?;
    }
    to.shutdown().await
}

/// Something that a client does.
enum Event {
    /// It opens a stream: its number, and how many it has opened before.
    Opened(u32, usize),
    /// It sends on a stream, perhaps for the last time.
    Data(u32, bool, Vec<u8>),
}

/// The client's side of a connection. Pings are answered, and streams accepted.
struct Client<'a, F> {
    from: F,
    out: Sender<Vec<u8>>,
    opened: usize,
    state: &'a State,
}

impl<F: AsyncRead + Unpin> Client<'_, F> {
    async fn next(&mut self) -> io::Result<Event> {
        loop {
            match read(&mut self.from).await? {
                Frame::Data { stream, is_last, bytes } => {
                    self.state.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    return Ok(Event::Data(stream, is_last, bytes));
                }
                Frame::Control { kind: SYN_STREAM, bytes } => {
                    let (stream, place) = (stream_of(&bytes), self.opened);
                    self.opened += 1;
                    send(&self.out, accept(stream, place == 0)).await;
                    return Ok(Event::Opened(stream, place));
                }
                Frame::Control { kind: PING, bytes } => send(&self.out, control(PING, &bytes)).await,
                Frame::Control { kind: GOAWAY, .. } => return Err(io::ErrorKind::ConnectionAborted.into()),
                Frame::Control { .. } => {}
            }
        }
    }
}

async fn send(out: &Sender<Vec<u8>>, frame: Vec<u8>) {
    // A client that has gone is no concern of a kubelet.
    let _ = out.send(frame).await;
}

type Streams = BTreeMap<&'static str, u32>;

/// Exec and attach: kubectl opens the stream of errors first, then input, output and error output as far as it asked for them,
/// then that of the terminal's size.
pub(super) async fn run(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    wanted: [bool; 3],
    session: Session,
    state: &State,
) -> io::Result<()> {
    let (from, to) = tokio::io::split(stream);
    let (out, frames) = channel(4);
    tokio::spawn(write(to, frames));
    let asked = ["stdin", "stdout", "stderr"].into_iter().zip(wanted);
    let asked = asked.filter_map(|(name, is_wanted)| is_wanted.then_some(name));
    let names: Vec<&str> = ["error"].into_iter().chain(asked).collect();
    let Session { input, output } = session;
    let (ready, all) = oneshot::channel();
    tokio::spawn(tell(output, all, out.clone()));
    let (mut ready, mut streams) = (Some(ready), Streams::new());
    let mut input = Some(input).filter(|_| wanted[0]);
    let mut client = Client { from, out, opened: 0, state };
    loop {
        match client.next().await? {
            Event::Opened(stream, place) => {
                if let Some(name) = names.get(place) {
                    streams.insert(*name, stream);
                }
                if streams.len() == names.len()
                    && let Some(ready) = ready.take()
                {
                    // The command may have ended already.
                    let _ = ready.send(streams.clone());
                }
            }
            Event::Data(stream, is_last, bytes) if streams.get("stdin") == Some(&stream) => {
                if let Some(input) = &input
                    && !bytes.is_empty()
                {
                    let _ = input.send(bytes).await;
                }
                if is_last {
                    input = None;
                }
            }
            Event::Data(..) => {}
        }
    }
}

/// Sends what a command writes on the streams of the client, once they are open.
async fn tell(mut output: Receiver<Piece>, all: oneshot::Receiver<Streams>, out: Sender<Vec<u8>>) {
    let Ok(streams) = all.await else { return };
    while let Some(piece) = output.recv().await {
        let (name, bytes) = match &piece {
            Piece::Out(bytes) => ("stdout", bytes.as_slice()),
            Piece::Err(bytes) => ("stderr", bytes.as_slice()),
            Piece::Status(text) => ("error", text.as_bytes()),
        };
        let is_last = name == "error";
        if is_last {
            for stream in ["stdout", "stderr"].iter().filter_map(|name| streams.get(name)) {
                send(&out, data(*stream, true, &[])).await;
            }
        }
        if let Some(stream) = streams.get(name) {
            send(&out, data(*stream, is_last, bytes)).await;
        }
    }
}

/// Port forwarding: kubectl opens a stream of errors and one of data for each connection. All data is sent back.
pub(super) async fn echo(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    state: &State,
) -> io::Result<()> {
    let (from, to) = tokio::io::split(stream);
    let (out, frames) = channel(4);
    tokio::spawn(write(to, frames));
    let mut client = Client { from, out: out.clone(), opened: 0, state };
    let (mut of_errors, mut pairs) = (0, BTreeMap::new());
    loop {
        match client.next().await? {
            Event::Opened(stream, place) if place % 2 == 0 => of_errors = stream,
            Event::Opened(stream, _) => drop(pairs.insert(stream, of_errors)),
            Event::Data(stream, is_last, bytes) => {
                let Some(errors) = pairs.get(&stream) else { continue };
                send(&out, data(stream, is_last, &bytes)).await;
                if is_last {
                    send(&out, data(*errors, true, &[])).await;
                }
            }
        }
    }
}
