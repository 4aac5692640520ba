//! Forwards requests to the kubelet and responses back: which headers are passed on, and which upgrades are allowed.

use std::sync::Arc;

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

use super::access_log::Record;
use super::authorization::Granted;
use super::metrics::Outcome;
use super::parts::{Guard, text, too_many};
use super::tunnel::{OpenRight, OpenTunnel};
use super::upstream::Kubelet;
use crate::authn::{Peer, without_token};
use crate::http::account::Account;
use crate::http::body::Body;
use crate::http::budget::Charge;
use crate::http::listener::{Busy, Connection, Tunnel};
use crate::http::passed_body::{Interrupted, PassedBody};
use crate::http::status::Answer;

/// The other headers that apply to one connection only.
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
/// The other headers by which a caller could claim an identity or an origin.
const CLAIMS: [HeaderName; 5] = [AUTHORIZATION, COOKIE, EXPECT, FORWARDED, PROXY_AUTHORIZATION];
const CLAIM_PREFIXES: [&str; 4] = ["x-remote-", "impersonate-", "x-forwarded-", "x-real-ip"];
/// The protocols that kubelets speak after an upgrade.
const PROTOCOLS: [&str; 2] = ["SPDY/3.1", "websocket"];

/// What is charged for a request until its answer is over, because it has a connection to the kubelet to itself. In
/// bytes.
const CONNECTION_BYTES: usize = 80 * 1024;

/// A request to forward to the kubelet.
pub(super) struct Forwarding {
    _granted: Granted,
    account: Account,
    endpoint: &'static Endpoint,
    /// Path and query, encoded so that every kubelet reads them alike.
    path_and_query: String,
}

impl Forwarding {
    /// Returns none if kubelets could interpret the path differently.
    pub(super) fn new(
        granted: Granted,
        account: Account,
        endpoint: &'static Endpoint,
        wire: &str,
    ) -> Option<Self> {
        let path_and_query = kubelet_api::forwardable(wire)?.into_owned();
        Some(Self { _granted: granted, account, endpoint, path_and_query })
    }
}

/// Forwards the request and returns the response.
pub(super) async fn forward(
    guard: &Arc<Guard>,
    connection: &Arc<Connection<Peer>>,
    forwarding: Forwarding,
    head: &Parts,
    body: Incoming,
    (record, busy): (&Record, Busy<Peer>),
) -> (Outcome, Answer) {
    let protocol = protocol(forwarding.endpoint, head);
    // One side would read what follows the headers as the start of the stream, the other as a body.
    if protocol.is_some() && !body.is_end_stream() {
        return (
            Outcome::Unreadable,
            text(StatusCode::BAD_REQUEST, "an upgrade request with a body is not supported"),
        );
    }
    let account = forwarding.account;
    let place = match protocol {
        Some(_) => guard.tunnels.charge(account, 1),
        None => guard.clients.held.charge(account, CONNECTION_BYTES),
    };
    let Some(place) = place else { return too_many() };
    let kubelet = &guard.parts.kubelet;
    let request = match kubelet.url(&forwarding.path_and_query) {
        Ok(url) => {
            let mut request = Request::new(PassedBody::new(body, guard.parts.limits.body_read));
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
            if let Some(interrupted) = Interrupted::cause(&error) {
                let status = match interrupted {
                    Interrupted::Late => StatusCode::REQUEST_TIMEOUT,
                    Interrupted::Broken(_) => StatusCode::BAD_REQUEST,
                };
                return (Outcome::Unreadable, text(status, &interrupted.to_string()));
            }
            let cause = describe(&error);
            tracing::warn!(kubelet = %kubelet.authority(), %cause, "the kubelet does not answer");
            let body = format!("the kubelet at {} does not answer: {cause}", kubelet.authority());
            return (Outcome::Unreachable, text(StatusCode::BAD_GATEWAY, &body));
        }
    };
    match protocol {
        Some(protocol) => {
            let opening = Opening { guard, connection, head, record, busy, place };
            upgraded(opening, answer, protocol).await
        }
        None if answer.status().is_informational() => unexpected(kubelet, answer.status()),
        None => {
            let mut answer = answered(answer, (busy, place));
            if let Some(user) = &record.user {
                let right = OpenRight::of(guard, connection, head, user);
                answer = answer.map(|body| body.cut_by(right.ended()));
            }
            (Outcome::Allowed, answer)
        }
    }
}

/// Returns the requested upgrade protocol, if the endpoint supports streams. Other requests are forwarded without an
/// upgrade.
fn protocol(endpoint: &Endpoint, head: &Parts) -> Option<&'static str> {
    if !endpoint.streams() || head.version != Version::HTTP_11 {
        return None;
    }
    let wants = words(&head.headers, &CONNECTION).any(|word| word.eq_ignore_ascii_case("upgrade"));
    if wants { only(words(&head.headers, &UPGRADE)) } else { None }
}

/// Returns the protocol among these words; it must be the only one.
fn only<'w>(mut words: impl Iterator<Item = &'w str>) -> Option<&'static str> {
    let named = words.next().filter(|_| words.next().is_none())?;
    PROTOCOLS.into_iter().find(|known| known.eq_ignore_ascii_case(named))
}

fn words<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// Returns the headers without the hop-by-hop ones.
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

fn answered(answer: Response<Incoming>, counted: (Busy<Peer>, Charge)) -> Answer {
    let (mut head, body) = answer.into_parts();
    head.headers = without_hops(&head.headers);
    head.version = Version::default();
    head.extensions.clear();
    Response::from_parts(head, Body::passed_on(body, counted))
}

fn unexpected(kubelet: &Kubelet, status: StatusCode) -> (Outcome, Answer) {
    let (kubelet, code) = (kubelet.authority(), status.as_u16());
    tracing::warn!(%kubelet, code, "the kubelet's response does not match the request");
    let body = format!("the kubelet's response, {}, does not match the request", status.as_u16());
    (Outcome::Unreachable, text(StatusCode::BAD_GATEWAY, &body))
}

/// A tunnel that is to be opened.
struct Opening<'a> {
    guard: &'a Arc<Guard>,
    connection: &'a Arc<Connection<Peer>>,
    head: &'a Parts,
    record: &'a Record,
    busy: Busy<Peer>,
    place: Charge,
}

/// Handles the response to an upgrade: 101 with the requested protocol, or an error from the kubelet. Other responses,
/// redirects in particular, are not forwarded (NC-12, NC-13).
async fn upgraded(
    opening: Opening<'_>,
    mut answer: Response<Incoming>,
    protocol: &'static str,
) -> (Outcome, Answer) {
    let Opening { guard, connection, head, record, busy, place } = opening;
    let (kubelet, status) = (&guard.parts.kubelet, answer.status());
    if status.is_client_error() || status.is_server_error() {
        return (Outcome::Allowed, answered(answer, (busy, place)));
    }
    let is_agreed = only(words(answer.headers(), &UPGRADE)) == Some(protocol);
    if status != StatusCode::SWITCHING_PROTOCOLS || !is_agreed {
        return unexpected(kubelet, status);
    }
    let far = match hyper::upgrade::on(&mut answer).await {
        Ok(far) => far,
        Err(error) => {
            tracing::warn!(kubelet = %kubelet.authority(), %error, "the kubelet broke an upgrade off");
            return unexpected(kubelet, status);
        }
    };
    // Nothing is forwarded for nobody.
    let Some(user) = &record.user else { return unexpected(kubelet, status) };
    let right = OpenRight::of(guard, connection, head, user);
    let open = OpenTunnel::new(guard, record.clone(), busy, place);
    connection.tunnel_to(Tunnel {
        far: Box::new(TokioIo::new(far)),
        idle: guard.parts.tunnel_idle,
        revoked: Box::pin(right.ended()),
        over: Box::new(|carried| open.end(carried)),
    });
    let (mut head, _) = answer.into_parts();
    head.headers = without_hops(&head.headers);
    head.headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    head.headers.insert(UPGRADE, HeaderValue::from_static(protocol));
    head.extensions.clear();
    (Outcome::Allowed, Response::from_parts(head, Body::default()))
}
