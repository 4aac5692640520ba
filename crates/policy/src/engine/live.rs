//! An engine whose objects come and go while it decides.
//!
//! Readers share a lock on the roles and bindings, and another on what admission looks up; the graph has its own. Each
//! is held by a writer only while one object goes in, so that a decision waits for no more than that. The answers are
//! at all times those of an [`Engine`](super::Engine) over the objects that are there, aggregated ClusterRoles included
//! (RB-79).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{EngineConfig, EngineError, chain};
use crate::chain::{Chain, Explanation, Member, Mode, Outcome};
use crate::decision::{Authorizer, Decision};
use crate::features::FeatureGates;
use crate::graph::{Graph, VertexError};
use crate::objects::{Kind, Object};
use crate::rbac::escalation::{Refusal, Write};
use crate::rbac::{AggregatedRules, Changes, ClusterRoles, RbacIndex, default_policy};
use crate::request::{Attributes, User};
use crate::restriction::{AdmissionRequest, CommonNameReader, NodeRestriction, ObjectCache, Rejection};
use crate::rules::RuleListing;

/// See the module.
#[derive(Debug)]
pub struct LiveEngine {
    chain: Chain,
    graph: Arc<Graph>,
    rbac: Arc<RwLock<RbacIndex>>,
    cache: RwLock<ObjectCache>,
    /// Taken before `rbac` by whoever writes: one writer at a time.
    cluster_roles: Mutex<ClusterRoles>,
    /// The default policy, where it is there beside the objects.
    defaults: BTreeMap<(Kind, String, String), Object<'static>>,
    gates: FeatureGates,
    has_node: bool,
    has_admission: bool,
}

/// A write to a role or a binding, for [`LiveEngine::check_write`].
#[derive(Clone, Copy, Debug)]
pub struct RbacWrite<'a> {
    /// The caller.
    pub user: &'a User,
    /// The namespace of the request; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name in the request's URL; empty on POST (RB-52).
    pub name: &'a str,
    /// The object to be stored.
    pub new: &'a Object<'a>,
    /// The object stored now, if there is one.
    pub old: Option<&'a Object<'a>>,
    /// See [`Write::only_garbage_collection`].
    pub only_garbage_collection: bool,
}

impl LiveEngine {
    /// Starts with no objects, or with the default policy alone. Nodes reach nothing before
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
        let mut engine = Self {
            chain: chain(config, &graph, &Member::LiveRbac(Arc::clone(&rbac))),
            graph,
            rbac,
            cache: RwLock::default(),
            cluster_roles: Mutex::default(),
            defaults: BTreeMap::new(),
            gates: config.gates,
            has_node: config.modes.contains(&Mode::Node),
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

    /// Takes an object in, in place of one of the same kind, namespace and name. Returns the aggregated ClusterRoles
    /// that now should be written with other rules (RB-79); decisions go by these already.
    ///
    /// Roles and bindings count for [`LiveEngine::check_write`] also without mode RBAC (RB-3).
    ///
    /// # Errors
    /// The object's names cannot be kept (see [`VertexError`]); then nodes reach nothing by this object.
    pub fn apply(&self, object: Object<'_>) -> Result<Vec<AggregatedRules>, VertexError> {
        if self.has_admission {
            self.cache_mut().apply(&object);
        }
        match object.kind() {
            Kind::Role | Kind::RoleBinding | Kind::ClusterRole | Kind::ClusterRoleBinding => {
                Ok(self.apply_rbac(object))
            }
            _ if self.has_node => self.graph.apply(&object).map(|()| Vec::new()),
            _ => Ok(Vec::new()),
        }
    }

    /// Forgets an object; one of the default policy is there again then, if the engine has that. Returns what
    /// [`LiveEngine::apply`] does.
    pub fn delete(&self, kind: Kind, namespace: &str, name: &str) -> Vec<AggregatedRules> {
        if self.has_admission {
            self.cache_mut().delete(kind, namespace, name);
        }
        let namespace = if kind.is_namespaced() { namespace } else { "" };
        if let Some(object) = self.defaults.get(&(kind, namespace.to_owned(), name.to_owned())) {
            return self.apply_rbac(object.clone());
        }
        if self.has_node {
            self.graph.delete(kind, namespace, name);
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

    /// Notes that all objects of the store have been taken in once: from now on nodes reach what they reach (NA-13).
    pub fn mark_complete(&self) {
        self.graph.mark_complete();
    }

    /// The authorizers, in order.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The graph behind mode Node; empty without that mode.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The feature gates in force.
    pub fn gates(&self) -> FeatureGates {
        self.gates
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

    /// Decides one write by NodeRestriction, over the objects as they are now. The question of NR-73 goes to this
    /// engine's own chain.
    ///
    /// # Errors
    /// The node may not write this (NR-6).
    pub fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        read_common_name: CommonNameReader,
    ) -> Result<(), Rejection> {
        self.admit_by(request, read_common_name, &self.chain)
    }

    /// [`LiveEngine::admit`], where this authorizer is asked instead of the engine's own chain.
    ///
    /// # Errors
    /// The node may not write this (NR-6).
    pub fn admit_by(
        &self,
        request: &AdmissionRequest<'_>,
        read_common_name: CommonNameReader,
        authorizer: &dyn Authorizer,
    ) -> Result<(), Rejection> {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        NodeRestriction::new(&*cache, authorizer, self.gates, read_common_name).admit(request)
    }

    /// Decides whether a role or a binding may be written (RB-50 to RB-64), over the roles and bindings as they are
    /// now (RB-5): who stores objects hands them to this engine before the next write is checked. Objects of other
    /// kinds may.
    ///
    /// # Errors
    /// The refusal to answer with.
    pub fn check_write(&self, write: &RbacWrite<'_>) -> Result<(), Refusal> {
        let index = self.rbac.read().unwrap_or_else(PoisonError::into_inner);
        check_by(&index, write, &Locked { chain: &self.chain, index: &index })
    }

    /// [`LiveEngine::check_write`], where this authorizer is asked instead of the engine's own chain. The roles and
    /// bindings are locked meanwhile: it must not ask this engine anything.
    ///
    /// # Errors
    /// The refusal to answer with.
    pub fn check_write_by(&self, write: &RbacWrite<'_>, authorizer: &dyn Authorizer) -> Result<(), Refusal> {
        let index = self.rbac.read().unwrap_or_else(PoisonError::into_inner);
        check_by(&index, write, authorizer)
    }

    /// The roles and bindings as they are now. Nothing can be taken in while this is held, and who holds it must not
    /// ask this engine anything.
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

fn check_by(index: &RbacIndex, write: &RbacWrite<'_>, authorizer: &dyn Authorizer) -> Result<(), Refusal> {
    let RbacWrite { user, namespace, name, only_garbage_collection, .. } = *write;
    let check = Write { index, authorizer, user, namespace, name, only_garbage_collection };
    match write.new {
        Object::Role(new) => check.check_role(new),
        Object::ClusterRole(new) => {
            let old = match write.old {
                Some(Object::ClusterRole(old)) => Some(old),
                _ => None,
            };
            check.check_cluster_role(new, old)
        }
        Object::RoleBinding(new) => check.check_binding(new),
        Object::ClusterRoleBinding(new) => check.check_cluster_role_binding(new),
        _ => Ok(()),
    }
}

fn put_in_force(rbac: &mut RbacIndex, changes: Changes) -> Vec<AggregatedRules> {
    changes.in_force.into_iter().for_each(|role| rbac.apply_cluster_role(role));
    changes.due
}

/// The chain over an index that is locked already.
struct Locked<'a> {
    chain: &'a Chain,
    index: &'a RbacIndex,
}

impl Authorizer for Locked<'_> {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        self.chain.decide_over(self.index, attributes).into()
    }
}
