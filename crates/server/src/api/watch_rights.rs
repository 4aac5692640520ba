//! Ends a watch when its caller loses the right to it: when the credentials are no longer valid, or the authorizers no
//! longer allow the watch (NB-20).
//!
//! DIVERGES: kube-apiserver authorizes a watch once. It goes on after the caller was deleted, or, for a node, after the
//! pod has left for which the node may read a secret.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue};
use policy::User;
use policy::request_info::RequestInfo;
use tokio::sync::watch;
use tokio::time::sleep;

use super::app::App;
use crate::authn::{Caller, Peer};
use crate::http::listener::Connection;
use crate::registry::right_changes::Interest;

/// How often tokens are checked that no change makes invalid: they expire.
const TOKENS: Duration = Duration::from_secs(30);
/// How often certificates are checked at least.
const CERTIFICATES: Duration = Duration::from_secs(3600);

/// What a watch needs to be authenticated and authorized again.
pub(super) struct WatchRights {
    app: Arc<App>,
    connection: Arc<Connection<Peer>>,
    /// The headers with credentials.
    credentials: HeaderMap,
    info: RequestInfo,
    /// Who watches: the authenticated user, or the user whom it impersonates.
    user: Arc<User>,
    is_impersonated: bool,
    interest: Interest,
    trust: [watch::Receiver<()>; 2],
}

impl WatchRights {
    /// Remembers what is needed of a request that was authorized for this caller.
    pub(super) fn of(
        app: &Arc<App>,
        connection: &Arc<Connection<Peer>>,
        headers: &HeaderMap,
        info: &RequestInfo,
        caller: &Caller,
    ) -> Self {
        let mut credentials = HeaderMap::new();
        for (name, value) in headers.iter().filter(|(name, _)| app.authentication.reads_header(name)) {
            // A copy: the value would keep the buffer of the connection alive.
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                credentials.append(name.clone(), value);
            }
        }
        Self {
            app: Arc::clone(app),
            connection: Arc::clone(connection),
            credentials,
            info: info.clone(),
            user: Arc::clone(caller.user()),
            is_impersonated: caller.user() != caller.original(),
            interest: app.right_changes.interest(caller.original(), info.namespace()),
            trust: app.authentication.trust_changes(),
        }
    }

    /// Waits until the right has ended.
    pub(super) async fn ended(mut self) {
        // A change before the interest was registered would not be noticed.
        while self.is_held().await {
            let [clients, bootstrappers] = &mut self.trust;
            let wait = match self.credentials.is_empty() {
                true => self.connection.peer.expires_in(SystemTime::now()).unwrap_or(CERTIFICATES),
                false => TOKENS,
            };
            tokio::select! {
                () = self.interest.changed() => {}
                _ = clients.changed() => {}
                _ = bootstrappers.changed() => {}
                () = sleep(wait.min(CERTIFICATES)) => {}
            }
        }
        tracing::info!(
            user = self.user.name,
            path = self.info.path(),
            "a watch ends because the right to it has ended"
        );
    }

    async fn is_held(&self) -> bool {
        let (peer, path) = (&self.connection.peer, self.info.path());
        let again = self.app.authentication.identify(peer, &self.credentials, path, SystemTime::now()).await;
        let Ok(caller) = again else { return false };
        let user = if self.is_impersonated { &self.user } else { caller.user() };
        user.name == self.user.name
            && self.app.authorization.ask(&self.info.attributes(user)).await.is_allow()
    }
}
