//! The rights that make a subject powerful, wherever they come from: they are findings themselves, and decide who is strong
//! (AU-37).

use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::finding::Instance;
use super::severity::Severity;
use crate::audit::rights::{Ask, GrantId, Held, Names, Rights, Verbs};

/// Where a rule holds for a subject, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) instance: Instance,
    pub(super) severity: Severity,
    pub(super) grants: Vec<GrantId>,
    /// What was taken for true.
    pub(super) assumed: Option<&'static str>,
}

impl Hit {
    pub(super) fn new(instance: Instance, severity: Severity, grants: impl Into<Vec<GrantId>>) -> Self {
        Self { instance, severity, grants: grants.into(), assumed: None }
    }

    fn critical(instance: Instance, grants: impl Into<Vec<GrantId>>) -> Self {
        Self::new(instance, Severity::Critical, grants)
    }
}

/// The roles that make whoever is bound to them strong: with the namespace of a Role.
#[derive(Clone, Debug, Default)]
pub(super) struct StrongRoles {
    /// Bound by a ClusterRoleBinding.
    pub(super) everywhere: BTreeSet<String>,
    /// ClusterRoles and Roles, bound by a RoleBinding.
    pub(super) inside: BTreeSet<(Option<String>, String)>,
    /// The names of the Roles among them.
    pub(super) role_names: BTreeSet<String>,
}

/// The scope of a right.
pub(super) fn scope(held: &Held) -> Instance {
    held.namespace.as_deref().map_or(Instance::Cluster, |namespace| Instance::Namespace(namespace.to_owned()))
}

/// The nodes of a right on subresources of nodes.
pub(super) fn of_nodes(held: &Held, severity: Severity) -> Vec<Hit> {
    match &held.names {
        Names::Free => vec![Hit::new(Instance::Cluster, severity, [held.grant])],
        Names::Only(names) => {
            let named = names.iter().filter(|name| !name.is_empty());
            named.map(|name| Hit::new(Instance::Node(name.clone()), severity, [held.grant])).collect()
        }
    }
}

/// PC101: `nodes/proxy`, by the two verbs that kubelets ask for (KA-25).
pub(super) fn proxies(rights: &Rights) -> Vec<Hit> {
    let held = rights.everywhere(Ask::NodeProxy, Verbs::GET.with(Verbs::CREATE));
    held.flat_map(|held| of_nodes(held, Severity::Critical)).collect()
}

/// PC113 and PC115: who may create and approve requests for certificates of one of these signers.
pub(super) fn signs(rights: &Rights, signers: &[&str], severity: Severity) -> Vec<Hit> {
    let Some(approval) = rights.some(Ask::Approval, Verbs::CHANGE) else { return Vec::new() };
    let is_one = |names: &Names| {
        names.hold_for("kubernetes.io/*") || signers.iter().any(|signer| names.hold_for(signer))
    };
    let approves = rights.everywhere(Ask::Signers, Verbs::APPROVE).filter(|held| is_one(&held.names));
    approves.map(|held| Hit::new(Instance::Cluster, severity, [approval, held.grant])).collect()
}

/// The signers of client certificates (PC113).
pub(super) const CLIENT_SIGNERS: [&str; 2] =
    ["kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet"];

/// PC113.
pub(super) fn signs_clients(rights: &Rights) -> Vec<Hit> {
    let Some(create) = rights.free(Ask::CertificateRequests, Verbs::CREATE) else { return Vec::new() };
    let mut hits = signs(rights, &CLIENT_SIGNERS, Severity::Critical);
    hits.iter_mut().for_each(|hit| hit.grants.push(create));
    hits
}

/// PC109 b: `escalate` on roles, beside a right to write them.
pub(super) fn escalates(rights: &Rights) -> Vec<Hit> {
    let mut hits = Vec::new();
    for ask in [Ask::ClusterRoles, Ask::Roles] {
        let is_wide = ask == Ask::ClusterRoles;
        let counts = |held: &&Held| !is_wide || held.namespace.is_none();
        let writes = ByScope::of(rights.of(ask, Verbs::WRITE).filter(counts));
        for held in rights.of(ask, Verbs::ESCALATE).filter(counts) {
            writes.each_beside(held, &mut |instance, write| {
                let changes = write.verbs.meets(Verbs::CHANGE) && write.names.meet(&held.names);
                let creates = write.verbs.meets(Verbs::CREATE) && write.is_free() && held.is_free();
                if changes || creates {
                    hits.push(Hit::critical(instance, [held.grant, write.grant]));
                }
            });
        }
    }
    hits
}

/// PC109 c: `bind` on roles that make strong, beside a right to write bindings.
pub(super) fn binds(rights: &Rights, strong: &StrongRoles) -> Vec<Hit> {
    let mut hits = Vec::new();
    let is_named = |names: &Names, is_strong: &dyn Fn(&str) -> bool| match names {
        Names::Free => true,
        Names::Only(names) => names.iter().any(|name| is_strong(name)),
    };
    let everywhere = |name: &str| strong.everywhere.contains(name);
    if let Some(write) = rights.writes(Ask::ClusterRoleBindings) {
        let held = rights.everywhere(Ask::ClusterRoles, Verbs::BIND);
        let held = held.filter(|held| is_named(&held.names, &everywhere));
        hits.extend(held.map(|held| Hit::critical(Instance::Cluster, [held.grant, write])));
    }
    let bindings = rights.of(Ask::RoleBindings, Verbs::WRITE).filter(|held| held.writes());
    let bindings = ByScope::of(bindings);
    let of_cluster = |name: &str| strong.inside.contains(&(None, name.to_owned()));
    for held in rights.of(Ask::ClusterRoles, Verbs::BIND).filter(|held| is_named(&held.names, &of_cluster)) {
        bindings.each_beside(held, &mut |instance, write| {
            hits.push(Hit::critical(instance, [held.grant, write.grant]));
        });
    }
    for held in rights.of(Ask::Roles, Verbs::BIND) {
        bindings.each_beside(held, &mut |instance, write| {
            let inside = |name: &str| match &instance {
                Instance::Namespace(namespace) => {
                    strong.inside.contains(&(Some(namespace.clone()), name.to_owned()))
                }
                _ => strong.role_names.contains(name),
            };
            if is_named(&held.names, &inside) {
                hits.push(Hit::critical(instance, [held.grant, write.grant]));
            }
        });
    }
    hits
}

/// Rights by the namespace where they hold.
struct ByScope<'r> {
    wide: Vec<&'r Held>,
    inside: HashMap<&'r str, Vec<&'r Held>>,
}

impl<'r> ByScope<'r> {
    fn of(rights: impl Iterator<Item = &'r Held>) -> Self {
        let mut by_scope = Self { wide: Vec::new(), inside: HashMap::new() };
        for held in rights {
            match held.namespace.as_deref() {
                None => by_scope.wide.push(held),
                Some(namespace) => by_scope.inside.entry(namespace).or_default().push(held),
            }
        }
        by_scope
    }

    /// Calls `take` with each right that holds where `held` does too, and with that place.
    fn each_beside(&self, held: &Held, take: &mut dyn FnMut(Instance, &Held)) {
        let inside = |namespace: &str| Instance::Namespace(namespace.to_owned());
        match held.namespace.as_deref() {
            None => {
                self.wide.iter().for_each(|other| take(Instance::Cluster, other));
                for (namespace, others) in &self.inside {
                    others.iter().for_each(|other| take(inside(namespace), other));
                }
            }
            Some(namespace) => {
                let others = self.inside.get(namespace).into_iter().flatten();
                self.wide.iter().chain(others).for_each(|other| take(inside(namespace), other));
            }
        }
    }
}
