//! Tells open watches that a right may have ended on which they depend: a pod has left a node, a binding was removed, an
//! account was deleted.
//!
//! It decides nothing. Whoever is told authenticates and authorizes again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kinds::Kinds;
use kinds::resource::Resource;
use kinds::resources::core::service_accounts::SERVICE_ACCOUNTS;
use kinds::resources::pods::PODS;
use policy::User;
use policy::deny::NodeScope;
use policy::identity::{ACCOUNT_PREFIX, NodeIdentity, bound_node};
use portcullis_store::{Entry, Event, Observer};
use tokio::sync::Notify;

use super::storage;
use crate::http::account::{POD_NAME, POD_UID};

/// The prefix of the keys of roles and bindings.
const RBAC: &str = "/rbac.authorization.k8s.io/";
/// The prefixes of the keys of objects through which a pod refers to others.
const LINKS: [&str; 6] = [
    "/core/persistentvolumes/",
    "/core/persistentvolumeclaims/",
    "/storage.k8s.io/volumeattachments/",
    "/resource.k8s.io/resourceclaims/",
    "/resource.k8s.io/resourceslices/",
    "/certificates.k8s.io/podcertificaterequests/",
];
/// The prefix of the names of users of bootstrap tokens.
const BOOTSTRAP: &str = "system:bootstrap:";

/// What a right depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// The pods of a node.
    PodsOfNode(Box<str>),
    /// The objects through which pods refer to others.
    Links,
    /// Roles and bindings of a namespace; of the cluster if it is empty.
    Rbac(Box<str>),
    /// The labels of a namespace.
    Namespace(Box<str>),
    /// The object of this key.
    Object(Box<str>),
    /// The secrets of a namespace.
    Secrets(Box<str>),
}

type PartOf = Box<dyn Fn(&Entry) -> Option<Box<str>> + Send + Sync>;

/// See the module documentation.
pub(crate) struct RightChanges {
    waiting: Mutex<HashMap<Source, HashMap<u64, Arc<Notify>>>>,
    next: AtomicU64,
    /// The node of a pod.
    part: PartOf,
    /// The accounts whose rights depend on their node.
    scope: Option<Arc<NodeScope>>,
}

/// The interest of one watch in its rights, until this is dropped.
pub(crate) struct Interest {
    changes: Arc<RightChanges>,
    number: u64,
    sources: Vec<Source>,
    changed: Arc<Notify>,
}

impl RightChanges {
    /// Follows the objects of these kinds.
    pub(crate) fn new(kinds: &Kinds, scope: Option<Arc<NodeScope>>) -> Arc<Self> {
        let part = Box::new(storage::parts(kinds));
        Arc::new(Self { waiting: Mutex::default(), next: AtomicU64::new(0), part, scope })
    }

    /// Tells all watches: what is denied has changed.
    pub(crate) fn rules_changed(&self) {
        // Every watch depends on this.
        if let Some(watches) = self.waiting().get(&Source::Rbac(Box::default())) {
            watches.values().for_each(|watch| watch.notify_one());
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Source, HashMap<u64, Arc<Notify>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the interest of a user who watches objects of this namespace, or of all if it is empty.
    pub(crate) fn interest(self: &Arc<Self>, user: &User, namespace: &str) -> Interest {
        let interest = Interest {
            changes: Arc::clone(self),
            number: self.next.fetch_add(1, Ordering::Relaxed),
            sources: sources(user, namespace, self.scope.as_deref()),
            changed: Arc::default(),
        };
        let mut waiting = self.waiting();
        for source in &interest.sources {
            let changed = Arc::clone(&interest.changed);
            waiting.entry(source.clone()).or_default().insert(interest.number, changed);
        }
        drop(waiting);
        interest
    }

    /// What may have ended with a change.
    fn ended(&self, event: &Event) -> Option<Source> {
        let key = event.key();
        let is_gone = event.entry.is_none();
        if let Some(rest) = key.strip_prefix(RBAC) {
            let mut parts = rest.split('/').skip(1);
            let first = parts.next().unwrap_or_default();
            let namespace = if parts.next().is_some() { first } else { "" };
            return Some(Source::Rbac(namespace.into()));
        }
        if let Some(rest) = key.strip_prefix("/core/secrets/") {
            let (namespace, _) = rest.split_once('/')?;
            return Some(Source::Secrets(namespace.into()));
        }
        if let Some(namespace) = key.strip_prefix("/core/namespaces/") {
            return Some(Source::Namespace(namespace.into()));
        }
        if !is_gone {
            return None;
        }
        if key.starts_with("/core/pods/")
            && let Some(node) = event.previous.as_deref().and_then(&*self.part)
        {
            return Some(Source::PodsOfNode(node));
        }
        if LINKS.iter().any(|prefix| key.starts_with(prefix)) {
            return Some(Source::Links);
        }
        None
    }
}

/// What the rights of a user in a namespace depend on, beside what all of them depend on.
fn sources(user: &User, namespace: &str, scope: Option<&NodeScope>) -> Vec<Source> {
    let mut sources = vec![Source::Rbac(Box::default())];
    if !namespace.is_empty() {
        sources.extend([Source::Rbac(namespace.into()), Source::Namespace(namespace.into())]);
    }
    let is_scoped = scope.is_some_and(|scope| scope.is_scoped(user));
    let node = match NodeIdentity::of(user) {
        Some(node) => Some(node.name()),
        None => bound_node(user).filter(|_| is_scoped),
    };
    if let Some(node) = node {
        sources.extend([Source::PodsOfNode(node.into()), Source::Links]);
    }
    if user.name.starts_with(BOOTSTRAP) {
        sources.push(Source::Secrets("kube-system".into()));
    }
    let account = user.name.strip_prefix(ACCOUNT_PREFIX).and_then(|account| account.split_once(':'));
    if let Some((namespace, name)) = account {
        let object =
            |resource: &'static Resource, name: &str| Source::Object(storage::key(resource, namespace, name));
        sources.push(object(&SERVICE_ACCOUNTS, name));
        let extra = |key: &str| user.extra.get(key).and_then(|values| values.first());
        match extra(POD_NAME).filter(|_| extra(POD_UID).is_some()) {
            Some(pod) => sources.push(object(&PODS, pod)),
            // The token may be bound to a secret, or be in one.
            None => sources.push(Source::Secrets(namespace.into())),
        }
    }
    sources
}

impl Observer for RightChanges {
    /// A watch that is told looks at what can be read.
    fn readable(&self, events: &[Event]) {
        let mut waiting = self.waiting();
        if waiting.is_empty() {
            return;
        }
        let mut tell = |source: &Source| {
            waiting
                .get_mut(source)
                .into_iter()
                .flat_map(|watches| watches.values())
                .for_each(|w| w.notify_one());
        };
        for event in events {
            if let Some(source) = self.ended(event) {
                tell(&source);
            }
            if event.entry.is_none() {
                tell(&Source::Object(event.key().into()));
            }
        }
    }
}

impl Interest {
    /// Waits until one of the rights may have ended.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut waiting = self.changes.waiting();
        for source in &self.sources {
            if let Some(watches) = waiting.get_mut(source) {
                watches.remove(&self.number);
                if watches.is_empty() {
                    waiting.remove(source);
                }
            }
        }
    }
}
