//! The map as it is handed out: numbers and words alone.

use crate::audit::Incomplete;
use crate::audit::reach::closure::ClusterAdmin;
use crate::audit::reach::report::ReachSize;
use crate::audit::reach::universe::Vertex;

/// Everything that the closures of a state are made from, and how much they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReachMap {
    /// Everything that a closure may hold, by type, namespace and name (AU-60). The number of a vertex is its place; nodes come first,
    /// then pods.
    pub vertices: Vec<Vertex>,
    /// The pods, in the order of their vertices.
    pub pods: Vec<MapPod>,
    /// The workloads of the pods. Pods of one workload of which not the same follows are several.
    pub workloads: Vec<MapWorkload>,
    /// The edges that leave every node, beside those that its pods give it. They come from no vertex: `from` is 0.
    pub every_node: Vec<MapEdge>,
    /// The edges that leave some nodes, beside those that their pods give them; sorted.
    pub of_nodes: Vec<MapEdge>,
    /// The edges of users, groups, service accounts and secrets that some node reaches; sorted.
    pub others: Vec<MapEdge>,
    /// The vertices that can have pods created somewhere, for which the edge E27 always holds; sorted.
    pub creators: Vec<u32>,
    /// The sets of vertices to which edges lead; each is sorted.
    pub sets: Vec<Vec<u32>>,
    /// The grants that make edges.
    pub grants: Vec<MapGrant>,
    /// How much each node reaches, in the order of their vertices.
    pub nodes: Vec<MapNode>,
    /// The ends of paths to admin, those that most nodes share first, and those that are conditional last.
    pub ways: Vec<MapWay>,
    /// For each vertex, how many nodes reach it in the end.
    pub reached_by: Vec<u32>,
    /// What was missing.
    pub incomplete: Vec<Incomplete>,
}

/// A pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapPod {
    /// The vertex of its node.
    pub node: Option<u32>,
    /// Its workload.
    pub workload: u32,
}

/// The pods of a workload of which the same follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MapWorkload {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The kind, as Kubernetes spells it: `Node` for static pods, and `Pod` for a pod without a controller.
    pub kind: String,
    /// Whether nodes get tokens of the account because of such a pod (E2).
    pub gives_token: bool,
    /// Whether the pods hold a token of the account (E21).
    pub has_token: bool,
    /// Whether the containers can be left (E22).
    pub can_leave: bool,
    /// Whether they are mirror pods.
    pub is_mirror: bool,
    /// Whether they use a persistent volume claim, and are no mirror pods (E27).
    pub has_claim: bool,
    /// What their nodes may read because of them (E3); sorted.
    pub objects: Vec<u32>,
    /// The service account.
    pub account: Option<u32>,
}

/// An edge (AU-62).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapEdge {
    /// Where it comes from.
    pub from: u32,
    /// Its number, 1 to 31.
    pub number: u8,
    /// Where it leads.
    pub to: Target,
    /// The grant that makes it.
    pub grant: Option<u32>,
}

/// Where an edge leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// To a set.
    Set(u32),
    /// To one vertex.
    One(u32),
}

/// A grant in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapGrant {
    /// The kind, namespace (empty for a ClusterRoleBinding) and name of the binding.
    pub binding: (&'static str, String, String),
    /// The kind and name of the role.
    pub role: (String, String),
    /// The index of the rule; none for a rule that is yet to be aggregated.
    pub rule: Option<usize>,
    /// The rule in words.
    pub text: String,
    /// The ClusterRoles from which an aggregated role has the rule.
    pub aggregated_from: Vec<String>,
}

/// How much a node reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapNode {
    /// By itself.
    pub direct: DirectCounts,
    /// In the end.
    pub size: ReachSize,
    /// The end of its path to admin, by its place.
    pub way: Option<usize>,
}

/// How much a node reaches by itself (AU-51 to AU-55).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectCounts {
    /// Pods.
    pub pods: usize,
    /// Secrets.
    pub secrets: usize,
    /// ConfigMaps.
    pub configmaps: usize,
    /// PersistentVolumes.
    pub volumes: usize,
    /// Service accounts.
    pub accounts: usize,
}

/// The end of a path to admin, behind the node and its own pods and user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MapWay {
    /// Whether it needs something that others must do.
    pub admin: ClusterAdmin,
    /// The number of nodes that share it.
    pub nodes: usize,
    /// The steps; at least one. Of the first, other nodes may take another edge to the same vertex.
    pub steps: Vec<MapStep>,
}

/// A step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MapStep {
    /// The number of the edge.
    pub number: u8,
    /// Where it leads.
    pub to: u32,
    /// The grant that makes it.
    pub grant: Option<u32>,
}
