//! What is worth knowing beside findings (AU-24): bindings to roles that are not there.

use serde::Serialize;

use super::standing::Standing;
use crate::audit::Subject;
use crate::audit::rights::{Ask, Verbs};
use crate::objects::rbac::Binding;

/// The number of subjects that a note names.
const MAX_CREATORS: usize = 20;

/// Something worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// `danglingBinding`, or `unreadableRequest`.
    pub kind: &'static str,
    /// The object (AU-30).
    pub object: String,
    /// The same for people.
    pub detail: String,
    /// Who may create the missing role, and so choose what the binding grants; the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub creators: Vec<String>,
}

pub(super) fn notes(standing: &Standing<'_>) -> Vec<Note> {
    let facts = standing.state.facts();
    let rbac = &facts.rbac;
    let mut notes = Vec::new();
    for binding in rbac.cluster_role_bindings().chain(rbac.role_bindings()) {
        let namespace = binding.metadata.namespace.as_str();
        let is_there = match binding.role_ref.kind.as_str() {
            "Role" => rbac.role(namespace, &binding.role_ref.name).is_some(),
            _ => rbac.cluster_role(&binding.role_ref.name).is_some(),
        };
        if !is_there && Subject::all_of(binding).next().is_some() {
            notes.push(dangling(standing, binding, namespace));
        }
    }
    for (name, request) in &facts.certificate_requests {
        if let Err(reason) = &request.subject {
            notes.push(Note {
                kind: "unreadableRequest",
                object: format!("certificatesigningrequest/{name}"),
                detail: format!("the request cannot be read: {reason}"),
                creators: Vec::new(),
            });
        }
    }
    notes.sort();
    notes
}

/// Whether a binding names a ClusterRole that every cluster has.
fn is_of_default_policy(standing: &Standing<'_>, binding: &Binding) -> bool {
    binding.role_ref.kind == "ClusterRole" && standing.grants.is_default_role("", &binding.role_ref.name)
}

/// The bindings to a role of the default policy that the state does not have: what they grant is not known.
pub(super) fn default_roles_missing(standing: &Standing<'_>) -> Option<String> {
    let rbac = &standing.state.facts().rbac;
    let mut bindings = rbac.cluster_role_bindings().chain(rbac.role_bindings());
    let found = bindings.find(|binding| {
        is_of_default_policy(standing, binding)
            && rbac.cluster_role(&binding.role_ref.name).is_none()
            && Subject::all_of(binding).next().is_some()
    });
    found.map(|binding| binding.role_ref.name.clone())
}

fn dangling(standing: &Standing<'_>, binding: &Binding, namespace: &str) -> Note {
    let role = &binding.role_ref;
    let ask = if role.kind == "Role" { Ask::Roles } else { Ask::ClusterRoles };
    let can_create = |subject: &&Subject| {
        let rights = standing.grants.of(subject).without_built_in();
        let mut held = rights.of(ask, Verbs::CREATE).filter(|held| held.is_free());
        rights.full.is_some()
            || held.any(|held| match held.namespace.as_deref() {
                None => true,
                Some(scope) => ask == Ask::Roles && scope == namespace,
            })
    };
    let subjects: std::collections::BTreeSet<&Subject> = standing.grants.subjects().collect();
    let creators =
        subjects.into_iter().filter(can_create).take(MAX_CREATORS).map(ToString::to_string).collect();
    let object = match namespace {
        "" => format!("clusterrolebinding/{}", binding.metadata.name),
        namespace => format!("rolebinding/{namespace}/{}", binding.metadata.name),
    };
    let detail = match is_of_default_policy(standing, binding) {
        true => format!(
            "counts as nothing: ClusterRole {:?} of the default policy is not in the state; add it with --default-policy",
            role.name
        ),
        false => format!(
            "grants nothing: {} {:?} is not in the state; whoever creates it decides what the binding grants",
            role.kind, role.name
        ),
    };
    Note { kind: "danglingBinding", object, detail, creators }
}
