//! WebSocket frames as a client writes and reads them (RFC 6455, section 5.2): just enough for tests.

use std::io::{self, Read, Write};

/// The code of a text frame.
pub const TEXT: u8 = 1;
/// The code of a binary frame.
pub const BINARY: u8 = 2;
/// The code of a frame that closes.
pub const CLOSE: u8 = 8;
/// The code of a ping.
pub const PING: u8 = 9;
/// The code of a pong.
pub const PONG: u8 = 10;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Whether it is the last of its message.
    pub last: bool,
    /// What it is.
    pub code: u8,
    /// Whether it came masked, as only a client's do.
    pub masked: bool,
    /// Its payload, unmasked.
    pub payload: Vec<u8>,
}

/// Writes a whole message in one masked frame.
///
/// # Errors
/// The stream broke.
pub fn write(mut stream: impl Write, code: u8, payload: &[u8]) -> io::Result<()> {
    let mut frame = vec![0x80 | code];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ ..126), _) => frame.push(0x80 | length),
        (_, Ok(length)) => {
            frame.push(0x80 | 126);
            frame.extend(length.to_be_bytes());
        }
        _ => {
            frame.push(0x80 | 127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    stream.write_all(&frame)
}

/// Reads a frame.
///
/// # Errors
/// The stream broke or ended.
pub fn read(mut stream: impl Read) -> io::Result<Frame> {
    let mut start = [0; 2];
    stream.read_exact(&mut start)?;
    let length = match start[1] & 0x7f {
        126 => {
            let mut bytes = [0; 2];
            stream.read_exact(&mut bytes)?;
            u64::from(u16::from_be_bytes(bytes))
        }
        127 => {
            let mut bytes = [0; 8];
            stream.read_exact(&mut bytes)?;
            u64::from_be_bytes(bytes)
        }
        short => u64::from(short),
    };
    let masked = start[1] & 0x80 != 0;
    let mut mask = [0; 4];
    if masked {
        stream.read_exact(&mut mask)?;
    }
    let mut payload = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    stream.read_exact(&mut payload)?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Ok(Frame { last: start[0] & 0x80 != 0, code: start[0] & 0x0f, masked, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_those_of_the_examples_in_rfc_6455() {
        let mut written = Vec::new();
        write(&mut written, TEXT, b"Hello").unwrap();
        let masked = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        assert_eq!(written, masked);
        let frame = read(&masked[..]).unwrap();
        assert_eq!(frame, Frame { last: true, code: TEXT, masked: true, payload: b"Hello".to_vec() });
        let frame = read(&[0x01, 0x03, 0x48, 0x65, 0x6c][..]).unwrap();
        assert_eq!(frame, Frame { last: false, code: TEXT, masked: false, payload: b"Hel".to_vec() });
    }

    #[test]
    fn lengths_take_the_shortest_form_and_are_read_again() {
        for (length, head) in [(125, 6), (126, 8), (65_535, 8), (65_536, 14)] {
            let (payload, mut written) = (vec![7; length], Vec::new());
            write(&mut written, BINARY, &payload).unwrap();
            assert_eq!(written.len(), head + length);
            assert_eq!(read(&written[..]).unwrap().payload, payload);
        }
    }
}
