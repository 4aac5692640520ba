//! The metrics of PodSecurity, under the names and with the labels of kube-apiserver. Versions that a namespace may name and that do
//! not exist yet are one value.

use kinds::pod_security::{Level, Policy, Standard, Version};
use kinds::resources::pods::PODS;
use portcullis_client::metrics::{Counter, Family};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::Registry;

use crate::registry::admission::{AdmissionAttributes, Operation};

/// The newest version of Kubernetes whose checks are known.
const NEWEST: Version = Version::Minor(36);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    request_operation: &'static str,
    resource: &'static str,
    subresource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EvaluationLabels {
    decision: &'static str,
    policy_level: &'static str,
    policy_version: String,
    mode: &'static str,
    #[prometheus(flatten)]
    write: WriteLabels,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    fatal: &'static str,
    #[prometheus(flatten)]
    write: WriteLabels,
}

/// See the module. Clones share the metrics.
#[derive(Clone, Debug)]
pub(crate) struct PodSecurityMetrics {
    evaluations: Family<EvaluationLabels, Counter>,
    exemptions: Family<WriteLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
}

/// What a standard is evaluated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Enforce,
    Audit,
    Warn,
}

impl Mode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Audit => "audit",
            Self::Warn => "warn",
        }
    }
}

impl PodSecurityMetrics {
    /// Creates the metrics and registers them. Those of usual writes are there from the start, as in kube-apiserver.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let metrics =
            Self { evaluations: Family::default(), exemptions: Family::default(), errors: Family::default() };
        registry.register(
            "pod_security_evaluations_total",
            "Evaluations of Pod Security Standards, without writes that are exempt",
            metrics.evaluations.clone(),
        );
        registry.register(
            "pod_security_exemptions_total",
            "Writes that were exempt from Pod Security Standards",
            metrics.exemptions.clone(),
        );
        registry.register(
            "pod_security_errors_total",
            "Errors that prevented the usual evaluation of Pod Security Standards; after those that are not fatal stricter ones may have been used",
            metrics.errors.clone(),
        );
        for request_operation in ["create", "update"] {
            let write = |resource| WriteLabels { request_operation, resource, subresource: "" };
            let free = evaluation_labels(Policy::default().enforce, Mode::Enforce, true, write("pod"));
            drop(metrics.evaluations.get_or_create(&free));
            for resource in ["pod", "controller"] {
                drop(metrics.exemptions.get_or_create(&write(resource)));
            }
        }
        metrics
    }

    /// Counts an evaluation.
    pub(super) fn evaluated(
        &self,
        standard: Standard,
        mode: Mode,
        is_met: bool,
        attributes: &AdmissionAttributes<'_>,
    ) {
        let labels = evaluation_labels(standard, mode, is_met, WriteLabels::of(attributes));
        self.evaluations.get_or_create(&labels).inc();
    }

    /// Counts an exempt write.
    pub(super) fn exempted(&self, attributes: &AdmissionAttributes<'_>) {
        self.exemptions.get_or_create(&WriteLabels::of(attributes)).inc();
    }

    /// Counts an error, after which nothing was evaluated if it is fatal.
    pub(super) fn failed(&self, is_fatal: bool, attributes: &AdmissionAttributes<'_>) {
        let fatal = if is_fatal { "true" } else { "false" };
        self.errors.get_or_create(&ErrorLabels { fatal, write: WriteLabels::of(attributes) }).inc();
    }
}

impl WriteLabels {
    fn of(attributes: &AdmissionAttributes<'_>) -> Self {
        Self {
            request_operation: match attributes.operation {
                Operation::Create => "create",
                _ => "update",
            },
            resource: match attributes.resource {
                resource if resource.is_namespace => "namespace",
                resource if *resource == PODS => "pod",
                _ => "controller",
            },
            subresource: attributes.subresource,
        }
    }
}

fn evaluation_labels(standard: Standard, mode: Mode, is_met: bool, write: WriteLabels) -> EvaluationLabels {
    let policy_version = match standard {
        // The level forbids nothing in any version.
        Standard { level: Level::Privileged, .. } => Version::Latest.to_string(),
        Standard { version: Version::Latest, .. } => Version::Latest.to_string(),
        Standard { version, .. } if version <= NEWEST => version.to_string(),
        Standard { .. } => "future".to_owned(),
    };
    EvaluationLabels {
        decision: if is_met { "allow" } else { "deny" },
        policy_level: standard.level.name(),
        policy_version,
        mode: mode.as_str(),
        write,
    }
}
