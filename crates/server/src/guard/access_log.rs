//! The access log: who asked for what, and the outcome, one JSON object a line.
//!
//! It never contains tokens, queries or bodies. Values that a caller chooses are truncated.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::request::Parts;
use policy::User;
use policy::kubelet_api::Endpoint;
use portcullis_apimachinery::time::Instant;
use serde::Serialize;

use super::authorization::{Granted, Missing};
use super::metrics::Outcome;
use crate::audit::{Class, Sink};
use crate::authn::is_anonymous;

/// The maximum length of a logged value from a caller. In bytes.
const LONGEST: usize = 1024;
/// The maximum number of logged groups.
const GROUPS: usize = 64;

/// The facts about a request that are known so far.
#[derive(Clone)]
pub(super) struct Record {
    method: Box<str>,
    path: Box<str>,
    remote: Option<IpAddr>,
    pub(super) user: Option<Arc<User>>,
    pub(super) endpoint: Option<&'static Endpoint>,
    verb: &'static str,
    subresource: &'static str,
    tried: &'static [&'static str],
    by: &'static str,
    error: Option<Box<str>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    time: &'a str,
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote: Option<IpAddr>,
    user: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    groups: &'a [String],
    method: &'a str,
    path: &'a str,
    /// The pattern of the endpoint.
    endpoint: &'a str,
    decision: &'a str,
    /// The number of the deciding rule of the specification.
    rule: &'a str,
    /// The verb on `nodes` that was allowed or refused.
    verb: &'a str,
    subresource: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tried: &'a [&'a str],
    /// The authorizer that allowed it.
    #[serde(skip_serializing_if = "str::is_empty")]
    by: &'a str,
    code: u16,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    received_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST)).unwrap_or(text)
}

impl Record {
    pub(super) fn begin(head: &Parts, remote: Option<IpAddr>) -> Self {
        Self {
            method: cut(head.method.as_str()).into(),
            path: cut(head.uri.path()).into(),
            remote,
            user: None,
            endpoint: None,
            verb: "",
            subresource: "",
            tried: &[],
            by: "",
            error: None,
        }
    }

    pub(super) fn granted(&mut self, granted: &Granted) {
        (self.verb, self.subresource, self.by) = (granted.verb, granted.subresource, granted.by);
    }

    pub(super) fn refused(&mut self, missing: &Missing) {
        (self.verb, self.tried) = (missing.verb, missing.tried);
    }

    pub(super) fn failed(&mut self, why: &str) {
        self.error = Some(cut(why).into());
    }

    fn line(
        &self,
        event: &'static str,
        (outcome, status): (Outcome, StatusCode),
        bytes: Option<(u64, u64)>,
        time: Duration,
    ) -> Option<Vec<u8>> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let stamp = Instant::of_seconds(i64::try_from(now.as_secs()).unwrap_or_default()).to_string();
        let stamp = format!("{}.{:06}Z", stamp.trim_end_matches('Z'), now.subsec_micros());
        let user = self.user.as_deref();
        let groups = user.map_or(&[][..], |user| user.groups.get(..GROUPS).unwrap_or(&user.groups));
        let line = Line {
            time: &stamp,
            event,
            remote: self.remote,
            user: user.map_or("", |user| cut(&user.name)),
            groups,
            method: &self.method,
            path: &self.path,
            endpoint: self.endpoint.map_or("", |endpoint| endpoint.path),
            decision: outcome.name(),
            rule: outcome.rule(),
            verb: self.verb,
            subresource: self.subresource,
            tried: self.tried,
            by: self.by,
            code: status.as_u16(),
            seconds: time.as_secs_f64(),
            sent_bytes: bytes.map(|(sent, _)| sent),
            received_bytes: bytes.map(|(_, received)| received),
            error: self.error.as_deref(),
        };
        let mut bytes = serde_json::to_vec(&line).ok()?;
        bytes.push(b'\n');
        Some(bytes)
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("user", &self.user.as_ref().map(|user| &user.name))
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}

/// The access log. Lines are dropped and counted when they arrive faster than they can be written, because a slow disk
/// must not cut nodes off. Lines of strangers are dropped first.
pub struct AccessLog {
    sink: Sink,
}

impl AccessLog {
    /// Creates a log that writes to a sink.
    pub fn new(sink: Sink) -> Self {
        Self { sink }
    }

    /// Logs that the response headers were sent.
    pub(super) fn answered(&self, record: &Record, outcome: Outcome, status: StatusCode, time: Duration) {
        self.write(record, record.line("answered", (outcome, status), None, time));
    }

    /// Logs the end of a tunnel, after this many bytes to and from the kubelet.
    pub(super) fn closed(&self, record: &Record, bytes: (u64, u64), time: Duration) {
        let agreed = (Outcome::Allowed, StatusCode::SWITCHING_PROTOCOLS);
        self.write(record, record.line("closed", agreed, Some(bytes), time));
    }

    fn write(&self, record: &Record, line: Option<Vec<u8>>) {
        let class = Class::of(record.user.as_deref().is_none_or(is_anonymous), false);
        // The sink counts and reports dropped lines.
        if let Some(line) = line
            && let Some(mut place) = self.sink.try_enter(class)
        {
            self.sink.send(&mut place, line);
        }
    }
}
