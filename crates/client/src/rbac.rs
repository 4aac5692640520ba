//! Local RBAC: follows the ClusterRoles and ClusterRoleBindings of an API server, so that cluster-scoped requests can
//! be authorized without a call.
//!
//! It never decides from outdated data: when nothing was heard of a kind for longer than a limit, nothing is decided locally,
//! and callers must ask the API server ([`crate::review`]). [`crate::feed`] says what counts as heard.
//!
//! Roles and bindings are used as stored: aggregated roles contain their rules, and `system:masters` depends on its
//! binding.
//!
//! A request is allowed if the API server's own RBAC would allow it. If the API server has another authorizer before
//! RBAC, that one may deny what is allowed here; "no opinion" says nothing about other authorizers.

use std::sync::Arc;
use std::time::Duration;

use portcullis_policy::chain::Mode;
use portcullis_policy::engine::{EngineConfig, EngineError, LiveEngine};
use portcullis_policy::objects::Kind;
use portcullis_policy::{Attributes, Authorizer as _, Decision};

use crate::clock::{Clock, SystemClock};
use crate::connect::Connection;
use crate::feed::Feed;

/// The kinds that decide cluster-scoped requests.
const KINDS: [Kind; 2] = [Kind::ClusterRole, Kind::ClusterRoleBinding];

/// The settings of local decisions.
#[derive(Clone)]
pub struct Settings {
    /// The maximum age of the data for decisions. As long as a response of the API server may be cached (KA-68).
    pub limit: Duration,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { limit: Duration::from_secs(5 * 60), clock: Arc::new(SystemClock::new()) }
    }
}

/// Authorizes requests by the RBAC objects of an API server, as long as they are up to date. Clones share the state;
/// when the last one is dropped, the watches end.
#[derive(Clone, Debug)]
pub struct LocalRbac {
    engine: Arc<LiveEngine>,
    feed: Feed,
    limit: Duration,
}

impl LocalRbac {
    /// Starts following the RBAC objects of the server of this connection. Must be called inside a runtime.
    ///
    /// # Errors
    /// See [`LiveEngine::new`].
    pub fn follow(connection: &Connection, settings: Settings) -> Result<Self, EngineError> {
        let config = EngineConfig { modes: vec![Mode::Rbac], ..EngineConfig::default() };
        let engine = Arc::new(LiveEngine::new(&config)?);
        let Settings { limit, clock } = settings;
        // A quiet kind is heard of in time.
        let feed = Feed::follow(connection, &KINDS, Arc::clone(&engine), clock, limit / 3);
        Ok(Self { engine, feed, limit })
    }

    /// Authorizes one cluster-scoped request. Returns none if that cannot be decided locally: nothing was heard of one of the
    /// two kinds within the limit, the request is for something in a namespace, or no known binding allows it while
    /// some roles or bindings cannot be decoded.
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Option<Decision> {
        if attributes.resource.is_some_and(|resource| !resource.namespace.is_empty()) || !self.is_fresh() {
            return None;
        }
        // What cannot be decoded grants nothing here, and may grant something on the API server.
        let is_whole = || self.feed.standings().all(|known| known.unusable == 0);
        let was_whole = is_whole();
        let decision = self.engine.index().authorize(attributes);
        (decision.is_allow() || (was_whole && is_whole())).then_some(decision)
    }

    /// Returns the age of the data; none before both kinds were listed.
    pub fn age(&self) -> Option<Duration> {
        self.feed
            .standings()
            .map(|known| known.age)
            .try_fold(Duration::ZERO, |oldest, age| Some(oldest.max(age?)))
    }

    /// Ends the watches, whoever has a clone: see [`Feed::stop`].
    pub fn stop(&self) {
        self.feed.stop();
    }

    /// Returns whether requests are decided locally now.
    pub fn is_fresh(&self) -> bool {
        self.feed.is_current(&KINDS, self.limit)
    }
}
