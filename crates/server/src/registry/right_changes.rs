//! Tells open watches that a right may have ended on which they depend: a pod has left a node, a binding was removed, an
//! account was deleted. Filtered watches are also told when a right may have begun, and at which revision that was.
//!
//! It decides nothing. Whoever is told authenticates and authorizes again.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::Hash;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kinds::resource::Resource;
use kinds::resources::core::service_accounts::SERVICE_ACCOUNTS;
use kinds::resources::pods::PODS;
use policy::User;
use policy::deny::NodeScope;
use policy::graph::{Graph, NodeChanges};
use policy::identity::{ACCOUNT_PREFIX, NodeIdentity, bound_node};
use portcullis_store::{Event, Observer, Revision};
use tokio::sync::Notify;

use super::storage;
use crate::http::account::{POD_NAME, POD_UID};

/// The prefix of the keys of namespaces.
const NAMESPACES: &str = "/core/namespaces/";
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
    /// Roles and bindings of all namespaces, and of the cluster.
    AnyRbac,
    /// The labels of a namespace.
    Namespace(Box<str>),
    /// The labels of all namespaces.
    AnyNamespace,
    /// The objects that a node reaches.
    Reach(Box<str>),
    /// The object of this key.
    Object(Box<str>),
    /// The secrets of a namespace.
    Secrets(Box<str>),
}

/// The most sources of which it is remembered when they changed.
const REMEMBERED: usize = 16_384;

type Watches = HashMap<u64, Arc<Notify>>;

/// See the module documentation.
pub(crate) struct RightChanges {
    waiting: Mutex<Waiting>,
    changed: Mutex<Changed>,
    /// The commit that is about to be applied, or that was applied last.
    current: AtomicU64,
    next: AtomicU64,
    /// The accounts whose rights depend on their node.
    scope: Option<Arc<NodeScope>>,
}

#[derive(Default)]
struct Waiting {
    sources: HashMap<Source, Watches>,
    /// By key: the watches to be told of every change of an object.
    objects: HashMap<Box<str>, Watches>,
}

/// When the rights changed on which filtered lists depend.
#[derive(Default)]
struct Changed {
    /// The last change of each source that has changed since `floor`.
    last: HashMap<Source, Revision>,
    /// What changed before is unknown.
    floor: Revision,
    /// The sources that the current commit changes, of which nobody was told yet.
    untold: Vec<Source>,
}

/// The interest of one watch in its rights, until this is dropped.
pub(crate) struct Interest {
    changes: Arc<RightChanges>,
    number: u64,
    sources: Vec<Source>,
    /// The keys of the objects in which it is interested too.
    objects: BTreeSet<Box<str>>,
    changed: Arc<Notify>,
}

impl RightChanges {
    /// Without changes yet.
    pub(crate) fn new(scope: Option<Arc<NodeScope>>) -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::default(),
            changed: Mutex::default(),
            current: AtomicU64::new(0),
            next: AtomicU64::new(0),
            scope,
        })
    }

    /// Tells all watches: what is denied has changed.
    pub(crate) fn rules_changed(&self) {
        // Every watch depends on this.
        if let Some(watches) = self.waiting().sources.get(&Source::Rbac(Box::default())) {
            watches.values().for_each(|watch| watch.notify_one());
        }
    }

    /// From now on remembers when rights change, for filtered lists. The graph and the store are at this revision or later.
    pub(crate) fn remember(self: &Arc<Self>, graph: &Graph, revision: Revision) {
        graph.tell_changes(Arc::<Self>::clone(self));
        self.remembered().floor = revision;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remembered(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the interest of a user who watches objects of this namespace, or of all if it is empty.
    pub(crate) fn interest(self: &Arc<Self>, user: &User, namespace: &str) -> Interest {
        self.register(sources(user, namespace, self.scope.as_deref()))
    }

    /// Registers the interest in which objects of this namespace, or of all if it is empty, a user may get. With `by_labels` that
    /// depends on the labels of namespaces.
    pub(crate) fn interest_in_sight(
        self: &Arc<Self>,
        user: &User,
        namespace: &str,
        by_labels: bool,
    ) -> Interest {
        let (rbac, labels) = match namespace {
            "" => (Source::AnyRbac, Source::AnyNamespace),
            namespace => (Source::Rbac(namespace.into()), Source::Namespace(namespace.into())),
        };
        let mut sources = vec![rbac, Source::Rbac(Box::default())];
        sources.extend(by_labels.then_some(labels));
        sources.extend(NodeIdentity::of(user).map(|node| Source::Reach(node.name().into())));
        self.register(sources)
    }

    fn register(self: &Arc<Self>, sources: Vec<Source>) -> Interest {
        let interest = Interest {
            changes: Arc::clone(self),
            number: self.next.fetch_add(1, Ordering::Relaxed),
            sources,
            objects: BTreeSet::new(),
            changed: Arc::default(),
        };
        let mut waiting = self.waiting();
        for source in &interest.sources {
            let changed = Arc::clone(&interest.changed);
            waiting.sources.entry(source.clone()).or_default().insert(interest.number, changed);
        }
        drop(waiting);
        interest
    }

    /// Notes that the current commit changes rights, before any decision can depend on it.
    fn note(&self, sources: impl IntoIterator<Item = Source>) {
        let current = Revision(self.current.load(Ordering::Acquire));
        let mut changed = self.remembered();
        if changed.last.len() >= REMEMBERED {
            changed.last.clear();
            changed.floor = changed.floor.max(current);
        }
        for source in sources {
            changed.last.insert(source.clone(), current);
            changed.untold.push(source);
        }
    }

    /// What may have ended with a change.
    fn ended(&self, event: &Event) -> Option<Source> {
        let key = event.key();
        let is_gone = event.entry.is_none();
        if let Some(namespace) = rbac_namespace(key) {
            return Some(Source::Rbac(namespace.into()));
        }
        if let Some(rest) = key.strip_prefix("/core/secrets/") {
            let (namespace, _) = rest.split_once('/')?;
            return Some(Source::Secrets(namespace.into()));
        }
        if let Some(namespace) = key.strip_prefix(NAMESPACES) {
            return Some(Source::Namespace(namespace.into()));
        }
        if !is_gone {
            return None;
        }
        if key.starts_with("/core/pods/")
            && let Some(node) = event.previous.as_ref().and_then(|pod| pod.part.as_ref())
        {
            return Some(Source::PodsOfNode(node.clone()));
        }
        if LINKS.iter().any(|prefix| key.starts_with(prefix)) {
            return Some(Source::Links);
        }
        None
    }
}

/// The namespace of a role or binding, empty for those of the cluster; none for another key.
fn rbac_namespace(key: &str) -> Option<&str> {
    let mut parts = key.strip_prefix(RBAC)?.split('/').skip(1);
    let first = parts.next().unwrap_or_default();
    Some(if parts.next().is_some() { first } else { "" })
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
    /// INVARIANT: this observer comes before the one that applies changes to the engine. Who decides on a change, and looks
    /// afterwards when rights have changed, finds it.
    fn committed(&self, events: &[Event]) {
        let Some(revision) = events.iter().map(|event| event.revision).max() else { return };
        self.current.store(revision.0, Ordering::Release);
        for key in events.iter().map(Event::key) {
            if let Some(namespace) = rbac_namespace(key) {
                self.note([Source::Rbac(namespace.into()), Source::AnyRbac]);
            } else if let Some(namespace) = key.strip_prefix(NAMESPACES) {
                self.note([Source::Namespace(namespace.into()), Source::AnyNamespace]);
            }
        }
    }

    /// A watch that is told looks at what can be read.
    fn readable(&self, events: &[Event]) {
        let untold = mem::take(&mut self.remembered().untold);
        let waiting = self.waiting();
        let wake = |watches: Option<&Watches>| {
            watches.into_iter().flat_map(HashMap::values).for_each(|watch| watch.notify_one());
        };
        let tell = |source: &Source| wake(waiting.sources.get(source));
        untold.iter().for_each(tell);
        if waiting.sources.is_empty() {
            return;
        }
        for event in events {
            if let Some(source) = self.ended(event) {
                tell(&source);
            }
            if event.entry.is_none() {
                tell(&Source::Object(event.key().into()));
            }
            wake(waiting.objects.get(event.key()));
        }
    }
}

impl NodeChanges for RightChanges {
    fn changing(&self, node: &str) {
        self.note([Source::Reach(node.into())]);
    }
}

impl fmt::Debug for RightChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RightChanges").finish_non_exhaustive()
    }
}

impl Interest {
    /// Waits until one of the rights may have changed, or one of the objects has.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The revision of the last change of a right, or a later one if that is unknown. A decision that was made before this call
    /// did not depend on later changes.
    pub(crate) fn last_change(&self) -> Revision {
        let changed = self.changes.remembered();
        let known = self.sources.iter().filter_map(|source| changed.last.get(source).copied());
        known.fold(changed.floor, Revision::max)
    }

    /// From now on is told also of changes of the objects with these keys, instead of the ones before.
    pub(crate) fn follow(&mut self, objects: BTreeSet<Box<str>>) {
        let before = mem::replace(&mut self.objects, objects);
        let mut waiting = self.changes.waiting();
        for key in self.objects.difference(&before) {
            let changed = Arc::clone(&self.changed);
            waiting.objects.entry(key.clone()).or_default().insert(self.number, changed);
        }
        before.difference(&self.objects).for_each(|key| leave(&mut waiting.objects, key, self.number));
    }

    /// The size of the keys of the objects that are followed. In bytes.
    pub(crate) fn size(&self) -> usize {
        self.objects.iter().map(|key| key.len()).sum()
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut waiting = self.changes.waiting();
        self.sources.iter().for_each(|source| leave(&mut waiting.sources, source, self.number));
        self.objects.iter().for_each(|key| leave(&mut waiting.objects, key, self.number));
    }
}

/// Removes a watch from those that wait for something.
fn leave<K, Q>(waiting: &mut HashMap<K, Watches>, what: &Q, number: u64)
where
    K: Borrow<Q> + Eq + Hash,
    Q: Eq + Hash + ?Sized,
{
    if let Some(watches) = waiting.get_mut(what) {
        watches.remove(&number);
        if watches.is_empty() {
            waiting.remove(what);
        }
    }
}
