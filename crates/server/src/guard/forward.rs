//! Forwards requests to the kubelet and responses back. Headers and upgrades are those of [`crate::proxy`].

use std::sync::Arc;

use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use policy::kubelet_api::{self, Endpoint};
use portcullis_client::connect::describe;

use super::access_log::Record;
use super::authorization::Granted;
use super::metrics::Outcome;
use super::parts::{Guard, text, too_many};
use super::tunnel::{OpenRight, OpenTunnel};
use super::upstream::Kubelet;
use crate::authn::Peer;
use crate::http::account::Account;
use crate::http::body::Body;
use crate::http::budget::Charge;
use crate::http::listener::{Busy, Connection, Tunnel};
use crate::http::passed_body::{Interrupted, PassedBody};
use crate::http::status::Answer;
use crate::proxy::headers;
use crate::proxy::upgrade::{self, Reply};

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
                headers::to_server(&head.headers, kubelet.authority().as_str(), protocol);
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
    upgrade::asked(head).filter(|_| endpoint.streams())
}

fn answered(answer: Response<Incoming>, counted: (Busy<Peer>, Charge)) -> Answer {
    let (mut head, body) = answer.into_parts();
    head.headers = headers::to_client(&head.headers, None);
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
    let kubelet = &guard.parts.kubelet;
    let far = match upgrade::reply(&mut answer, protocol).await {
        Reply::Switched(far) => far,
        Reply::Refused => return (Outcome::Allowed, answered(answer, (busy, place))),
        Reply::Unexpected(status) => return unexpected(kubelet, status),
    };
    // Nothing is forwarded for nobody.
    let Some(user) = &record.user else { return unexpected(kubelet, answer.status()) };
    let right = OpenRight::of(guard, connection, head, user);
    let open = OpenTunnel::new(guard, record.clone(), busy, place);
    connection.tunnel_to(Tunnel {
        far: Box::new(far),
        idle: guard.parts.tunnel_idle,
        revoked: Box::pin(right.ended()),
        over: Box::new(|carried| open.end(carried)),
    });
    let (mut head, _) = answer.into_parts();
    head.headers = headers::to_client(&head.headers, Some(protocol));
    head.extensions.clear();
    (Outcome::Allowed, Response::from_parts(head, Body::default()))
}
