//! Everything that decides, built from one set of objects: the chain of authorizers, and what admission looks up.
//!
//! An [`Engine`] never changes once built. To take a new set of objects in, build another and put it in its place. A
//! [`LiveEngine`] takes in and forgets single objects: for a server that has a store of its own.

mod live;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::abac::AbacPolicyFile;
use crate::chain::{Chain, Member, Mode};
use crate::decision::Authorizer;
use crate::features::FeatureGates;
use crate::graph::{Graph, VertexError};
use crate::node::NodeAuthorizer;
use crate::objects::rbac::Role;
use crate::objects::{Kind, Object};
use crate::rbac::{RbacIndex, aggregation, default_policy};
use crate::restriction::{AdmissionRequest, CommonNameReader, NodeRestriction, ObjectCache, Rejection};

pub use live::{LiveEngine, RbacWrite};

/// What an engine is to do.
#[derive(Clone, Debug, Default)]
pub struct EngineConfig {
    /// The modes, in order.
    pub modes: Vec<Mode>,
    /// The feature gates in force.
    pub gates: FeatureGates,
    /// The policy of mode ABAC.
    pub abac: Option<Arc<AbacPolicyFile>>,
    /// Whether group `system:masters` is allowed everything before any mode is asked (AC-63).
    pub masters_first: bool,
    /// Whether the default RBAC policy (RB-80) is there beside the objects; an object of the same name wins.
    pub default_policy: bool,
    /// A user that RBAC allows everything (RB-125); empty for none.
    pub super_user: String,
    /// Whether admission reviews are to be answered, so that what they look up is kept.
    pub admission: bool,
    /// Whether mode Webhook may be among the modes, any number of times: somebody who can wait asks the services then.
    /// Until asked they deny.
    pub webhooks: bool,
}

/// Why an engine cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Mode ABAC without a policy (AC-72).
    #[error("authorization-mode ABAC's authorization policy file not passed")]
    AbacWithoutPolicy,
    /// No mode at all (AC-72).
    #[error("at least one authorization-mode must be passed")]
    NoMode,
    /// A policy without mode ABAC (AC-72).
    #[error("cannot specify --authorization-policy-file without mode ABAC")]
    PolicyWithoutAbac,
    /// A mode twice (AC-72).
    #[error("authorization-mode {0:?} has mode specified more than once")]
    RepeatedMode(Vec<String>),
    /// A mode that asks a remote service, which this engine cannot.
    #[error(
        "authorization-mode Webhook is not available here: the decision must not wait for a remote service"
    )]
    Webhook,
}

impl EngineConfig {
    /// Everything that is wrong with the modes; nothing when they can be used (AC-72).
    pub fn errors(&self) -> Vec<EngineError> {
        let mut errors = Vec::new();
        if self.modes.is_empty() {
            errors.push(EngineError::NoMode);
        }
        let has_abac = self.modes.contains(&Mode::Abac);
        if has_abac && self.abac.is_none() {
            errors.push(EngineError::AbacWithoutPolicy);
        }
        if !has_abac && self.abac.is_some() {
            errors.push(EngineError::PolicyWithoutAbac);
        }
        if self.modes.contains(&Mode::Webhook) && !self.webhooks {
            errors.push(EngineError::Webhook);
        }
        let repeated = self.modes.iter().enumerate().any(|(at, mode)| {
            let may_repeat = self.webhooks && *mode == Mode::Webhook;
            !may_repeat && self.modes.iter().skip(at + 1).any(|m| m == mode)
        });
        if repeated {
            errors.push(EngineError::RepeatedMode(self.modes.iter().map(Mode::to_string).collect()));
        }
        errors
    }
}

/// Takes objects in, then becomes an [`Engine`].
#[derive(Debug)]
pub struct Builder {
    config: EngineConfig,
    graph: Graph,
    rbac: RbacIndex,
    /// Kept aside with a default policy: some roles take their rules from others.
    cluster_roles: BTreeMap<String, Role>,
    cache: ObjectCache,
}

impl Builder {
    /// Starts with no objects.
    ///
    /// # Errors
    /// The first of [`EngineConfig::errors`].
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        if let Some(error) = config.errors().into_iter().next() {
            return Err(error);
        }
        let mut builder = Self {
            rbac: RbacIndex::default().with_super_user(&config.super_user),
            graph: Graph::new(),
            cluster_roles: BTreeMap::new(),
            cache: ObjectCache::default(),
            config,
        };
        if builder.config.default_policy {
            for object in default_policy::objects(builder.config.gates) {
                builder.take_rbac(object);
            }
        }
        Ok(builder)
    }

    /// Takes one object in. An object that no mode and no admission needs is passed over.
    ///
    /// # Errors
    /// The object's names cannot be kept (see [`VertexError`]).
    pub fn take(&mut self, object: Object<'_>) -> Result<(), VertexError> {
        if self.config.admission {
            self.cache.apply(&object);
        }
        match object.kind() {
            Kind::Role | Kind::RoleBinding | Kind::ClusterRole | Kind::ClusterRoleBinding => {
                if self.config.modes.contains(&Mode::Rbac) {
                    self.take_rbac(object);
                }
                Ok(())
            }
            _ if self.config.modes.contains(&Mode::Node) => self.graph.apply(&object),
            _ => Ok(()),
        }
    }

    fn take_rbac(&mut self, object: Object<'_>) {
        match object {
            Object::ClusterRole(role) if self.config.default_policy => {
                self.cluster_roles.insert(role.metadata.name.clone(), role);
            }
            object => {
                self.rbac.apply(object);
            }
        }
    }

    /// The engine over everything that was taken in. It is taken for the whole: the graph is complete.
    pub fn finish(mut self) -> Engine {
        // RB-79: without a default policy, roles are taken as they are.
        let mut cluster_roles: Vec<Role> = self.cluster_roles.into_values().collect();
        aggregation::aggregate(&mut cluster_roles);
        for role in cluster_roles {
            self.rbac.apply_cluster_role(role);
        }
        self.graph.mark_complete();
        let graph = Arc::new(self.graph);
        let config = &self.config;
        let chain = chain(config, &graph, &Member::Rbac(Arc::new(self.rbac)));
        Engine { chain, graph, cache: self.cache, gates: config.gates }
    }
}

/// The modes in order, over what they decide by.
fn chain(config: &EngineConfig, graph: &Arc<Graph>, rbac: &Member) -> Chain {
    let members = config.modes.iter().filter_map(|mode| match mode {
        Mode::Abac => config.abac.clone().map(Member::Abac),
        Mode::AlwaysAllow => Some(Member::AlwaysAllow),
        Mode::AlwaysDeny => Some(Member::AlwaysDeny),
        Mode::Node => Some(Member::Node(Arc::new(NodeAuthorizer::new(Arc::clone(graph), config.gates)))),
        Mode::Rbac => Some(rbac.clone()),
        Mode::Webhook => Some(Member::Webhook),
    });
    let chain = Chain::new(members.collect());
    if config.masters_first { chain.with_masters() } else { chain }
}

/// See the module.
#[derive(Debug)]
pub struct Engine {
    chain: Chain,
    graph: Arc<Graph>,
    cache: ObjectCache,
    gates: FeatureGates,
}

impl Engine {
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

    /// NodeRestriction over the same objects. The question of NR-73 goes to this engine's own chain.
    pub fn node_restriction(&self, read_common_name: CommonNameReader) -> NodeRestriction<'_> {
        let authorizer: &dyn Authorizer = &self.chain;
        NodeRestriction::new(&self.cache, authorizer, self.gates, read_common_name)
    }

    /// Decides one write by NodeRestriction, where this authorizer is asked instead of the engine's own chain.
    ///
    /// # Errors
    /// The node may not write this (NR-6).
    pub fn admit_by(
        &self,
        request: &AdmissionRequest<'_>,
        read_common_name: CommonNameReader,
        authorizer: &dyn Authorizer,
    ) -> Result<(), Rejection> {
        NodeRestriction::new(&self.cache, authorizer, self.gates, read_common_name).admit(request)
    }

    /// Decides one write by NodeRestriction.
    ///
    /// # Errors
    /// The node may not write this (NR-6).
    pub fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        read_common_name: CommonNameReader,
    ) -> Result<(), Rejection> {
        self.node_restriction(read_common_name).admit(request)
    }
}
