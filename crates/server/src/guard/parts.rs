//! The parts of a guard.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use policy::kubelet_api::{Router, Settings};

use super::access_log::AccessLog;
use super::authorization::Authorization;
use super::metrics::{GuardMetrics, Outcome};
use super::rates::Rates;
use super::upstream::Kubelet;
use crate::authn::delegated::Delegated;
use crate::http::body::Body;
use crate::http::budget::Budget;
use crate::http::limits::Limits;
use crate::http::listener::Clients;
use crate::http::status::Answer;

/// The maximum number of tunnels of one account.
const TUNNELS: usize = 400;

/// The parts of a guard.
pub struct Parts {
    /// The user who makes the request.
    pub authentication: Arc<Delegated>,
    /// The authorization.
    pub authorization: Authorization,
    /// The node of the kubelet: the name in access checks (KA-27).
    pub node_name: String,
    /// The required permissions.
    pub settings: Settings,
    /// Whether the kubelet serves exec, logs and other debugging endpoints (KA-22).
    pub debugging_handlers: bool,
    /// The connection to the kubelet.
    pub kubelet: Arc<Kubelet>,
    /// The rate limits for each user; none for no limits.
    pub rates: Option<Rates>,
    /// The time without any byte after which a tunnel is closed (`--streaming-connection-idle-timeout`); none for no
    /// limit.
    pub tunnel_idle: Option<Duration>,
    /// The resource limits.
    pub limits: Limits,
    /// The metrics.
    pub metrics: GuardMetrics,
    /// The access log, if any.
    pub access_log: Option<AccessLog>,
}

/// Stands in front of a kubelet.
pub struct Guard {
    pub(super) parts: Parts,
    pub(super) router: Router,
    pub(super) clients: Clients,
    /// The open tunnels of each caller. A tunnel counts as one.
    pub(super) tunnels: Arc<Budget>,
}

impl Guard {
    /// Creates a guard.
    pub fn new(parts: Parts) -> Self {
        let router = Router::new(parts.debugging_handlers);
        let clients = Clients::new(parts.limits, &parts.metrics.connections);
        Self { parts, router, clients, tunnels: Budget::new(TUNNELS) }
    }
}

/// Creates a response like Go's `http.Error`: plain text with a newline.
pub(super) fn text(status: StatusCode, body: &str) -> Answer {
    let line = if body.ends_with('\n') { body.to_owned() } else { format!("{body}\n") };
    let mut answer = Response::new(Body::from(Bytes::from(line)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Creates the response to a caller who makes the guard do or hold too much.
pub(super) fn too_many() -> (Outcome, Answer) {
    let mut answer = text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    (Outcome::Limited, answer)
}
