//! Collects what is known about one request, and emits audit events at each stage.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use policy::chain::Outcome;
use policy::request_info::RequestInfo;
use policy::{Attributes, User};
use portcullis_apimachinery::time::Instant;
use serde_json::Value;
use tokio::time::Instant as Deadline;

use super::event::{
    AuthenticationMetadata, Event, ObjectReference, ResponseStatus, drop_managed_fields, user_agent,
};
use super::level::{Level, Stage};
use super::log::Audit;
use super::queue::{Class, Place};
use super::sink::{Full, Mode};
use super::wanted::{API_VERSION, Wanted};
use crate::authn::is_anonymous;
use crate::http::body::Body;
use crate::http::status::{Answer, JSON, Status};
use crate::registry::meta;

/// The header with the ID of a request in all logs.
pub const AUDIT_ID: &str = "audit-id";

/// The maximum length of a request ID that is accepted from a client, in bytes.
const MAX_ID: usize = 64;
/// The maximum number of addresses that a client claims for itself and its proxies.
const MAX_SOURCES: usize = 32;
/// Larger responses are not searched for a `Status`.
const MAX_STATUS: usize = 64 * 1024;
/// AC-124
const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";
/// The authorizer that decided.
const AUTHORIZER: &str = "portcullis.dev/authorizer";
/// The reason why the Node authorizer did not allow a node's request, even if another authorizer then allowed it.
const NODE_DENY: &str = "portcullis.dev/node-deny";

/// The audit trail of one request, from its headers to the end of the response. Handlers get it with `Trail::of`.
pub struct Trail {
    id: HeaderValue,
    received: SystemTime,
    remote: Option<IpAddr>,
    user: OnceLock<Arc<User>>,
    record: OnceLock<Mutex<Record>>,
}

/// The event to log.
struct Record {
    event: Event,
    wanted: Wanted,
    /// The space for its events in the queue.
    place: Place,
    /// Whether authentication failed: then only one event is logged.
    is_stranger: bool,
    /// Whether the caller has no credentials that were accepted: then its events are short.
    is_short: bool,
    is_complete: bool,
}

impl Trail {
    /// Starts the trail of a new request. Its ID is that from the client, if it is short and has only plain characters,
    /// or a new one.
    ///
    /// DIVERGES: kube-apiserver accepts an ID of any length and characters.
    pub(crate) fn begin(headers: &HeaderMap, remote: Option<IpAddr>) -> Self {
        let is_plain = |id: &&HeaderValue| {
            (1..=MAX_ID).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        let id = headers.get(AUDIT_ID).filter(is_plain).cloned();
        Self {
            id: id.unwrap_or_else(new_id),
            received: SystemTime::now(),
            remote,
            user: OnceLock::new(),
            record: OnceLock::new(),
        }
    }

    /// Returns the trail of a request.
    pub(crate) fn of(head: &Parts) -> Option<&Self> {
        head.extensions.get::<Arc<Self>>().map(Arc::as_ref)
    }

    /// Returns the ID of the request.
    pub(crate) fn id(&self) -> &HeaderValue {
        &self.id
    }

    /// Returns the ID as text.
    pub(crate) fn id_text(&self) -> &str {
        self.id.to_str().unwrap_or_default()
    }

    /// Returns the name of the user, if known.
    pub(crate) fn user(&self) -> &str {
        self.user.get().map_or("", |user| user.name.as_str())
    }

    fn record(&self) -> Option<MutexGuard<'_, Record>> {
        self.record.get().map(|record| record.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records the authenticated user, selects what the policy logs, waits for space for all events, and logs the
    /// first one. The request must not have changed anything before.
    ///
    /// # Errors
    /// There was no space before the deadline, or the event cannot be written and the mode requires it.
    pub(crate) async fn known(
        &self,
        audit: Option<&Audit>,
        head: &Parts,
        user: &Arc<User>,
        info: &RequestInfo,
        deadline: Deadline,
    ) -> Result<(), Status> {
        let _ = self.user.set(Arc::clone(user));
        let Some(audit) = audit else { return Ok(()) };
        let Some(wanted) = wanted(audit, Some(user), info) else { return Ok(()) };
        let is_stranger = is_anonymous(user);
        let class = Class::of(is_stranger, is_read(&head.method));
        let place = enter(audit, class, deadline).await?;
        let Some(place) = place else { return Ok(()) };
        self.open((wanted, place), head, Some(user), info, is_stranger);
        if !self.write(audit, Stage::RequestReceived).await && audit.sink.mode() == Mode::BlockingStrict {
            audit.metrics.rejected.inc();
            return Err(Status::internal("failed to store audit event"));
        }
        Ok(())
    }

    /// Records that authentication failed.
    pub(crate) fn unknown(
        &self,
        audit: Option<&Audit>,
        head: &Parts,
        info: &RequestInfo,
        shows_certificate: bool,
    ) {
        let Some(audit) = audit else { return };
        let Some(wanted) = wanted(audit, None, info) else { return };
        let Some(place) = audit.sink.try_enter(Class::StrangersRead) else { return };
        self.open((wanted, place), head, None, info, true);
        if let Some(mut record) = self.record() {
            record.is_stranger = true;
            let message = attempted(head, shows_certificate);
            record.event.response_status = Some(ResponseStatus { message, ..ResponseStatus::default() });
        }
    }

    fn open(
        &self,
        (wanted, place): (Wanted, Place),
        head: &Parts,
        user: Option<&User>,
        info: &RequestInfo,
        is_short: bool,
    ) {
        let uri = head.uri.path_and_query().map_or("", |target| target.as_str());
        let event = Event {
            kind: "Event",
            api_version: API_VERSION,
            level: wanted.level.name(),
            audit_id: self.id_text().to_owned(),
            request_uri: uri.to_owned(),
            verb: info.verb().to_owned(),
            user: user.map(Into::into).unwrap_or_default(),
            source_ips: self.sources(&head.headers),
            user_agent: head.headers.get(USER_AGENT).map(|v| user_agent(v.as_bytes())).unwrap_or_default(),
            object_ref: info.is_resource_request().then(|| ObjectReference {
                resource: info.resource().to_owned(),
                namespace: info.namespace().to_owned(),
                name: info.name().to_owned(),
                api_group: info.group().to_owned(),
                api_version: info.version().to_owned(),
                subresource: info.subresource().to_owned(),
                ..ObjectReference::default()
            }),
            request_received_timestamp: micro(self.received),
            ..Event::default()
        };
        let record = Record { event, wanted, place, is_stranger: false, is_short, is_complete: false };
        // A request is known or unknown, once.
        let _ = self.record.set(Mutex::new(record));
    }

    /// Returns the addresses that the request came from and through. All but the last are claimed by the client.
    ///
    /// DIVERGES: kube-apiserver logs any number of addresses. The last ones are those that proxies have added.
    fn sources(&self, headers: &HeaderMap) -> Vec<String> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut sources: Vec<IpAddr> = text("x-forwarded-for")
            .rsplit(',')
            .filter_map(|part| part.trim().parse().ok())
            .take(MAX_SOURCES)
            .collect();
        sources.reverse();
        if let Ok(real) = text("x-real-ip").parse()
            && !sources.contains(&real)
        {
            sources.push(real);
        }
        if let Some(remote) = self.remote.filter(|remote| sources.last() != Some(remote)) {
            sources.push(remote);
        }
        sources.iter().map(ToString::to_string).collect()
    }

    /// Records the impersonated user (AC-2), and the verb by which constrained impersonation was allowed (AN-151).
    pub(crate) fn impersonated(&self, user: &User, constraint: Option<String>) {
        if let Some(mut record) = self.record() {
            record.event.impersonated_user = Some(user.into());
            record.event.authentication_metadata = constraint
                .map(|impersonation_constraint| AuthenticationMetadata { impersonation_constraint });
        }
    }

    /// Adds an annotation. Of two with the same key the first counts: the names of some are chosen by those who write policies.
    pub(crate) fn annotate(&self, key: impl Into<Cow<'static, str>>, value: String) {
        if let Some(mut record) = self.record() {
            record.event.annotations.entry(key.into()).or_insert(value);
        }
    }

    /// Records the authorization decision and the authorizer (AC-124).
    pub(crate) fn decided(&self, attributes: &Attributes<'_>, outcome: &Outcome, node_deny: Option<&str>) {
        let Some(mut record) = self.record() else { return };
        let annotations = &mut record.event.annotations;
        if let Some(reason) = node_deny {
            annotations.insert(NODE_DENY.into(), reason.to_owned());
        }
        if !outcome.is_allow() && outcome.error.is_some() {
            annotations.insert(REASON.into(), "internal error".to_owned());
            return;
        }
        let decision = if outcome.is_allow() { "allow" } else { "forbid" };
        annotations.insert(DECISION.into(), decision.to_owned());
        annotations.insert(REASON.into(), outcome.reason(attributes));
        if let Some(by) = outcome.by {
            annotations.insert(AUTHORIZER.into(), by.name().to_owned());
        }
    }

    /// Records the decoded request body. The closure is called only if the body is logged.
    pub(crate) fn request_object(&self, object: impl FnOnce() -> Value) {
        let Some(mut record) = self.record() else { return };
        let mut object = object();
        if let Some(about) = &mut record.event.object_ref
            && let Some(document) = object.as_object()
        {
            let fields = [
                (&mut about.namespace, "namespace"),
                (&mut about.name, "name"),
                (&mut about.uid, "uid"),
                (&mut about.resource_version, "resourceVersion"),
            ];
            for (known, field) in fields {
                if known.is_empty() {
                    meta::text(document, field).clone_into(known);
                }
            }
        }
        if record.wanted.level >= Level::Request {
            if record.wanted.omits_managed_fields {
                drop_managed_fields(&mut object);
            }
            record.event.request_object = Some(object);
        }
    }

    /// Returns whether the response is logged with its body.
    pub(crate) fn wants_response(&self) -> bool {
        self.record().is_some_and(|record| record.wanted.level >= Level::RequestResponse)
    }

    /// Records the response before it is converted for the client.
    pub(crate) fn answered(&self, answer: Answer) -> Answer {
        let Some(mut record) = self.record() else { return answer };
        let (head, mut body) = answer.into_parts();
        let code = head.status.as_u16();
        if record.is_stranger {
            if let Some(status) = &mut record.event.response_status {
                status.code = code;
            }
            return Answer::from_parts(head, body);
        }
        let wants_body = record.wanted.level >= Level::RequestResponse;
        // A list is streamed in chunks; to log it, it must be read completely.
        if let (Body::Parts(_), true) = (&body, wants_body)
            && let Body::Parts(parts) = body
        {
            body = Body::Whole(parts.flatten().collect::<Vec<u8>>().into());
        }
        let mut status = None;
        if let Body::Whole(bytes) = &body
            && head.headers.get(CONTENT_TYPE) == Some(&JSON)
            && (wants_body || bytes.len() <= MAX_STATUS && may_be_status(head.status, bytes))
            && let Ok(mut document) = serde_json::from_slice::<Value>(bytes)
        {
            status = ResponseStatus::of_document(&document, code);
            if wants_body {
                if record.wanted.omits_managed_fields {
                    drop_managed_fields(&mut document);
                }
                record.event.response_object = Some(document);
            }
        }
        let mut status = status.unwrap_or_else(|| ResponseStatus::of_code(code));
        // The message of a refusal may quote the body. The messages of these codes concern only the user or a name.
        if record.wanted.omits_messages && !matches!(code, 401 | 403 | 404 | 409) {
            status.message.clear();
            status.details = None;
        }
        record.event.response_status = Some(status);
        Answer::from_parts(head, body)
    }

    /// Logs the start of a response whose body continues.
    pub(crate) async fn started(&self, audit: &Audit) {
        self.write(audit, Stage::ResponseStarted).await;
    }

    /// Gives back the space in the queue while a body is sent, which may take as long as the client wants. There is
    /// always space for the last event.
    pub(crate) fn pause(&self) {
        if let Some(mut record) = self.record() {
            record.place.give_back();
        }
    }

    /// Waits for space for the events of a paused request again.
    ///
    /// # Errors
    /// There was no space before the deadline.
    pub(crate) async fn resume(&self, audit: Option<&Audit>, deadline: Deadline) -> Result<(), Status> {
        let Some(audit) = audit else { return Ok(()) };
        let Some(class) = self.record().map(|record| record.place.class()) else { return Ok(()) };
        let place = enter(audit, class, deadline).await?;
        if let (Some(mut record), Some(place)) = (self.record(), place) {
            record.place = place;
        }
        Ok(())
    }

    /// Logs a complete response.
    pub(crate) async fn complete(&self, audit: &Audit) {
        let Some(stage) = self.last_stage() else { return };
        self.write(audit, stage).await;
    }

    /// Returns false if the event is not written, in a mode that waits for it.
    async fn write(&self, audit: &Audit, stage: Stage) -> bool {
        if !audit.sink.is_blocking() {
            self.send(audit, stage);
            return true;
        }
        let Some(line) = self.line(stage) else { return true };
        audit.metrics.events.inc();
        let written = self.record().map(|mut record| audit.sink.write(&mut record.place, line));
        match written {
            // Failures are counted and logged by the sink.
            Some(written) => written.await.unwrap_or(false),
            None => true,
        }
    }

    fn send(&self, audit: &Audit, stage: Stage) {
        let Some(line) = self.line(stage) else { return };
        audit.metrics.events.inc();
        if let Some(mut record) = self.record() {
            audit.sink.send(&mut record.place, line);
        }
    }

    /// Ends the trail, in whatever way the request ended. No event is logged twice.
    pub(crate) fn end(&self, audit: &Audit) {
        let Some(stage) = self.last_stage() else { return };
        self.send(audit, stage);
    }

    /// Returns the stage of the last event, once.
    fn last_stage(&self) -> Option<Stage> {
        let mut record = self.record()?;
        if std::mem::replace(&mut record.is_complete, true) {
            return None;
        }
        if std::thread::panicking() {
            record.event.response_status = Some(ResponseStatus {
                status: "Failure".to_owned(),
                message: "the server failed while answering".to_owned(),
                reason: "InternalError".to_owned(),
                ..ResponseStatus::of_code(500)
            });
            return Some(Stage::Panic);
        }
        if record.is_stranger {
            return Some(Stage::ResponseStarted);
        }
        // The client has disconnected before there was a response.
        record.event.response_status.get_or_insert_with(|| ResponseStatus {
            status: "Success".to_owned(),
            message: "Connection closed early".to_owned(),
            ..ResponseStatus::of_code(200)
        });
        Some(Stage::ResponseComplete)
    }

    fn line(&self, stage: Stage) -> Option<Vec<u8>> {
        let mut record = self.record()?;
        if record.wanted.omitted.contains(stage) {
            return None;
        }
        record.event.stage = stage.name();
        record.event.stage_timestamp = match stage {
            Stage::RequestReceived => record.event.request_received_timestamp.clone(),
            _ => micro(SystemTime::now()),
        };
        if record.is_short {
            record.event.shorten();
        }
        let mut line = serde_json::to_vec(&record.event).ok()?;
        line.push(b'\n');
        Some(line)
    }
}

/// Returns what the policy wants of a request, if anything.
fn wanted(audit: &Audit, user: Option<&User>, info: &RequestInfo) -> Option<Wanted> {
    let wanted = audit.policy.wanted(user, info);
    audit.metrics.audited(wanted.level);
    (wanted.level != Level::None).then_some(wanted)
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Waits for space for the events of a request; none if it goes on without events.
///
/// # Errors
/// There was no space before the deadline.
async fn enter(audit: &Audit, class: Class, deadline: Deadline) -> Result<Option<Place>, Status> {
    audit.sink.enter(class, deadline).await.map_err(|Full| {
        audit.metrics.rejected.inc();
        Status::unavailable(
            "the audit log cannot be written as fast as requests come, and this request waited for it in vain: nothing \
             was changed, try again later",
        )
    })
}

/// Returns whether a response may be a `Status`: every failure, and some successes.
fn may_be_status(code: StatusCode, bytes: &[u8]) -> bool {
    !code.is_success() || memchr::memmem::find(bytes, br#""kind":"Status""#).is_some()
}

/// Describes the credentials of a caller that was not authenticated, without showing them.
fn attempted(head: &Parts, shows_certificate: bool) -> String {
    let scheme = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let scheme = scheme.trim().split_once(' ').map_or("", |(scheme, _)| scheme);
    let shown: Vec<&str> = [
        (scheme.eq_ignore_ascii_case("basic"), "basic"),
        (scheme.eq_ignore_ascii_case("bearer"), "bearer"),
        (shows_certificate, "x509"),
    ]
    .into_iter()
    .filter_map(|(is_shown, name)| is_shown.then_some(name))
    .collect();
    match shown.is_empty() {
        true => "Authentication failed, no credentials provided".to_owned(),
        false => format!("Authentication failed, attempted: {}", shown.join(", ")),
    }
}

fn micro(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or_default();
    Instant { seconds, nanoseconds: since.subsec_nanos() }.to_micro()
}

fn new_id() -> HeaderValue {
    let mut random = [0_u8; 16];
    // Without random numbers requests share an ID, which affects only readers of the log.
    let _ = getrandom::fill(&mut random);
    HeaderValue::from_str(&meta::uuid(random)).unwrap_or(HeaderValue::from_static("unknown"))
}
