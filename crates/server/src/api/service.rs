//! Handles one request in the order of kube-apiserver (AC-1): request info, authentication, authorization, then the
//! handler.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::header::{CONNECTION, EXPECT, WARNING};
use http::request::Parts;
use http::{HeaderValue, Method, Request};
use hyper::body::{Body as _, Incoming};
use pki::UnverifiedCertificate;
use policy::request_info::{RequestInfo, RequestInfoError};
use portcullis_apimachinery::duration;
use portcullis_apimachinery::quote::quoted;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::timeout;

use super::app::App;
use super::dispatch::{self, Asked};
use super::object_route;
use super::route::{Action, Route};
use crate::audit::{AUDIT_ID, Trail};
use crate::authn::impersonation::{Wanted, impersonate};
use crate::authn::{Peer, is_anonymous, spare_space};
use crate::http::body::Body;
use crate::http::limits::Limits;
use crate::http::listener::{Busy, Connection, Handler};
use crate::http::query::Query;
use crate::http::request_body::drain;
use crate::http::status::{Answer, Status, internal_error};
use crate::http::{encode, pretty, warning};
use crate::registry::target::Target;

/// The audit trail of a request, which ends when this is dropped, however the request ended.
struct Audited {
    app: Arc<App>,
    trail: Arc<Trail>,
}

impl Drop for Audited {
    fn drop(&mut self) {
        if let Some(audit) = &self.app.audit {
            self.trail.end(audit);
        }
    }
}

/// A counted watch, until this is dropped.
struct Watching(Gauge);

impl Watching {
    fn begin(watches: Gauge) -> Self {
        watches.inc();
        Self(watches)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Handler for App {
    type Peer = Peer;

    fn peer(&self, certificate: Option<UnverifiedCertificate>) -> Peer {
        Peer::new(certificate)
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn connections(&self) -> &Gauge {
        &self.metrics.connections
    }

    fn handshake_failures(&self) -> &Counter {
        &self.metrics.handshake_failures
    }

    fn answer(
        self: Arc<Self>,
        connection: Arc<Connection<Peer>>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Answer> + Send {
        serve(self, connection, request)
    }

    fn stop(&self) {
        self.stop();
    }
}

async fn serve(app: Arc<App>, connection: Arc<Connection<Peer>>, request: Request<Incoming>) -> Answer {
    let started = Instant::now();
    let busy = Busy::begin(&connection);
    let (mut head, mut body) = request.into_parts();
    let trail = Arc::new(Trail::begin(&head.headers, connection.remote));
    head.extensions.insert(Arc::clone(&trail));
    let audited = Audited { app: Arc::clone(&app), trail: Arc::clone(&trail) };
    let (route, answer, is_stranger) = respond(&app, &connection, &head, &mut body, &trail).await;
    let mut answer = trail.answered(answer);
    answer.headers_mut().insert(AUDIT_ID, trail.id().clone());
    // A client that sent `Expect: 100-continue` is not told to continue.
    if !body.is_end_stream() && !head.headers.contains_key(EXPECT) {
        drain(&mut body).await;
    }
    // AN-22: unauthenticated clients get one request per HTTP/2 connection.
    if is_stranger && connection.is_http2 {
        connection.activity.close();
    }
    if !body.is_end_stream() && !connection.is_http2 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let is_pretty = is_pretty(route, answer.status().is_success(), &head);
    let mut answer = encode::encode(answer, &head.headers, is_pretty);
    // HTTP/2 would send the body.
    if head.method == Method::HEAD {
        *answer.body_mut() = Body::default();
    }
    app.metrics.answered(route, &head, answer.status(), started.elapsed());
    tracing::debug!(
        target: "access",
        audit_id = trail.id_text(),
        method = %head.method,
        uri = ?head.uri,
        user = ?trail.user(),
        remote = ?connection.remote,
        code = answer.status().as_u16(),
        seconds = started.elapsed().as_secs_f64(),
        "answered"
    );
    if let Some(audit) = &app.audit {
        match answer.body() {
            Body::Whole(_) => trail.complete(audit).await,
            Body::Stream(_) if is_watch(route) => trail.started(audit).await,
            Body::Parts(_) | Body::Stream(_) => {}
        }
    }
    let watching = is_watch(route).then(|| Watching::begin(app.metrics.watches(route, &head)));
    answer.map(|body| body.with((busy, audited, watching)))
}

/// Returns whether to indent a response. Without `?pretty=` the user agent decides, unless the media type does.
fn is_pretty(route: Route, is_success: bool, head: &Parts) -> bool {
    match route {
        // Served without reformatting.
        Route::OpenApi | Route::Issuer(_) if is_success => false,
        // Always indented.
        Route::Root | Route::Version if is_success => true,
        _ => pretty::is_asked(head.uri.query().unwrap_or_default(), &head.headers),
    }
}

/// The time that a request may take: that of `?timeout=` if it is shorter than `longest`. `0s` is no limit of the
/// client's.
///
/// # Errors
/// 400 for a value that is not a duration. Watches do not have it, and are not looked at.
fn time_limit(head: &Parts, route: Route, longest: Duration) -> Result<Duration, Status> {
    // Most requests have no such parameter, and need not be parsed for it.
    let query = head.uri.query().filter(|query| query.contains("timeout=") && !is_watch(route));
    let query = query.map(Query::parse).unwrap_or_default();
    let Some(text) = query.first("timeout").filter(|text| !text.is_empty()) else { return Ok(longest) };
    let Some(nanoseconds) = duration::parse(text) else {
        let message = format!(
            "invalid timeout specified in the request URL - time: invalid duration {}; write it as 30s",
            quoted(text)
        );
        return Err(Status::bad_request(message));
    };
    let asked = u64::try_from(nanoseconds).map(Duration::from_nanos).unwrap_or_default();
    Ok(if asked.is_zero() { longest } else { asked.min(longest) })
}

fn is_watch(route: Route) -> bool {
    matches!(route, Route::Object { action: Action::Watch, .. })
}

/// Returns the route, the response, and whether the caller is unauthenticated.
async fn respond(
    app: &App,
    connection: &Connection<Peer>,
    head: &Parts,
    body: &mut Incoming,
    trail: &Trail,
) -> (Route, Answer, bool) {
    // AC-5: a malformed request is answered before authentication.
    let target = head.uri.path_and_query().map_or("", |t| t.as_str());
    let info = match RequestInfo::parse(head.method.as_str(), target) {
        Ok(info) => info,
        Err(error @ RequestInfoError::NoResource(_)) => {
            let answer = internal_error(target, &format!("failed to create RequestInfo: {error}"));
            return (Route::PageNotFound, answer, true);
        }
        Err(error) => {
            return (Route::PageNotFound, Status::bad_request(error.to_string()).into_answer(), true);
        }
    };
    let about = Target::of(&info, app.kinds());
    let route = match &about {
        Some(about) => object_route::route(about, &info, &head.method),
        None => Route::of(info.path(), &app.documents),
    };

    let time_limit = match time_limit(head, route, app.limits.request) {
        Ok(limit) => limit,
        Err(status) => return (route, status.into_answer(), true),
    };

    let authenticating =
        app.authentication.authenticate(&connection.peer, &head.headers, info.path(), SystemTime::now());
    let authenticated = authenticating.await;
    let caller = match authenticated {
        Ok(caller) => caller,
        Err(cause) => {
            tracing::debug!(audit_id = trail.id_text(), %cause, "unauthorized");
            let shows_certificate = connection.peer.shows_certificate();
            trail.unknown(app.audit.as_ref(), head, &info, shows_certificate);
            cause.annotations().for_each(|(key, value)| trail.annotate(key, value));
            return (route, Status::unauthorized().into_answer(), true);
        }
    };
    let is_stranger = is_anonymous(caller.user());
    let warning = caller.warning().or_else(|| spare_space(&head.headers)).and_then(warning::header);
    if let Err(status) = trail.known(app.audit.as_ref(), head, caller.user(), &info).await {
        return (route, status.into_answer(), is_stranger);
    }
    for (key, value) in caller.annotations() {
        trail.annotate(key, value.clone());
    }
    // AN-120, AN-128, AN-152: the request continues as the impersonated user.
    let caller = match Wanted::read(&head.headers) {
        Ok(None) => caller,
        Ok(Some(wanted)) => {
            let user = Arc::clone(caller.user());
            let impersonators = (&app.impersonators, &app.metrics.impersonation);
            match impersonate(&*app.authorization, impersonators, &user, wanted, &info).await {
                Ok(other) => {
                    trail.impersonated(other.user(), other.constraint());
                    caller.acting_as(other)
                }
                Err(status) => return (route, status.into_answer(), is_stranger),
            }
        }
        Err(status) => return (route, status.into_answer(), is_stranger),
    };

    let _entered = match app.in_flight.enter(route, info.verb(), caller.user()) {
        Ok(entered) => entered,
        Err(answer) => {
            app.metrics.terminated(route, head, answer.status());
            return (route, *answer, is_stranger);
        }
    };
    let revocation = caller.revocation().filter(|_| is_watch(route));
    let permit =
        // AP-5: before the path is found to lead nowhere.
        match app.authorization.authorize(&caller, &info, target, &app.metrics.authorization, trail).await {
            Ok(permit) => permit,
            Err(refusal) => return (route, *refusal, is_stranger),
        };
    let answering = dispatch::answer(app, permit, Asked { route, target: about, info: &info }, head, body);
    let mut answer = if is_watch(route) {
        answering.await
    } else {
        timeout(time_limit, answering).await.unwrap_or_else(|_| {
            let answer = Status::late().into_answer();
            app.metrics.terminated(route, head, answer.status());
            answer
        })
    };
    if let Some(revocation) = revocation {
        answer = answer.map(|body| body.until(revocation));
    }
    if let Some(warning) = warning {
        answer.headers_mut().append(WARNING, warning);
    }
    (route, answer, is_stranger)
}
