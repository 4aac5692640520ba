//! Admission of writes, after authorization. Mutating plugins may change the object; validating plugins may only refuse
//! it.
//!
//! The order of `PLUGINS` is that of kube-apiserver (NR-5, MP-21). The first refusal is returned. Dry runs are
//! admitted like any other write (NR-9).
//!
//! DIVERGES: NodeRestriction is enabled by default (NR-1). kube-apiserver disables it by default, so that a node may write any
//! Node and any pod.

mod authorizer;
mod bootstrap_namespaces;
mod certificate_approval;
mod certificate_signing;
mod certificate_subject_restriction;
mod chain;
mod claim_status;
mod configuration;
mod configured;
mod default_storage_class;
mod default_toleration_seconds;
mod escalation;
mod gate;
mod limit_ranger;
mod matching;
mod namespace_lifecycle;
mod node_restriction;
mod persistent_volume_claim_resize;
mod plugin;
mod plugins;
mod pod_resize;
mod pod_security;
mod pod_security_metrics;
mod pod_topology_labels;
pub(crate) mod policies;
mod priority;
mod question;
mod remarks;
mod resource_quota;
mod rules;
mod runtime_class;
mod service_account;
mod versions;
pub(crate) mod webhook;

pub use self::configuration::{AdmissionConfiguration, ConfigurationError};
pub(crate) use self::gate::{AdmissionState, Gate};
pub use self::plugins::{AdmissionPlugins, PluginError};
pub(crate) use self::pod_security_metrics::PodSecurityMetrics;
