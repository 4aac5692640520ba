//! Why RBAC answered as it did. Carrying a reason costs a reference count; words are made when it is printed.

use std::fmt;
use std::sync::Arc;

use super::bound::Bound;
use super::index::BySubject;
use crate::request::Attributes;
use crate::rules;

/// The bindings of each subject whose role cannot be found.
pub(super) type Unresolved = BySubject<Vec<Arc<Bound>>>;

/// Why RBAC allowed, or what it could not look up.
#[derive(Clone, Debug)]
pub struct RbacReason(pub(super) Why);

#[derive(Clone, Debug)]
pub(super) enum Why {
    /// This binding grants it (RB-36).
    Granted(Arc<Bound>),
    /// Nothing grants it, and roles of the user's bindings are missing (RB-37): what was missing at that time,
    /// among ClusterRoleBindings and among the RoleBindings of the request's namespace.
    Unresolved { cluster: Option<Arc<Unresolved>>, namespaced: Option<Arc<Unresolved>> },
}

impl RbacReason {
    /// The binding that granted the request, if one did.
    pub fn binding(&self) -> Option<&Bound> {
        match &self.0 {
            Why::Granted(bound) => Some(bound),
            Why::Unresolved { .. } => None,
        }
    }

    /// Writes the reason in Kubernetes' words (RB-36, RB-37).
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, attributes: &Attributes<'_>) -> fmt::Result {
        match &self.0 {
            Why::Granted(bound) => match bound.first_subject(attributes.user) {
                Some(subject) => write!(f, "RBAC: allowed by {}", bound.describe(subject)),
                None => Ok(()),
            },
            Why::Unresolved { cluster, namespaced } => {
                let errors: Vec<String> = [cluster, namespaced]
                    .into_iter()
                    .flatten()
                    .flat_map(|unresolved| unresolved.of(attributes.user))
                    .flatten()
                    .map(|bound| bound.resolution_error())
                    .collect();
                match rules::aggregate(&errors) {
                    Some(text) => write!(f, "RBAC: {text}"),
                    None => Ok(()),
                }
            }
        }
    }
}
