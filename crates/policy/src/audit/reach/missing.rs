//! What reach needs and a state does not have (AU-21).

use crate::audit::state::{ItemKind, State};
use crate::audit::{Incomplete, Why};
use crate::objects::Kind;

/// What reach needs, and what it means if there is none. First what direct reach needs.
const NEEDED: [(ItemKind, &str, &str); 9] = [
    (ItemKind::Decided(Kind::Pod), "pods", "what nodes reach through pods is not known"),
    (ItemKind::Decided(Kind::Node), "nodes", "nodes without pods are not listed, and taints are not known"),
    (
        ItemKind::Decided(Kind::PersistentVolume),
        "persistentvolumes",
        "what nodes reach through volumes is not known",
    ),
    (ItemKind::Decided(Kind::VolumeAttachment), "volumeattachments", "attached volumes are not listed"),
    (ItemKind::Decided(Kind::ResourceSlice), "resourceslices", "slices of devices are not listed"),
    (ItemKind::Decided(Kind::ClusterRole), "clusterroles", "the rights of service accounts are not known"),
    (
        ItemKind::Decided(Kind::ClusterRoleBinding),
        "clusterrolebindings",
        "the rights of service accounts are not known",
    ),
    (ItemKind::Decided(Kind::RoleBinding), "rolebindings", "rights in namespaces are not known"),
    (ItemKind::Secret, "secrets", "which secrets hold tokens is not known"),
];

/// What a state lacks for its reach, or for its direct reach alone.
pub(super) fn missing(state: &State, direct_alone: bool) -> Vec<Incomplete> {
    let needed = NEEDED.iter().take(if direct_alone { 5 } else { NEEDED.len() });
    let mut missing: Vec<Incomplete> =
        needed.filter_map(|(kind, input, detail)| Some(lacking(input, state.lack(*kind)?, detail))).collect();
    if !direct_alone && state.api_servers().servers().is_empty() {
        missing.push(not_given(
            "kube-apiserver-flags",
            "restrictions that depend on its flags are taken for off",
        ));
    }
    if !direct_alone && state.api_servers().release().is_none() {
        missing.push(not_given("kube-apiserver-version", "what newer releases restrict is taken for open"));
    }
    missing.sort();
    missing
}

fn lacking(input: &str, (why, of_source): (Why, &str), detail: &str) -> Incomplete {
    let detail = match of_source {
        "" => detail.to_owned(),
        of_source => format!("{of_source}; {detail}"),
    };
    Incomplete { input: input.to_owned(), why, rules: vec!["reach"], detail }
}

fn not_given(input: &str, detail: &str) -> Incomplete {
    lacking(input, (Why::NotGiven, ""), detail)
}
