//! The right to a part of a collection: to the objects that a caller may get by name (BC-40).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use policy::engine::LiveEngine;
use policy::extent::Extent;
use policy::graph::VertexKind;
use policy::request_info::RequestInfo;
use policy::{Attributes, ResourceRequest, User};
use portcullis_store::{Revision, Store as _};

use super::authorizers::Authorizers;
use crate::registry::backend::Backend;
use crate::registry::filtered::Visibility;

/// Proof that a caller may be shown those objects of a collection that it may get, and no others. It is no [`Permit`]: the
/// handlers that need one cannot be called with it.
pub(crate) struct PartialPermit {
    user: Arc<User>,
    engine: Arc<LiveEngine>,
    in_force: Arc<ArcSwap<Authorizers>>,
    authorizers: Arc<Authorizers>,
    after: Revision,
    group: String,
    version: String,
    resource: String,
    namespace: String,
}

/// The authorizers of filtered lists, and when they were found to have replaced others.
#[derive(Default)]
pub(super) struct LastSeen(Mutex<Option<(Arc<Authorizers>, Revision)>>);

impl LastSeen {
    /// The revision up to which lists may have been decided by other authorizers than these.
    fn after(&self, authorizers: &Arc<Authorizers>, backend: &Backend) -> Revision {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let after = match &*seen {
            // What was before the start of the server is not remembered in `RightChanges`.
            None => Revision(0),
            Some((known, after)) if Arc::ptr_eq(known, authorizers) => return *after,
            Some(_) => backend.revision(),
        };
        *seen = Some((Arc::clone(authorizers), after));
        after
    }
}

impl PartialPermit {
    /// The right of a user to what it may get of the collection of a request, by the authorizers in force. None if a webhook is
    /// among them: it would have to be asked about each object.
    pub(super) fn new(
        user: &Arc<User>,
        info: &RequestInfo,
        (engine, in_force): (&Arc<LiveEngine>, &Arc<ArcSwap<Authorizers>>),
        (last_seen, backend): (&LastSeen, &Backend),
    ) -> Option<Self> {
        let authorizers = in_force.load_full();
        let permit = Self {
            user: Arc::clone(user),
            engine: Arc::clone(engine),
            in_force: Arc::clone(in_force),
            after: last_seen.after(&authorizers, backend),
            authorizers,
            group: info.group().to_owned(),
            version: info.version().to_owned(),
            resource: info.resource().to_owned(),
            namespace: info.namespace().to_owned(),
        };
        permit.try_extent().map(|_| permit)
    }

    /// The user who makes the request.
    pub(crate) fn user(&self) -> &User {
        &self.user
    }

    /// A GET of an object of the collection.
    fn get<'a>(&'a self, namespace: &'a str, name: &'a str) -> Attributes<'a> {
        let request = ResourceRequest {
            namespace,
            group: &self.group,
            version: &self.version,
            resource: &self.resource,
            name,
            ..ResourceRequest::default()
        };
        Attributes { user: &self.user, verb: "get", path: "", resource: Some(request) }
    }

    /// None if a webhook decides.
    fn try_extent(&self) -> Option<Extent> {
        self.authorizers.chain().extent(&self.get(&self.namespace, ""))
    }
}

impl Visibility for PartialPermit {
    fn user(&self) -> &User {
        &self.user
    }

    fn sees(&self, namespace: &str, name: &str) -> bool {
        // An empty name would stand for the collection.
        !name.is_empty() && self.authorizers.chain().decide(&self.get(namespace, name)).is_allow()
    }

    fn extent(&self) -> Extent {
        self.try_extent().unwrap_or_default()
    }

    fn referred(&self, kind: VertexKind, pods: &[(&str, &str)]) -> BTreeSet<(String, String)> {
        self.engine.graph().referred(kind, pods.iter().copied())
    }

    fn is_in_force(&self) -> bool {
        Arc::ptr_eq(&self.authorizers, &self.in_force.load())
    }

    fn in_force_after(&self) -> Revision {
        self.after
    }
}
