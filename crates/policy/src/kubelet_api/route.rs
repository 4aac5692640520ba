//! Routes a request to its endpoint, before authentication (KA-6 to KA-9).

use std::borrow::Cow;

use percent_encoding::{percent_decode_str, percent_encode_byte};
use portcullis_apimachinery::percent;

use super::endpoint::{ENDPOINTS, Endpoint, Methods, Tree, Without};

/// Routes requests like the multiplexer of a kubelet 1.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    debugging_handlers: bool,
}

/// The route of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// No endpoint: 404, without authentication (KA-7).
    NotFound,
    /// A redirect: 307 with this `Location`, without authentication (KA-8).
    Redirect(String),
    /// An invalid path: it contains a control character, or a `%` without two hexadecimal digits. 400, without
    /// authentication: the kubelet's HTTP server responds before routing.
    Malformed,
    /// This endpoint, after authentication and authorization.
    Endpoint(&'static Endpoint),
}

/// The response of a kubelet to an authorized request (KA-9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request is served.
    Served,
    /// The endpoint has no such path: 404.
    NotFound,
    /// Another method, or a disabled endpoint: 405.
    MethodNotAllowed,
    /// Another method, at `/debug/flags/v`: 406.
    NotAcceptable,
}

impl Router {
    /// Creates a router for a kubelet with debugging handlers enabled or disabled (KA-22, KA-70).
    pub const fn new(debugging_handlers: bool) -> Self {
        Self { debugging_handlers }
    }

    /// Routes a request. `target` is path and query, as sent. Ordinary paths need no allocation.
    pub fn route(self, target: &str) -> Route {
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        if !path.starts_with('/') {
            return Route::NotFound;
        }
        let Some(path) = escaped(path) else { return Route::Malformed };
        let cleaned = if is_clean(&path) { None } else { Some(cleaned(&path)) };
        let place = self.place(cleaned.as_deref().unwrap_or(&path));
        match (place, cleaned) {
            (Some(Place::BelowSlash(endpoint)), _) => redirect(&format!("{}/", endpoint.path), query),
            (_, Some(cleaned)) => redirect(&cleaned, query),
            (Some(Place::Here(endpoint)), None) => Route::Endpoint(endpoint),
            (None, None) => Route::NotFound,
        }
    }

    /// The response of a kubelet to an authorized request that this router routed to `endpoint`. Only for targets that
    /// are [`forwardable`](super::forwardable); others mean different things to different kubelets.
    pub fn answer(self, endpoint: &Endpoint, method: &str, target: &str) -> Answer {
        if !self.debugging_handlers && endpoint.without_debugging != Without::Stays {
            return Answer::MethodNotAllowed;
        }
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        // Percent-encoding changes the length of the path, but not its number of segments.
        let depth = endpoint.path.split('/').count();
        let behind =
            path.match_indices('/').nth(depth - 1).and_then(|(at, _)| path.get(at..)).unwrap_or_default();
        if !endpoint.has_shape(behind) {
            return Answer::NotFound;
        }
        match endpoint.methods {
            methods if methods.serve(method) => Answer::Served,
            Methods::Acceptable(_) => Answer::NotAcceptable,
            _ => Answer::MethodNotAllowed,
        }
    }

    fn place(self, path: &str) -> Option<Place> {
        ENDPOINTS.iter().find_map(|endpoint| {
            let tree = match (self.debugging_handlers, endpoint.without_debugging) {
                (true, _) | (_, Without::Stays) => endpoint.tree,
                (false, Without::Disabled) => Tree::Slash,
                (false, Without::Gone) => return None,
            };
            let mut segments = path.split('/').skip(1);
            let mut literals = endpoint.path.split('/').skip(1);
            if !literals.all(|literal| segments.next().is_some_and(|segment| reads(segment, literal))) {
                return None;
            }
            match (tree, segments.next()) {
                (Tree::Exact, None) | (Tree::Root, _) | (Tree::Slash, Some(_)) => Some(Place::Here(endpoint)),
                (Tree::Slash, None) => Some(Place::BelowSlash(endpoint)),
                (Tree::Exact, Some(_)) => None,
            }
        })
    }
}

enum Place {
    Here(&'static Endpoint),
    /// Served with a trailing slash.
    BelowSlash(&'static Endpoint),
}

impl Answer {
    /// The status code; `None` for a served request, whose endpoint decides.
    pub fn status(self) -> Option<u16> {
        match self {
            Self::Served => None,
            Self::NotFound => Some(404),
            Self::MethodNotAllowed => Some(405),
            Self::NotAcceptable => Some(406),
        }
    }
}

fn redirect(path: &str, query: Option<&str>) -> Route {
    Route::Redirect(match query {
        Some(query) if !query.is_empty() => format!("{path}?{query}"),
        _ => path.to_owned(),
    })
}

/// The path in the encoding that the multiplexer sees: as sent if every byte is valid in a path, else decoded and
/// encoded again. `None` if it cannot be decoded.
fn escaped(path: &str) -> Option<Cow<'_, str>> {
    if path.bytes().any(|byte| byte.is_ascii_control()) {
        return None;
    }
    let bytes = percent::decode(path).ok()?;
    if path.bytes().all(|byte| byte == b'%' || may_stand(byte)) {
        return Some(Cow::Borrowed(path));
    }
    let mut escaped = String::with_capacity(path.len());
    bytes.iter().for_each(|byte| push_escaped(&mut escaped, *byte));
    Some(Cow::Owned(escaped))
}

/// Returns whether a byte is valid unescaped in an encoded path.
fn may_stand(byte: u8) -> bool {
    is_plain(byte) || matches!(byte, b'!' | b'\'' | b'(' | b')' | b'*' | b'[' | b']' | b'/')
}

/// Returns whether Go never escapes this byte of a segment. A path of only such bytes has a single encoding.
pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b':' | b';' | b'=' | b'@')
}

pub(super) fn push_escaped(text: &mut String, byte: u8) {
    if is_plain(byte) || byte == b'/' {
        text.push(char::from(byte));
        return;
    }
    text.push_str(percent_encode_byte(byte));
}

fn reads(segment: &str, literal: &str) -> bool {
    segment == literal || (segment.contains('%') && percent_decode_str(segment).eq(literal.bytes()))
}

/// Returns whether a path is canonical (KA-8): no empty segment except the last, no `.` and no `..`.
pub(super) fn is_clean(path: &str) -> bool {
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        if matches!(segment, "." | "..") || (segment.is_empty() && segments.peek().is_some()) {
            return false;
        }
    }
    true
}

fn cleaned(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let slash = if path.ends_with('/') && !kept.is_empty() { "/" } else { "" };
    format!("/{}{slash}", kept.join("/"))
}
