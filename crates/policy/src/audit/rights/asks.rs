//! The rights that lead further: resources and verbs that the closure and the findings ask about.

use crate::objects::rbac::PolicyRule;
use crate::rbac::matching::{Lists, group_matches, resource_matches, verb_matches};
use crate::request::ResourceRequest;

use super::super::state::{WORKLOADS, WorkloadKind};

/// A set of verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbs(u16);

const NAMES: [&str; 12] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "impersonate",
    "bind",
    "escalate",
    "approve",
];

impl Verbs {
    /// `get`
    pub const GET: Self = Self(1);
    /// `list`, `watch`
    pub const LIST: Self = Self(1 << 1 | 1 << 2);
    /// `get`, `list`, `watch`
    pub const READ: Self = Self(1 | 1 << 1 | 1 << 2);
    /// `create`
    pub const CREATE: Self = Self(1 << 3);
    /// `update`, `patch`
    pub const CHANGE: Self = Self(1 << 4 | 1 << 5);
    /// `create`, `update`, `patch`
    pub const WRITE: Self = Self(1 << 3 | 1 << 4 | 1 << 5);
    /// `delete`
    pub const DELETE: Self = Self(1 << 6);
    /// `deletecollection`
    pub const DELETE_COLLECTION: Self = Self(1 << 7);
    /// `impersonate`
    pub const IMPERSONATE: Self = Self(1 << 8);
    /// `bind`
    pub const BIND: Self = Self(1 << 9);
    /// `escalate`
    pub const ESCALATE: Self = Self(1 << 10);
    /// `approve`
    pub const APPROVE: Self = Self(1 << 11);

    /// The verbs of both sets.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all verbs of another set are in this one.
    pub const fn has_all(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the sets have a verb in common.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The verbs that a rule allows (RB-10).
    pub(in crate::audit) fn of(rule: &PolicyRule) -> Self {
        let allowed = NAMES.iter().zip(0_u16..).filter(|(name, _)| verb_matches(rule, name));
        Self(allowed.fold(0, |all, (_, bit)| all | 1 << bit))
    }
}

/// A resource that leads further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    /// `secrets`
    Secrets,
    /// `pods`
    Pods,
    /// `pods/exec`
    Exec,
    /// `pods/attach`
    Attach,
    /// `pods/ephemeralcontainers`
    EphemeralContainers,
    /// `pods/binding`
    PodBinding,
    /// `pods/eviction`
    Eviction,
    /// `pods/status`
    PodStatus,
    /// A workload.
    Workload(WorkloadKind),
    /// `serviceaccounts/token`
    Token,
    /// `users`, to be impersonated.
    Users,
    /// `groups`, to be impersonated.
    Groups,
    /// `serviceaccounts`, to be impersonated.
    Accounts,
    /// `clusterroles`
    ClusterRoles,
    /// `clusterrolebindings`
    ClusterRoleBindings,
    /// `roles`
    Roles,
    /// `rolebindings`
    RoleBindings,
    /// `nodes`
    Nodes,
    /// `nodes/status`
    NodeStatus,
    /// `nodes/proxy`
    NodeProxy,
    /// `nodes/log`
    NodeLog,
    /// `nodes/configz`
    NodeConfig,
    /// `nodes/checkpoint`
    NodeCheckpoint,
    /// `certificatesigningrequests`
    CertificateRequests,
    /// `certificatesigningrequests/approval`
    Approval,
    /// `certificatesigningrequests/nodeclient`
    NodeClient,
    /// `signers`
    Signers,
    /// `mutatingwebhookconfigurations`
    MutatingWebhooks,
    /// `mutatingadmissionpolicies`
    MutatingPolicies,
    /// `mutatingadmissionpolicybindings`
    MutatingPolicyBindings,
    /// `validatingwebhookconfigurations`
    ValidatingWebhooks,
    /// `validatingadmissionpolicies`
    ValidatingPolicies,
    /// `validatingadmissionpolicybindings`
    ValidatingPolicyBindings,
    /// `persistentvolumes`
    Volumes,
}

impl Ask {
    /// The API group, the resource and the subresource.
    pub fn resource(self) -> (&'static str, &'static str, &'static str) {
        let workload = |kind| WORKLOADS.iter().find(|row| row.0 == kind).map(|row| (row.1, row.3, ""));
        let found = match self {
            Self::Workload(kind) => workload(kind),
            ask => ASKS.iter().find(|row| row.0 == ask).map(|row| (row.1, row.2, row.3)),
        };
        // Every ask is in one of the two tables.
        found.unwrap_or_default()
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Each ask with its API group, resource and subresource; the workloads apart.
const ASKS: [(Ask, &str, &str, &str); 33] = [
    (Ask::Secrets, "", "secrets", ""),
    (Ask::Pods, "", "pods", ""),
    (Ask::Exec, "", "pods", "exec"),
    (Ask::Attach, "", "pods", "attach"),
    (Ask::EphemeralContainers, "", "pods", "ephemeralcontainers"),
    (Ask::PodBinding, "", "pods", "binding"),
    (Ask::Eviction, "", "pods", "eviction"),
    (Ask::PodStatus, "", "pods", "status"),
    (Ask::Token, "", "serviceaccounts", "token"),
    (Ask::Users, "", "users", ""),
    (Ask::Groups, "", "groups", ""),
    (Ask::Accounts, "", "serviceaccounts", ""),
    (Ask::ClusterRoles, RBAC, "clusterroles", ""),
    (Ask::ClusterRoleBindings, RBAC, "clusterrolebindings", ""),
    (Ask::Roles, RBAC, "roles", ""),
    (Ask::RoleBindings, RBAC, "rolebindings", ""),
    (Ask::Nodes, "", "nodes", ""),
    (Ask::NodeStatus, "", "nodes", "status"),
    (Ask::NodeProxy, "", "nodes", "proxy"),
    (Ask::NodeLog, "", "nodes", "log"),
    (Ask::NodeConfig, "", "nodes", "configz"),
    (Ask::NodeCheckpoint, "", "nodes", "checkpoint"),
    (Ask::CertificateRequests, CERTIFICATES, "certificatesigningrequests", ""),
    (Ask::Approval, CERTIFICATES, "certificatesigningrequests", "approval"),
    (Ask::NodeClient, CERTIFICATES, "certificatesigningrequests", "nodeclient"),
    (Ask::Signers, CERTIFICATES, "signers", ""),
    (Ask::MutatingWebhooks, ADMISSION, "mutatingwebhookconfigurations", ""),
    (Ask::MutatingPolicies, ADMISSION, "mutatingadmissionpolicies", ""),
    (Ask::MutatingPolicyBindings, ADMISSION, "mutatingadmissionpolicybindings", ""),
    (Ask::ValidatingWebhooks, ADMISSION, "validatingwebhookconfigurations", ""),
    (Ask::ValidatingPolicies, ADMISSION, "validatingadmissionpolicies", ""),
    (Ask::ValidatingPolicyBindings, ADMISSION, "validatingadmissionpolicybindings", ""),
    (Ask::Volumes, "", "persistentvolumes", ""),
];

/// The subresources of `nodes` with which a program talks to kubelets itself, and so shows them its token (E20). `checkpoint`
/// needs `create`, the others `get`.
const KUBELET_ENDPOINTS: [&str; 8] = [
    "nodes/metrics",
    "nodes/stats",
    "nodes/pods",
    "nodes/healthz",
    "nodes/configz",
    "nodes/log",
    "nodes/checkpoint",
    "nodes/statusz",
];

/// The asks that a rule matches (RB-11 to RB-13).
pub(in crate::audit) fn asks_of(rule: &PolicyRule) -> impl Iterator<Item = Ask> + '_ {
    let workloads =
        WORKLOADS.iter().map(|(kind, group, _, resource)| (Ask::Workload(*kind), *group, *resource, ""));
    ASKS.into_iter().chain(workloads).filter_map(|(ask, group, resource, subresource)| {
        let request = ResourceRequest { group, resource, subresource, ..ResourceRequest::default() };
        (group_matches(rule, &request) && resource_matches(rule, &request)).then_some(ask)
    })
}

/// Whether a rule grants everything (AU-36).
pub(super) fn is_full(rule: &PolicyRule) -> bool {
    let has_star = |words: &[String]| words.iter().any(|word| word == "*");
    rule.resource_names.is_empty()
        && has_star(&rule.verbs)
        && has_star(&rule.api_groups)
        && has_star(&rule.resources)
}

/// Whether a rule names an endpoint of kubelets, and so is for a program that talks to them (E20).
pub(super) fn talks_to_kubelets(rule: &PolicyRule) -> bool {
    let is_core = rule.api_groups().any(|group| group.is_empty() || group == b"*");
    let is_asked = |entry: &String| {
        let verb = if entry == "nodes/checkpoint" { "create" } else { "get" };
        KUBELET_ENDPOINTS.contains(&entry.as_str()) && verb_matches(rule, verb)
    };
    is_core && rule.resources.iter().any(is_asked)
}
