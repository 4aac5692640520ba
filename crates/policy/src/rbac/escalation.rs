//! The RBAC escalation check: a user can only grant permissions that they hold (RB-50 to RB-69).
//!
//! The server runs this check inside the read-modify-write and before validation (RB-50), over an index that is up to
//! date with the store (RB-5). It applies to create, update and patch, dry runs included, never to delete. A check has
//! two halves, because the verbs `escalate` and `bind` are decided by all authorizers, which may have to be waited for:
//! [`RbacWrite::question`] says what they are asked; without their yes, [`RbacWrite::check_held`] compares what is
//! granted with what is held.

use portcullis_apimachinery::quote::{Quoted, QuotedList};
use serde_json::{Map, Value};

use super::covers::{Excess, Limits, covers, uncovered};
use super::index::RbacIndex;
use super::matching::ALL;
use crate::objects::rbac::{Binding, PolicyRule, RBAC_GROUP, Role};
use crate::request::{Attributes, ResourceRequest, User};
use crate::rules;

/// The group that may write every role and binding (RB-51).
pub const MASTERS_GROUP: &str = "system:masters";

/// What a comparison may cost. Larger writes are refused.
const MOST: Limits = Limits { permissions: 100_000, steps: 1 << 28 };

/// A refused write of a role or a binding, and the response to the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// 403, with the resource's `details`: the caller does not hold the permissions to be granted (RB-56, RB-62).
    #[error("{0}")]
    Forbidden(String),
    /// 404: the role to be bound does not exist. `details` name the binding's resource as the kind and the role as
    /// the name (RB-59).
    #[error("{message}")]
    NotFound {
        /// The role that is missing.
        role: String,
        /// The message.
        message: String,
    },
    /// 500 with neither reason nor details: the reference names no kind of role (RB-59, RB-69).
    #[error("unsupported role reference kind: {}", Quoted(.0))]
    UnsupportedKind(String),
    /// 400: a required namespace is missing (RB-61).
    #[error("namespace is required")]
    NamespaceRequired,
}

/// A write to a role or a binding.
#[derive(Clone, Copy, Debug)]
pub struct RbacWrite<'a> {
    /// The caller.
    pub user: &'a User,
    /// The namespace of the request; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name in the request's URL; empty on POST (RB-52).
    pub name: &'a str,
    /// The object to be stored.
    pub object: RbacObject<'a>,
    /// Whether the stored object and the new one differ at most in fields that garbage collection writes; see
    /// [`differ_only_for_garbage_collection`]. False on create.
    pub only_garbage_collection: bool,
}

/// A role or a binding that is to be stored.
#[derive(Clone, Copy, Debug)]
pub enum RbacObject<'a> {
    /// A Role.
    Role(&'a Role),
    /// A ClusterRole.
    ClusterRole {
        /// The new one.
        new: &'a Role,
        /// The one stored now, if there is one.
        old: Option<&'a Role>,
    },
    /// A RoleBinding.
    RoleBinding(&'a Binding),
    /// A ClusterRoleBinding.
    ClusterRoleBinding(&'a Binding),
}

impl<'a> RbacWrite<'a> {
    /// What all authorizers are asked about this write, in their order, not RBAC alone: the verb `escalate` or `bind`
    /// allows it whatever the caller holds (RB-52, RB-57). Anything but Allow leaves it to [`RbacWrite::check_held`].
    /// None: the write needs no check (RB-51, RB-53, RB-125).
    ///
    /// # Errors
    /// The refusal for the response.
    pub fn question(&self, index: &RbacIndex) -> Result<Option<Attributes<'a>>, Refusal> {
        if self.only_garbage_collection || self.user.in_group(MASTERS_GROUP) || index.is_super_user(self.user)
        {
            return Ok(None);
        }
        let (verb, group, resource, name) = match self.object {
            RbacObject::Role(_) => ("escalate", RBAC_GROUP, "roles", self.name),
            RbacObject::ClusterRole { .. } => ("escalate", RBAC_GROUP, "clusterroles", self.name),
            RbacObject::RoleBinding(_) if self.namespace.is_empty() => {
                return Err(Refusal::NamespaceRequired);
            }
            RbacObject::RoleBinding(new) | RbacObject::ClusterRoleBinding(new) => {
                let role_ref = &new.role_ref;
                // RB-1: the group may have been left out.
                let group = if role_ref.api_group.is_empty() { RBAC_GROUP } else { &role_ref.api_group };
                ("bind", group, role_resource(new)?, role_ref.name.as_str())
            }
        };
        let request = ResourceRequest {
            namespace: self.namespace,
            group,
            version: ALL,
            resource,
            name,
            ..ResourceRequest::default()
        };
        Ok(Some(Attributes { user: self.user, verb, path: "", resource: Some(request) }))
    }

    /// Whether the caller holds what the object grants, over the roles and bindings as the store has them (RB-5).
    ///
    /// # Errors
    /// The refusal for the response.
    pub fn check_held(&self, index: &RbacIndex) -> Result<(), Refusal> {
        match self.object {
            RbacObject::Role(new) => self.check_rules(index, &new.rules, "roles", &new.metadata.name),
            RbacObject::ClusterRole { new, old } => self.check_cluster_role(index, new, old),
            RbacObject::RoleBinding(new) => {
                self.check_bound_role(index, new, "rolebindings", Some(self.namespace))
            }
            RbacObject::ClusterRoleBinding(new) => {
                self.check_bound_role(index, new, "clusterrolebindings", None)
            }
        }
    }

    fn check_cluster_role(&self, index: &RbacIndex, new: &Role, old: Option<&Role>) -> Result<(), Refusal> {
        self.check_rules(index, &new.rules, "clusterroles", &new.metadata.name)?;
        if !new.is_aggregated() && !old.is_some_and(Role::is_aggregated) {
            return Ok(());
        }
        // RB-56: the rules that a role will aggregate are not known yet, so they may be everything.
        let (held, _) = index.policy_rules_for(self.user, self.namespace);
        if covers(&held, &everything()).0 {
            return Ok(());
        }
        let reason = "must have cluster-admin privileges to use the aggregationRule";
        Err(forbidden("clusterroles", &new.metadata.name, reason))
    }

    /// RB-57 to RB-61
    fn check_bound_role(
        &self,
        index: &RbacIndex,
        new: &Binding,
        resource: &str,
        from: Option<&str>,
    ) -> Result<(), Refusal> {
        let role_ref = &new.role_ref;
        let role_resource = role_resource(new)?;
        // A ClusterRoleBinding has no namespace in which to look up a Role.
        if role_ref.kind == "Role" && from.is_none() {
            return Err(Refusal::NamespaceRequired);
        }
        let Some(role) = index.resolve(role_ref, from) else {
            let message = format!("{role_resource}.{RBAC_GROUP} {} not found", Quoted(&role_ref.name));
            return Err(Refusal::NotFound { role: role_ref.name.clone(), message });
        };
        self.check_rules(index, &role.rules, resource, &new.metadata.name)
    }

    /// The refusal of this write, with a reason.
    pub fn forbidden(&self, reason: &str) -> Refusal {
        let (resource, name) = match self.object {
            RbacObject::Role(new) => ("roles", &new.metadata.name),
            RbacObject::ClusterRole { new, .. } => ("clusterroles", &new.metadata.name),
            RbacObject::RoleBinding(new) => ("rolebindings", &new.metadata.name),
            RbacObject::ClusterRoleBinding(new) => ("clusterrolebindings", &new.metadata.name),
        };
        forbidden(resource, name, reason)
    }

    /// RB-54, RB-55, RB-60: the caller must hold every permission, by RBAC objects alone.
    fn check_rules(
        &self,
        index: &RbacIndex,
        rules: &[PolicyRule],
        resource: &str,
        object: &str,
    ) -> Result<(), Refusal> {
        let (held, errors) = index.policy_rules_for(self.user, self.namespace);
        let missing = uncovered(&held, rules, MOST).map_err(|excess| {
            let user = Quoted(&self.user.name);
            // DIVERGES: Kubernetes checks any number of permissions, however long that takes.
            let reason = match excess {
                Excess::Permissions => format!(
                    "the rules stand for more than {} permissions that no rule of user {user} covers as a whole: name \
                     fewer at a time, or use *",
                    MOST.permissions,
                ),
                Excess::Steps => format!(
                    "comparing the rules with the {} rules of user {user} takes too long: name fewer permissions at a \
                     time, or give the user fewer rules",
                    held.len(),
                ),
            };
            forbidden(resource, object, &reason)
        })?;
        if missing.is_empty() {
            return Ok(());
        }
        let mut reason = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            Quoted(&self.user.name),
            QuotedList(&self.user.groups),
            descriptions(missing).join("\n"),
        );
        // RB-64.
        if let Some(errors) = rules::aggregate(&errors) {
            reason.push_str(&format!("; resolution errors: [{errors}]"));
        }
        Err(forbidden(resource, object, &reason))
    }
}

/// RB-57: an unknown kind of role is never authorized.
fn role_resource(binding: &Binding) -> Result<&'static str, Refusal> {
    match binding.role_ref.kind.as_str() {
        "ClusterRole" => Ok("clusterroles"),
        "Role" => Ok("roles"),
        kind => Err(Refusal::UnsupportedKind(kind.to_owned())),
    }
}

/// Returns whether two versions of an object differ at most in fields that garbage collection and bookkeeping write
/// (RB-53). Such an update grants nothing, so the check is skipped. Absent, `null` and empty are the same.
pub fn differ_only_for_garbage_collection(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    const SKIPPED: [&str; 4] = ["finalizers", "managedFields", "ownerReferences", "selfLink"];
    let without_skipped = |object: &Map<String, Value>| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|key, _| !SKIPPED.contains(&key.as_str()));
        }
        Value::Object(object)
    };
    same(Some(&without_skipped(old)), Some(&without_skipped(new)))
}

fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.iter().all(|(key, value)| same(Some(value), b.get(key)))
                && b.iter().all(|(key, value)| a.contains_key(key) || same(None, Some(value)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (a, b) => a == b || (is_empty(a) && is_empty(b)),
    }
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.values().all(|field| is_empty(Some(field))),
        Some(_) => false,
    }
}

fn everything() -> [PolicyRule; 2] {
    let all = || vec![ALL.to_owned()];
    [
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() },
    ]
}

fn forbidden(resource: &str, object: &str, reason: &str) -> Refusal {
    Refusal::Forbidden(format!("{resource}.{RBAC_GROUP} {} is forbidden: {reason}", Quoted(object)))
}

/// The missing permissions as lines, sorted, each once (RB-62, RB-63).
fn descriptions(missing: Vec<PolicyRule>) -> Vec<String> {
    let mut merged: Vec<PolicyRule> = Vec::new();
    let mut places = hashbrown::HashMap::new();
    for rule in missing {
        // RB-63: permissions that differ only in their verb are listed together.
        let simple = match (rule.api_groups.as_slice(), rule.resources.as_slice()) {
            ([group], [resource]) => Some((group.clone(), resource.clone(), rule.resource_names.clone())),
            _ => None,
        };
        let place = simple.map(|key| *places.entry(key).or_insert(merged.len()));
        match place.and_then(|place| merged.get_mut(place)) {
            Some(earlier) => earlier.verbs.extend(rule.verbs),
            None => merged.push(rule),
        }
    }
    let mut lines: Vec<String> = merged.iter().map(describe).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// One permission as Kubernetes prints it (RB-62).
pub(crate) fn describe(rule: &PolicyRule) -> String {
    let parts: Vec<String> = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ]
    .into_iter()
    .filter(|(_, list)| !list.is_empty())
    .map(|(name, list)| format!("{name}:{}", QuotedList(list)))
    .collect();
    format!("{{{}}}", parts.join(", "))
}
