//! From a request to its answer, in the API server's order (AC-1): what is asked, who asks, may they, then the
//! handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, WARNING};
use http::request::Parts;
use http::{HeaderValue, Method, Request};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use policy::request_info::{RequestInfo, RequestInfoError};
use portcullis_policy as policy;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::api::discovery::Documents;
use crate::api::health::Check;
use crate::api::rest::admission::AdmissionPlugins;
use crate::api::rest::options;
use crate::api::rest::target::Target;
use crate::api::route::{Action, Route};
use crate::api::{self, Asked, finish, pretty};
use crate::audit::{AUDIT_ID, Audit, Trail};
use crate::authn::{Authentication, is_anonymous, spare_space};
use crate::authz::Authorization;
use crate::backend::Backend;
use crate::body::Body;
use crate::config::{Limits, RuntimeConfig};
use crate::impersonation::{Remembered, Wanted, impersonate};
use crate::in_flight::InFlight;
use crate::listener::{Busy, Connection, Handler};
use crate::metrics::Metrics;
use crate::status::{Answer, Status, internal_error};

/// As Go's server does.
const DRAIN_BYTES: usize = 256 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Everything that answering requests needs. Shared by all connections.
pub struct App {
    admission: AdmissionPlugins,
    authentication: Authentication,
    authorization: Arc<Authorization>,
    backend: Option<Arc<Backend>>,
    checks: Vec<Check>,
    documents: Documents,
    in_flight: InFlight,
    is_shutting_down: Arc<AtomicBool>,
    impersonators: Remembered,
    limits: Limits,
    audit: Option<Audit>,
    metrics: Metrics,
    runtime: RuntimeConfig,
    stopping: watch::Sender<bool>,
}

impl App {
    /// An application that asks these two who may do what.
    pub fn new(
        authentication: Authentication,
        authorization: impl Into<Arc<Authorization>>,
        runtime: RuntimeConfig,
        limits: Limits,
    ) -> Self {
        let metrics = Metrics::default();
        let is_shutting_down = Arc::<AtomicBool>::default();
        Self {
            admission: AdmissionPlugins::default(),
            authentication,
            authorization: authorization.into(),
            backend: None,
            checks: vec![Check::ping(), Check::shutdown(Arc::clone(&is_shutting_down))],
            documents: Documents::new(runtime),
            in_flight: in_flight(&limits, &metrics),
            is_shutting_down,
            impersonators: Remembered::default(),
            limits,
            audit: None,
            metrics,
            runtime,
            stopping: watch::Sender::new(false),
        }
    }

    /// The same application, which keeps objects here. Without, only what stores nothing is served.
    #[must_use]
    pub fn with_backend(mut self, backend: impl Into<Arc<Backend>>) -> Self {
        self.backend = Some(backend.into());
        self
    }

    /// The same application, measured by these.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.in_flight = in_flight(&self.limits, &metrics);
        self.metrics = metrics;
        self
    }

    /// The same application, with these admission plugins.
    #[must_use]
    pub fn with_admission(mut self, plugins: AdmissionPlugins) -> Self {
        self.admission = plugins;
        self
    }

    /// The admission plugins in force.
    pub fn admission(&self) -> AdmissionPlugins {
        self.admission
    }

    /// The same application, which writes an audit log.
    #[must_use]
    pub fn with_audit(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Adds a health check.
    #[must_use]
    pub fn with_check(mut self, check: Check) -> Self {
        // Last is whether the server stops, as kube-apiserver has it.
        self.checks.insert(self.checks.len().saturating_sub(1), check);
        self
    }

    /// Who asks.
    pub fn authentication(&self) -> &Authentication {
        &self.authentication
    }

    /// Who may do what.
    pub fn authorization(&self) -> &Arc<Authorization> {
        &self.authorization
    }

    /// What is measured.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Where objects are kept, if they are.
    pub fn backend(&self) -> Option<&Backend> {
        self.backend.as_deref()
    }

    /// Tells `/readyz` that the server is about to stop, so that nobody new comes. Everything is served on.
    pub fn begin_shutdown(&self) {
        self.is_shutting_down.store(true, Ordering::Relaxed);
    }

    /// Ends what would go on for as long as the client likes. Everything else is let finish.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    pub(crate) fn checks(&self) -> &[Check] {
        &self.checks
    }

    pub(crate) fn documents(&self) -> &Documents {
        &self.documents
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }
}

fn in_flight(limits: &Limits, metrics: &Metrics) -> InFlight {
    InFlight::new((limits.read_only_in_flight, limits.mutating_in_flight), metrics.in_flight())
}

/// The audit trail of a request, which ends when this is dropped, whatever has become of the request.
struct Audited {
    app: Arc<App>,
    trail: Arc<Trail>,
}

impl Drop for Audited {
    fn drop(&mut self) {
        if let Some(audit) = &self.app.audit {
            self.trail.end(audit, &self.app.metrics);
        }
    }
}

/// A watch under way, until this is dropped.
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
        connection: Arc<Connection>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Answer> + Send {
        serve(self, connection, request)
    }

    fn stop(&self) {
        self.stop();
    }
}

async fn serve(app: Arc<App>, connection: Arc<Connection>, request: Request<Incoming>) -> Answer {
    let started = Instant::now();
    let busy = Busy::begin(&connection);
    let (mut head, mut body) = request.into_parts();
    let trail = Arc::new(Trail::begin(&head.headers, connection.remote));
    head.extensions.insert(Arc::clone(&trail));
    let audited = Audited { app: Arc::clone(&app), trail: Arc::clone(&trail) };
    let (route, answer, is_stranger) = respond(&app, &connection, &head, &mut body, &trail).await;
    let mut answer = trail.answered(answer);
    answer.headers_mut().insert(AUDIT_ID, trail.id().clone());
    // A client that waits for leave to send its body is not given it.
    if !body.is_end_stream() && !head.headers.contains_key(EXPECT) {
        drain(&mut body).await;
    }
    // AN-22: strangers get one request for each HTTP/2 connection.
    if is_stranger && connection.is_http2 {
        connection.activity.close();
    }
    if !body.is_end_stream() && !connection.is_http2 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let is_pretty = pretty::is_wanted(route, answer.status().is_success(), &head);
    let mut answer = finish(answer, &head.headers, is_pretty);
    // HTTP/2 would send it.
    if head.method == Method::HEAD {
        *answer.body_mut() = Body::default();
    }
    app.metrics.answered(route, &head.method, answer.status(), started.elapsed());
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
            Body::Whole(_) => trail.complete(audit, &app.metrics).await,
            Body::Stream(_) if is_watch(route) => trail.started(audit, &app.metrics).await,
            Body::Parts(_) | Body::Stream(_) => {}
        }
    }
    let watching = is_watch(route).then(|| Watching::begin(app.metrics.watches(route, &head.method)));
    answer.map(|body| body.with((busy, audited, watching)))
}

fn is_watch(route: Route) -> bool {
    matches!(route, Route::Object { action: Action::Watch, .. })
}

/// Takes in what is left of the body of a request that was answered without it, up to a limit: many clients read no
/// answer before they have sent everything.
pub(crate) async fn drain(body: &mut Incoming) {
    if body.size_hint().lower() > DRAIN_BYTES as u64 {
        return;
    }
    let discarding = async {
        let mut left = DRAIN_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // What does not come, or does not end, is cut off by closing the connection.
    let _ = timeout(DRAIN_TIME, discarding).await;
}

/// The route, the answer, and whether the caller is nobody known.
async fn respond(
    app: &App,
    connection: &Connection,
    head: &Parts,
    body: &mut Incoming,
    trail: &Trail,
) -> (Route, Answer, bool) {
    // AC-5: what cannot be read is answered before anybody is asked for a name.
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
    let about = app.backend.as_ref().and_then(|_| Target::of(&info, app.runtime));
    let route = match &about {
        Some(about) => about.route(&info, &head.method),
        None => Route::of(info.path(), &app.documents),
    };

    let authenticating =
        app.authentication.authenticate(&connection.peer, &head.headers, info.path(), SystemTime::now());
    let authenticated = authenticating.await;
    app.metrics.authenticated(&authenticated);
    let caller = match authenticated {
        Ok(caller) => caller,
        Err(cause) => {
            tracing::debug!(audit_id = trail.id_text(), %cause, "unauthorized");
            let shows_certificate = connection.peer.shows_certificate();
            trail.unknown(app.audit.as_ref(), &app.metrics, head, &info, shows_certificate);
            return (route, Status::unauthorized().into_answer(), true);
        }
    };
    let is_stranger = is_anonymous(caller.user());
    let warning = caller.warning().or_else(|| spare_space(&head.headers)).and_then(options::warning);
    if let Err(status) = trail.known(app.audit.as_ref(), &app.metrics, head, caller.user(), &info).await {
        return (route, status.into_answer(), is_stranger);
    }
    // AN-120, AN-152: the request goes on as somebody else.
    let caller = match Wanted::read(&head.headers) {
        Ok(None) => caller,
        Ok(Some(wanted)) => {
            let user = Arc::clone(caller.user());
            match impersonate(&app.authorization, &app.impersonators, &user, wanted, &info).await {
                Ok(other) => {
                    trail.impersonated(other.user());
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
            app.metrics.terminated(route, &head.method, answer.status());
            return (route, *answer, is_stranger);
        }
    };
    let revocation = caller.revocation().filter(|_| is_watch(route));
    let permit = match app.authorization.admit(&caller, &info, target, &app.metrics, trail).await {
        Ok(permit) => permit,
        Err(refusal) => return (route, *refusal, is_stranger),
    };
    let answering = api::answer(app, permit, Asked { route, target: about, info: &info }, head, body);
    let mut answer = if is_watch(route) {
        answering.await
    } else {
        timeout(app.limits.request, answering).await.unwrap_or_else(|_| {
            let answer = Status::late().into_answer();
            app.metrics.terminated(route, &head.method, answer.status());
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

/// Reads a body whole.
///
/// # Errors
/// 413 for a body that is too large, said so or found so; 408 for one that does not arrive; 400 for one that breaks
/// off.
pub(crate) async fn read_body(head: &Parts, body: &mut Incoming, limits: &Limits) -> Result<Bytes, Status> {
    let too_large = || Status::too_large(limits.body_bytes);
    let announced = head.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|n| usize::try_from(n).map_or(true, |n| n > limits.body_bytes)) {
        return Err(too_large());
    }
    let collecting = async {
        let mut collected = BytesMut::new();
        // Copied together: a body in many small frames would otherwise take many times its size.
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| Status::bad_request(format!("cannot read the body: {e}")))?;
            let Ok(data) = frame.into_data() else { continue };
            if collected.len() + data.len() > limits.body_bytes {
                return Err(too_large());
            }
            if collected.is_empty() && body.is_end_stream() {
                return Ok(data);
            }
            collected.extend_from_slice(&data);
        }
        Ok(collected.freeze())
    };
    timeout(limits.body_read, collecting).await.unwrap_or_else(|_| Err(Status::timeout()))
}
