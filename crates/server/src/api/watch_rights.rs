//! Ends a watch, or a connection to a kubelet, when its caller loses the right to it: when the credentials are no longer valid,
//! or the authorizers no longer allow it (NB-20). Bounds the number of watches of one caller.
//!
//! DIVERGES: kube-apiserver authorizes a watch, a log or an exec session once. It goes on after the caller was deleted, or, for a
//! node, after the pod has left for which the node may read a secret.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};
use policy::chain::MASTERS_GROUP;
use policy::request_info::RequestInfo;
use policy::{Attributes, User};
use tokio::sync::watch;
use tokio::time::sleep;

use super::app::App;
use crate::authn::impersonation::{Wanted, impersonate};
use crate::authn::{Caller, Peer};
use crate::http::account::{Account, is_machine};
use crate::http::budget::Charge;
use crate::http::listener::Connection;
use crate::http::status::Status;
use crate::registry::right_changes::Interest;

/// How often tokens are checked that no change makes invalid: they expire.
const TOKENS: Duration = Duration::from_secs(30);
/// How often certificates are checked at least.
const CERTIFICATES: Duration = Duration::from_secs(3600);

/// A watch of a node or of a pod counts as so many, because it is the account of one machine or process.
const OF_MACHINE: usize = 5;

/// Everything that is needed to authenticate and authorize a watch again.
pub(super) struct WatchRights {
    app: Arc<App>,
    connection: Arc<Connection<Peer>>,
    /// The headers with credentials.
    credentials: HeaderMap,
    info: RequestInfo,
    /// The user who watches: the authenticated user, or the user whom it impersonates.
    user: Arc<User>,
    /// The user that the headers ask to impersonate.
    wanted: Option<Wanted>,
    /// The interest of the user who watches.
    interest: Interest,
    /// The interest of the authenticated user, if that is another one.
    interest_of_original: Option<Interest>,
    trust: [watch::Receiver<()>; 2],
    /// Whether the watch shows what this very user may get, and looks after that itself.
    is_partial: bool,
    /// Another verb that the user must have the right to, if any.
    also: Option<&'static str>,
    /// Counts the watch.
    charge: Charge,
}

impl WatchRights {
    /// Remembers what is needed of a request that was authorized for this caller.
    pub(super) fn of(
        app: &Arc<App>,
        connection: &Arc<Connection<Peer>>,
        headers: &HeaderMap,
        info: &RequestInfo,
        caller: &Caller,
        wanted: Option<Wanted>,
        account: Account,
    ) -> Self {
        let mut credentials = HeaderMap::new();
        // The token of a WebSocket is one only beside these two (AN-53).
        let is_websocket = headers.contains_key(SEC_WEBSOCKET_PROTOCOL);
        let is_read = |name: &HeaderName| {
            app.authentication.reads_header(name) || is_websocket && [CONNECTION, UPGRADE].contains(name)
        };
        for (name, value) in headers.iter().filter(|(name, _)| is_read(name)) {
            // A copy: the value would keep the buffer of the connection alive.
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                credentials.append(name.clone(), value);
            }
        }
        let interest = |user: &User| app.right_changes.interest(user, info.namespace());
        let (user, original) = (caller.user(), caller.original());
        Self {
            app: Arc::clone(app),
            connection: Arc::clone(connection),
            credentials,
            info: info.clone(),
            user: Arc::clone(user),
            interest: interest(user),
            interest_of_original: (!Arc::ptr_eq(user, original)).then(|| interest(original)),
            wanted,
            trust: app.authentication.trust_changes(),
            is_partial: false,
            also: None,
            charge: app.watches.nothing(account),
        }
    }

    /// The watch shows only what the caller may get (BC-40). It ends when the caller becomes another, or must not even read that.
    pub(super) fn are_partial(&mut self) {
        self.is_partial = true;
    }

    /// The user must have the right to this verb as well.
    pub(super) fn need_also(&mut self, verb: &'static str) {
        self.also = Some(verb);
    }

    /// Counts the watch until this is dropped.
    ///
    /// DIVERGES: kube-apiserver opens any number of watches.
    ///
    /// # Errors
    /// 429 if the authenticated user has too many watches. An administrator can always watch.
    pub(super) fn count(&mut self, original: &User) -> Result<(), Status> {
        if original.in_group(MASTERS_GROUP) {
            return Ok(());
        }
        let weight = if is_machine(original) { OF_MACHINE } else { 1 };
        match self.charge.grow(weight) {
            true => Ok(()),
            false => Err(Status::too_many_requests(format!(
                "too many watches: {} may have {} open at a time",
                original.name,
                self.app.limits.watches / weight
            ))),
        }
    }

    /// Waits until the right has ended.
    ///
    /// On the heap is what is needed only while rights are checked, and what an argument would occupy twice: a watch may last for
    /// hours, and there may be many.
    pub(super) async fn ended(mut self: Box<Self>) {
        // A change before the interest was registered would not be noticed.
        while Box::pin(self.is_held()).await {
            let [clients, bootstrappers] = &mut self.trust;
            let wait = match self.credentials.is_empty() {
                true => self.connection.peer.expires_in(SystemTime::now()).unwrap_or(CERTIFICATES),
                false => TOKENS,
            };
            tokio::select! {
                () = self.interest.changed() => {}
                () = changed(self.interest_of_original.as_ref()) => {}
                _ = clients.changed() => {}
                _ = bootstrappers.changed() => {}
                () = sleep(wait.min(CERTIFICATES)) => {}
            }
        }
        tracing::info!(
            user = self.user.name,
            path = self.info.path(),
            verb = self.info.verb(),
            "a watch or a connection ends because the right to it has ended"
        );
    }

    async fn is_held(&self) -> bool {
        let (from, path) = ((&self.connection.peer, self.connection.remote), self.info.path());
        let again = self.app.authentication.identify(from, &self.credentials, path, SystemTime::now()).await;
        let Ok(caller) = again else { return false };
        let Some(user) = self.acting_as(&caller).await else { return false };
        if self.is_partial {
            return *user == *self.user && self.app.authorization.is_part_allowed(&user, &self.info).await;
        }
        let attributes = self.info.attributes(&user);
        if user.name != self.user.name || !self.app.authorization.ask(&attributes).await.is_allow() {
            return false;
        }
        let Some(verb) = self.also else { return true };
        self.app.authorization.ask(&Attributes { verb, ..attributes }).await.is_allow()
    }

    /// The user as whom the caller may act; none if it may no longer impersonate.
    async fn acting_as(&self, caller: &Caller) -> Option<Arc<User>> {
        let Some(wanted) = self.wanted.clone() else { return Some(Arc::clone(caller.user())) };
        let app = &self.app;
        let counts = (&app.impersonators, &app.metrics.impersonation);
        let other = impersonate(&*app.authorization, counts, caller.user(), wanted, &self.info).await;
        other.ok().map(|other| Arc::clone(other.user()))
    }
}

/// Waits until rights of an interest may have changed; forever without one.
async fn changed(interest: Option<&Interest>) {
    match interest {
        Some(interest) => interest.changed().await,
        None => std::future::pending().await,
    }
}
