//! The interface of admission plugins.

use kinds::resource::Resource;
use portcullis_apimachinery::text::is_same;

use super::configuration::PodSecurity;
use super::pod_security_metrics::PodSecurityMetrics;
use super::remarks::Remarks;
use crate::authz::Authorization;
use crate::registry::admission::{AdmissionAttributes, Answered, Operation};

/// Writes that a plugin handles, as in the rules of admission webhooks.
pub(crate) struct Rule {
    pub(crate) operations: &'static [Operation],
    pub(crate) resource: &'static Resource,
    /// The subresource; empty for the objects themselves.
    pub(crate) subresource: &'static str,
}

impl Rule {
    fn matches(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.operations.contains(&attributes.operation)
            && is_same(self.subresource, attributes.subresource)
            && self.resource == attributes.resource
    }
}

/// The context of validating plugins.
pub(crate) struct ValidationContext<'r> {
    pub(crate) authorization: &'r Authorization,
    /// Warnings for the client, and annotations for the audit log.
    pub(crate) remarks: &'r Remarks,
    /// The configuration of PodSecurity.
    pub(crate) pod_security: &'r PodSecurity,
    /// Its metrics.
    pub(crate) pod_security_metrics: &'r PodSecurityMetrics,
}

/// An admission plugin.
pub(crate) struct Plugin {
    /// Its name, one of those of `--enable-admission-plugins`.
    pub(crate) name: &'static str,
    /// The writes that it handles.
    pub(crate) rules: &'static [Rule],
    /// Further writes that it handles.
    pub(crate) handles: fn(&AdmissionAttributes<'_>) -> bool,
    /// Mutating admission, before the object is validated. May change the object.
    pub(crate) admit: for<'r> fn(&'r mut AdmissionAttributes<'_>, &'r Authorization) -> Answered<'r>,
    /// Validating admission, after the object was validated.
    pub(crate) validate: for<'r> fn(&'r AdmissionAttributes<'_>, &'r ValidationContext<'r>) -> Answered<'r>,
}

impl Plugin {
    /// One that handles nothing and lets everything pass.
    pub(crate) const NONE: Self = Self {
        name: "",
        rules: &[],
        handles: |_| false,
        admit: |_, _| Box::pin(async { Ok(()) }),
        validate: |_, _| Box::pin(async { Ok(()) }),
    };

    /// Whether it handles this write. If not, nothing else is called.
    pub(crate) fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(attributes)) || (self.handles)(attributes)
    }
}
