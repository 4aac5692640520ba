//! The last step of every response: protobuf, YAML or indented JSON for clients that ask for it, and compression where
//! it pays.

use std::io::Write as _;
use std::mem;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue};

use super::body::{Body, Parts};
use super::negotiate::{self, Forms, PROTOBUF, Syntax};
use super::pretty;
use super::status::{Answer, JSON, Status};

const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
/// Smaller responses are not compressed. In bytes; as in kube-apiserver.
const COMPRESS_FROM: usize = 128 * 1024;

/// Returns the size of what [`encode`] converts at once, and not in chunks when they are sent. In bytes; what is small
/// counts as nothing.
pub(crate) fn at_once(answer: &Answer, headers: &HeaderMap) -> usize {
    let size = match answer.body() {
        Body::Whole(bytes) if bytes.len() < COMPRESS_FROM / 2 => return 0,
        Body::Whole(bytes) => bytes.len(),
        Body::Parts(_) => usize::MAX,
        Body::Stream(_) => return 0,
    };
    let is_json = answer.headers().get(CONTENT_TYPE) == Some(&JSON);
    let converts = is_json && wanted(answer.status().is_success(), headers, Forms::ALL) != Syntax::Json;
    let compresses = matches!(answer.body(), Body::Whole(_)) && takes_gzip(headers);
    if converts || compresses { size } else { 0 }
}

/// Converts a response into the form that the client asked for. Streams are left unchanged.
pub(crate) fn encode(answer: Answer, headers: &HeaderMap, is_pretty: bool) -> Answer {
    let (mut head, mut body) = answer.into_parts();
    if head.headers.get(CONTENT_TYPE) == Some(&JSON) {
        let is_success = head.status.is_success();
        let mut syntax = wanted(is_success, headers, Forms::ALL);
        if syntax == Syntax::Protobuf {
            let json = whole(body);
            match &json {
                Body::Whole(bytes) if let Some(protobuf) = protobuf(bytes) => {
                    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
                    body = Body::Whole(protobuf);
                }
                // The document has no protobuf form.
                _ => {
                    syntax = wanted(is_success, headers, Forms { has_protobuf: false, ..Forms::ALL });
                    body = json;
                }
            }
        }
        match syntax {
            Syntax::Yaml => {
                body = match whole(body) {
                    Body::Whole(json) => match yaml(json) {
                        Ok(yaml) => {
                            head.headers.insert(CONTENT_TYPE, YAML);
                            Body::Whole(yaml)
                        }
                        Err(json) => Body::Whole(json),
                    },
                    body => body,
                }
            }
            Syntax::Json if is_pretty => body = pretty::indented(body),
            Syntax::Json | Syntax::Protobuf => {}
        }
    }
    let mut bytes = match body {
        Body::Stream(_) => return Answer::from_parts(head, body),
        Body::Parts(parts) if takes_gzip(headers) => {
            say_gzip(&mut head.headers);
            return Answer::from_parts(head, Body::Parts(Parts::costly(Compressed::of(parts))));
        }
        Body::Parts(_) => return Answer::from_parts(head, body),
        Body::Whole(bytes) => bytes,
    };
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

/// The syntax that the client asks for.
fn wanted(is_success: bool, headers: &HeaderMap, forms: Forms) -> Syntax {
    match is_success {
        true => negotiate::objects(headers, forms).map(|accepted| accepted.syntax).unwrap_or_default(),
        false => negotiate::syntax(headers),
    }
}

/// Collects the chunks of a body. Streams are left as they are.
fn whole(body: Body) -> Body {
    match body {
        Body::Parts(parts) => Body::Whole(parts.collect::<Vec<Bytes>>().concat().into()),
        body => body,
    }
}

/// Converts a document from JSON to protobuf; none if it has no protobuf form.
fn protobuf(json: &[u8]) -> Option<Bytes> {
    let document = serde_json::from_slice(json).ok()?;
    kinds::protobuf::encode_document(&document).ok()?.map(fitted)
}

/// The bytes without spare capacity, because a body is charged by its length.
fn fitted(mut bytes: Vec<u8>) -> Bytes {
    bytes.shrink_to_fit();
    bytes.into()
}

/// Encodes an event of a watch, with its document in JSON, as a frame of a protobuf stream.
///
/// # Errors
/// The document has no protobuf form. This does not happen for kinds of which it was negotiated.
pub(crate) fn protobuf_event(kind: &str, document: &[u8]) -> Result<Bytes, Status> {
    let document = protobuf(document).ok_or_else(|| Status::internal("an event has no protobuf form"))?;
    Ok(fitted(kinds::protobuf::watch_event(kind, &document)))
}

/// Converts a document from JSON to YAML, or returns the JSON of a document that has no YAML. Of a large document, each form
/// is freed before the next but one is made.
fn yaml(json: Bytes) -> Result<Bytes, Bytes> {
    let Ok(document) = serde_json::from_slice::<serde_json::Value>(&json) else { return Err(json) };
    drop(json);
    match serde_saphyr::to_string(&document) {
        Ok(yaml) => {
            drop(document);
            Ok(fitted(yaml.into_bytes()))
        }
        Err(_) => Err(document.to_string().into()),
    }
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
    encoder.finish().map(fitted)
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
