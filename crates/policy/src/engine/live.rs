//! An engine whose objects can change at runtime.
//!
//! Readers share a lock on the roles and bindings, and another on the objects of admission; the graph has its own. A
//! writer holds each lock only while it applies one object, so decisions never wait longer. The decisions are always
//! those of an [`Engine`](super::Engine) over the current objects, aggregated ClusterRoles included (RB-79).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use portcullis_apimachinery::json::JsonError;

use super::{EngineConfig, EngineError, chain, restriction};
use crate::chain::{Chain, Explanation, Member, Mode, Outcome};
use crate::deny::{GrantRefusal, Namespaces};
use crate::features::FeatureGates;
use crate::graph::{Graph, VertexError};
use crate::objects::{Kind, Object};
use crate::rbac::escalation::RbacWrite;
use crate::rbac::{AggregatedRules, Changes, ClusterRoles, RbacIndex, default_policy};
use crate::request::{Attributes, User};
use crate::restriction::{AdmissionRequest, Assessment, CertificateRequests, ObjectCache, Rejection};
use crate::rules::RuleListing;

/// See the module.
#[derive(Debug)]
pub struct LiveEngine {
    chain: Chain,
    graph: Arc<Graph>,
    rbac: Arc<RwLock<RbacIndex>>,
    cache: RwLock<ObjectCache>,
    /// The labels of namespaces, for mode Deny.
    namespaces: Arc<Namespaces>,
    /// Writers lock this before `rbac`, so there is one writer at a time.
    cluster_roles: Mutex<ClusterRoles>,
    /// The default policy, if it is enabled.
    defaults: BTreeMap<(Kind, String, String), Object<'static>>,
    gates: FeatureGates,
    certificate_requests: Option<Arc<dyn CertificateRequests>>,
    has_deny: bool,
    has_graph: bool,
    has_admission: bool,
}

impl LiveEngine {
    /// Creates an engine without objects, or with the default policy only. Nodes can reach no object before
    /// [`LiveEngine::mark_complete`] (NA-13).
    ///
    /// # Errors
    /// The first of [`EngineConfig::errors`].
    pub fn new(config: &EngineConfig) -> Result<Self, EngineError> {
        if let Some(error) = config.errors().into_iter().next() {
            return Err(error);
        }
        let graph = Arc::new(Graph::new());
        let rbac = Arc::new(RwLock::new(RbacIndex::default().with_super_user(&config.super_user)));
        let namespaces = Arc::default();
        let mut engine = Self {
            chain: chain(config, &graph, &namespaces, &Member::LiveRbac(Arc::clone(&rbac))),
            graph,
            rbac,
            cache: RwLock::default(),
            namespaces,
            cluster_roles: Mutex::default(),
            defaults: BTreeMap::new(),
            gates: config.gates,
            certificate_requests: config.certificate_requests.clone(),
            has_deny: config.modes.contains(&Mode::Deny),
            has_graph: config.has_graph(),
            has_admission: config.admission,
        };
        if config.default_policy {
            for object in default_policy::objects(config.gates) {
                let (namespace, name) = object.key();
                engine
                    .defaults
                    .insert((object.kind(), namespace.to_owned(), name.to_owned()), object.clone());
                engine.apply_rbac(object);
            }
        }
        Ok(engine)
    }

    /// Applies an object, replacing one of the same kind, namespace and name. Returns the aggregated ClusterRoles whose
    /// rules now need an update in the store (RB-79); decisions already use the new rules.
    ///
    /// Roles and bindings are in [`LiveEngine::index`] also without mode RBAC (RB-3).
    ///
    /// # Errors
    /// The graph cannot hold the object's names (see [`VertexError`]). Nodes then reach nothing through this object.
    pub fn apply(&self, object: Object<'_>) -> Result<Vec<AggregatedRules>, VertexError> {
        if self.has_admission {
            self.cache_mut().apply(&object);
        }
        if let Object::Namespace(namespace) = &object
            && self.has_deny
        {
            self.namespaces.apply(namespace);
        }
        match object.kind() {
            Kind::Role | Kind::RoleBinding | Kind::ClusterRole | Kind::ClusterRoleBinding => {
                Ok(self.apply_rbac(object))
            }
            _ if self.has_graph => self.graph.apply(&object).map(|()| Vec::new()),
            _ => Ok(Vec::new()),
        }
    }

    /// Applies the object of this kind, namespace and name, given as JSON: what a store or a watch says of one place. A
    /// cluster-scoped object has an empty namespace. Returns the same as [`LiveEngine::apply`].
    ///
    /// # Errors
    /// The text is no object of this kind, namespace and name, or its names cannot be kept. The object then takes no part in
    /// decisions, not even in its old state: it was deleted, see [`LiveEngine::delete`].
    pub fn apply_json(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        json: &str,
    ) -> Result<Vec<AggregatedRules>, JsonError> {
        let applied = Object::parse_at(kind, namespace, name, json).and_then(|object| {
            self.apply(object).map_err(|error| JsonError::at(json, 1, "metadata.name", error.to_string()))
        });
        if applied.is_err() {
            self.delete(kind, namespace, name);
        }
        applied
    }

    /// Deletes an object. If the engine has a default policy, its object of the same name takes effect again. Returns
    /// the same as [`LiveEngine::apply`].
    pub fn delete(&self, kind: Kind, namespace: &str, name: &str) -> Vec<AggregatedRules> {
        if self.has_admission {
            self.cache_mut().delete(kind, namespace, name);
        }
        let namespace = if kind.is_namespaced() { namespace } else { "" };
        if let Some(object) = self.defaults.get(&(kind, namespace.to_owned(), name.to_owned())) {
            return self.apply_rbac(object.clone());
        }
        if self.has_graph {
            self.graph.delete(kind, namespace, name);
        }
        if kind == Kind::Namespace && self.has_deny {
            self.namespaces.delete(name);
        }
        let mut cluster_roles = self.cluster_roles();
        match kind {
            Kind::Role => self.rbac_mut().delete_role(namespace, name),
            Kind::RoleBinding => self.rbac_mut().delete_binding(namespace, name),
            Kind::ClusterRoleBinding => self.rbac_mut().delete_cluster_role_binding(name),
            Kind::ClusterRole => {
                let changes = cluster_roles.delete(name);
                let mut rbac = self.rbac_mut();
                rbac.delete_cluster_role(name);
                return put_in_force(&mut rbac, changes);
            }
            _ => {}
        }
        Vec::new()
    }

    fn apply_rbac(&self, object: Object<'_>) -> Vec<AggregatedRules> {
        let mut cluster_roles = self.cluster_roles();
        match object {
            Object::ClusterRole(role) => {
                let changes = cluster_roles.apply(role);
                put_in_force(&mut self.rbac_mut(), changes)
            }
            object => {
                self.rbac_mut().apply(object);
                Vec::new()
            }
        }
    }

    /// Marks the initial list of all objects as complete. From now on nodes can reach objects (NA-13).
    pub fn mark_complete(&self) {
        self.graph.mark_complete();
    }

    /// The feature gates.
    pub fn gates(&self) -> FeatureGates {
        self.gates
    }

    /// The authorizers, in order.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The graph of mode Node; empty without that mode.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Decides one request. Allocates nothing.
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Outcome {
        self.chain.decide(attributes)
    }

    /// Lists what a user may do in a namespace (AC-59).
    pub fn rules_for(&self, user: &User, namespace: &str) -> RuleListing {
        self.chain.rules_for(user, namespace)
    }

    /// Explains a decision, for those who may see all of it.
    pub fn explain(&self, attributes: &Attributes<'_>) -> Explanation {
        self.chain.explain(attributes)
    }

    /// Decides one write by NodeRestriction, over the objects as they are now. The question of NR-73 goes to this engine's own
    /// chain.
    ///
    /// # Errors
    /// The node may not write this (NR-6).
    pub fn admit(&self, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
        self.assess(request)?.decide(|question| self.authorize(question).is_allow())
    }

    /// Assesses one write by NodeRestriction, over the objects as they are now. A question that it leaves open (NR-73) is
    /// for all authorizers.
    ///
    /// # Errors
    /// The node may not write this (NR-6).
    pub fn assess<'r>(&self, request: &AdmissionRequest<'r>) -> Result<Assessment<'r>, Rejection> {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        restriction(&cache, self.gates, &self.certificate_requests).assess(request)
    }

    /// Checks a write of a role or a binding against deny rules (BC-31).
    ///
    /// # Errors
    /// See [`DenyAuthorizer::check_write`](crate::deny::DenyAuthorizer::check_write).
    pub fn check_grant(&self, write: &RbacWrite<'_>) -> Result<(), GrantRefusal> {
        let Some(deny) = self.chain.deny() else { return Ok(()) };
        // The lock is held while the role is looked up, and not while it is compared.
        deny.check_write(write, |role, namespace| self.index().resolve(role, namespace))
    }

    /// Locks the current roles and bindings for reading. While the guard is held no object can be applied, and the
    /// holder must not call this engine.
    pub fn index(&self) -> RwLockReadGuard<'_, RbacIndex> {
        self.rbac.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn rbac_mut(&self) -> RwLockWriteGuard<'_, RbacIndex> {
        self.rbac.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache_mut(&self) -> RwLockWriteGuard<'_, ObjectCache> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn cluster_roles(&self) -> MutexGuard<'_, ClusterRoles> {
        self.cluster_roles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put_in_force(rbac: &mut RbacIndex, changes: Changes) -> Vec<AggregatedRules> {
    changes.in_force.into_iter().for_each(|role| rbac.apply_cluster_role(role));
    changes.due
}
