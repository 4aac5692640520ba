//! The objects of a collection that a caller may get, for those who may not list all of it (BC-40, BC-41).
//!
//! What is answered at a revision was decided by rights that have not changed since that revision. So nobody is shown a
//! state that was replaced before the caller was allowed to get the object. Whoever cannot keep to this begins anew, or tells
//! the client that the revision has expired.
//!
//! It decides nothing: it asks a [`Visibility`], which only `authz` makes.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kinds::resource::Resource;
use kinds::resources::pods::PODS;
use policy::User;
use policy::extent::Extent;
use policy::graph::VertexKind;
use policy::identity::NodeIdentity;
use portcullis_store::{Entry, List, Revision, Store as _, StoreError};
use tokio::time::timeout;

use super::backend::Backend;
use super::list::{ListMeta, Page};
use super::list_options::Token;
use super::right_changes::{Interest, RightChanges};
use super::selection::Selection;
use super::storage;
use super::target::Target;
use crate::http::status::Status;

/// The number of objects read from the store at a time for a page.
const CHUNK: usize = 4_096;
/// How many pods are looked up in the graph before others have their turn.
const PODS_AT_ONCE: usize = 128;
/// How often it is asked whether a change can be read of which nobody is told.
const UNTOLD: Duration = Duration::from_millis(10);

/// Which objects of a collection a caller may get.
pub(crate) trait Visibility: Send + Sync {
    /// The caller.
    fn user(&self) -> &User;

    /// Whether the caller may get this object now, whether it exists or not. The namespace is that of the request for it.
    fn sees(&self, namespace: &str, name: &str) -> bool;

    /// Where the objects are that the caller may get now. See [`Extent`].
    fn extent(&self) -> Extent;

    /// The objects of a kind to which these pods refer, by namespace and name.
    fn referred(&self, kind: VertexKind, pods: &[(&str, &str)]) -> BTreeSet<(String, String)>;

    /// Whether the labels of namespaces play a part in what the caller may get.
    fn is_by_labels(&self) -> bool;

    /// Whether the authorizers and deny rules are those with which this was made. What others decide is not said here.
    fn is_in_force(&self) -> bool;

    /// Lists of this revision and of earlier ones may have been decided by other authorizers.
    fn in_force_after(&self) -> Revision;
}

/// See the module.
pub(crate) struct Filtered {
    backend: Arc<Backend>,
    visibility: Box<dyn Visibility>,
    interest: Interest,
    resource: &'static Resource,
    /// Empty for cluster-scoped kinds, and for all namespaces.
    namespace: String,
    selection: Selection,
}

/// Where to look for objects.
#[derive(Debug)]
enum Place {
    /// The keys with this prefix.
    Prefix(String),
    Key(Box<str>),
}

impl Place {
    fn start(&self) -> &str {
        match self {
            Self::Prefix(prefix) => prefix,
            Self::Key(key) => key,
        }
    }
}

/// A look at a collection at one revision, in steps.
pub(crate) struct Scan {
    revision: Revision,
    /// Rights that have changed later make the scan useless.
    decided_at: Revision,
    places: VecDeque<Place>,
    /// What was read and is not decided yet.
    read: std::vec::IntoIter<Arc<Entry>>,
    after: Option<Box<str>>,
    limit: usize,
    found: Vec<Arc<Entry>>,
    /// Whether there is one more object than the limit.
    has_more: bool,
}

/// A scan cannot go on.
pub(crate) enum ScanError {
    Store(StoreError),
    Status(Status),
}

impl From<StoreError> for ScanError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Status> for ScanError {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<ScanError> for Status {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::Store(error) => storage::failed(&error),
            ScanError::Status(status) => status,
        }
    }
}

impl Filtered {
    /// What the caller may get of a collection.
    pub(crate) fn new(
        backend: &Arc<Backend>,
        changes: &Arc<RightChanges>,
        visibility: Box<dyn Visibility>,
        target: &Target<'_>,
        selection: Selection,
    ) -> Self {
        // Before anything is decided: no change is missed from here on.
        let interest =
            changes.interest_in_sight(visibility.user(), target.namespace, visibility.is_by_labels());
        let (resource, namespace) = (target.resource, target.namespace.to_owned());
        Self { backend: Arc::clone(backend), visibility, interest, resource, namespace, selection }
    }

    /// The interest in changes of what the caller may get.
    pub(crate) fn interest(&self) -> &Interest {
        &self.interest
    }

    /// Whether what was decided at this revision still holds.
    pub(crate) fn holds_since(&self, revision: Revision) -> bool {
        self.interest.last_change() <= revision && self.visibility.is_in_force()
    }

    /// Whether the authorizers have been replaced.
    pub(crate) fn is_replaced(&self) -> bool {
        !self.visibility.is_in_force()
    }

    /// Whether a list of this revision was decided as it would be now, so that a watch or the next page can go on after it.
    pub(crate) fn continues(&self, revision: Revision) -> bool {
        self.holds_since(revision) && revision > self.visibility.in_force_after()
    }

    /// Whether the caller may get the object of an entry, and wants it.
    ///
    /// # Errors
    /// The entry is not an object.
    pub(crate) fn shows(&self, entry: &Entry) -> Result<bool, Status> {
        if !storage::is_in_place(self.resource, &entry.key) {
            return Ok(false);
        }
        let (namespace, name) = storage::place(self.resource, &entry.key);
        // Kubernetes takes a Namespace for an object in itself.
        let namespace = if self.resource.is_namespace { name } else { namespace };
        Ok(self.visibility.sees(namespace, name) && self.selection.has(self.resource, entry)?)
    }

    /// The prefix of the keys of the collection.
    pub(crate) fn prefix(&self) -> String {
        storage::prefix(self.resource, &self.namespace)
    }

    /// The part of the collection that is selected, if it is one by which watches are told apart.
    pub(crate) fn part(&self) -> Option<&str> {
        self.selection.part(self.resource)
    }

    /// Waits until the last change of rights can be read: decisions depend on it a short time before. A look in between would
    /// be at a revision at which its decisions do not hold yet.
    async fn settled(&self) {
        let changed = self.interest.last_change();
        while self.backend.revision() < changed {
            // Nobody is woken for a change whose source is not remembered.
            let _woken_or_not = timeout(UNTOLD, self.interest.changed()).await;
        }
    }

    /// Begins to look at the newest state, at objects after this key. With a limit the scan ends with so many objects.
    pub(crate) async fn look(&self, after: Option<Box<str>>, limit: usize) -> Result<Scan, ScanError> {
        self.settled().await;
        let revision = self.backend.revision();
        let places = self.places().await?;
        Ok(Scan::new(revision, revision, places, after, limit))
    }

    /// As [`Self::look`], at a given revision. Whether rights have changed since then, the caller must ask.
    pub(crate) async fn look_at(
        &self,
        revision: Revision,
        after: Option<Box<str>>,
        limit: usize,
    ) -> Result<Scan, ScanError> {
        Ok(Scan::new(revision, revision, self.places().await?, after, limit))
    }

    /// As [`Self::look`], at everything, to go on as a watch. If all objects are known by key, changes of these objects wake the
    /// interest, and nothing else of the collection has to be followed. Returns the prefix to follow otherwise.
    pub(crate) async fn look_and_follow(&mut self) -> Result<(Scan, Option<String>), ScanError> {
        self.settled().await;
        let decided_at = self.backend.revision();
        let places = self.places().await?;
        let mut keys = BTreeSet::new();
        let mut prefixes = Vec::new();
        for place in &places {
            match place {
                Place::Key(key) => {
                    keys.insert(key.clone());
                }
                Place::Prefix(prefix) => prefixes.push(prefix.clone()),
            }
        }
        let followed = match prefixes.len() {
            0 => None,
            1 if keys.is_empty() => prefixes.pop(),
            _ => Some(self.prefix()),
        };
        self.interest.follow(if followed.is_none() { keys } else { BTreeSet::new() });
        // Later changes of the objects are told from here on.
        let revision = self.backend.revision();
        Ok((Scan::new(revision, decided_at, places, None, 0), followed))
    }

    /// Decides about some more objects, `most` of them. Returns whether the scan is complete.
    ///
    /// # Errors
    /// The revision is no longer held, or an entry is not an object.
    pub(crate) async fn step(&self, scan: &mut Scan, most: usize) -> Result<bool, ScanError> {
        for _ in 0..most {
            let entry = loop {
                match scan.read.next() {
                    Some(entry) => break entry,
                    None if self.read(scan).await? => {}
                    None => return Ok(true),
                }
            };
            if self.shows(&entry)? {
                if scan.limit > 0 && scan.found.len() == scan.limit {
                    scan.has_more = true;
                    return Ok(true);
                }
                scan.found.push(entry);
            }
        }
        Ok(false)
    }

    /// Reads the objects of the next place. Returns false after the last.
    async fn read(&self, scan: &mut Scan) -> Result<bool, ScanError> {
        let Some(place) = scan.places.pop_front() else { return Ok(false) };
        let prefix = match place {
            Place::Key(key) if scan.after.as_ref().is_some_and(|after| key <= *after) => return Ok(true),
            Place::Key(key) => {
                let entry = self.backend.get_at(&key, scan.revision).await?;
                scan.read = Vec::from_iter(entry).into_iter();
                return Ok(true);
            }
            Place::Prefix(prefix) => prefix,
        };
        let list = List {
            prefix: prefix.as_str().into(),
            part: self.part().map(Into::into),
            after: scan.after.clone(),
            limit: if scan.limit == 0 { 0 } else { CHUNK.max(scan.limit) },
            at: Some(scan.revision),
        };
        let listing = self.backend.list(&list).await?;
        if listing.remaining > 0
            && let Some(last) = listing.entries.last()
        {
            scan.after = Some(last.key.clone());
            scan.places.push_front(Place::Prefix(prefix));
        }
        scan.read = listing.entries.into_iter();
        Ok(true)
    }

    /// Where to look, in the order of the keys.
    async fn places(&self) -> Result<Vec<Place>, ScanError> {
        let is_namespaced = self.resource.is_namespaced;
        if let Some(name) = self.selection.name().filter(|_| !is_namespaced || !self.namespace.is_empty()) {
            return Ok(vec![Place::Key(storage::key(self.resource, &self.namespace, name))]);
        }
        let extent = self.visibility.extent();
        if extent.is_everywhere {
            return Ok(vec![Place::Prefix(self.prefix())]);
        }
        let mut places: Vec<Place> = match extent.namespaces {
            names if self.resource.is_namespace => {
                names.iter().map(|name| Place::Key(storage::key(self.resource, "", name))).collect()
            }
            namespaces if is_namespaced => {
                let prefixes = namespaces.iter().map(|name| storage::prefix(self.resource, name));
                prefixes.map(Place::Prefix).collect()
            }
            // Bindings in namespaces give no right to what is in none.
            _ => Vec::new(),
        };
        if let Some(kind) = extent.of_node {
            let objects = self.of_node(kind).await?;
            let objects = objects.into_iter().filter(|(namespace, name)| {
                (self.namespace.is_empty() || *namespace == self.namespace) && !name.is_empty()
            });
            places.extend(objects.map(|(namespace, name)| {
                let namespace = if is_namespaced { &*namespace } else { "" };
                Place::Key(storage::key(self.resource, namespace, &name))
            }));
        }
        places.sort_by(|a, b| a.start().cmp(b.start()));
        // A prefix stands before the keys that have it, which are read with it.
        let mut covered: Option<String> = None;
        places.retain(|place| match place {
            Place::Prefix(prefix) => {
                covered = Some(prefix.clone());
                true
            }
            Place::Key(key) => covered.as_ref().is_none_or(|prefix| !key.starts_with(prefix.as_str())),
        });
        Ok(places)
    }

    /// The objects of a kind to which the pods of the caller's node refer, by namespace and name.
    async fn of_node(&self, kind: VertexKind) -> Result<BTreeSet<(String, String)>, ScanError> {
        let Some(node) = NodeIdentity::of(self.visibility.user()) else { return Ok(BTreeSet::new()) };
        let prefix = storage::prefix(&PODS, "");
        let list = List { prefix: prefix.into(), part: Some(node.name().into()), ..List::default() };
        let pods = self.backend.list(&list).await?.entries;
        let mut found = BTreeSet::new();
        for pods in pods.chunks(PODS_AT_ONCE) {
            let pods: Vec<_> = pods.iter().map(|pod| storage::place(&PODS, &pod.key)).collect();
            found.extend(self.visibility.referred(kind, &pods));
            tokio::task::yield_now().await;
        }
        Ok(found)
    }
}

impl Scan {
    fn new(
        revision: Revision,
        decided_at: Revision,
        places: Vec<Place>,
        after: Option<Box<str>>,
        limit: usize,
    ) -> Self {
        Self {
            revision,
            decided_at,
            places: places.into(),
            read: Vec::new().into_iter(),
            after,
            limit,
            found: Vec::new(),
            has_more: false,
        }
    }

    /// The objects that were found, and the revision at which; none if rights have changed meanwhile.
    pub(crate) fn end(self, filtered: &Filtered) -> Option<(Revision, Vec<Arc<Entry>>)> {
        filtered.holds_since(self.decided_at).then_some((self.revision, self.found))
    }

    /// As [`Self::end`], as a page. It tells nothing of objects that the caller may not get: no count, and no key.
    pub(crate) fn page(self, filtered: &Filtered) -> Option<Page> {
        let has_more = self.has_more;
        let (revision, entries) = self.end(filtered)?;
        let last = entries.last().filter(|_| has_more);
        let token = last.map(|last| Token::after(revision, &last.key, &filtered.prefix()).text());
        Some(Page { entries, meta: ListMeta { revision, token, remaining: None } })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use portcullis_store::{Event, Expect, Observer, Value, Write, embedded};

    use super::*;
    use crate::registry::backend::Options;

    /// Stops the writer after decisions depend on a change, before the change can be read.
    struct Gate {
        entered: Mutex<Sender<()>>,
        open: Mutex<Receiver<()>>,
    }

    impl Observer for Gate {
        fn committed(&self, _events: &[Event]) {
            self.entered.lock().unwrap().send(()).unwrap();
            self.open.lock().unwrap().recv().unwrap();
        }
    }

    /// A caller who may get everything.
    struct All(User);

    impl Visibility for All {
        fn user(&self) -> &User {
            &self.0
        }

        fn sees(&self, _namespace: &str, _name: &str) -> bool {
            true
        }

        fn extent(&self) -> Extent {
            Extent::everywhere()
        }

        fn referred(&self, _kind: VertexKind, _pods: &[(&str, &str)]) -> BTreeSet<(String, String)> {
            BTreeSet::new()
        }

        fn is_by_labels(&self) -> bool {
            false
        }

        fn is_in_force(&self) -> bool {
            true
        }

        fn in_force_after(&self) -> Revision {
            Revision(0)
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_look_waits_until_a_change_of_rights_can_be_read_bc_40() {
        let (entered, enters) = channel();
        let (opens, open) = channel();
        let changes = RightChanges::new(None);
        let gate = Gate { entered: Mutex::new(entered), open: Mutex::new(open) };
        let options = Options::from(embedded::Options::memory())
            .observer(Arc::<RightChanges>::clone(&changes))
            .observer(Arc::new(gate));
        let backend = Arc::new(options.open().await.unwrap());
        let target = Target { resource: &PODS, served: &PODS, subresource: None, namespace: "", name: "" };
        let filtered =
            Filtered::new(&backend, &changes, Box::new(All(User::default())), &target, Selection::default());
        let writer = Arc::clone(&backend);
        let key = "/rbac.authorization.k8s.io/clusterroles/r".into();
        let value = Some(Value { bytes: "{}".into(), revision_at: None, relies_on: None });
        let role = Write { key, expect: Expect::Absent, value };
        let write = tokio::spawn(async move { writer.commit(vec![role]).await.unwrap() });
        enters.recv().unwrap();
        let before = backend.revision();
        let mut look = Box::pin(filtered.look(None, 0));
        let early = timeout(UNTOLD * 5, &mut look).await;
        assert!(early.is_err(), "nothing can be decided about the state of before");
        opens.send(()).unwrap();
        let mut scan = look.await.unwrap_or_else(|_| panic!("the look has failed"));
        assert!(filtered.step(&mut scan, 1).await.unwrap_or_else(|_| panic!("the step has failed")));
        let (revision, _) = scan.end(&filtered).unwrap();
        assert!(revision > before);
        write.await.unwrap();
    }
}
