//! The engine: the authorizer chain and the lookups of admission, built from one set of objects.
//!
//! An [`Engine`] is immutable. To use a new set of objects, build another engine and replace this one. A [`LiveEngine`]
//! applies and deletes single objects, for a server that has its own store.

mod live;
pub mod needs;

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_apimachinery::json::JsonError;

use crate::abac::AbacPolicyFile;
use crate::chain::{Chain, Explanation, Member, Mode, Outcome};
use crate::deny::{DenyAuthorizer, GrantRefusal, LiveRules, Namespaces, NodeScope};
use crate::features::FeatureGates;
use crate::graph::{Graph, VertexError};
use crate::node::NodeAuthorizer;
use crate::objects::rbac::Role;
use crate::objects::{Kind, Object};
use crate::rbac::escalation::RbacWrite;
use crate::rbac::{RbacIndex, aggregation, default_policy};
use crate::request::{Attributes, User};
use crate::restriction::{AdmissionRequest, CertificateRequests, NodeRestriction, ObjectCache, Rejection};
use crate::rules::RuleListing;

pub use live::LiveEngine;

/// The configuration of an engine.
#[derive(Clone, Debug, Default)]
pub struct EngineConfig {
    /// The authorization modes, in order.
    pub modes: Vec<Mode>,
    /// The feature gates.
    pub gates: FeatureGates,
    /// The policy of mode ABAC.
    pub abac: Option<Arc<AbacPolicyFile>>,
    /// The rules of mode Deny.
    pub deny: Option<Arc<LiveRules>>,
    /// Whether writes of roles and bindings are compared with the rules of mode Deny (BC-31).
    pub deny_escalation: bool,
    /// The node-scoped service accounts of mode Deny.
    pub node_scope: Option<Arc<NodeScope>>,
    /// Whether requests of group `system:masters` are allowed before any authorizer is called (AC-63).
    pub masters_first: bool,
    /// Whether to add the default RBAC policy (RB-80). A given object of the same name takes precedence.
    pub default_policy: bool,
    /// The super-user, whom RBAC allows every request (RB-125); empty for none.
    pub super_user: String,
    /// Whether the engine serves admission, and so keeps the objects that admission looks up.
    pub admission: bool,
    /// Reads the certificate requests that nodes create (NR-99). Without a reader, admission refuses those that ask for
    /// a certificate of a kubelet.
    pub certificate_requests: Option<Arc<dyn CertificateRequests>>,
    /// Whether mode Webhook may be among the modes, any number of times: for callers that ask the webhooks. For all
    /// others they deny ([`Chain::decide`]).
    pub webhooks: bool,
}

/// An error in the configuration of an engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Mode ABAC without a policy (AC-72).
    #[error("authorization-mode ABAC's authorization policy file not passed")]
    AbacWithoutPolicy,
    /// Mode Deny without rules (BC-30).
    #[error(
        "authorization-mode Deny's rules not passed: name them with --deny-file, or accounts with --node-scoped"
    )]
    DenyWithoutRules,
    /// Deny rules without mode Deny, which would not be in force.
    #[error("cannot specify --deny-file without mode Deny: name it first in --authorization-mode")]
    RulesWithoutDeny,
    /// The escalation check over deny rules without deny rules.
    #[error(
        "cannot specify --deny-escalation-check without --deny-file: there is nothing to compare roles with"
    )]
    EscalationWithoutRules,
    /// Node-scoped accounts without mode Deny, which would not be in force.
    #[error("cannot specify --node-scoped without mode Deny: name it first in --authorization-mode")]
    ScopeWithoutDeny,
    /// No authorization mode (AC-72).
    #[error("at least one authorization-mode must be passed")]
    NoMode,
    /// A policy without mode ABAC (AC-72).
    #[error("cannot specify --authorization-policy-file without mode ABAC")]
    PolicyWithoutAbac,
    /// A repeated mode (AC-72).
    #[error("authorization-mode {0:?} has mode specified more than once")]
    RepeatedMode(Vec<String>),
    /// Mode Webhook, which this engine does not support.
    #[error(
        "authorization-mode Webhook is not available here: the decision must not wait for a remote service"
    )]
    Webhook,
}

/// Why an engine cannot be built from these objects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The configuration contradicts itself.
    #[error(transparent)]
    Config(#[from] EngineError),
    /// An object cannot be taken in.
    #[error("objects[{index}]: {error}")]
    Object {
        /// Which of the objects, from 0.
        index: usize,
        /// The fault, and where it is.
        error: JsonError,
    },
}

impl EngineConfig {
    /// Validates the modes (AC-72) and returns all errors.
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
        let has_deny = self.modes.contains(&Mode::Deny);
        if has_deny && self.deny.is_none() && self.node_scope.is_none() {
            errors.push(EngineError::DenyWithoutRules);
        }
        if !has_deny && self.deny.is_some() {
            errors.push(EngineError::RulesWithoutDeny);
        }
        if self.deny_escalation && self.deny.is_none() {
            errors.push(EngineError::EscalationWithoutRules);
        }
        if !has_deny && self.node_scope.is_some() {
            errors.push(EngineError::ScopeWithoutDeny);
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

    /// Whether decisions use the graph of which object belongs to which node.
    fn has_graph(&self) -> bool {
        self.modes.contains(&Mode::Node) || self.node_scope.is_some()
    }
}

/// Builds an [`Engine`] from objects.
#[derive(Debug)]
pub struct Builder {
    config: EngineConfig,
    graph: Graph,
    rbac: RbacIndex,
    /// Kept until the end if there is a default policy, because some roles aggregate the rules of others.
    cluster_roles: BTreeMap<String, Role>,
    cache: ObjectCache,
    namespaces: Arc<Namespaces>,
}

impl Builder {
    /// Creates a builder without objects.
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
            namespaces: Arc::default(),
            config,
        };
        if builder.config.default_policy {
            for object in default_policy::objects(builder.config.gates) {
                builder.take_rbac(object);
            }
        }
        Ok(builder)
    }

    /// Adds one object. Objects that neither the modes nor admission need are ignored.
    ///
    /// # Errors
    /// The graph cannot hold the object's names (see [`VertexError`]).
    pub fn take(&mut self, object: Object<'_>) -> Result<(), VertexError> {
        if self.config.admission {
            self.cache.apply(&object);
        }
        if let Object::Namespace(namespace) = &object
            && self.config.modes.contains(&Mode::Deny)
        {
            self.namespaces.apply(namespace);
        }
        match object.kind() {
            Kind::Role | Kind::RoleBinding | Kind::ClusterRole | Kind::ClusterRoleBinding => {
                if self.config.modes.contains(&Mode::Rbac) || self.config.deny_escalation {
                    self.take_rbac(object);
                }
                Ok(())
            }
            _ if self.config.has_graph() => self.graph.apply(&object),
            _ => Ok(()),
        }
    }

    /// Takes one object in, given as JSON with its `apiVersion` and `kind`. An object of a kind that plays no part in
    /// decisions is passed over.
    ///
    /// # Errors
    /// See [`Object::from_json`]; or the object's names cannot be kept.
    pub fn take_json(&mut self, json: &str) -> Result<(), JsonError> {
        let Some(object) = Object::from_json(json)? else { return Ok(()) };
        self.take(object).map_err(|error| JsonError::at(json, 1, "metadata.name", error.to_string()))
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

    /// Builds the engine. The objects are considered complete, so the graph is ready.
    pub fn finish(mut self) -> Engine {
        // RB-79: without a default policy, roles are not aggregated.
        let mut cluster_roles: Vec<Role> = self.cluster_roles.into_values().collect();
        aggregation::aggregate(&mut cluster_roles);
        for role in cluster_roles {
            self.rbac.apply_cluster_role(role);
        }
        self.graph.mark_complete();
        let graph = Arc::new(self.graph);
        let config = &self.config;
        let rbac = Arc::new(self.rbac);
        let chain = chain(config, &graph, &self.namespaces, &Member::Rbac(Arc::clone(&rbac)));
        let gates = config.gates;
        Engine {
            chain,
            graph,
            rbac,
            cache: self.cache,
            gates,
            certificate_requests: self.config.certificate_requests,
        }
    }
}

/// Builds the chain of the configured modes.
fn chain(config: &EngineConfig, graph: &Arc<Graph>, namespaces: &Arc<Namespaces>, rbac: &Member) -> Chain {
    let members = config.modes.iter().filter_map(|mode| match mode {
        Mode::Abac => config.abac.clone().map(Member::Abac),
        Mode::AlwaysAllow => Some(Member::AlwaysAllow),
        Mode::AlwaysDeny => Some(Member::AlwaysDeny),
        Mode::Deny => {
            let (rules, scope) = (config.deny.clone(), config.node_scope.clone());
            let deny = DenyAuthorizer::new(rules, scope, Arc::clone(namespaces), Arc::clone(graph));
            Some(Member::Deny(Arc::new(deny.checking_escalation(config.deny_escalation))))
        }
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
    rbac: Arc<RbacIndex>,
    cache: ObjectCache,
    gates: FeatureGates,
    certificate_requests: Option<Arc<dyn CertificateRequests>>,
}

impl Engine {
    /// An engine over these objects, each given as JSON (see [`Builder::take_json`]): all of them or none.
    ///
    /// # Errors
    /// The modes contradict each other, or the first object that cannot be taken in.
    pub fn from_json<'t>(
        config: EngineConfig,
        objects: impl IntoIterator<Item = &'t str>,
    ) -> Result<Self, BuildError> {
        let mut builder = Builder::new(config)?;
        for (index, json) in objects.into_iter().enumerate() {
            builder.take_json(json).map_err(|error| BuildError::Object { index, error })?;
        }
        Ok(builder.finish())
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

    /// The authorizers, in order.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Checks a write of a role or a binding against deny rules (BC-31).
    ///
    /// # Errors
    /// See [`DenyAuthorizer::check_write`].
    pub fn check_grant(&self, write: &RbacWrite<'_>) -> Result<(), GrantRefusal> {
        let Some(deny) = self.chain.deny() else { return Ok(()) };
        deny.check_write(write, |role, namespace| self.rbac.resolve(role, namespace))
    }

    /// The graph of mode Node; empty without that mode and without node-scoped accounts.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The feature gates.
    pub fn gates(&self) -> FeatureGates {
        self.gates
    }

    /// NodeRestriction over the same objects.
    pub fn node_restriction(&self) -> NodeRestriction<'_> {
        restriction(&self.cache, self.gates, &self.certificate_requests)
    }

    /// Decides one write by NodeRestriction. The question of NR-73 goes to this engine's own chain.
    ///
    /// # Errors
    /// The node may not write this (NR-6).
    pub fn admit(&self, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
        self.node_restriction().admit(request, &self.chain)
    }
}

/// NodeRestriction over what a cache knows.
fn restriction<'a>(
    cache: &'a ObjectCache,
    gates: FeatureGates,
    reader: &'a Option<Arc<dyn CertificateRequests>>,
) -> NodeRestriction<'a> {
    let plugin = NodeRestriction::new(cache, gates);
    match reader {
        Some(reader) => plugin.with_certificate_requests(&**reader),
        None => plugin,
    }
}
