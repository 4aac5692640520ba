//! A request on its way to the kubelet, and the answer back: which headers go, which protocols may take over.

use std::sync::Arc;
use std::time::Instant;

use http::header::{
    AUTHORIZATION, CONNECTION, COOKIE, EXPECT, FORWARDED, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper_util::rt::TokioIo;
use policy::kubelet_api::{self, Endpoint};
use portcullis_client::connect::describe;
use portcullis_policy as policy;

use super::access_log::Record;
use super::authorization::Granted;
use super::metrics::Outcome;
use super::{Guard, text};
use crate::authn::without_token;
use crate::body::Body;
use crate::listener::{Busy, Connection, Tunnel};
use crate::status::Answer;

/// What else concerns one connection only.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// By what else a caller could say who it is, or where it comes from.
const CLAIMS: [HeaderName; 5] = [AUTHORIZATION, COOKIE, EXPECT, FORWARDED, PROXY_AUTHORIZATION];
const CLAIM_PREFIXES: [&str; 4] = ["x-remote-", "impersonate-", "x-forwarded-", "x-real-ip"];
/// The protocols that kubelets speak after an upgrade.
const PROTOCOLS: [&str; 2] = ["SPDY/3.1", "websocket"];

/// A request that may go to the kubelet.
pub(super) struct Forwarding {
    _granted: Granted,
    endpoint: &'static Endpoint,
    /// Path and query, written so that every kubelet reads the same.
    path_and_query: String,
}

impl Forwarding {
    /// Nothing if the path could mean something else to another kubelet.
    pub(super) fn new(granted: Granted, endpoint: &'static Endpoint, wire: &str) -> Option<Self> {
        let path_and_query = kubelet_api::forwardable(wire)?.into_owned();
        Some(Self { _granted: granted, endpoint, path_and_query })
    }
}

/// Sends the request on, and brings the answer back.
pub(super) async fn forward(
    guard: &Arc<Guard>,
    connection: &Arc<Connection>,
    forwarding: Forwarding,
    head: &Parts,
    body: Incoming,
    (record, busy): (&Record, Busy),
) -> (Outcome, Answer) {
    let protocol = protocol(forwarding.endpoint, head);
    // What follows the head would be taken for the first bytes of the stream by one and for a body by the other.
    if protocol.is_some() && !body.is_end_stream() {
        return (Outcome::Unreadable, text(StatusCode::BAD_REQUEST, "an upgrade with a body is not served"));
    }
    let kubelet = guard.kubelet();
    let request = match kubelet.url(&forwarding.path_and_query) {
        Ok(url) => {
            let mut request = Request::new(body);
            *request.method_mut() = head.method.clone();
            *request.uri_mut() = url;
            *request.headers_mut() =
                headers_to_kubelet(&head.headers, kubelet.authority().as_str(), protocol);
            request
        }
        Err(error) => return (Outcome::Unreadable, text(StatusCode::BAD_REQUEST, &error.to_string())),
    };
    let answer = match kubelet.send(request).await {
        Ok(answer) => answer,
        Err(error) => {
            let cause = describe(&error);
            tracing::warn!(kubelet = %kubelet.authority(), %cause, "the kubelet does not answer");
            let body = format!("the kubelet at {} does not answer: {cause}", kubelet.authority());
            return (Outcome::Unreachable, text(StatusCode::BAD_GATEWAY, &body));
        }
    };
    match protocol {
        Some(protocol) => upgraded(guard, connection, answer, protocol, (record, busy)).await,
        None if answer.status().is_informational() => unexpected(answer.status()),
        None => (Outcome::Allowed, answered(answer, busy)),
    }
}

/// The protocol that the request wants to go on with, where the endpoint has streams. Others are asked without.
fn protocol(endpoint: &Endpoint, head: &Parts) -> Option<&'static str> {
    if !endpoint.streams() || head.version != Version::HTTP_11 {
        return None;
    }
    let wants = words(&head.headers, &CONNECTION).any(|word| word.eq_ignore_ascii_case("upgrade"));
    if wants { only(words(&head.headers, &UPGRADE)) } else { None }
}

/// The protocol among these words, which must be the only one.
fn only<'w>(mut words: impl Iterator<Item = &'w str>) -> Option<&'static str> {
    let named = words.next().filter(|_| words.next().is_none())?;
    PROTOCOLS.into_iter().find(|known| known.eq_ignore_ascii_case(named))
}

fn words<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// The headers without those that concern the connection alone.
fn without_hops(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    for named in words(headers, &CONNECTION) {
        if let Ok(name) = named.parse::<HeaderName>() {
            kept.remove(name);
        }
    }
    for name in &HOP_BY_HOP {
        kept.remove(name);
    }
    kept
}

fn headers_to_kubelet(headers: &HeaderMap, host: &str, protocol: Option<&'static str>) -> HeaderMap {
    let mut kept = without_hops(headers);
    for name in &CLAIMS {
        kept.remove(name);
    }
    let claims: Vec<HeaderName> = kept
        .keys()
        .filter(|name| CLAIM_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix)))
        .cloned()
        .collect();
    for name in claims {
        kept.remove(name);
    }
    if let Ok(host) = HeaderValue::from_str(host) {
        kept.insert(HOST, host);
    }
    // KA-43
    without_token(&mut kept);
    if let Some(protocol) = protocol {
        kept.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        kept.insert(UPGRADE, HeaderValue::from_static(protocol));
    }
    kept
}

fn answered(answer: Response<Incoming>, busy: Busy) -> Answer {
    let (mut head, body) = answer.into_parts();
    head.headers = without_hops(&head.headers);
    head.version = Version::default();
    head.extensions.clear();
    Response::from_parts(head, Body::passed_on(body, busy))
}

fn unexpected(status: StatusCode) -> (Outcome, Answer) {
    tracing::warn!(code = status.as_u16(), "the kubelet's answer is none to what was asked");
    let body = format!("the kubelet's answer, {}, is none to what was asked", status.as_u16());
    (Outcome::Unreachable, text(StatusCode::BAD_GATEWAY, &body))
}

/// After an upgrade: 101 in the protocol that was asked for, or an error of the kubelet's. Anything else, and redirects
/// above all, is not passed on (NC-12, NC-13).
async fn upgraded(
    guard: &Arc<Guard>,
    connection: &Arc<Connection>,
    mut answer: Response<Incoming>,
    protocol: &'static str,
    (record, busy): (&Record, Busy),
) -> (Outcome, Answer) {
    let status = answer.status();
    if status.is_client_error() || status.is_server_error() {
        return (Outcome::Allowed, answered(answer, busy));
    }
    let is_agreed = only(words(answer.headers(), &UPGRADE)) == Some(protocol);
    if status != StatusCode::SWITCHING_PROTOCOLS || !is_agreed {
        return unexpected(status);
    }
    let far = match hyper::upgrade::on(&mut answer).await {
        Ok(far) => far,
        Err(error) => {
            tracing::warn!(%error, "the kubelet broke an upgrade off");
            return unexpected(status);
        }
    };
    let stream = Stream::open(guard, record.clone(), busy);
    connection
        .tunnel_to(Tunnel { far: Box::new(TokioIo::new(far)), over: Box::new(|bytes| stream.end(bytes)) });
    let (mut head, _) = answer.into_parts();
    head.headers = without_hops(&head.headers);
    head.headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    head.headers.insert(UPGRADE, HeaderValue::from_static(protocol));
    head.extensions.clear();
    (Outcome::Allowed, Response::from_parts(head, Body::default()))
}

/// An upgraded stream, until this is dropped.
struct Stream {
    guard: Arc<Guard>,
    record: Record,
    opened: Instant,
    _busy: Busy,
}

impl Stream {
    fn open(guard: &Arc<Guard>, record: Record, busy: Busy) -> Self {
        guard.parts.metrics.streams.inc();
        Self { guard: Arc::clone(guard), record, opened: Instant::now(), _busy: busy }
    }

    /// It came to its end, after so many bytes to the kubelet and from it, if that is known.
    fn end(self, bytes: Option<(u64, u64)>) {
        if let Some(log) = &self.guard.parts.access_log {
            log.closed(&self.record, bytes, self.opened.elapsed());
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.guard.parts.metrics.streams.dec();
    }
}
