//! The parts of a guard.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use policy::kubelet_api::{Router, Settings};

use super::access_log::AccessLog;
use super::authorization::Authorization;
use super::metrics::GuardMetrics;
use super::rates::Rates;
use super::upstream::Kubelet;
use crate::authn::delegated::Delegated;
use crate::http::body::Body;
use crate::http::budget::Budget;
use crate::http::limits::Limits;
use crate::http::status::Answer;

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
    /// What each caller makes the guard hold.
    pub(super) held: Arc<Budget>,
}

impl Guard {
    /// Creates a guard.
    pub fn new(parts: Parts) -> Self {
        let router = Router::new(parts.debugging_handlers);
        let held = Budget::new(parts.limits.held_bytes);
        Self { parts, router, held }
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
