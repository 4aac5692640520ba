//! Decides what Kubernetes nodes and users may do: the Node, RBAC and ABAC authorizers, their chain, and NodeRestriction
//! admission.
//!
//! Every decision is a pure function of its arguments and of indexes that the caller fills. This crate has no clock, no
//! I/O, no async runtime, no TLS and no Kubernetes client, and it never will. A decision takes references and returns a
//! value; it does not allocate, wait or log.
//!
//! The rules are numbered (`NA-`, `NR-`, `MP-`, `KA-`, `AC-`, `AB-`, `RB-`, `WH-`, `CS-`, `NB-`), and each function names
//! the ones that it implements. Where we differ from Kubernetes on purpose, the code says `DIVERGES:` and
//! `docs/compatibility.md` lists the difference.
//!
//! # Authorize and explain
//!
//! Build an [`Engine`] from Kubernetes objects, as `kubectl get -o json` prints each of them. Then ask it about requests.
//! The kubelet of a node may read the Secrets of the pods on its node; a user may read what a Role grants:
//!
//! ```
//! use portcullis_policy::{Engine, EngineConfig, Mode, RequestInfo, User};
//!
//! let pod = r#"{"apiVersion": "v1", "kind": "Pod",
//!     "metadata": {"namespace": "web", "name": "shop"},
//!     "spec": {"nodeName": "node-1", "volumes": [{"name": "v", "secret": {"secretName": "database"}}]}}"#;
//! let role = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
//!     "metadata": {"namespace": "web", "name": "read-secrets"},
//!     "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]}"#;
//! let binding = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
//!     "metadata": {"namespace": "web", "name": "jane-reads-secrets"},
//!     "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
//!     "roleRef": {"kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": "read-secrets"}}"#;
//!
//! let config = EngineConfig { modes: vec![Mode::Node, Mode::Rbac], ..EngineConfig::default() };
//! let engine = Engine::from_json(config, [pod, role, binding])?;
//!
//! let request = RequestInfo::parse("GET", "/api/v1/namespaces/web/secrets/database")?;
//! let node = User::new("system:node:node-1", ["system:nodes"]);
//! let asked = request.attributes(&node);
//! let outcome = engine.authorize(&asked);
//! assert!(outcome.is_allow());
//! assert_eq!(outcome.by, Some(Mode::Node));
//! let explanation = engine.explain(&asked).to_string();
//! assert_eq!(
//!     explanation,
//!     "Node: allowed by the path nodes/node-1 <- pods/web/shop <- secrets/web/database"
//! );
//!
//! let jane = User::new("jane", ["system:authenticated"]);
//! let asked = request.attributes(&jane);
//! let outcome = engine.authorize(&asked);
//! assert!(outcome.is_allow());
//! assert_eq!(
//!     outcome.reason(&asked),
//!     r#"RBAC: allowed by RoleBinding "jane-reads-secrets/web" of Role "read-secrets" to User "jane""#
//! );
//!
//! // No pod on node-2 mounts the Secret, and no binding names the node.
//! let other = User::new("system:node:node-2", ["system:nodes"]);
//! let asked = request.attributes(&other);
//! let outcome = engine.authorize(&asked);
//! assert!(!outcome.is_allow());
//! let reason = "no relationship found between node 'node-2' and this object";
//! assert_eq!(outcome.reason(&asked), reason);
//! println!("{}", engine.explain(&asked));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Admission
//!
//! Authorizers do not see the body of a write. NodeRestriction does, and refuses what one node must not write about
//! another. Users who are not nodes always pass.
//!
//! ```
//! use portcullis_policy::{AdmissionObject, AdmissionRequest, Engine, EngineConfig, Mode, Operation, User};
//!
//! let config = EngineConfig { modes: vec![Mode::Node], admission: true, ..EngineConfig::default() };
//! let engine = Engine::from_json(config, [])?;
//! let lease = AdmissionObject::Json(
//!     r#"{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
//!         "metadata": {"namespace": "kube-node-lease", "name": "node-1"}}"#,
//! );
//! let renewed_by = |user: &User| {
//!     engine.admit(&AdmissionRequest {
//!         operation: Operation::Update,
//!         group: "coordination.k8s.io",
//!         resource: "leases",
//!         subresource: "",
//!         namespace: "kube-node-lease",
//!         name: "node-1",
//!         user,
//!         object: Some(lease),
//!         old_object: Some(lease),
//!     })
//! };
//!
//! assert_eq!(renewed_by(&User::new("system:node:node-1", ["system:nodes"])), Ok(()));
//!
//! let rejection = renewed_by(&User::new("system:node:node-2", ["system:nodes"])).unwrap_err();
//! assert_eq!(rejection.code, 403);
//! assert_eq!(
//!     rejection.to_string(),
//!     "leases.coordination.k8s.io \"node-1\" is forbidden: node \"node-2\" may write only the lease of its own name"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A node may create certificate requests for kubelet signers only in its own name. This crate does not read X.509:
//! implement [`CertificateRequests`] and set it as [`EngineConfig::certificate_requests`]. Without it, such requests of
//! nodes are refused.
//!
//! # Questions about everything
//!
//! The engine also answers which rules a user has, and which nodes reach an object:
//!
//! ```
//! use portcullis_policy::graph::VertexKind;
//! use portcullis_policy::{Engine, EngineConfig, Mode, User};
//!
//! let config = EngineConfig { modes: vec![Mode::Node, Mode::Rbac], ..EngineConfig::default() };
//! let engine = Engine::from_json(config, [
//!     r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "web", "name": "shop"}, "spec": {
//!         "nodeName": "node-1", "volumes": [{"name": "v", "configMap": {"name": "settings"}}]}}"#,
//!     r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "metrics"},
//!         "rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]}"#,
//!     r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "metrics"},
//!         "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "monitoring"}],
//!         "roleRef": {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "metrics"}}"#,
//! ])?;
//!
//! assert_eq!(engine.graph().reached_by(VertexKind::ConfigMap, "web", "settings"), ["node-1"]);
//!
//! let rules = engine.rules_for(&User::new("prometheus", ["monitoring"]), "web");
//! assert!(rules.resource_rules.is_empty());
//! assert_eq!(rules.non_resource_rules[0].non_resource_urls, ["/metrics"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! An engine is built from all objects or not at all. The error says which object, where in it, and why:
//!
//! ```
//! use portcullis_policy::{Engine, EngineConfig, Mode};
//!
//! let config = EngineConfig { modes: vec![Mode::Node], ..EngineConfig::default() };
//! let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop"}}"#;
//! let error = Engine::from_json(config, [pod]).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "objects[0]: line 1, column 1: metadata.namespace: is missing: a Pod lives in a namespace, and kubectl get prints it"
//! );
//! ```
//!
//! A server whose objects change uses a [`LiveEngine`]. Own code that decides requests implements [`Authorizer`].

/// The program that the documentation begins with.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/start/rust.md")]
mod start {}

pub mod abac;
pub mod approval;
pub mod audit;
pub mod chain;
pub mod decision;
pub mod deny;
pub mod engine;
pub mod extent;
pub mod factor;
pub mod features;
pub mod graph;
pub mod identity;
pub mod kubelet_api;
pub mod node;
pub mod objects;
pub mod rbac;
pub mod rehearsal;
pub mod request;
pub mod request_info;
pub mod restriction;
pub mod review;
pub mod rules;

pub use chain::{Chain, Explanation, Mode, Outcome};
pub use decision::{Authorizer, Decision, Reason};
pub use engine::{BuildError, Engine, EngineConfig, EngineError, LiveEngine};
pub use features::FeatureGates;
pub use identity::NodeIdentity;
pub use objects::{Kind, Object};
pub use request::{Attributes, ResourceRequest, User};
pub use request_info::RequestInfo;
pub use restriction::{AdmissionObject, AdmissionRequest, CertificateRequests, Operation, Rejection};

/// The programs of the README are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
