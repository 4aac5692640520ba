//! The escalation check over deny rules: who is denied something cannot give a role that allows it (BC-31).
//!
//! RBAC lets users grant what they hold, and those with the verbs `escalate` and `bind` anything. A denied user would grant
//! somebody else what only the deny rule keeps from both. DIVERGES: Kubernetes has no deny rules, and so no such check.

use super::Rule;
use super::authorizer::DenyAuthorizer;
use super::overlap::{Steps, may_allow};
use crate::objects::rbac::{Role, RoleRef};
use crate::rbac::escalation::{MASTERS_GROUP, RbacObject, RbacWrite, describe};

/// A write of a role or a binding that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRefusal {
    /// Why, for people.
    pub reason: String,
    /// Whether the role to be bound is not known. It may arrive yet.
    pub is_unknown: bool,
}

impl DenyAuthorizer {
    /// Whether a role or a binding may be written, as far as deny rules are concerned. `role_of` finds the role of a binding, given the
    /// namespace of the binding. Passes everything unless the check is turned on.
    ///
    /// # Errors
    /// The caller is denied something that the role may allow, or the role to be bound is not known.
    pub fn check_write(
        &self,
        write: &RbacWrite<'_>,
        role_of: impl FnOnce(&RoleRef, Option<&str>) -> Option<Role>,
    ) -> Result<(), GrantRefusal> {
        let Some(live) = self.rules_for_escalation() else { return Ok(()) };
        // Nothing is denied to this group: API servers allow it before any authorizer is asked.
        if write.only_garbage_collection || write.user.in_group(MASTERS_GROUP) {
            return Ok(());
        }
        let rules = live.current();
        let binding: Vec<&Rule> = rules.rules.iter().filter(|rule| rule.binds(write.user)).collect();
        let Some(first) = binding.first() else { return Ok(()) };
        let bound;
        let (role, namespace) = match write.object {
            RbacObject::Role(new) => (new, write.namespace),
            RbacObject::ClusterRole { new, old } => {
                if new.is_aggregated() || old.is_some_and(Role::is_aggregated) {
                    let why = "an aggregationRule may add what the caller is denied";
                    return Err(refusal(write, why, first));
                }
                (new, "")
            }
            RbacObject::RoleBinding(new) | RbacObject::ClusterRoleBinding(new) => {
                let from = match write.object {
                    RbacObject::RoleBinding(_) => Some(write.namespace),
                    _ => None,
                };
                let Some(found) = role_of(&new.role_ref, from) else {
                    return Err(GrantRefusal {
                        reason: format!(
                            "the {} {:?} is not known, so it may allow what deny rules deny user {:?}",
                            new.role_ref.kind, new.role_ref.name, write.user.name
                        ),
                        is_unknown: true,
                    });
                };
                bound = found;
                (&bound, from.unwrap_or_default())
            }
        };
        let mut steps = Steps::new();
        for denied in binding {
            for granted in &role.rules {
                match may_allow(granted, denied, namespace, self.known_namespaces(), &mut steps) {
                    Ok(false) => {}
                    Ok(true) => {
                        let why = format!("it may allow what the caller is denied, by {}", describe(granted));
                        return Err(refusal(write, &why, denied));
                    }
                    Err(_) => {
                        let why = "comparing it with the deny rules takes too long: name fewer permissions";
                        return Err(refusal(write, why, denied));
                    }
                }
            }
        }
        Ok(())
    }
}

fn refusal(write: &RbacWrite<'_>, why: &str, rule: &Rule) -> GrantRefusal {
    GrantRefusal {
        reason: format!("{why}: user {:?} is {}", write.user.name, rule.reason),
        is_unknown: false,
    }
}
