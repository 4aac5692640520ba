//! HTTP/2 frames written by hand (RFC 9113, RFC 7541), for clients that break the rules.

/// The start of a connection.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A frame of a body.
pub const DATA: u8 = 0;
/// A frame of headers.
pub const HEADERS: u8 = 1;
/// A reset of a stream.
pub const RESET: u8 = 3;
/// Settings.
pub const SETTINGS: u8 = 4;
/// A promised stream.
pub const PUSH: u8 = 5;
/// A ping.
pub const PING: u8 = 6;
/// A larger window.
pub const WINDOW: u8 = 8;
/// More headers.
pub const CONTINUATION: u8 = 9;
/// The flag of the last frame of a stream.
pub const END_STREAM: u8 = 1;
/// The flag of the last frame of headers.
pub const END_HEADERS: u8 = 4;

/// A frame (RFC 9113, section 4.1).
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The preface, and settings that change nothing.
pub fn begin() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// A string (RFC 7541, section 5.2), not compressed.
fn string(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if text.len() < 127 {
        out.push(u8::try_from(text.len()).unwrap());
    } else {
        out.push(127);
        let mut rest = text.len() - 127;
        while rest >= 128 {
            out.push(u8::try_from(rest % 128 + 128).unwrap());
            rest /= 128;
        }
        out.push(u8::try_from(rest).unwrap());
    }
    out.extend(text);
    out
}

/// The headers of a request, in literals and the static table.
pub fn request(method: &str, path: &str) -> Vec<u8> {
    let method = match method {
        "GET" => vec![0x82],
        "POST" => vec![0x83],
        other => [vec![0x02], string(other.as_bytes())].concat(),
    };
    [method, vec![0x87, 0x01, 1, b'x', 0x04], string(path.as_bytes())].concat()
}

/// A header that goes into the dynamic table of the server.
pub fn indexed(name: &str, value: &str) -> Vec<u8> {
    [vec![0x40], string(name.as_bytes()), string(value.as_bytes())].concat()
}

/// The newest header of the dynamic table again: one byte.
pub const NEWEST: u8 = 0x80 | 62;
