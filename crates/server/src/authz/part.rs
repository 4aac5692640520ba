//! The right to a part of a collection: to the objects that a caller may get by name (BC-40).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use policy::chain::{Chain, Outcome};
use policy::deny::{DenyAuthorizer, DenyRules};
use policy::engine::LiveEngine;
use policy::extent::Extent;
use policy::graph::VertexKind;
use policy::request_info::RequestInfo;
use policy::{Attributes, ResourceRequest, User};
use portcullis_store::{Revision, Store as _};

use super::authorizers::Authorizers;
use crate::authn::is_anonymous;
use crate::registry::backend::Backend;
use crate::registry::filtered::Visibility;

/// Proof that a caller may be shown those objects of a collection that it may get, and no others. It is no [`Permit`](super::Permit):
/// the handlers that need one cannot be called with it.
pub(crate) struct PartialPermit {
    user: Arc<User>,
    engine: Arc<LiveEngine>,
    in_force: Arc<ArcSwap<Authorizers>>,
    ruling: Ruling,
    after: Revision,
    group: String,
    version: String,
    resource: String,
    namespace: String,
}

/// What decides beside objects: the authorizers, and the deny rules, which are replaced on their own.
#[derive(Clone)]
struct Ruling {
    authorizers: Arc<Authorizers>,
    rules: Option<Arc<DenyRules>>,
}

impl Ruling {
    fn of(authorizers: Arc<Authorizers>) -> Self {
        let rules = authorizers.chain().deny().and_then(DenyAuthorizer::rules);
        Self { authorizers, rules }
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.authorizers, &other.authorizers)
            && self.rules.as_ref().map(Arc::as_ptr) == other.rules.as_ref().map(Arc::as_ptr)
    }
}

/// What decided about filtered lists, and when it was found to have replaced something else.
#[derive(Default)]
pub(super) struct LastSeen(Mutex<Option<(Ruling, Revision)>>);

impl LastSeen {
    /// The revision up to which lists may have been decided by others than these.
    fn after(&self, ruling: &Ruling, backend: &Backend) -> Revision {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let after = match &*seen {
            // What was before the start of the server is not remembered in `RightChanges`.
            None => Revision(0),
            Some((known, after)) if known.is_same(ruling) => return *after,
            Some(_) => backend.revision(),
        };
        *seen = Some((ruling.clone(), after));
        after
    }
}

/// Whether a list or watch with this outcome may be answered with a part of the collection.
pub(super) fn is_divisible(chain: &Chain, user: &User, info: &RequestInfo, outcome: &Outcome) -> bool {
    matches!(info.verb(), "list" | "watch")
        && info.is_resource_request()
        && info.subresource().is_empty()
        && !outcome.is_allow()
        && !outcome.is_deny()
        && outcome.error.is_none()
        && !is_anonymous(user)
        && !chain.deny().is_some_and(|deny| deny.is_node_scoped(user))
}

impl PartialPermit {
    /// The right of a caller to a part of a collection; none if the part cannot be told, because a webhook would have to be asked.
    pub(super) fn new(
        user: &Arc<User>,
        info: &RequestInfo,
        engine: &Arc<LiveEngine>,
        in_force: &Arc<ArcSwap<Authorizers>>,
        (last_seen, backend): (&LastSeen, &Backend),
    ) -> Option<Self> {
        let ruling = Ruling::of(in_force.load_full());
        let permit = Self {
            user: Arc::clone(user),
            engine: Arc::clone(engine),
            in_force: Arc::clone(in_force),
            after: last_seen.after(&ruling, backend),
            ruling,
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
        self.ruling.authorizers.chain().extent(&self.get(&self.namespace, ""))
    }
}

impl Visibility for PartialPermit {
    fn user(&self) -> &User {
        &self.user
    }

    fn sees(&self, namespace: &str, name: &str) -> bool {
        // An empty name would stand for the collection.
        !name.is_empty() && self.ruling.authorizers.chain().decide(&self.get(namespace, name)).is_allow()
    }

    fn extent(&self) -> Extent {
        self.try_extent().unwrap_or_default()
    }

    fn referred(&self, kind: VertexKind, pods: &[(&str, &str)]) -> BTreeSet<(String, String)> {
        self.engine.graph().referred(kind, pods.iter().copied())
    }

    fn is_by_labels(&self) -> bool {
        self.ruling.rules.as_ref().is_some_and(|rules| rules.need_namespaces())
    }

    fn is_in_force(&self) -> bool {
        self.ruling.is_same(&Ruling::of(self.in_force.load_full()))
    }

    fn in_force_after(&self) -> Revision {
        self.after
    }
}
