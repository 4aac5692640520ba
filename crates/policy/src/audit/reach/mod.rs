//! What a stolen node reaches: by itself (section 4 of the audit's rules), and in the end (section 5).
//!
//! By itself a node reaches what the Node authorizer allows it. In the end it also has what follows from that: the tokens in its
//! pods, the rights of their service accounts, the pods and nodes that these rights open, and so on.
//!
//! What a closure leaves out: where pods will be scheduled by chance, networks, the cloud credentials of machines, container
//! images, admission other than NodeRestriction and pod security labels, and resources that others have defined (AU-68).

mod closure;
mod direct;
mod edges;
mod report;
mod universe;
mod worst;

pub use self::closure::ClusterAdmin;
pub use self::direct::DirectReach;
pub use self::edges::Asked;
pub use self::report::{
    Closure, Counts, DirectLists, Names, NodeReach, Path, PathEdge, Pods, ReachSize, Report,
};

use self::closure::Search;
use self::edges::Edges;
use self::report::Describe;
pub(in crate::audit) use self::universe::{Universe, Vertex, VertexType};
pub(in crate::audit) use self::worst::{Closures, Way};
use super::rights::Grants;
use super::state::{ItemKind, State};
use super::{Incomplete, Why};
use crate::objects::Kind;

/// How much of reach is wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only these nodes; all if empty.
    pub nodes: Vec<String>,
    /// Direct reach alone.
    pub direct_alone: bool,
    /// Also which names have no object (AU-57).
    pub absent: bool,
    /// How many ways of each type are described.
    pub paths: usize,
}

/// Answers what nodes reach.
pub fn report(state: &State, wanted: &Wanted, asked: &Asked<'_>) -> Report {
    let direct = DirectReach::of(state);
    let is_wanted = |node: &str| wanted.nodes.is_empty() || wanted.nodes.iter().any(|name| name == node);
    let nodes = direct.nodes.keys().filter(|node| is_wanted(node));
    let absent = |node: &str| wanted.absent.then(|| report::absent(state, &direct, node));
    let mut report = Report { nodes: Vec::new(), incomplete: missing(state, wanted.direct_alone) };
    if wanted.direct_alone {
        report.nodes.extend(nodes.map(|node| NodeReach {
            node: node.clone(),
            direct: DirectLists::of(&direct, node),
            closure: None,
            absent: absent(node),
        }));
        return report;
    }
    let grants = Grants::new(&state.facts().rbac);
    let universe = Universe::new(state, &direct, &grants);
    let edges = Edges::new(state, &direct, &grants, &universe, asked);
    let mut search = Search::new(&edges, &universe);
    for node in nodes {
        let Some(id) = universe.find(VertexType::Node, "", node) else { continue };
        search.search(id);
        let describe = Describe {
            universe: &universe,
            grants: &grants,
            paths: wanted.paths,
            own_pods: edges.pods_on(id),
        };
        report.nodes.push(NodeReach {
            node: node.clone(),
            direct: DirectLists::of(&direct, node),
            closure: Some(describe.closure(&search)),
            absent: absent(node),
        });
    }
    report
}

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

fn missing(state: &State, direct_alone: bool) -> Vec<Incomplete> {
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
