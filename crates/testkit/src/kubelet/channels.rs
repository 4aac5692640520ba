//! The channel protocol v5 of exec and attach on a WebSocket: the first byte of each message says which stream it belongs to.

use std::io;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::session::{Piece, Session};
use super::state::State;

const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// The message that closes a stream: its number follows.
const CLOSES: u8 = 255;
/// The largest message that is taken. In bytes.
const MOST: u64 = 1 << 20;

/// A message of the client, unmasked (RFC 6455, section 5.2).
async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let (first, second) = (from.read_u8().await?, from.read_u8().await?);
    let length = match second & 0x7f {
        126 => u64::from(from.read_u16().await?),
        127 => from.read_u64().await?,
        short => u64::from(short),
    };
    if length > MOST || second & 0x80 == 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut mask = [0; 4];
    from.read_exact(&mut mask).await?;
    let mut bytes = vec![0; usize::try_from(length).expect("a short message")];
    from.read_exact(&mut bytes).await?;
    bytes.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Ok((first & 0x0f, bytes))
}

async fn write(to: &mut (impl AsyncWrite + Unpin), code: u8, parts: &[&[u8]]) -> io::Result<()> {
    let payload = parts.concat();
    let mut frame = vec![0x80 | code];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ ..126), _) => frame.push(length),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend(length.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend(payload);
    to.write_all(&frame).await?;
    to.flush().await
}

/// Exec and attach.
pub(super) async fn run(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    has_input: bool,
    session: Session,
    state: &State,
) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(stream);
    let Session { input, mut output } = session;
    // One writer: pings are answered between the pieces.
    let (pongs, mut pinged) = tokio::sync::mpsc::channel::<Vec<u8>>(4);
    let telling = tokio::spawn(async move {
        loop {
            tokio::select! {
                ping = pinged.recv() => match ping {
                    Some(bytes) => write(&mut to, PONG, &[&bytes]).await?,
                    None => return Ok::<_, io::Error>(()),
                },
                piece = output.recv() => match piece {
                    Some(Piece::Out(bytes)) => write(&mut to, BINARY, &[&[1], &bytes]).await?,
                    Some(Piece::Err(bytes)) => write(&mut to, BINARY, &[&[2], &bytes]).await?,
                    Some(Piece::Status(text)) => {
                        write(&mut to, BINARY, &[&[3], text.as_bytes()]).await?;
                        write(&mut to, CLOSE, &[&1000_u16.to_be_bytes()]).await?;
                        return to.shutdown().await;
                    }
                    None => return to.shutdown().await,
                },
            }
        }
    });
    let mut input = Some(input).filter(|_| has_input);
    let read_all = async {
        loop {
            let (code, bytes) = read(&mut from).await?;
            state.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            match (code, bytes.as_slice()) {
                (CLOSE, _) => return Ok::<_, io::Error>(()),
                (PING, _) => drop(pongs.send(bytes).await),
                (_, [CLOSES, 0]) => input = None,
                (_, [0, rest @ ..]) => {
                    if let Some(input) = &input {
                        let _ = input.send(rest.to_vec()).await;
                    }
                }
                _ => {}
            }
        }
    };
    let ended = read_all.await;
    drop(input);
    telling.abort();
    ended
}
