//! What bindings give to nodes beside what the Node authorizer gives them, and the role of nodes given to others (PC105, PC107 a,
//! PC125 b).

use std::collections::BTreeSet;

use super::finding::{Evidence, Instance};
use super::found::{All, Found};
use super::names::{key, of_binding, of_role, scope};
use super::severity::Severity;
use super::standing::{Standing, is_of_nodes};
use crate::audit::Subject;
use crate::audit::in_force::InForce;
use crate::audit::reach::Vertex;
use crate::audit::rights::{Ask, Verbs, asks_of};
use crate::node::NodeAuthorizer;
use crate::objects::rbac::{Binding, PolicyRule, Role};
use crate::request::ResourceRequest;

/// The verb with which nodes ask for tokens for an audience (NR-73).
const AUDIENCE_VERB: &str = "request-serviceaccounts-token-audience";
/// The ConfigMaps of `kube-system` that kubeadm lets nodes read.
const KUBEADM_CONFIG: [&str; 2] = ["kubeadm-config", "kubelet-config"];
/// The ClusterRole of nodes.
const NODE_ROLE: &str = "system:node";

pub(super) fn find(standing: &Standing<'_>, rbac: &InForce<'_>, all: &mut All) {
    let engine = standing.state.engine();
    let always = NodeAuthorizer::new(engine.graph().clone(), engine.gates());
    for binding in rbac.objects.bindings() {
        let instance = scope(&binding.metadata.namespace);
        let is_node_role = binding.role_ref.kind == "ClusterRole" && binding.role_ref.name == NODE_ROLE;
        let role = rbac.objects.role_of(binding);
        let subjects: BTreeSet<Subject> = Subject::all_of(binding).collect();
        for subject in &subjects {
            if !is_of_nodes(subject) {
                // Every cluster has this role, whether the state has it or not.
                if is_node_role {
                    let evidence = Evidence::field(of_binding(binding), "/roleRef/name", NODE_ROLE);
                    let (name, instance) = (subject.to_string(), instance.clone());
                    let found = Found::of_object("PC107", Severity::High, name, instance, evidence);
                    let bindings = BTreeSet::from([key(binding)]);
                    all.add(Found { bindings, ..found.about(Vertex::of(subject)) });
                }
                continue;
            }
            let Some(role) = role else { continue };
            let bound =
                Bound { standing, rbac, binding, role, subject, instance: &instance, always: &always };
            bound.find(all);
        }
    }
}

/// A role that a binding gives to nodes.
struct Bound<'a> {
    standing: &'a Standing<'a>,
    rbac: &'a InForce<'a>,
    binding: &'a Binding,
    role: &'a Role,
    subject: &'a Subject,
    instance: &'a Instance,
    always: &'a NodeAuthorizer,
}

impl Bound<'_> {
    fn find(&self, all: &mut All) {
        for rule in self.rbac.rules(self.role) {
            let evidence = || {
                let words = format!("{} {}", rule.verbs.join(","), rule.resources.join(","));
                let number = self.role.rules.iter().position(|stored| stored == rule);
                let pointer = number.map(|number| format!("/rules/{number}"));
                let of_role =
                    Evidence { pointer, value: Some(words), ..Evidence::object(of_role(self.role)) };
                vec![Evidence::object(of_binding(self.binding)), of_role]
            };
            let subject = self.subject.to_string();
            let found = |id, severity| Found {
                bindings: BTreeSet::from([key(self.binding)]),
                ..Found::of_object(id, severity, subject.clone(), self.instance.clone(), evidence())
            };
            if !rule.resources.is_empty() && !self.is_harmless(rule) {
                let severity = if self.is_dangerous(rule) { Severity::Critical } else { Severity::Medium };
                all.add(found("PC105", severity));
            }
            let is_wide = self.binding.metadata.namespace.is_empty()
                && matches!(self.subject, Subject::Group { .. })
                && rule.resource_names.is_empty()
                && rule.verbs.iter().any(|verb| verb == AUDIENCE_VERB || verb == "*")
                && rule.api_groups.iter().any(|group| group.is_empty() || group == "*")
                && rule.resources.iter().any(|resource| resource == "*");
            if is_wide {
                all.add(found("PC125", Severity::High));
            }
        }
    }

    /// Whether a rule grants nothing but what nodes may do anyway (NA-105), or what kubeadm gives them.
    fn is_harmless(&self, rule: &PolicyRule) -> bool {
        let words = [rule.verbs.len(), rule.api_groups.len(), rule.resources.len()];
        if words.iter().product::<usize>() > MAX_TUPLES {
            return false;
        }
        rule.verbs.iter().all(|verb| {
            verb == AUDIENCE_VERB
                || rule.api_groups.iter().all(|group| {
                    rule.resources.iter().all(|resource| self.is_harmless_tuple(rule, verb, group, resource))
                })
        })
    }

    fn is_harmless_tuple(&self, rule: &PolicyRule, verb: &str, group: &str, entry: &str) -> bool {
        if [verb, group, entry].iter().any(|word| word.contains('*')) {
            return false;
        }
        let (resource, subresource) = entry.split_once('/').unwrap_or((entry, ""));
        let request = ResourceRequest { group, resource, subresource, ..ResourceRequest::default() };
        let is_own_request = (group, entry, verb)
            == ("certificates.k8s.io", "certificatesigningrequests/selfnodeclient", "create");
        let is_config = (group, entry, verb) == ("", "configmaps", "get")
            && self.binding.metadata.namespace == "kube-system"
            && !rule.resource_names.is_empty()
            && rule.resource_names.iter().all(|name| is_kubeadm_config(name));
        is_own_request || is_config || self.always.allows_always(verb, &request)
    }

    /// Whether a rule makes an edge of the closure for nodes, or reads what belongs to others.
    fn is_dangerous(&self, rule: &PolicyRule) -> bool {
        let reads = Verbs::of(rule).meets(Verbs::READ);
        let names_content = |entry: &String| {
            matches!(
                entry.as_str(),
                "*" | "secrets" | "configmaps" | "pods" | "persistentvolumes" | "persistentvolumeclaims"
            )
        };
        let is_core = rule.api_groups.iter().any(|group| group.is_empty() || group == "*");
        (reads && is_core && rule.resources.iter().any(names_content))
            || asks_of(rule).any(|ask| Verbs::of(rule).meets(edge_verbs(self.standing, ask)))
    }
}

/// The number of permissions of a rule up to which each is looked at.
const MAX_TUPLES: usize = 10_000;

/// The verbs with which a resource leads nodes further (E4): what NodeRestriction refuses them leads nowhere.
fn edge_verbs(standing: &Standing<'_>, ask: Ask) -> Verbs {
    let is_restricted = !standing.state.api_servers().lack_node_restriction();
    let unless_restricted = |verbs| if is_restricted { Verbs::default() } else { verbs };
    match ask {
        Ask::Secrets => Verbs::READ.with(Verbs::WRITE),
        Ask::Pods | Ask::EphemeralContainers | Ask::PodBinding | Ask::Token => {
            unless_restricted(Verbs::WRITE)
        }
        Ask::Nodes | Ask::NodeStatus => unless_restricted(Verbs::CHANGE),
        Ask::Exec | Ask::Attach | Ask::NodeProxy => Verbs::GET.with(Verbs::CREATE),
        Ask::Workload(_) | Ask::MutatingWebhooks | Ask::MutatingPolicies => Verbs::WRITE,
        Ask::Users | Ask::Groups | Ask::Accounts => Verbs::IMPERSONATE,
        Ask::ClusterRoles | Ask::Roles => Verbs::BIND.with(Verbs::ESCALATE),
        Ask::Approval => Verbs::CHANGE,
        Ask::Signers => Verbs::APPROVE,
        Ask::Volumes => Verbs::CREATE,
        _ => Verbs::default(),
    }
}

fn is_kubeadm_config(name: &str) -> bool {
    KUBEADM_CONFIG.contains(&name)
        || name
            .strip_prefix("kubelet-config-1.")
            .is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit()))
}
