//! The last step of every response: YAML or indented JSON for clients that ask for it, and compression where it pays.

use std::io::Write as _;
use std::mem;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue};

use super::body::{Body, Parts};
use super::negotiate::{self, Syntax};
use super::pretty;
use super::status::{Answer, JSON};

const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
/// Smaller responses are not compressed. In bytes; as in kube-apiserver.
const COMPRESS_FROM: usize = 128 * 1024;

/// Converts a response into the form that the client asked for. Streams are left unchanged.
pub(crate) fn encode(answer: Answer, headers: &HeaderMap, is_pretty: bool) -> Answer {
    let (mut head, mut body) = answer.into_parts();
    let is_json = head.headers.get(CONTENT_TYPE) == Some(&JSON);
    let is_yaml = is_json && wants_yaml(head.status.is_success(), headers);
    if is_json && !is_yaml && is_pretty {
        body = pretty::indented(body);
    }
    let mut bytes = match body {
        Body::Stream(_) => return Answer::from_parts(head, body),
        Body::Parts(parts) if is_yaml => parts.flatten().collect(),
        Body::Parts(parts) if takes_gzip(headers) => {
            say_gzip(&mut head.headers);
            return Answer::from_parts(head, Body::Parts(Parts::new(Compressed::of(parts))));
        }
        Body::Parts(_) => return Answer::from_parts(head, body),
        Body::Whole(bytes) => bytes,
    };
    if is_yaml && let Some(yaml) = yaml(&bytes) {
        head.headers.insert(CONTENT_TYPE, YAML);
        bytes = yaml;
    }
    if bytes.len() >= COMPRESS_FROM
        && takes_gzip(headers)
        && let Ok(smaller) = compressed(&bytes)
    {
        say_gzip(&mut head.headers);
        bytes = smaller;
    }
    Answer::from_parts(head, Body::Whole(bytes))
}

fn say_gzip(headers: &mut HeaderMap) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
}

fn wants_yaml(is_success: bool, headers: &HeaderMap) -> bool {
    let syntax = if is_success {
        negotiate::objects(headers).map(|accepted| accepted.syntax).unwrap_or_default()
    } else {
        negotiate::syntax(headers)
    };
    syntax == Syntax::Yaml
}

fn yaml(json: &[u8]) -> Option<Bytes> {
    let document: serde_json::Value = serde_json::from_slice(json).ok()?;
    serde_saphyr::to_string(&document).ok().map(Bytes::from)
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let Some(Ok(value)) = headers.get(ACCEPT_ENCODING).map(HeaderValue::to_str) else { return false };
    value.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        name.eq_ignore_ascii_case("gzip") && !parts.any(|part| matches!(part, "q=0" | "q=0.0"))
    })
}

fn compressed(bytes: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish().map(Bytes::from)
}

/// A body whose chunks are compressed one by one.
struct Compressed {
    parts: Parts,
    /// None after the end of the stream.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Compressed {
    fn of(parts: Parts) -> Self {
        Self { parts, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }
}

impl Iterator for Compressed {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut encoder = self.encoder.take()?;
        for piece in self.parts.by_ref() {
            // Writing to memory does not fail. If it did, the gzip trailer would be missing, and clients would detect a
            // truncated response.
            encoder.write_all(&piece).ok()?;
            let ready = mem::take(encoder.get_mut());
            if !ready.is_empty() {
                self.encoder = Some(encoder);
                return Some(ready.into());
            }
        }
        encoder.finish().ok().map(Bytes::from)
    }
}
