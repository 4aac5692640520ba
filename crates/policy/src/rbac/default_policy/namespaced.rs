//! Roles in `kube-system` and `kube-public` (RB-85, RB-87) and their bindings (RB-86).

use super::row::Who::{Account, User};
use super::row::{CORE, EVENTS, READ, RoleRow, Row, allow, role};

/// A role in a namespace, and the name of its binding.
pub(super) struct NamespacedRow {
    pub(super) namespace: &'static str,
    /// The binding's name; empty if it is the role's.
    pub(super) binding: &'static str,
    pub(super) role: RoleRow,
}

const LEADER_LOCKING: &[Row] = &[
    allow("get list watch create update", "coordination.k8s.io", "leases"),
    allow("get list watch create update", "coordination.k8s.io", "leasecandidates"),
];

/// By namespace and name.
pub(super) static NAMESPACED_ROLES: &[NamespacedRow] = &[
    in_namespace(
        "kube-public",
        role("system:controller:bootstrap-signer").bound_to(&[Account("bootstrap-signer")]).rules(&[
            allow(READ, CORE, "configmaps"),
            allow("update", CORE, "configmaps").only("cluster-info"),
            EVENTS,
        ]),
    ),
    NamespacedRow {
        namespace: "kube-system",
        binding: "system::extension-apiserver-authentication-reader",
        role: role("extension-apiserver-authentication-reader")
            .bound_to(&[User("system:kube-controller-manager"), User("system:kube-scheduler")])
            .rules(&[allow(READ, CORE, "configmaps").only("extension-apiserver-authentication")]),
    },
    in_namespace(
        "kube-system",
        role("system::leader-locking-kube-controller-manager")
            .bound_to(&[
                User("system:kube-controller-manager"),
                Account("kube-controller-manager"),
                Account("leader-election-controller"),
            ])
            .rules(LEADER_LOCKING),
    ),
    in_namespace(
        "kube-system",
        role("system::leader-locking-kube-scheduler")
            .bound_to(&[User("system:kube-scheduler"), Account("kube-scheduler")])
            .rules(LEADER_LOCKING),
    ),
    in_namespace(
        "kube-system",
        role("system:controller:bootstrap-signer")
            .bound_to(&[Account("bootstrap-signer")])
            .rules(&[allow(READ, CORE, "secrets")]),
    ),
    in_namespace(
        "kube-system",
        role("system:controller:cloud-provider").bound_to(&[Account("cloud-provider")]).rules(&[allow(
            "get list watch create",
            CORE,
            "configmaps",
        )]),
    ),
    in_namespace(
        "kube-system",
        role("system:controller:token-cleaner")
            .bound_to(&[Account("token-cleaner")])
            .rules(&[allow("get list watch delete", CORE, "secrets"), EVENTS]),
    ),
];

const fn in_namespace(namespace: &'static str, role: RoleRow) -> NamespacedRow {
    NamespacedRow { namespace, binding: "", role }
}
