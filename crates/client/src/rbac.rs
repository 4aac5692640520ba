//! Local RBAC: watches the ClusterRoles and ClusterRoleBindings of an API server, so that cluster-scoped requests can
//! be authorized without a call.
//!
//! It never decides from outdated data. Both kinds are listed again at least twice within a limit, and the age of a
//! list counts from when it was requested, so a dead watch, an unreachable server, and a server that sends no events
//! are all detected. Nothing is decided locally then, and callers must ask the API server ([`crate::review`]). Between
//! lists, changes arrive by the watch at once.
//!
//! Roles and bindings are used as stored: aggregated roles contain their rules, and `system:masters` depends on its
//! binding.
//!
//! A request is allowed if the API server's own RBAC would allow it. If the API server has another authorizer before
//! RBAC, that one may deny what is allowed here; "no opinion" says nothing about other authorizers.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use portcullis_policy::objects::{Kind, Object};
use portcullis_policy::rbac::RbacIndex;
use portcullis_policy::{Attributes, Authorizer, Decision};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::call::{Resource, without_content};
use crate::clock::{Clock, SystemClock};
use crate::connect::Connection;
use crate::watched::{Event, Watched};

const CLUSTER_ROLES: Resource = Resource::new("rbac.authorization.k8s.io", "v1", "clusterroles");
const CLUSTER_ROLE_BINDINGS: Resource =
    Resource::new("rbac.authorization.k8s.io", "v1", "clusterrolebindings");

/// A kind that was never listed.
const NEVER: u64 = u64::MAX;
/// A list is requested again when the last one has half of the maximum age; the age is checked this many times within
/// the limit.
const LOOKS: u32 = 10;

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
#[derive(Clone)]
pub struct LocalRbac {
    shared: Arc<Shared>,
    _following: Arc<JoinSet<()>>,
}

struct Shared {
    settings: Settings,
    state: RwLock<State>,
    cluster_roles: Followed,
    cluster_role_bindings: Followed,
}

#[derive(Default)]
struct State {
    index: RbacIndex,
    /// Objects that cannot be decoded. They grant nothing here, and may grant something on the API server.
    unreadable: HashSet<(Kind, String)>,
}

/// When the last complete list of a kind was requested, by the monotonic clock, in milliseconds.
struct Followed(AtomicU64);

impl std::fmt::Debug for LocalRbac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalRbac").field("age", &self.age()).finish_non_exhaustive()
    }
}

impl LocalRbac {
    /// Starts watching the RBAC objects of the server of this connection. Must be called inside a runtime.
    pub fn follow(connection: &Connection, settings: Settings) -> Self {
        let shared = Arc::new(Shared {
            settings,
            state: RwLock::default(),
            cluster_roles: Followed(AtomicU64::new(NEVER)),
            cluster_role_bindings: Followed(AtomicU64::new(NEVER)),
        });
        let mut following = JoinSet::new();
        for (kind, resource) in
            [(Kind::ClusterRole, CLUSTER_ROLES), (Kind::ClusterRoleBinding, CLUSTER_ROLE_BINDINGS)]
        {
            let watched = Watched::new(connection, resource, None);
            following.spawn(Follower::new(Arc::clone(&shared), kind, watched).run());
        }
        Self { shared, _following: Arc::new(following) }
    }

    /// Authorizes one cluster-scoped request. Returns none if that cannot be decided locally: the two kinds were not
    /// both listed within the limit, the request is for something in a namespace, or no known binding allows it while
    /// some roles or bindings cannot be decoded.
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Option<Decision> {
        if attributes.resource.is_some_and(|resource| !resource.namespace.is_empty()) || !self.is_fresh() {
            return None;
        }
        let state = self.shared.read();
        let decision = state.index.authorize(attributes);
        (decision.is_allow() || state.unreadable.is_empty()).then_some(decision)
    }

    /// Returns the age of the data; none before both kinds were listed.
    pub fn age(&self) -> Option<Duration> {
        let age = |followed: &Followed| followed.age(self.shared.settings.clock.running());
        Some(age(&self.shared.cluster_roles)?.max(age(&self.shared.cluster_role_bindings)?))
    }

    /// Returns whether requests are decided locally now.
    pub fn is_fresh(&self) -> bool {
        self.age().is_some_and(|age| age <= self.shared.settings.limit)
    }
}

impl Followed {
    fn age(&self, now: Duration) -> Option<Duration> {
        let listed = self.0.load(Ordering::Acquire);
        (listed != NEVER).then(|| now.saturating_sub(Duration::from_millis(listed)))
    }

    fn listed(&self, at: Duration) {
        // Rounded down, so that the data never seems newer than it is.
        self.0.store(u64::try_from(at.as_millis()).unwrap_or(0), Ordering::Release);
    }
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget(&mut self, kind: Kind, name: &str) {
        self.unreadable.remove(&(kind, name.to_owned()));
        match kind {
            Kind::ClusterRole => self.index.delete_cluster_role(name),
            _ => self.index.delete_cluster_role_binding(name),
        }
    }
}

/// Watches one kind.
struct Follower {
    shared: Arc<Shared>,
    kind: Kind,
    watched: Watched<Value>,
    /// The names of the existing objects.
    names: HashSet<String>,
    /// The names in the current, incomplete list, and when it was requested.
    listing: Option<(Duration, HashSet<String>)>,
    /// When the watch was last restarted.
    begun: Duration,
}

impl Follower {
    fn new(shared: Arc<Shared>, kind: Kind, watched: Watched<Value>) -> Self {
        let begun = shared.settings.clock.running();
        Self { shared, kind, watched, names: HashSet::new(), listing: None, begun }
    }

    async fn run(mut self) {
        let settings = self.shared.settings.clone();
        loop {
            let mut look = settings.clock.sleep(settings.limit / LOOKS);
            loop {
                tokio::select! {
                    event = self.watched.next() => self.take(event),
                    () = &mut look => break,
                }
            }
            // A watch that hangs is restarted as well.
            let now = settings.clock.running();
            if now.saturating_sub(self.begun) >= settings.limit / 2 {
                self.begun = now;
                self.listing = None;
                self.watched.restart();
            }
        }
    }

    fn take(&mut self, event: Event<Value>) {
        match event {
            // A list is requested after this event, so it is not older.
            Event::Restarted => {
                self.listing = Some((self.shared.settings.clock.running(), HashSet::new()));
            }
            Event::Listed(object) | Event::Applied(object) => self.apply(&object),
            Event::Deleted(object) => self.forget(name_of(&object)),
            Event::Unreadable { name, why, .. } => self.unreadable(&name, &why),
            Event::Synced => self.listed(),
            Event::Current | Event::Resumed => {}
            Event::Failed { why, retry_in, .. } => {
                tracing::warn!(
                    kind = self.kind.as_str(),
                    why,
                    ?retry_in,
                    "the watch failed; will retry; check that the API server is reachable and grants list and watch"
                );
            }
        }
    }

    fn apply(&mut self, object: &Value) {
        let name = name_of(object).to_owned();
        match Object::parse(self.kind, &object.to_string()) {
            Ok(object) => {
                let mut state = self.shared.write();
                state.unreadable.remove(&(self.kind, name.clone()));
                state.index.apply(object);
            }
            Err(error) => return self.unreadable(&name, &without_content(&error)),
        }
        self.name(name);
    }

    /// An object that cannot be decoded grants nothing, whatever it granted before.
    fn unreadable(&mut self, name: &str, why: &str) {
        tracing::warn!(
            kind = self.kind.as_str(),
            name,
            why,
            "an object cannot be decoded and grants nothing"
        );
        {
            let mut state = self.shared.write();
            state.forget(self.kind, name);
            state.unreadable.insert((self.kind, name.to_owned()));
        }
        self.name(name.to_owned());
    }

    fn name(&mut self, name: String) {
        if let Some((_, names)) = &mut self.listing {
            names.insert(name.clone());
        }
        self.names.insert(name);
    }

    fn forget(&mut self, name: &str) {
        self.names.remove(name);
        self.shared.write().forget(self.kind, name);
    }

    /// The list is complete: objects that it does not contain are gone.
    fn listed(&mut self) {
        let Some((since, names)) = self.listing.take() else { return };
        let gone: Vec<String> = self.names.difference(&names).cloned().collect();
        gone.iter().for_each(|name| self.forget(name));
        self.begun = since;
        match self.kind {
            Kind::ClusterRole => self.shared.cluster_roles.listed(since),
            _ => self.shared.cluster_role_bindings.listed(since),
        }
    }
}

/// Returns the name in the metadata of an object.
pub(crate) fn name_of(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}
