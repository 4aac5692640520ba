//! Which endpoint a request is for, before anybody is authenticated (KA-6 to KA-9).

use std::borrow::Cow;

use super::endpoint::{ENDPOINTS, Endpoint, Methods, Tree, Without};

/// Finds the endpoint of a request as the multiplexer of a kubelet 1.36 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    debugging_handlers: bool,
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// No endpoint: 404, and nobody is authenticated (KA-7).
    NotFound,
    /// Elsewhere: 307 with this `Location`, and nobody is authenticated (KA-8).
    Redirect(String),
    /// No path at all: a control character, or a `%` without two hexadecimal digits behind it. 400, and nobody is
    /// authenticated: the kubelet's HTTP server gives that answer before it looks for an endpoint.
    Malformed,
    /// To this endpoint, after authentication and authorization.
    Endpoint(&'static Endpoint),
}

/// What a kubelet does with an authorized request (KA-9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It serves it.
    Served,
    /// Nothing lies there below the endpoint: 404.
    NotFound,
    /// Another method, or a disabled endpoint: 405.
    MethodNotAllowed,
    /// Another method, at `/debug/flags/v`: 406.
    NotAcceptable,
}

impl Router {
    /// A router for a kubelet whose debugging handlers are on or off (KA-22, KA-70).
    pub const fn new(debugging_handlers: bool) -> Self {
        Self { debugging_handlers }
    }

    /// Where a request goes. `target` is path and query, as sent. An ordinary path costs no allocation.
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

    /// What the kubelet would do with a request that this router gave to `endpoint` and that is allowed. For targets
    /// that are [`forwardable`](super::forwardable); others mean different things to different kubelets.
    pub fn answer(self, endpoint: &Endpoint, method: &str, target: &str) -> Answer {
        if !self.debugging_handlers && endpoint.without_debugging != Without::Stays {
            return Answer::MethodNotAllowed;
        }
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        // An encoded letter makes the path longer, not the number of its segments.
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
    /// There with a slash behind it.
    BelowSlash(&'static Endpoint),
}

impl Answer {
    /// The status code; that of a request that is served is the endpoint's own affair.
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

/// The path in the encoding that the multiplexer sees: as sent where every byte may stand in a path, else decoded and
/// encoded anew. Nothing if it cannot be decoded.
fn escaped(path: &str) -> Option<Cow<'_, str>> {
    let mut is_valid = true;
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => drop(hex(bytes.next()?, bytes.next()?)?),
            _ if byte.is_ascii_control() => return None,
            _ => is_valid &= may_stand(byte),
        }
    }
    if is_valid {
        return Some(Cow::Borrowed(path));
    }
    let mut escaped = String::with_capacity(path.len());
    decoded(path).for_each(|byte| push_escaped(&mut escaped, byte));
    Some(Cow::Owned(escaped))
}

/// Whether a byte stands for itself in an encoded path.
fn may_stand(byte: u8) -> bool {
    is_plain(byte) || matches!(byte, b'!' | b'\'' | b'(' | b')' | b'*' | b'[' | b']' | b'/')
}

/// Whether a byte of a segment is never encoded by Go: a path of these has one spelling only.
pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b':' | b';' | b'=' | b'@')
}

pub(super) fn push_escaped(text: &mut String, byte: u8) {
    if is_plain(byte) || byte == b'/' {
        text.push(char::from(byte));
        return;
    }
    text.push('%');
    for digit in [byte >> 4, byte & 15] {
        text.extend(char::from_digit(digit.into(), 16).map(|digit| digit.to_ascii_uppercase()));
    }
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// The bytes that a text stands for; a `%` without its digits stands for itself.
pub(super) fn decoded(text: &str) -> impl Iterator<Item = u8> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || match rest {
        [b'%', high, low, behind @ ..] if hex(*high, *low).is_some() => {
            rest = behind;
            hex(*high, *low)
        }
        [first, behind @ ..] => {
            rest = behind;
            Some(*first)
        }
        [] => None,
    })
}

fn reads(segment: &str, literal: &str) -> bool {
    segment == literal || (segment.contains('%') && decoded(segment).eq(literal.bytes()))
}

/// Whether a path is in canonical form (KA-8): no empty segment but the last, no `.` and no `..`.
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
