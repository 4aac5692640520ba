//! JSON for people: indented by two spaces as by Go's `MarshalIndent`, on request and for browsers and command-line
//! clients. Streams are never indented.

use bytes::Bytes;
use http::HeaderMap;
use http::header::USER_AGENT;

use super::body::{Body, Parts};
use super::negotiate::{self, Forms};
use super::query::Query;

/// The prefixes of the user agents of interactive clients.
const PEOPLE: [&[u8]; 3] = [b"curl", b"Wget", b"Mozilla/5.0"];
/// Indented responses of more bytes are streamed in chunks, because indentation can make deeply nested documents much
/// larger.
const PIECE: usize = 128 * 1024;
const INDENT: &[u8] = b"  ";

/// Whether the client asks for an indented answer: by the media type, by `?pretty=`, or by its name.
pub(crate) fn is_asked(query: &str, headers: &HeaderMap) -> bool {
    if negotiate::objects(headers, Forms::ALL).is_ok_and(|accepted| accepted.is_pretty) {
        return true;
    }
    match Query::parse(query).first("pretty") {
        // The values that Go parses as true.
        Some(value) if !value.is_empty() => {
            matches!(value, "1" | "t" | "T" | "TRUE" | "true" | "True")
        }
        _ => {
            let client = headers.get(USER_AGENT).map(|name| name.as_bytes()).unwrap_or_default();
            PEOPLE.iter().any(|begins| client.starts_with(begins))
        }
    }
}

/// Indents a JSON body.
pub(crate) fn indented(body: Body) -> Body {
    let parts = match body {
        Body::Stream(_) => return body,
        Body::Parts(parts) => parts,
        Body::Whole(bytes) => Parts::new(std::iter::once(bytes)),
    };
    let mut pieces = Indented::of(parts);
    let Some(first) = pieces.next() else { return Body::default() };
    match pieces.next() {
        None => Body::Whole(first),
        Some(second) => Body::Parts(Parts::costly([first, second].into_iter().chain(pieces))),
    }
}

/// Indents chunks of JSON one after the other, in output chunks of about [`PIECE`] bytes.
struct Indented {
    parts: Parts,
    /// The unread rest of the current chunk.
    rest: Bytes,
    depth: usize,
    /// Whether the last character opened a bracket.
    is_open: bool,
    is_text: bool,
    /// Whether the last character was a backslash in a string.
    is_escaped: bool,
}

impl Indented {
    fn of(parts: Parts) -> Self {
        Self { parts, rest: Bytes::new(), depth: 0, is_open: false, is_text: false, is_escaped: false }
    }

    fn put(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.is_text {
            out.push(byte);
            self.is_text = byte != b'"' || self.is_escaped;
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            return;
        }
        if byte.is_ascii_whitespace() {
            return;
        }
        let is_end = matches!(byte, b'}' | b']');
        if is_end {
            self.depth = self.depth.saturating_sub(1);
        }
        // Empty objects and arrays stay on one line.
        if self.is_open != is_end {
            self.begin_line(out);
        }
        self.is_open = false;
        out.push(byte);
        match byte {
            b'{' | b'[' => {
                self.depth = self.depth.saturating_add(1);
                self.is_open = true;
            }
            b'"' => self.is_text = true,
            b',' => self.begin_line(out),
            b':' => out.push(b' '),
            _ => {}
        }
    }

    fn begin_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        for _ in 0..self.depth {
            out.extend_from_slice(INDENT);
        }
    }
}

impl Iterator for Indented {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        while out.len() < PIECE {
            if self.rest.is_empty() {
                match self.parts.next() {
                    Some(part) => self.rest = part,
                    None => break,
                }
            }
            let part = std::mem::take(&mut self.rest);
            let mut taken = 0;
            for byte in &part {
                self.put(*byte, &mut out);
                taken += 1;
                if out.len() >= PIECE {
                    break;
                }
            }
            self.rest = part.slice(taken..);
        }
        (!out.is_empty()).then(|| out.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;
    use serde_json::Value;

    /// Indents a document that is passed in chunks of this size.
    fn indent(json: &[u8], size: usize) -> Vec<u8> {
        let pieces: Vec<Bytes> = json.chunks(size).map(Bytes::copy_from_slice).collect();
        match indented(Body::Parts(Parts::new(pieces.into_iter()))) {
            Body::Whole(bytes) => bytes.to_vec(),
            Body::Parts(parts) => parts.flatten().collect(),
            Body::Stream(_) => panic!("no stream was given"),
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[\\\\\"{}\\[\\],: \\n\u{e4}a]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec(("[\\\\\"{:, a]{0,4}", inner), 0..6)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn documents_are_indented_as_serde_json_does_it_wherever_they_are_cut(json in any_json(), size in 1..40_usize) {
            let wanted = serde_json::to_vec_pretty(&json).unwrap();
            prop_assert_eq!(&indent(&serde_json::to_vec(&json).unwrap(), size), &wanted);
            prop_assert_eq!(indent(&wanted, size), wanted);
        }
    }

    #[test]
    fn deep_documents_come_in_pieces() {
        let deep = [b"[".repeat(2000), b"]".repeat(2000)].concat();
        let Body::Parts(parts) = indented(Body::Whole(deep.into())) else { panic!("a large answer is cut") };
        let pieces: Vec<Bytes> = parts.collect();
        assert!(pieces.iter().all(|piece| (1..2 * PIECE).contains(&piece.len())));
        let text = pieces.concat();
        // The innermost two brackets are on one line. Of the others, half begin a line with 2, 4, .. 3998 spaces, and
        // half with 3996, .. 2, 0: 1999 * 3998 spaces and 3998 newlines.
        assert_eq!(text.len(), 4000 + 1999 * 3998 + 3998);
    }

    #[test]
    fn who_asks_and_who_looks_like_a_person_gets_lines() {
        let asked = |query: &str, client: &'static str, accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, HeaderValue::from_static(client));
            headers.insert(http::header::ACCEPT, HeaderValue::from_static(accept));
            is_asked(query, &headers)
        };
        for yes in ["pretty=true", "pretty=1", "a=b&pretty=T&pretty=0"] {
            assert!(asked(yes, "kubectl/v1.36", "*/*"), "{yes}");
        }
        for no in ["", "pretty", "pretty=", "pretty=yes", "pretty=false", "Pretty=true"] {
            assert!(!asked(no, "kubectl/v1.36", "*/*"), "{no}");
        }
        for person in ["curl/8.5.0", "Wget/1.21", "Mozilla/5.0 (X11)"] {
            assert!(asked("", person, "*/*") && asked("pretty=", person, "*/*"), "{person}");
            assert!(!asked("pretty=false", person, "*/*") && !asked("pretty=yes", person, "*/*"), "{person}");
        }
        assert!(!asked("", "Mozilla/4.0", "*/*") && !asked("", "my curl", "*/*"));
        assert!(asked("", "", "application/json;pretty=1"));
        assert!(!asked("", "", "application/json;pretty=true"));
    }
}
