//! What findings need and the state lacks (AU-21 to AU-24): never a silent pass.

use super::usage;
use super::wanted::Wanted;
use crate::audit::state::{ItemKind, State, WorkloadKind};
use crate::audit::{Incomplete, Why};
use crate::objects::Kind;

/// The rules that follow from rights.
const BY_RIGHTS: [&str; 20] = [
    "PC101", "PC102", "PC105", "PC107", "PC109", "PC110", "PC111", "PC112", "PC113", "PC114", "PC115",
    "PC116", "PC117", "PC118", "PC119", "PC120", "PC127", "PC128", "PC129", "PC131",
];
/// The rules about workloads.
const OF_WORKLOADS: [&str; 4] = ["PC102", "PC121", "PC122", "PC124"];
/// The resources that are read, with the rules that need them, and what it means if there is none.
const NEEDED: [(ItemKind, &str, &[&str], &str); 19] = [
    (
        ItemKind::CertificateRequest,
        "certificatesigningrequests",
        &["PC107"],
        "certificates that were granted are not checked",
    ),
    (ItemKind::Decided(Kind::ClusterRole), "clusterroles", &BY_RIGHTS, "permissions are not known"),
    (
        ItemKind::Decided(Kind::ClusterRoleBinding),
        "clusterrolebindings",
        &BY_RIGHTS,
        "permissions are not known",
    ),
    (
        ItemKind::Decided(Kind::RoleBinding),
        "rolebindings",
        &["PC105", "PC107", "PC109", "PC110", "PC112", "PC117", "PC118", "PC119", "PC131", "PC136"],
        "permissions in namespaces are not known",
    ),
    (
        ItemKind::Decided(Kind::Role),
        "roles",
        &["PC105", "PC109", "PC110", "PC112", "PC117", "PC118", "PC119", "PC131", "PC136"],
        "permissions in namespaces are not known",
    ),
    (ItemKind::Decided(Kind::Node), "nodes", &["PC135"], "the versions of kubelets are not known"),
    (
        ItemKind::Decided(Kind::Pod),
        "pods",
        &["PC102", "PC120", "PC121", "PC122", "PC123", "PC124", "PC126"],
        "what runs where is not known",
    ),
    (
        ItemKind::Decided(Kind::PersistentVolume),
        "persistentvolumes",
        &["PC123", "PC130"],
        "volumes are not checked",
    ),
    (
        ItemKind::Decided(Kind::PersistentVolumeClaim),
        "persistentvolumeclaims",
        &["PC123"],
        "what nodes reach through claims is not known",
    ),
    (
        ItemKind::Decided(Kind::ServiceAccount),
        "serviceaccounts",
        &["PC110", "PC112", "PC119"],
        "accounts that nothing refers to are not known",
    ),
    (ItemKind::Secret, "secrets", &["PC114", "PC126"], "which secrets hold tokens is not known"),
    (
        ItemKind::ConfigMap,
        "configmaps",
        &["PC103", "PC104", "PC122"],
        "the configuration of kubelets is not known",
    ),
    (ItemKind::Workload(WorkloadKind::CronJob), "cronjobs", &OF_WORKLOADS, "their pods are not checked"),
    (ItemKind::Workload(WorkloadKind::DaemonSet), "daemonsets", &OF_WORKLOADS, "their pods are not checked"),
    (
        ItemKind::Workload(WorkloadKind::Deployment),
        "deployments",
        &OF_WORKLOADS,
        "their pods are not checked",
    ),
    (ItemKind::Workload(WorkloadKind::Job), "jobs", &OF_WORKLOADS, "their pods are not checked"),
    (
        ItemKind::Workload(WorkloadKind::ReplicaSet),
        "replicasets",
        &OF_WORKLOADS,
        "their pods are not checked",
    ),
    (
        ItemKind::Workload(WorkloadKind::ReplicationController),
        "replicationcontrollers",
        &OF_WORKLOADS,
        "their pods are not checked",
    ),
    (
        ItemKind::Workload(WorkloadKind::StatefulSet),
        "statefulsets",
        &OF_WORKLOADS,
        "their pods are not checked",
    ),
];

/// What the findings about a state lack. `default_role` is a role of the default policy that is bound, and not in the state.
pub(super) fn missing(state: &State, wanted: &Wanted<'_>, default_role: Option<&str>) -> Vec<Incomplete> {
    let mut missing = Vec::new();
    let mut lacks = |input: &str, why, rules: &[&'static str], detail: &str| {
        missing.push(Incomplete {
            input: input.to_owned(),
            why,
            rules: rules.to_vec(),
            detail: detail.to_owned(),
        });
    };
    for (kind, input, rules, detail) in NEEDED {
        let Some((why, of_source)) = state.lack(kind) else { continue };
        // Bindings without any role cannot be told from bindings that grant nothing (AU-24).
        let is_unresolved = why == Why::NotGiven
            && kind == ItemKind::Decided(Kind::ClusterRole)
            && state.has(ItemKind::Decided(Kind::ClusterRoleBinding));
        let detail = match of_source {
            "" => detail.to_owned(),
            of_source => format!("{of_source}; {detail}"),
        };
        lacks(input, if is_unresolved { Why::Unresolved } else { why }, rules, &detail);
    }
    if let Some(role) = default_role.filter(|_| state.has(ItemKind::Decided(Kind::ClusterRole))) {
        let detail =
            format!("bindings name ClusterRole {role:?} of the default policy: add it with --default-policy");
        lacks("clusterroles", Why::Unresolved, &BY_RIGHTS, &detail);
    }
    let servers = state.api_servers();
    if servers.servers().is_empty() {
        let detail =
            "no pod of kube-apiserver is in the state: its modes and admission plugins are not known";
        lacks("kube-apiserver-flags", Why::NotGiven, &["PC106", "PC108", "PC125"], detail);
    } else if servers.servers().iter().any(|server| servers.modes(server).is_none()) {
        let detail = "kube-apiserver has its modes from a file that is not in the state";
        lacks("authorization-configuration", Why::NotGiven, &["PC106", "PC108"], detail);
    }
    if servers.release().is_none() {
        let detail = "what newer releases restrict is taken for open";
        lacks("kube-apiserver-version", Why::NotGiven, &["PC108", "PC118", "PC125"], detail);
    }
    let nodes = state.nodes();
    let is_known = |node: &&str| wanted.kubelets.of(node).is_some();
    if nodes.is_empty() && wanted.kubelets.config_maps.is_empty() || !nodes.iter().all(is_known) {
        let detail = "the settings of some kubelets are not known";
        lacks("kubelet-configuration", Why::NotGiven, &["PC103", "PC104", "PC122", "PC135"], detail);
    }
    match wanted.usage {
        None => {
            let detail = "what is in use, and by whom, is not known";
            lacks("audit-log", Why::NotGiven, &usage::ALL, detail);
        }
        Some(usage) => {
            for (why, rules, detail) in usage.lacks(wanted.unused_after) {
                lacks("audit-log", why, rules, detail);
            }
        }
    }
    missing.sort();
    missing
}
