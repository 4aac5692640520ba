//! Handles one request in the order of kube-apiserver (AC-1): request info, authentication, authorization, then the
//! handler.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{EXPECT, WARNING};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use policy::User;
use policy::request_info::{RequestInfo, RequestInfoError};
use portcullis_apimachinery::duration;
use portcullis_apimachinery::quote::quoted;
use portcullis_store::Store as _;
use tokio::time::{Instant as Deadline, timeout_at};

use super::app::App;
use super::connect::{self, Connecting};
use super::dispatch::{self, Asked};
use super::large_work::LARGE;
use super::object_route;
use super::route::{Action, Route};
use super::watch_rights::WatchRights;
use crate::audit::{AUDIT_ID, Trail};
use crate::authn::impersonation::{Wanted, impersonate};
use crate::authn::{Caller, Peer, is_anonymous, spare_space};
use crate::authz::Access;
use crate::http::account::Account;
use crate::http::activity::Sending;
use crate::http::body::{Body, Sent};
use crate::http::budget::Charge;
use crate::http::listener::{Busy, Connection};
use crate::http::query::Query;
use crate::http::request_body;
use crate::http::status::{Answer, Status, internal_error};
use crate::http::{encode, pretty, warning};
use crate::metrics::Counted;
use crate::registry::target::Target;
use crate::registry::{custom_kinds, freshness};

/// A request waits for its turn for this part of the time that it may take, as in kube-apiserver.
const PATIENCE: u32 = 4;

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

/// Answers one request, which is charged to the account of the connection.
pub(super) async fn serve(
    app: Arc<App>,
    connection: Arc<Connection<Peer>>,
    request: Request<Incoming>,
    mut charge: Charge,
) -> Response<Sent> {
    let started = Instant::now();
    let busy = Busy::begin(&connection);
    let (mut head, body) = request.into_parts();
    // None once it is passed on to another server.
    let mut body = Some(body);
    let trail = Arc::new(Trail::begin(&head.headers, connection.remote));
    head.extensions.insert(Arc::clone(&trail));
    let audited = Audited { app: Arc::clone(&app), trail: Arc::clone(&trail) };
    let Responded { route, answer, is_stranger, account } =
        respond(&app, &connection, &head, &mut body, &mut charge, &trail).await;
    let mut answer = trail.answered(answer);
    answer.headers_mut().insert(AUDIT_ID, trail.id().clone());
    // AN-22: also if another request of the connection was authenticated.
    if is_stranger && connection.is_http2 {
        connection.activity.close();
    }
    let is_pretty = is_pretty(route, answer.status().is_success(), &head);
    let size = encode::at_once(&answer, &head.headers);
    let encoding = async { encode::encode(answer, &head.headers, is_pretty) };
    let mut answer = match size < LARGE {
        true => encoding.await,
        false => {
            // Headers and body are no longer held. If they counted, requests could wait for each other.
            charge.set(0);
            Box::pin(app.large_work.run_in_room(&charge, account, size, encoding)).await
        }
    };
    charge.set(match answer.body() {
        Body::Whole(bytes) => bytes.len(),
        Body::Parts(_) | Body::Stream(_) => 0,
    });
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
    let is_long_running = route.is_long_running();
    let running = is_long_running.then(|| Counted::new(&app.metrics.watches(route, &head)));
    let is_tunnel = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
    if let Some(audit) = &app.audit {
        match answer.body() {
            Body::Whole(_) if is_tunnel => trail.started(audit).await,
            Body::Whole(_) => trail.complete(audit).await,
            Body::Stream(_) if is_long_running => trail.started(audit).await,
            Body::Parts(_) | Body::Stream(_) => {}
        }
        trail.pause();
    }
    // The trail of a complete response has ended, and without an audit log nobody asks for it.
    let goes_on = app.audit.is_some() && (is_tunnel || !matches!(answer.body(), Body::Whole(_)));
    let audited = goes_on.then_some(audited);
    let expects = head.headers.contains_key(EXPECT);
    // Only the stream is held while the rest of the body arrives.
    drop((head, trail));
    if let Some(body) = &mut body {
        request_body::end(&connection, body, expects, &mut answer).await;
    }
    let sending = Sending::new(&connection.activity, Some(charge));
    if is_tunnel {
        connection.keep_with_tunnel((busy, audited, running));
        return answer.map(|body| body.sent((), sending));
    }
    answer.map(|body| {
        let body = match body {
            Body::Parts(parts) => app.large_work.paced(app.held.nothing(account), account, parts),
            body => body,
        };
        body.sent((busy, audited, running), sending)
    })
}

/// Whether the body of a request is read.
fn takes_body(route: Route, method: &Method) -> bool {
    let is_route = match route {
        Route::Object { action, .. } => {
            !matches!(action, Action::Get | Action::List | Action::Watch | Action::Connect)
        }
        Route::Review { .. } | Route::SelfReview | Route::TokenReview => true,
        _ => false,
    };
    is_route && matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
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
/// 400 for a value that is not a duration. Watches and connections do not have it, and are not looked at.
fn time_limit(head: &Parts, route: Route, longest: Duration) -> Result<Duration, Status> {
    // Most requests have no such parameter, and need not be parsed for it.
    let query = head.uri.query().filter(|query| query.contains("timeout=") && !route.is_long_running());
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

/// Whether a part of what is requested can be answered.
fn takes_part(route: Route) -> bool {
    matches!(route, Route::Object { action: Action::List | Action::Watch, .. })
}

/// The response to a request.
struct Responded {
    route: Route,
    answer: Answer,
    /// Whether the caller is unauthenticated.
    is_stranger: bool,
    /// The account that is charged.
    account: Account,
}

impl Responded {
    fn to_stranger(connection: &Connection<Peer>, route: Route, answer: Answer) -> Self {
        let account = Account::of_address(connection.remote);
        Self { route, answer, is_stranger: true, account }
    }
}

async fn respond(
    app: &Arc<App>,
    connection: &Arc<Connection<Peer>>,
    head: &Parts,
    body: &mut Option<Incoming>,
    charge: &mut Charge,
    trail: &Trail,
) -> Responded {
    // AC-5: a malformed request is answered before authentication.
    let target = head.uri.path_and_query().map_or("", |t| t.as_str());
    let info = match RequestInfo::parse(head.method.as_str(), target) {
        Ok(info) => info,
        Err(error @ RequestInfoError::NoResource(_)) => {
            let answer = internal_error(target, &format!("failed to create RequestInfo: {error}"));
            return Responded::to_stranger(connection, Route::PageNotFound, answer);
        }
        Err(error) => {
            let answer = Status::bad_request(error.to_string()).into_answer();
            return Responded::to_stranger(connection, Route::PageNotFound, answer);
        }
    };
    let (mut about, mut route) = led(app, &info, head);

    let time_limit = match time_limit(head, route, app.limits.request) {
        Ok(limit) => limit,
        Err(status) => return Responded::to_stranger(connection, route, status.into_answer()),
    };

    // ET-35: nothing is answered on memory that may be old, but whether the server is healthy.
    if !app.backend().is_current()
        && !matches!(route, Route::Health(_))
        && let Err(status) = Box::pin(freshness::usable(app.backend())).await
    {
        return Responded::to_stranger(connection, route, status.into_answer());
    }
    let from = (&connection.peer, connection.remote);
    let authenticating = app.authentication.authenticate(from, &head.headers, info.path(), SystemTime::now());
    let authenticated = authenticating.await;
    let caller = match authenticated {
        Ok(caller) => caller,
        Err(cause) => {
            tracing::debug!(audit_id = trail.id_text(), %cause, "unauthorized");
            let shows_certificate = connection.peer.shows_certificate();
            trail.unknown(app.audit.as_ref(), head, &info, shows_certificate);
            cause.annotations().for_each(|(key, value)| trail.annotate(key, value));
            return Responded::to_stranger(connection, route, Status::unauthorized().into_answer());
        }
    };
    let is_stranger = is_anonymous(caller.user());
    let account = match is_stranger {
        true => Account::of_address(connection.remote),
        false => Account::of_user(caller.user()),
    };
    if !is_stranger {
        connection.place.identify(caller.user(), account);
    }
    if !charge.transfer(account) {
        let answer = Status::holds_too_much(app.limits.held_bytes).into_answer();
        app.metrics.terminated(route, head, answer.status());
        return Responded { route, answer, is_stranger, account };
    }
    if is_of_custom_kind(&info, about.as_ref()) {
        Box::pin(settle(app, &info, about.is_some())).await;
        (about, route) = led(app, &info, head);
    }
    let asked = Authenticated { caller, account, route, target: about, info: &info, time_limit };
    let answer = respond_to((app, connection), asked, head, body, charge, trail).await;
    Responded { route, answer, is_stranger, account }
}

/// What a request is about, and where it leads.
fn led<'i>(app: &App, info: &'i RequestInfo, head: &Parts) -> (Option<Target<'i>>, Route) {
    let about = Target::of(info, app.kinds());
    let route = match &about {
        Some(about) => object_route::route(about, info, &head.method),
        None => Route::of(info.path(), &app.documents()),
    };
    (about, route)
}

/// Whether a request is about a custom kind, or could be if there were a definition.
fn is_of_custom_kind(info: &RequestInfo, about: Option<&Target<'_>>) -> bool {
    match about {
        Some(about) => about.resource.custom.is_some(),
        None => info.is_resource_request() && info.group().contains('.'),
    }
}

/// Waits until the definition of a kind is in force as it is stored. That there is none is not said on memory that may be old
/// (ET-34).
async fn settle(app: &App, info: &RequestInfo, is_known: bool) {
    if !is_known {
        // Whether something was missed matters here only by what is there afterwards.
        freshness::has_missed(app.backend(), app.backend().revision()).await;
    }
    custom_kinds::settled(app.backend(), app.kinds(), info.group(), info.resource()).await;
}

/// A request of a known caller.
struct Authenticated<'a> {
    caller: Caller,
    account: Account,
    route: Route,
    target: Option<Target<'a>>,
    info: &'a RequestInfo,
    time_limit: Duration,
}

/// Answers a request of a known caller.
async fn respond_to(
    (app, connection): (&Arc<App>, &Arc<Connection<Peer>>),
    asked: Authenticated<'_>,
    head: &Parts,
    body: &mut Option<Incoming>,
    charge: &mut Charge,
    trail: &Trail,
) -> Answer {
    let Authenticated { caller, account, route, target: about, info, time_limit } = asked;
    let target = head.uri.path_and_query().map_or("", |t| t.as_str());
    let warning = caller.warning().or_else(|| spare_space(&head.headers)).and_then(warning::header);
    let deadline = Deadline::now() + time_limit;
    if let Err(status) = trail.known(app.audit.as_ref(), head, caller.user(), info, deadline).await {
        return status.into_answer();
    }
    for (key, value) in caller.annotations() {
        trail.annotate(*key, value.clone());
    }
    // AN-120, AN-128, AN-152: the request continues as the impersonated user.
    let wanted = match Wanted::read(&head.headers) {
        Ok(wanted) => wanted,
        Err(status) => return status.into_answer(),
    };
    let caller = match wanted.clone() {
        None => caller,
        Some(wanted) => {
            let user = Arc::clone(caller.user());
            let impersonators = (&app.impersonators, &app.metrics.impersonation);
            match Box::pin(impersonate(&*app.authorization, impersonators, &user, wanted, info)).await {
                Ok(other) => {
                    trail.impersonated(other.user(), other.constraint());
                    caller.acting_as(other)
                }
                Err(status) => return status.into_answer(),
            }
        }
    };

    let mut rights = route
        .is_long_running()
        .then(|| Box::new(WatchRights::of(app, connection, &head.headers, info, &caller, wanted, account)));
    let is_filtered = match takes_part(route) {
        true => app.filter_lists.asks(&head.headers, caller.user()),
        false => Ok(false),
    };
    let is_filtered = match is_filtered {
        Ok(is_filtered) => is_filtered,
        Err(status) => return status.into_answer(),
    };
    let asks = (info, is_filtered && about.is_some());
    let access =
        // AP-5: before the path is found to lead nowhere.
        match app.authorization.authorize(&caller, asks, target, &app.metrics.authorization, trail).await {
            Ok(access) => access,
            Err(refusal) => return *refusal,
        };
    if let (Some(rights), Access::Part(_)) = (&mut rights, &access) {
        rights.are_partial();
    }
    if is_watch(route)
        && let Some(Err(status)) = rights.as_mut().map(|rights| rights.count(caller.original()))
    {
        app.metrics.terminated(route, head, StatusCode::TOO_MANY_REQUESTS);
        return status.into_answer();
    }
    if route.is_connection() {
        let of = Allowed { access, rights, target: about, info, account };
        let answer = Box::pin(connect((app, connection), of, caller.original(), head, body)).await;
        return warned(answer.unwrap_or_else(|refusal| terminated(app, route, head, refusal)), warning);
    }
    let user = Arc::clone(caller.user());
    // Pinned in place: a timeout would move it.
    let mut answering = pin!(async {
        let body = match body.as_mut().filter(|_| takes_body(route, &head.method)) {
            Some(body) => {
                // A client that sends slowly keeps no place in the audit log.
                trail.pause();
                let body = Box::pin(request_body::read(head, body, &app.limits, charge)).await;
                trail.resume(app.audit.as_ref(), deadline).await.map_err(Status::into_answer)?;
                body.map_err(Status::into_answer)?
            }
            None => Bytes::new(),
        };
        let patience = time_limit / PATIENCE;
        let entered = app.in_flight.enter(route, info, (&user, account), patience).await;
        let _entered = entered.map_err(|refusal| *refusal)?;
        // A watch goes on after its answer has begun.
        let deadline = (!is_watch(route)).then_some(deadline);
        let asked = Asked { route, target: about, info, account, deadline };
        dispatch::answer(app, access, asked, head, body).await.map_err(|late| late.into_answer())
    });
    let answered = match is_watch(route) {
        true => answering.as_mut().await,
        false => match timeout_at(deadline, answering.as_mut()).await {
            Ok(answered) => answered,
            Err(_) => Err(Status::late().into_answer()),
        },
    };
    let mut answer = answered.unwrap_or_else(|refusal| terminated(app, route, head, refusal));
    if let Some(rights) = rights {
        answer = answer.map(|body| body.until(rights.ended()));
    }
    warned(answer, warning)
}

/// Counts a refusal by which the server protects itself.
fn terminated(app: &App, route: Route, head: &Parts, refusal: Answer) -> Answer {
    if matches!(refusal.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::GATEWAY_TIMEOUT) {
        app.metrics.terminated(route, head, refusal.status());
    }
    refusal
}

fn warned(mut answer: Answer, warning: Option<HeaderValue>) -> Answer {
    if let Some(warning) = warning {
        answer.headers_mut().append(WARNING, warning);
    }
    answer
}

/// A connection that was allowed.
struct Allowed<'a> {
    access: Access,
    rights: Option<Box<WatchRights>>,
    target: Option<Target<'a>>,
    info: &'a RequestInfo,
    account: Account,
}

/// Passes a request of this authenticated user on to another server.
///
/// # Errors
/// The response if it is not passed on.
async fn connect(
    (app, connection): (&Arc<App>, &Arc<Connection<Peer>>),
    allowed: Allowed<'_>,
    original: &User,
    head: &Parts,
    body: &mut Option<Incoming>,
) -> Result<Answer, Answer> {
    let Allowed { access, rights, target, info, account } = allowed;
    // Only collections of objects have parts.
    let (Access::Whole(permit), Some(rights), Some(target)) = (access, rights, target) else {
        return Err(Status::not_found().into_answer());
    };
    let opened = app.connections.open(account, original).map_err(Status::into_answer)?;
    let connecting = Connecting { app, connection, permit, info, target, head, rights, opened };
    connect::answer(connecting, body).await.map_err(Status::into_answer)
}
