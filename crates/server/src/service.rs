//! From a request to its answer, in the API server's order (AC-1): what is asked, who asks, may they, then the
//! handler.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, WARNING};
use http::request::Parts;
use http::{HeaderValue, Method, Request};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use policy::request_info::{RequestInfo, RequestInfoError};
use portcullis_policy as policy;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::api::discovery::Documents;
use crate::api::health::Check;
use crate::api::rest::options;
use crate::api::rest::target::Target;
use crate::api::route::Route;
use crate::api::{self, Asked, finish, pretty};
use crate::authn::{Authentication, Peer, is_anonymous, spare_space};
use crate::authz::Authorization;
use crate::backend::Backend;
use crate::body::Body;
use crate::config::{Limits, RuntimeConfig};
use crate::impersonation::{Remembered, Wanted, impersonate};
use crate::metrics::Metrics;
use crate::status::{Answer, Status, internal_error};

/// As Go's server does.
const DRAIN_BYTES: usize = 256 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Everything that answering requests needs. Shared by all connections.
pub struct App {
    authentication: Authentication,
    authorization: Authorization,
    backend: Option<Arc<Backend>>,
    checks: Vec<Check>,
    documents: Documents,
    impersonators: Remembered,
    limits: Limits,
    metrics: Metrics,
    runtime: RuntimeConfig,
    stopping: watch::Sender<bool>,
}

impl App {
    /// An application that asks these two who may do what.
    pub fn new(
        authentication: Authentication,
        authorization: Authorization,
        runtime: RuntimeConfig,
        limits: Limits,
    ) -> Self {
        Self {
            authentication,
            authorization,
            backend: None,
            checks: vec![Check::ping()],
            documents: Documents::new(runtime),
            impersonators: Remembered::default(),
            limits,
            metrics: Metrics::default(),
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
        self.metrics = metrics;
        self
    }

    /// Adds a health check.
    #[must_use]
    pub fn with_check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Who asks.
    pub fn authentication(&self) -> &Authentication {
        &self.authentication
    }

    /// Who may do what.
    pub fn authorization(&self) -> &Authorization {
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

/// What one connection knows about itself.
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    pub(crate) is_http2: bool,
    pub(crate) activity: crate::listener::Activity,
}

/// A request under way, until this is dropped.
struct Busy(Arc<Connection>);

impl Busy {
    fn begin(connection: &Arc<Connection>) -> Self {
        connection.activity.begin();
        Self(Arc::clone(connection))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.activity.end();
    }
}

/// Answers one request.
pub(crate) async fn serve(
    app: Arc<App>,
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    let started = Instant::now();
    let busy = Busy::begin(&connection);
    let (head, mut body) = request.into_parts();
    let (route, mut answer, is_stranger) = respond(&app, &connection, &head, &mut body).await;
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
    Ok(answer.map(|body| body.with(busy)))
}

/// Takes in what is left of the body of a request that was answered without it, up to a limit: many clients read no
/// answer before they have sent everything.
async fn drain(body: &mut Incoming) {
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
    let caller = match authenticating.await {
        Ok(caller) => caller,
        Err(cause) => {
            tracing::debug!(%cause, "unauthorized");
            return (route, Status::unauthorized().into_answer(), true);
        }
    };
    let is_stranger = is_anonymous(caller.user());
    let warning = caller.warning().or_else(|| spare_space(&head.headers)).and_then(options::warning);
    // AN-120, AN-152: the request goes on as somebody else.
    let caller = match Wanted::read(&head.headers) {
        Ok(None) => caller,
        Ok(Some(wanted)) => {
            let user = Arc::clone(caller.user());
            match impersonate(&app.authorization, &app.impersonators, &user, wanted, &info).await {
                Ok(other) => caller.acting_as(other),
                Err(status) => return (route, status.into_answer(), is_stranger),
            }
        }
        Err(status) => return (route, status.into_answer(), is_stranger),
    };

    let permit = match app.authorization.admit(&caller, &info, target, &app.metrics).await {
        Ok(permit) => permit,
        Err(refusal) => return (route, *refusal, is_stranger),
    };
    let mut answer = api::answer(app, permit, Asked { route, target: about, info: &info }, head, body).await;
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
