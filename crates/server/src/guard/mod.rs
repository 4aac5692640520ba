//! The guard: a proxy in front of a kubelet that routes, authenticates and authorizes every request before it forwards
//! it.
//!
//! Answers that a kubelet gives without authentication (KA-7, KA-8) come from the guard's own table. Paths that
//! kubelets of different versions could read differently are never forwarded. The kubelet sees the guard's certificate,
//! and no header that names the caller.

pub mod access_log;
mod authorization;
mod forward;
pub mod metrics;
mod parts;
pub mod rates;
mod tunnel;
pub mod upstream;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, EXPECT, LOCATION};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use pki::UnverifiedCertificate;
use policy::kubelet_api::{KubeletRequest, Route};
use portcullis_apimachinery::target::Target;

use self::access_log::Record;
use self::authorization::Refused;
use self::forward::Forwarding;
use self::metrics::Outcome;
use self::parts::{text, too_many};
use crate::authn::{Peer, is_anonymous};
use crate::http::account::Account;
use crate::http::activity::Sending;
use crate::http::body::{Body, Sent};
use crate::http::budget::Charge;
use crate::http::listener::{Busy, Clients, Connection, Handler, Listening, Server};
use crate::http::request_body;
use crate::http::status::Answer;

pub use self::authorization::{Authorization, Member};
pub use self::parts::{Guard, Parts};

impl Handler for Guard {
    type Peer = Peer;

    fn peer(&self, certificate: Option<UnverifiedCertificate>) -> Peer {
        Peer::new(certificate)
    }

    fn clients(&self) -> &Clients {
        &self.clients
    }

    fn answer(
        self: Arc<Self>,
        connection: Arc<Connection<Peer>>,
        request: Request<Incoming>,
        charge: Charge,
    ) -> impl Future<Output = Response<Sent>> + Send {
        answer(self, connection, request, charge)
    }
}

impl Guard {
    /// Serves on an address while the result is polled. It is compiled here, and not again in each program that calls it.
    pub fn serve(server: Server<Self>) -> Listening {
        server.listen()
    }
}

/// The decision about a request.
enum Verdict {
    /// The guard answers itself.
    Own(Outcome, Answer),
    /// The request is forwarded to the kubelet.
    Forward(Forwarding),
}

async fn answer(
    guard: Arc<Guard>,
    connection: Arc<Connection<Peer>>,
    request: Request<Incoming>,
    mut charge: Charge,
) -> Response<Sent> {
    let started = Instant::now();
    let busy = Busy::begin(&connection);
    let (head, body) = request.into_parts();
    let mut record = Record::begin(&head, connection.remote);
    let mut rest = None;
    let (outcome, mut answer) = match guard.judge(&connection, &head, &mut charge, &mut record).await {
        Verdict::Own(outcome, mut answer) => {
            if head.method == Method::HEAD {
                *answer.body_mut() = Body::default();
            }
            rest = Some(body);
            (outcome, answer)
        }
        Verdict::Forward(forwarding) => {
            forward::forward(&guard, &connection, forwarding, &head, body, (&record, busy)).await
        }
    };
    let status = answer.status();
    guard.parts.metrics.answered(record.endpoint, outcome, status, started.elapsed());
    if let Some(log) = &guard.parts.access_log {
        log.answered(&record, outcome, status, started.elapsed());
    }
    tracing::debug!(target: "access", record = ?record, code = status.as_u16(), "answered");
    let expects = head.headers.contains_key(EXPECT);
    // Only the stream is held while the rest of the body arrives.
    drop((head, record));
    if let Some(body) = &mut rest {
        request_body::end(&connection, body, expects, &mut answer).await;
    }
    answer.map(|body| body.sent((), Sending::new(&connection.activity, Some(charge))))
}

impl Guard {
    /// Decides whether the kubelet receives the request (KA-6).
    async fn judge(
        &self,
        connection: &Connection<Peer>,
        head: &http::request::Parts,
        charge: &mut Charge,
        record: &mut Record,
    ) -> Verdict {
        let parts = &self.parts;
        let Some(wire) = head.uri.path_and_query().filter(|_| head.method != Method::CONNECT) else {
            return own(Outcome::Unreadable, StatusCode::BAD_REQUEST, "the request has no path");
        };
        let endpoint = match self.router.route(wire.as_str()) {
            Route::NotFound => return own(Outcome::NotFound, StatusCode::NOT_FOUND, "404 page not found"),
            Route::Malformed => {
                return own(Outcome::Unreadable, StatusCode::BAD_REQUEST, "the path cannot be decoded");
            }
            Route::Redirect(location) => return redirect(&head.method, &location),
            Route::Endpoint(endpoint) => endpoint,
        };
        record.endpoint = Some(endpoint);
        let target = match Target::from_wire(wire.as_str()) {
            Ok(target) => target,
            Err(error) => {
                return own(Outcome::Unreadable, StatusCode::BAD_REQUEST, &error.to_string());
            }
        };
        let account = connection.place.charged();
        let authenticating =
            parts.authentication.authenticate(&connection.peer, &head.headers, account, SystemTime::now());
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
        record.user = Some(Arc::clone(user));
        let account = match is_anonymous(user) {
            true => Account::of_address(connection.remote),
            false => {
                let account = Account::of_user(user);
                connection.place.identify(user, account);
                account
            }
        };
        if parts.rates.as_ref().is_some_and(|rates| !rates.admit(&user.name, Instant::now())) {
            return limited();
        }
        if !charge.transfer(account) {
            return limited();
        }
        let request = KubeletRequest::new(head.method.as_str(), target, &parts.settings);
        match parts.authorization.authorize(&request, user, &parts.node_name).await {
            Ok(granted) => {
                record.granted(&granted);
                match Forwarding::new(granted, account, endpoint, wire.as_str()) {
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

fn limited() -> Verdict {
    let (outcome, answer) = too_many();
    Verdict::Own(outcome, answer)
}

fn own(outcome: Outcome, status: StatusCode, body: &str) -> Verdict {
    Verdict::Own(outcome, text(status, body))
}

/// KA-8
fn redirect(method: &Method, location: &str) -> Verdict {
    let Ok(value) = HeaderValue::from_str(location) else {
        return own(Outcome::Unreadable, StatusCode::BAD_REQUEST, "the path cannot be served");
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
