//! What a subject leads to by its rights: E7 to E19, E23, E24 and E26 to E30.

use std::collections::{BTreeMap, BTreeSet};

use super::context::Context;
use super::edge::{Edge, Leaving, To};
use super::shared::{CONTROLLED, DAEMONS};
use crate::audit::reach::universe::{Id, Universe, VertexType};
use crate::audit::rights::{Ask, GrantId, Held, Names, Rights, Verbs};
use crate::audit::state::WORKLOADS;
use crate::chain::MASTERS_GROUP;
use crate::identity::{NODE_USER_PREFIX, NODES_GROUP};

/// The edges of a subject, by its rights.
pub(super) struct Rightful<'e, 'a> {
    context: &'e Context<'a>,
    rights: Rights,
    /// Whether it is a node, whose writes NodeRestriction bounds (E4).
    is_node: bool,
    found: Leaving,
}

impl<'e, 'a> Rightful<'e, 'a> {
    pub(super) fn new(context: &'e Context<'a>, rights: Rights, is_node: bool) -> Self {
        Self { context, rights, is_node, found: Leaving::default() }
    }

    /// All edges. A subject that may do everything leads to admin alone.
    pub(super) fn all(mut self) -> Leaving {
        if let Some(grant) = self.rights.full {
            self.lead_to_admin(14, grant);
            return self.found;
        }
        self.secrets();
        self.pods();
        self.creates_pods();
        self.tokens();
        self.impersonation();
        self.escalation();
        self.kubelets();
        self.certificates();
        self.placement();
        self.webhooks();
        self.found
    }

    fn universe(&self) -> &Universe {
        self.context.universe
    }

    fn lead(&mut self, number: u8, to: To, grant: GrantId) {
        self.found.edges.push(Edge { number, to, grant: Some(grant) });
    }

    fn lead_to_admin(&mut self, number: u8, grant: GrantId) {
        self.lead(number, To::One(self.context.admin), grant);
    }

    fn lead_to_all(&mut self, number: u8, kind: VertexType, namespace: Option<&str>, grant: GrantId) {
        if self.universe().range(kind, namespace).is_empty() {
            return;
        }
        let place = namespace.map(|namespace| self.universe().namespace_id(namespace));
        // A namespace with vertices has a number.
        if place != Some(None) {
            self.lead(number, To::All(kind, place.flatten()), grant);
        }
    }

    /// The vertices of a type that a right is for.
    fn lead_to_named(&mut self, number: u8, kind: VertexType, held: &Held) {
        match &held.names {
            Names::Free => self.lead_to_all(number, kind, held.namespace.as_deref(), held.grant),
            Names::Only(names) => {
                for id in self.universe().named(kind, held.namespace.as_deref(), names) {
                    self.lead(number, To::One(id), held.grant);
                }
            }
        }
    }

    /// The pods, no mirror pods, that a right is for.
    fn lead_to_live_pods(&mut self, number: u8, held: &Held) {
        if let Some(list) = self.context.shared.live.of(held.namespace.as_deref()) {
            self.lead_to_listed(number, VertexType::Pod, list, held);
        }
    }

    /// The vertices of a list that a right is for.
    fn lead_to_listed(&mut self, number: u8, kind: VertexType, list: usize, held: &Held) {
        match &held.names {
            Names::Free => self.lead(number, To::List(list), held.grant),
            Names::Only(names) => {
                for id in self.universe().named(kind, held.namespace.as_deref(), names) {
                    if self.context.shared.list(list).binary_search(&id).is_ok() {
                        self.lead(number, To::One(id), held.grant);
                    }
                }
            }
        }
    }

    fn held(&self, ask: Ask, verbs: Verbs) -> Vec<Held> {
        self.rights.of(ask, verbs).cloned().collect()
    }

    /// E7, E28.
    fn secrets(&mut self) {
        let reads = self.held(Ask::Secrets, Verbs::READ);
        for held in &reads {
            self.lead_to_named(7, VertexType::Secret, held);
        }
        // Both rights in one namespace.
        let reads_everywhere = reads.iter().any(|held| held.namespace.is_none());
        let read_in: BTreeSet<&str> = reads.iter().filter_map(|held| held.namespace.as_deref()).collect();
        for held in self.held(Ask::Secrets, Verbs::WRITE).iter().filter(|held| held.writes()) {
            match held.namespace.as_deref() {
                None if reads_everywhere => self.lead_to_all(28, VertexType::Account, None, held.grant),
                None => {
                    for namespace in &read_in {
                        self.lead_to_all(28, VertexType::Account, Some(namespace), held.grant);
                    }
                }
                Some(namespace) if reads_everywhere || read_in.contains(namespace) => {
                    self.lead_to_all(28, VertexType::Account, Some(namespace), held.grant);
                }
                Some(_) => {}
            }
        }
    }

    /// E8, E9, E30.
    fn pods(&mut self) {
        let verbs = self.context.exec_verbs;
        for ask in [Ask::Exec, Ask::Attach] {
            for held in self.held(ask, verbs) {
                self.lead_to_named(8, VertexType::Pod, &held);
            }
        }
        if self.is_node {
            return;
        }
        for ask in [Ask::EphemeralContainers, Ask::Pods] {
            for held in self.held(ask, Verbs::CHANGE) {
                self.lead_to_live_pods(9, &held);
            }
        }
        for held in self.held(Ask::PodStatus, Verbs::CHANGE) {
            self.lead_to_all(30, VertexType::ResourceClaim, held.namespace.as_deref(), held.grant);
        }
    }

    /// The rights to have pods created.
    fn creations(&self) -> Vec<Held> {
        let pods = self.rights.of(Ask::Pods, Verbs::CREATE).filter(|held| held.is_free() && !self.is_node);
        let workloads = WORKLOADS
            .iter()
            .flat_map(|row| self.rights.of(Ask::Workload(row.0), Verbs::WRITE).filter(|held| held.writes()));
        pods.chain(workloads).cloned().collect()
    }

    /// E10, E11.
    fn creates_pods(&mut self) {
        for held in self.creations() {
            self.found.creates_pods = true;
            self.lead_into_namespace([10, 11], held.namespace.as_deref(), held.grant);
        }
    }

    /// What follows from a pod in a namespace: E10, and E11 if nothing keeps the pod from the node.
    fn lead_into_namespace(&mut self, [inside, node]: [u8; 2], namespace: Option<&str>, grant: GrantId) {
        for kind in [VertexType::Account, VertexType::Secret, VertexType::ConfigMap, VertexType::Claim] {
            self.lead_to_all(inside, kind, namespace, grant);
        }
        if self.context.is_lax(namespace) {
            self.lead_to_all(node, VertexType::Node, None, grant);
        }
    }

    /// E12.
    fn tokens(&mut self) {
        if self.is_node {
            return;
        }
        for held in self.held(Ask::Token, Verbs::CREATE) {
            self.lead_to_named(12, VertexType::Account, &held);
        }
    }

    /// E13, E14.
    fn impersonation(&mut self) {
        let users: Vec<Held> = self.rights.everywhere(Ask::Users, Verbs::IMPERSONATE).cloned().collect();
        let groups: Vec<Held> = self.rights.everywhere(Ask::Groups, Verbs::IMPERSONATE).cloned().collect();
        let accounts = self.held(Ask::Accounts, Verbs::IMPERSONATE);
        let (users_bound, groups_bound) = (self.context.shared.bound_users, self.context.shared.bound_groups);
        for held in &users {
            self.lead_to_listed(13, VertexType::User, users_bound, held);
        }
        for held in &accounts {
            self.lead_to_named(13, VertexType::Account, held);
        }
        // A group needs a user beside it.
        if users.is_empty() && accounts.is_empty() {
            return;
        }
        for held in &groups {
            self.lead_to_listed(13, VertexType::Group, groups_bound, held);
            if held.names.hold_for(MASTERS_GROUP) {
                self.lead_to_admin(14, held.grant);
            }
        }
        if !groups.iter().any(|held| held.names.hold_for(NODES_GROUP)) {
            return;
        }
        for held in &users {
            match &held.names {
                Names::Free => self.lead_to_all(13, VertexType::Node, None, held.grant),
                Names::Only(names) => {
                    let nodes = names.iter().filter_map(|name| name.strip_prefix(NODE_USER_PREFIX));
                    let nodes: Vec<Id> = nodes.filter_map(|node| self.context.node(node)).collect();
                    for node in nodes {
                        self.lead(13, To::One(node), held.grant);
                    }
                }
            }
        }
    }

    /// E15, E16.
    fn escalation(&mut self) {
        let rights = &self.rights;
        let grants = self.context.grants;
        let binds = |held: &&Held| grants.is_for_full_role(&held.names);
        let bind =
            rights.everywhere(Ask::ClusterRoles, Verbs::BIND).filter(binds).map(|held| held.grant).min();
        let bound = bind.filter(|_| rights.writes(Ask::ClusterRoleBindings).is_some());
        let escalates: Vec<&Held> = rights.everywhere(Ask::ClusterRoles, Verbs::ESCALATE).collect();
        let changed = escalates.iter().filter(|escalate| {
            let mut changes = rights.everywhere(Ask::ClusterRoles, Verbs::CHANGE);
            changes.any(|change| change.names.meet(&escalate.names))
        });
        let free = escalates.iter().filter(|escalate| {
            escalate.is_free()
                && rights.free(Ask::ClusterRoles, Verbs::CREATE).is_some()
                && rights.aggregated.is_some()
        });
        let escalated = changed.chain(free).map(|held| held.grant).min();
        let inside = self.namespaces_administered();
        for grant in bound.into_iter().chain(escalated) {
            self.lead_to_admin(15, grant);
        }
        for (namespace, grant) in inside {
            self.found.creates_pods = true;
            self.lead_to_all(16, VertexType::Pod, Some(&namespace), grant);
            self.lead_into_namespace([16, 16], Some(&namespace), grant);
        }
    }

    /// The namespaces in which the subject can give itself every right, with the first grant that does it (E16).
    fn namespaces_administered(&self) -> Vec<(String, GrantId)> {
        // Everywhere, and by namespace, so that each namespace looks only at the rights that count there.
        let mut wide: Vec<&Held> = Vec::new();
        let mut local = BTreeMap::<&str, Vec<&Held>>::new();
        for ask in [Ask::RoleBindings, Ask::Roles, Ask::ClusterRoles] {
            for held in self.rights.of(ask, Verbs::WRITE.with(Verbs::BIND).with(Verbs::ESCALATE)) {
                match held.namespace.as_deref() {
                    None => wide.push(held),
                    Some(namespace) => local.entry(namespace).or_default().push(held),
                }
            }
        }
        let none = Vec::new();
        let namespaces: Vec<&str> = if wide.is_empty() {
            local.keys().copied().collect()
        } else {
            self.universe().namespaces().iter().map(String::as_str).collect()
        };
        let administered = |namespace: &&str| {
            let own = local.get(namespace).unwrap_or(&none);
            let here = |ask, verbs: Verbs| {
                wide.iter().chain(own).filter(move |held| held.ask == ask && held.verbs.meets(verbs))
            };
            let may_bind = here(Ask::RoleBindings, Verbs::WRITE).any(|held| held.writes());
            let roles = here(Ask::Roles, Verbs::BIND).filter(|held| held.is_free());
            let full = |held: &&&Held| self.context.grants.is_for_full_role(&held.names);
            let cluster_roles = here(Ask::ClusterRoles, Verbs::BIND).filter(full);
            let binds = roles.chain(cluster_roles).filter(|_| may_bind);
            let escalates = here(Ask::Roles, Verbs::ESCALATE).filter(|escalate| {
                here(Ask::Roles, Verbs::CHANGE).any(|change| change.names.meet(&escalate.names))
            });
            let grant = binds.chain(escalates).map(|held| held.grant).min()?;
            Some(((*namespace).to_owned(), grant))
        };
        namespaces.iter().filter_map(administered).collect()
    }

    /// E17.
    fn kubelets(&mut self) {
        let proxies: Vec<Held> =
            self.rights.everywhere(Ask::NodeProxy, Verbs::GET.with(Verbs::CREATE)).cloned().collect();
        for held in proxies {
            match &held.names {
                Names::Free => self.lead(17, To::List(self.context.shared.on_nodes), held.grant),
                Names::Only(names) => {
                    let nodes = names.iter().filter_map(|name| self.context.node(name));
                    let lists = nodes.filter_map(|node| self.context.shared.on_node.get(&node).copied());
                    let lists: Vec<usize> = lists.collect();
                    for list in lists {
                        self.lead(17, To::List(list), held.grant);
                    }
                }
            }
        }
    }

    /// E18, E19.
    fn certificates(&mut self) {
        let rights = &self.rights;
        let Some(create) = rights.free(Ask::CertificateRequests, Verbs::CREATE) else { return };
        let signs = |signer: &str| {
            let mut held = rights.everywhere(Ask::Signers, Verbs::APPROVE);
            held.any(|held| held.names.hold_for(signer) || held.names.hold_for("kubernetes.io/*"))
        };
        let approval = rights.some(Ask::Approval, Verbs::CHANGE);
        let any_user = approval.filter(|_| signs("kubernetes.io/kube-apiserver-client"));
        let nodes = approval.filter(|_| signs("kubernetes.io/kube-apiserver-client-kubelet"));
        let nodes = nodes.or_else(|| rights.free(Ask::NodeClient, Verbs::CREATE).map(|_| create));
        let signed = self.context.shared.signed;
        if let Some(grant) = any_user {
            self.lead(18, To::List(signed), grant);
            self.lead_to_all(18, VertexType::Node, None, grant);
        }
        if let Some(grant) = nodes.filter(|_| !self.is_node) {
            self.lead_to_all(19, VertexType::Node, None, grant);
        }
    }

    /// E23, E24, E27, E29.
    fn placement(&mut self) {
        let shared = &self.context.shared;
        if let Some(grant) = self.rights.free(Ask::Volumes, Verbs::CREATE) {
            self.lead_to_all(27, VertexType::Secret, None, grant);
        }
        if self.is_node {
            return;
        }
        if let Some(grant) = self.rights.free(Ask::Nodes, Verbs::CHANGE) {
            self.lead(23, To::List(CONTROLLED), grant);
        }
        if let Some(grant) = self.rights.free(Ask::NodeStatus, Verbs::CHANGE) {
            self.lead(24, To::List(DAEMONS), grant);
        }
        for held in self.held(Ask::PodBinding, Verbs::CREATE) {
            if let Some(list) = shared.waiting.of(held.namespace.as_deref()) {
                self.lead(29, To::List(list), held.grant);
            }
        }
    }

    /// E26.
    fn webhooks(&mut self) {
        let policies = self.rights.writes(Ask::MutatingPolicies);
        let policies = policies.filter(|_| self.rights.writes(Ask::MutatingPolicyBindings).is_some());
        for grant in self.rights.writes(Ask::MutatingWebhooks).into_iter().chain(policies) {
            self.lead_to_admin(26, grant);
        }
    }
}
