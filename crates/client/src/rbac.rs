//! The RBAC of an API server, decided here: its ClusterRoles and ClusterRoleBindings are followed, so that a question
//! about something that lies in no namespace needs no call.
//!
//! It never decides by what may be old. Both kinds are listed anew at least twice within a limit, and what a list
//! says counts from when it was asked for: a watch that has died without a word, a server that is gone, and one that
//! answers but sends no news all end the same way. Then nothing is decided here, and whoever asks has to ask the API
//! server ([`crate::review`]). Between two lists changes come by the watch, at once.
//!
//! Roles and bindings are taken as they are: aggregated roles come with their rules, and `system:masters` is what its
//! binding says.
//!
//! A yes is what the API server's own RBAC says. Where that is not asked first or alone, an authorizer before it may
//! deny what is allowed here; a "no opinion" says nothing of authorizers beside it.

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
use crate::watched::{Event, Selection, Watched};

const CLUSTER_ROLES: Resource = Resource::new("rbac.authorization.k8s.io", "v1", "clusterroles");
const CLUSTER_ROLE_BINDINGS: Resource =
    Resource::new("rbac.authorization.k8s.io", "v1", "clusterrolebindings");

/// Of a kind that was never listed.
const NEVER: u64 = u64::MAX;
/// A list is asked for again when the last one is half as old as it may be, and looked after so often within the limit.
const LOOKS: u32 = 10;

/// How local decisions are made.
#[derive(Clone)]
pub struct Settings {
    /// How old what is decided by may be. As long as an answer of the API server may be kept (KA-68).
    pub limit: Duration,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { limit: Duration::from_secs(5 * 60), clock: Arc::new(SystemClock::new()) }
    }
}

/// Decides by the RBAC of an API server, as long as that is known. Clones are the same one; when the last is gone,
/// nothing is followed any more.
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
    /// What is there and cannot be read. It grants nothing here, and may grant something there.
    unreadable: HashSet<(Kind, String)>,
}

/// When the last complete list of a kind was asked for, by the clock that runs, in milliseconds.
struct Followed(AtomicU64);

impl std::fmt::Debug for LocalRbac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalRbac").field("age", &self.age()).finish_non_exhaustive()
    }
}

impl LocalRbac {
    /// Begins to follow the RBAC of the server of this connection. Must be called inside a runtime.
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
            let watched = Watched::new(connection, resource, Selection::default());
            following.spawn(Follower::new(Arc::clone(&shared), kind, watched).run());
        }
        Self { shared, _following: Arc::new(following) }
    }

    /// Decides one request for something that lies in no namespace. Nothing when that cannot be decided here: not both
    /// kinds were listed within the limit, the request is for something in a namespace, or nobody is known to allow it
    /// and there are roles or bindings that cannot be read.
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Option<Decision> {
        if attributes.resource.is_some_and(|resource| !resource.namespace.is_empty()) || !self.is_fresh() {
            return None;
        }
        let state = self.shared.read();
        let decision = state.index.authorize(attributes);
        (decision.is_allow() || state.unreadable.is_empty()).then_some(decision)
    }

    /// How old what is decided by may be; nothing before both kinds were seen.
    pub fn age(&self) -> Option<Duration> {
        let age = |followed: &Followed| followed.age(self.shared.settings.clock.running());
        Some(age(&self.shared.cluster_roles)?.max(age(&self.shared.cluster_role_bindings)?))
    }

    /// Whether requests are decided here now.
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
        // Rounded down: older than it is, never younger.
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

/// Follows one kind.
struct Follower {
    shared: Arc<Shared>,
    kind: Kind,
    watched: Watched<Value>,
    /// The names of those that are there.
    names: HashSet<String>,
    /// What the list that is under way has named, and since when it is.
    listing: Option<(Duration, HashSet<String>)>,
    /// When it was last begun anew.
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
            // What hangs is given up as well.
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
            // A list is asked for after it was said to begin: it is not older than this.
            Event::Restarted => {
                self.listing = Some((self.shared.settings.clock.running(), HashSet::new()));
            }
            Event::Listed(object) | Event::Applied(object) => self.apply(&object),
            Event::Deleted(object) => self.forget(name_of(&object)),
            Event::Unreadable { name, why, .. } => self.unreadable(&name, &why),
            Event::Synced => self.listed(),
            Event::Failed { why, retry_in } => {
                tracing::warn!(kind = self.kind.as_str(), why, ?retry_in, "cannot follow; will try again");
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

    /// What cannot be read grants nothing, whatever it was before.
    fn unreadable(&mut self, name: &str, why: &str) {
        tracing::warn!(
            kind = self.kind.as_str(),
            name,
            why,
            "an object cannot be read and grants nothing here"
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

    /// The list is complete: what it does not name is no more.
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

fn name_of(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}
