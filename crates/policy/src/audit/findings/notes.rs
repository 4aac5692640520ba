//! What is worth knowing beside findings (AU-24): bindings to roles that are not there.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use serde::Serialize;

use super::names::{object, of_binding};
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
    let mut notes = Vec::new();
    let dangling: Vec<&Binding> = dangling(standing).collect();
    if !dangling.is_empty() {
        let creators = Creators::of(standing);
        notes.extend(dangling.into_iter().map(|binding| note(standing, &creators, binding)));
    }
    for (name, request) in &facts.certificate_requests {
        if let Err(reason) = &request.subject {
            notes.push(Note {
                kind: "unreadableRequest",
                object: object("CertificateSigningRequest", "", name),
                detail: format!("the request cannot be read: {reason}"),
                creators: Vec::new(),
            });
        }
    }
    notes.sort();
    notes
}

/// The bindings with subjects to a role that is not in the state.
fn dangling<'s>(standing: &'s Standing<'_>) -> impl Iterator<Item = &'s Binding> {
    let rbac = &standing.state.facts().rbac;
    rbac.bindings()
        .filter(|binding| rbac.role_of(binding).is_none() && Subject::all_of(binding).next().is_some())
}

/// The subjects that may create roles, computed once for all bindings.
struct Creators {
    cluster_roles: Vec<String>,
    roles: Vec<String>,
    roles_in: HashMap<String, Vec<String>>,
}

impl Creators {
    fn of(standing: &Standing<'_>) -> Self {
        let mut creators = Self { cluster_roles: Vec::new(), roles: Vec::new(), roles_in: HashMap::new() };
        let subjects: BTreeSet<&Subject> = standing.grants.subjects().collect();
        for subject in subjects {
            let rights = standing.grants.of(subject).without_built_in();
            let may_create_everywhere =
                |ask| rights.full.is_some() || rights.free(ask, Verbs::CREATE).is_some();
            if may_create_everywhere(Ask::ClusterRoles) {
                creators.cluster_roles.push(subject.to_string());
            }
            if may_create_everywhere(Ask::Roles) {
                creators.roles.push(subject.to_string());
                continue;
            }
            let inside = rights.of(Ask::Roles, Verbs::CREATE).filter(|held| held.is_free());
            let namespaces: BTreeSet<&str> = inside.filter_map(|held| held.namespace.as_deref()).collect();
            for namespace in namespaces {
                creators.roles_in.entry(namespace.to_owned()).or_default().push(subject.to_string());
            }
        }
        creators
    }

    /// The first ones that may create the role of a binding.
    fn of_role(&self, binding: &Binding) -> Vec<String> {
        let namespace = &binding.metadata.namespace;
        let (all, inside) = match binding.role_ref.kind.as_str() {
            "Role" => (&self.roles, self.roles_in.get(namespace).map(Vec::as_slice).unwrap_or_default()),
            _ => (&self.cluster_roles, &[][..]),
        };
        let mut first: Vec<String> = all.iter().chain(inside).cloned().collect();
        first.sort_unstable();
        first.truncate(MAX_CREATORS);
        first
    }
}

/// Whether a binding names a ClusterRole that every cluster has.
fn is_of_default_policy(standing: &Standing<'_>, binding: &Binding) -> bool {
    binding.role_ref.kind == "ClusterRole" && standing.grants.is_default_role("", &binding.role_ref.name)
}

/// A role of the default policy that is bound and that the state does not have: what it grants is not known.
pub(super) fn default_role_missing(standing: &Standing<'_>) -> Option<String> {
    let mut dangling = dangling(standing).filter(|binding| is_of_default_policy(standing, binding));
    dangling.next().map(|binding| binding.role_ref.name.clone())
}

fn note(standing: &Standing<'_>, creators: &Creators, binding: &Binding) -> Note {
    let role = &binding.role_ref;
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
    let creators = creators.of_role(binding);
    Note { kind: "danglingBinding", object: of_binding(binding), detail, creators }
}
