//! Kinds of `admissionregistration.k8s.io`: webhooks and policies of admission.
//!
//! DIVERGES: MutatingAdmissionPolicies are stored and served, and nothing is done with them. Clients that manage them work, and a
//! request that one of them would change goes on as it is. The rest is applied by the server.

mod bindings;
mod policies;
mod rules;
mod webhooks;

pub use bindings::{MUTATING_ADMISSION_POLICY_BINDINGS, VALIDATING_ADMISSION_POLICY_BINDINGS};
pub use policies::{MUTATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICIES};
pub use webhooks::{MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS};

use crate::fields::begin_generation;
use crate::resource::{MetadataChecks, Resource};

/// The values shared by the kinds of the group.
const USUAL: Resource = Resource {
    group: "admissionregistration.k8s.io",
    categories: &["api-extensions"],
    is_namespaced: false,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    updates_unconditionally: false,
    prepare_create: begin_generation,
    ..Resource::USUAL
};
