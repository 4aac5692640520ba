//! Stands in front of a kubelet: which of its endpoints a request is for, who asks, may they, and only then the kubelet.
//!
//! What a kubelet answers without asking who sends it (KA-7, KA-8) is answered from the guard's own table. What cannot be
//! told from something else by every kubelet never gets there. The kubelet sees the guard's certificate and nothing by
//! which the caller could say who it is.

pub mod access_log;
mod authorization;
mod forward;
pub mod metrics;
pub mod rates;
pub mod upstream;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, EXPECT, LOCATION, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use policy::kubelet_api::{KubeletRequest, Route, Router, Settings};
use policy::target::Target;
use portcullis_policy as policy;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use self::access_log::{AccessLog, Record};
use self::authorization::Refused;
use self::forward::Forwarding;
use self::metrics::{GuardMetrics, Outcome};
use self::rates::Rates;
use self::upstream::Kubelet;
use crate::authn::delegated::Delegated;
use crate::body::Body;
use crate::config::Limits;
use crate::listener::{Busy, Connection, Handler};
use crate::service::drain;
use crate::status::Answer;

pub use self::authorization::{Authorization, Member};

/// What a guard is made of.
pub struct Parts {
    /// Who asks.
    pub authentication: Arc<Delegated>,
    /// May they.
    pub authorization: Authorization,
    /// The node whose kubelet this is: the name that is asked about (KA-27).
    pub node_name: String,
    /// What must be allowed for what.
    pub settings: Settings,
    /// Whether the kubelet serves exec, logs and the like (KA-22).
    pub debugging_handlers: bool,
    /// The kubelet.
    pub kubelet: Arc<Kubelet>,
    /// How often each user may ask; nothing for as often as they like.
    pub rates: Option<Rates>,
    /// What one client may take up.
    pub limits: Limits,
    /// What is counted.
    pub metrics: GuardMetrics,
    /// Where requests are written down.
    pub access_log: Option<AccessLog>,
}

/// See the module.
pub struct Guard {
    parts: Parts,
    router: Router,
}

impl Guard {
    /// A guard of these parts.
    pub fn new(parts: Parts) -> Self {
        let router = Router::new(parts.debugging_handlers);
        Self { parts, router }
    }

    /// The kubelet behind it.
    pub fn kubelet(&self) -> &Kubelet {
        &self.parts.kubelet
    }
}

impl Handler for Guard {
    fn limits(&self) -> &Limits {
        &self.parts.limits
    }

    fn connections(&self) -> &Gauge {
        &self.parts.metrics.connections
    }

    fn handshake_failures(&self) -> &Counter {
        &self.parts.metrics.handshake_failures
    }

    fn answer(
        self: Arc<Self>,
        connection: Arc<Connection>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Answer> + Send {
        answer(self, connection, request)
    }
}

/// What becomes of a request.
enum Verdict {
    /// The guard answers itself.
    Own(Outcome, Answer),
    /// The kubelet is to answer.
    Forward(Forwarding),
}

async fn answer(guard: Arc<Guard>, connection: Arc<Connection>, request: Request<Incoming>) -> Answer {
    let started = Instant::now();
    let busy = Busy::begin(&connection);
    let (head, mut body) = request.into_parts();
    let mut record = Record::begin(&head, connection.remote);
    let (outcome, answer) = match guard.judge(&connection, &head, &mut record).await {
        Verdict::Own(outcome, mut answer) => {
            // A client that waits for leave to send its body is not given it.
            if !body.is_end_stream() && !head.headers.contains_key(EXPECT) {
                drain(&mut body).await;
            }
            if !body.is_end_stream() && !connection.is_http2 {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            if head.method == Method::HEAD {
                *answer.body_mut() = Body::default();
            }
            (outcome, answer)
        }
        Verdict::Forward(forwarding) => {
            forward::forward(&guard, &connection, forwarding, &head, body, (&record, busy)).await
        }
    };
    let status = answer.status();
    guard.parts.metrics.answered(record.endpoint(), outcome, status, started.elapsed());
    if let Some(log) = &guard.parts.access_log {
        log.answered(&record, outcome, status, started.elapsed());
    }
    tracing::debug!(target: "access", record = ?record, code = status.as_u16(), "answered");
    answer
}

impl Guard {
    /// Whether the kubelet gets to see the request (KA-6).
    async fn judge(
        &self,
        connection: &Connection,
        head: &http::request::Parts,
        record: &mut Record,
    ) -> Verdict {
        let parts = &self.parts;
        let Some(wire) = head.uri.path_and_query().filter(|_| head.method != Method::CONNECT) else {
            return own(Outcome::Unreadable, StatusCode::BAD_REQUEST, "the request is for no path");
        };
        let endpoint = match self.router.route(wire.as_str()) {
            Route::NotFound => return own(Outcome::NotFound, StatusCode::NOT_FOUND, "404 page not found"),
            Route::Malformed => {
                return own(Outcome::Unreadable, StatusCode::BAD_REQUEST, "the path cannot be decoded");
            }
            Route::Redirect(location) => return redirect(&head.method, &location),
            Route::Endpoint(endpoint) => endpoint,
        };
        record.for_endpoint(endpoint);
        let target = match Target::from_wire(wire.as_str()) {
            Ok(target) => target,
            Err(error) => {
                return own(Outcome::Unreadable, StatusCode::BAD_REQUEST, &error.to_string());
            }
        };
        let authenticating =
            parts.authentication.authenticate(&connection.peer, &head.headers, SystemTime::now());
        let caller = match authenticating.await {
            Ok(caller) => caller,
            Err(cause) => {
                tracing::debug!(%cause, "unauthorized");
                record.failed(&cause.to_string());
                // KA-48
                return own(Outcome::Unauthenticated, StatusCode::UNAUTHORIZED, "Unauthorized");
            }
        };
        let user = caller.user();
        record.by(user);
        if parts.rates.as_ref().is_some_and(|rates| !rates.admit(&user.name, Instant::now())) {
            let mut answer =
                text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.");
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return Verdict::Own(Outcome::Limited, answer);
        }
        let request = KubeletRequest::new(head.method.as_str(), target, &parts.settings);
        match parts.authorization.authorize(&request, user, &parts.node_name).await {
            Ok(granted) => {
                record.granted(&granted);
                match Forwarding::new(granted, endpoint, wire.as_str()) {
                    Some(forwarding) => Verdict::Forward(forwarding),
                    None => own(Outcome::Ambiguous, StatusCode::NOT_FOUND, "404 page not found"),
                }
            }
            Err(Refused::Forbidden(missing)) => {
                record.refused(&missing);
                own(Outcome::Denied, StatusCode::FORBIDDEN, &missing.body)
            }
            Err(Refused::Failed(missing, error)) => {
                tracing::warn!(%error, "cannot be decided");
                record.refused(&missing);
                record.failed(&error.to_string());
                own(Outcome::Failed, StatusCode::INTERNAL_SERVER_ERROR, &missing.body)
            }
        }
    }
}

fn own(outcome: Outcome, status: StatusCode, body: &str) -> Verdict {
    Verdict::Own(outcome, text(status, body))
}

/// An answer of Go's `http.Error`: text, and the end of the line.
fn text(status: StatusCode, body: &str) -> Answer {
    let line = if body.ends_with('\n') { body.to_owned() } else { format!("{body}\n") };
    let mut answer = Response::new(Body::from(Bytes::from(line)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// KA-8
fn redirect(method: &Method, location: &str) -> Verdict {
    let Ok(value) = HeaderValue::from_str(location) else {
        return own(Outcome::Unreadable, StatusCode::BAD_REQUEST, "the path cannot be answered");
    };
    let mut answer = Response::new(Body::default());
    *answer.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    answer.headers_mut().insert(LOCATION, value);
    if matches!(*method, Method::GET | Method::HEAD) {
        let escaped = location
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&#34;")
            .replace('\'', "&#39;");
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        *answer.body_mut() =
            Body::from(Bytes::from(format!("<a href=\"{escaped}\">Temporary Redirect</a>.\n\n")));
    }
    Verdict::Own(Outcome::Redirected, answer)
}
