//! Tunnels to the kubelet and answers that take long: how many tunnels a caller may have, and when the guard ends one.
//!
//! DIVERGES: a kubelet authorizes exec, attach, port-forward and a followed log once. Here they are authenticated and
//! authorized again while they are open, so that they end with the right to them.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::header::{AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use policy::User;
use policy::kubelet_api::KubeletRequest;
use portcullis_apimachinery::target::Target;
use tokio::time::sleep;

use super::access_log::Record;
use super::authorization::Refused;
use super::parts::Guard;
use crate::authn::Peer;
use crate::http::budget::Charge;
use crate::http::listener::{Busy, Carried, Connection, End};

/// How often a right is checked.
const RECHECK: Duration = Duration::from_secs(10);
/// How long a tunnel or an answer goes on while its right cannot be checked: as long as an answer may be cached (KA-68).
const UNCHECKED: Duration = Duration::from_secs(5 * 60);
/// The headers by which a caller is authenticated.
const CREDENTIALS: [HeaderName; 4] = [AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, CONNECTION, UPGRADE];

/// The result of checking a right.
enum Right {
    Held,
    Ended,
    /// It cannot be decided now.
    Unknown,
}

/// What a tunnel or an answer needs to be authenticated and authorized again.
pub(super) struct OpenRight {
    guard: Arc<Guard>,
    connection: Arc<Connection<Peer>>,
    credentials: HeaderMap,
    method: Box<str>,
    path_and_query: Box<str>,
    user: Arc<User>,
}

impl OpenRight {
    /// Remembers what is needed of a request that was authorized for this user.
    pub(super) fn of(
        guard: &Arc<Guard>,
        connection: &Arc<Connection<Peer>>,
        head: &Parts,
        user: &Arc<User>,
    ) -> Self {
        let mut credentials = HeaderMap::new();
        for name in CREDENTIALS {
            for value in head.headers.get_all(&name) {
                // A copy: the value would keep the buffer of the connection alive.
                if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                    credentials.append(name.clone(), value);
                }
            }
        }
        Self {
            guard: Arc::clone(guard),
            connection: Arc::clone(connection),
            credentials,
            method: head.method.as_str().into(),
            path_and_query: head.uri.path_and_query().map_or("", |target| target.as_str()).into(),
            user: Arc::clone(user),
        }
    }

    /// Waits until the right has ended.
    pub(super) async fn ended(self) {
        let mut checked = Instant::now();
        loop {
            let expires = self.connection.peer.expires_in(SystemTime::now()).filter(|left| !left.is_zero());
            sleep(expires.map_or(RECHECK, |left| left.min(RECHECK))).await;
            match self.check().await {
                Right::Held => checked = Instant::now(),
                Right::Ended => break,
                Right::Unknown if checked.elapsed() >= UNCHECKED => break,
                Right::Unknown => {}
            }
        }
        tracing::info!(
            user = self.user.name,
            path = self.path_and_query.split('?').next().unwrap_or_default(),
            "a connection is closed because the right to it has ended"
        );
    }

    async fn check(&self) -> Right {
        let parts = &self.guard.parts;
        let account = self.connection.place.charged();
        let authenticating = parts.authentication.authenticate(
            &self.connection.peer,
            &self.credentials,
            account,
            SystemTime::now(),
        );
        let caller = match authenticating.await {
            Ok(caller) => caller,
            Err(cause) if cause.is_undecided() => return Right::Unknown,
            Err(_) => return Right::Ended,
        };
        let user = caller.user();
        let Some(target) =
            Target::from_wire(&self.path_and_query).ok().filter(|_| user.name == self.user.name)
        else {
            return Right::Ended;
        };
        let request = KubeletRequest::new(&self.method, target, &parts.settings);
        match parts.authorization.authorize(&request, user, &parts.node_name).await {
            Ok(_) => Right::Held,
            Err(Refused::Forbidden(_)) => Right::Ended,
            Err(Refused::Failed(..)) => Right::Unknown,
        }
    }
}

/// An open tunnel, which is counted until this is dropped.
pub(super) struct OpenTunnel {
    guard: Arc<Guard>,
    record: Record,
    opened: Instant,
    _busy: Busy<Peer>,
    _place: Charge,
}

impl OpenTunnel {
    /// Counts a tunnel, which has this place among those of its account.
    pub(super) fn new(guard: &Arc<Guard>, record: Record, busy: Busy<Peer>, place: Charge) -> Self {
        guard.parts.metrics.streams.inc();
        Self { guard: Arc::clone(guard), record, opened: Instant::now(), _busy: busy, _place: place }
    }

    /// Records the end of the tunnel.
    pub(super) fn end(mut self, carried: Carried) {
        let reason = match carried.end {
            End::Closed | End::Broken => None,
            End::Idle => Some(("idle", "nothing was sent for --streaming-connection-idle-timeout")),
            End::Revoked => Some(("right-ended", "the right to it has ended")),
        };
        if let Some((label, why)) = reason {
            self.guard.parts.metrics.closed_stream(label);
            self.record.failed(why);
        }
        if let Some(log) = &self.guard.parts.access_log {
            log.closed(&self.record, (carried.sent, carried.received), self.opened.elapsed());
        }
    }
}

impl Drop for OpenTunnel {
    fn drop(&mut self) {
        self.guard.parts.metrics.streams.dec();
    }
}
