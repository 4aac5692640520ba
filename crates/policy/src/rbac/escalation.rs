//! May a caller write this role or this binding? Nobody hands on what they do not hold (RB-50 to RB-69).
//!
//! The server asks inside the read-modify-write and before validation (RB-50), over an index that is as new as the
//! store (RB-5); on create, update and patch, dry runs included, never on delete.

use serde_json::Value;

use super::covers::{covers, uncovered};
use super::index::RbacIndex;
use super::matching::ALL;
use super::quote::{Quoted, QuotedList};
use crate::decision::Authorizer;
use crate::objects::rbac::{Binding, PolicyRule, RBAC_GROUP, Role};
use crate::request::{Attributes, ResourceRequest, User};
use crate::rules;

/// The group that may write every role and binding (RB-51).
pub const MASTERS_GROUP: &str = "system:masters";

/// How many permissions are compared one by one before a write is refused as too large.
const MOST_PERMISSIONS: usize = 100_000;

/// Why a role or a binding may not be written, and the answer that the caller gets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// 403, with the resource's `details`: the caller does not hold what would be granted (RB-56, RB-62).
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
    /// 400: a namespace is needed and not there (RB-61).
    #[error("namespace is required")]
    NamespaceRequired,
}

/// A write to a role or a binding: who, how it came in, and who else is asked about it.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    /// The roles and bindings as the store has them (RB-5).
    pub index: &'a RbacIndex,
    /// Who is asked about the verbs `escalate` and `bind`: all authorizers in their order, not RBAC alone.
    pub authorizer: &'a dyn Authorizer,
    /// The caller.
    pub user: &'a User,
    /// The namespace of the request; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name in the request's URL; empty on POST (RB-52).
    pub name: &'a str,
    /// Whether the object stored now and the new one differ at most in what garbage collection writes, as
    /// [`differ_only_for_garbage_collection`] finds. False on create.
    pub only_garbage_collection: bool,
}

impl Write<'_> {
    /// Whether the caller may write a Role (RB-51 to RB-55).
    ///
    /// # Errors
    /// The refusal to answer with.
    pub fn check_role(&self, new: &Role) -> Result<(), Refusal> {
        if self.is_free() || self.is_authorized("escalate", RBAC_GROUP, "roles", self.name) {
            return Ok(());
        }
        self.check_holds(&new.rules, "roles", &new.metadata.name)
    }

    /// Whether the caller may write a ClusterRole (RB-51 to RB-56). `old` is the one stored now, if there is one.
    ///
    /// # Errors
    /// The refusal to answer with.
    pub fn check_cluster_role(&self, new: &Role, old: Option<&Role>) -> Result<(), Refusal> {
        if self.is_free() || self.is_authorized("escalate", RBAC_GROUP, "clusterroles", self.name) {
            return Ok(());
        }
        self.check_holds(&new.rules, "clusterroles", &new.metadata.name)?;
        if !aggregates(new) && !old.is_some_and(aggregates) {
            return Ok(());
        }
        // RB-56: what an aggregated role will hold is not known yet, so it may be everything.
        let (held, _) = self.index.policy_rules_for(self.user, self.namespace);
        if covers(&held, &everything()).0 {
            return Ok(());
        }
        let reason = "must have cluster-admin privileges to use the aggregationRule";
        Err(forbidden("clusterroles", &new.metadata.name, reason))
    }

    /// Whether the caller may write a RoleBinding (RB-51, RB-57 to RB-61).
    ///
    /// # Errors
    /// The refusal to answer with.
    pub fn check_binding(&self, new: &Binding) -> Result<(), Refusal> {
        if self.is_free() {
            return Ok(());
        }
        if self.namespace.is_empty() {
            return Err(Refusal::NamespaceRequired);
        }
        self.check_bound_role(new, "rolebindings", Some(self.namespace))
    }

    /// Whether the caller may write a ClusterRoleBinding (RB-51, RB-57 to RB-60).
    ///
    /// # Errors
    /// The refusal to answer with.
    pub fn check_cluster_role_binding(&self, new: &Binding) -> Result<(), Refusal> {
        if self.is_free() {
            return Ok(());
        }
        self.check_bound_role(new, "clusterrolebindings", None)
    }

    fn check_bound_role(&self, new: &Binding, resource: &str, from: Option<&str>) -> Result<(), Refusal> {
        let role_ref = &new.role_ref;
        // RB-57: an unknown kind of role authorizes nobody.
        let role_resource = match role_ref.kind.as_str() {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            kind => return Err(Refusal::UnsupportedKind(kind.to_owned())),
        };
        // RB-1: the group may have been left out.
        let group = if role_ref.api_group.is_empty() { RBAC_GROUP } else { &role_ref.api_group };
        if self.is_authorized("bind", group, role_resource, &role_ref.name) {
            return Ok(());
        }
        // There is no namespace to look for a Role in.
        if role_ref.kind == "Role" && from.is_none() {
            return Err(Refusal::NamespaceRequired);
        }
        let Some(role) = self.index.resolve(role_ref, from) else {
            let message = format!("{role_resource}.{RBAC_GROUP} {} not found", Quoted(&role_ref.name));
            return Err(Refusal::NotFound { role: role_ref.name.clone(), message });
        };
        self.check_holds(&role.rules, resource, &new.metadata.name)
    }

    /// RB-51, RB-53, RB-125: nothing to check.
    fn is_free(&self) -> bool {
        self.only_garbage_collection
            || self.user.in_group(MASTERS_GROUP)
            || self.index.is_super_user(self.user)
    }

    /// RB-52, RB-57: a verb of its own allows what the rules held would not. Anything but a yes is a no.
    fn is_authorized(&self, verb: &str, group: &str, resource: &str, name: &str) -> bool {
        let request = ResourceRequest {
            namespace: self.namespace,
            group,
            version: ALL,
            resource,
            name,
            ..ResourceRequest::default()
        };
        let attributes = Attributes { user: self.user, verb, path: "", resource: Some(request) };
        self.authorizer.authorize(&attributes).is_allow()
    }

    /// RB-54, RB-55, RB-60: the caller holds every permission, by RBAC objects alone.
    fn check_holds(&self, rules: &[PolicyRule], resource: &str, object: &str) -> Result<(), Refusal> {
        let (held, errors) = self.index.policy_rules_for(self.user, self.namespace);
        // DIVERGES: Kubernetes looks at any number of permissions, however long that takes.
        let Some(missing) = uncovered(&held, rules, MOST_PERMISSIONS) else {
            let reason = format!(
                "the rules stand for more than {MOST_PERMISSIONS} permissions that no rule of user {} covers as a \
                 whole: name fewer at a time, or use *",
                Quoted(&self.user.name),
            );
            return Err(forbidden(resource, object, &reason));
        };
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

/// Whether two versions of an object differ at most in what garbage collection and bookkeeping write (RB-53): then
/// nothing is granted, and the check is skipped. Absent, `null` and empty are the same.
pub fn differ_only_for_garbage_collection(old: &Value, new: &Value) -> bool {
    const SKIPPED: [&str; 4] = ["finalizers", "managedFields", "ownerReferences", "selfLink"];
    let without_skipped = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|key, _| !SKIPPED.contains(&key.as_str()));
        }
        object
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

fn aggregates(role: &Role) -> bool {
    role.aggregation_rule.as_ref().is_some_and(|rule| !rule.cluster_role_selectors.is_empty())
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
        // RB-63: permissions that differ in their verb alone are named together.
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
pub(super) fn describe(rule: &PolicyRule) -> String {
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
