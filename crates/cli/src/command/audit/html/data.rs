//! The graph as the scripts read it. `graph.js` describes the form.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_policy::audit::reach::{
    ClusterAdmin, MapEdge, MapGrant, MapNode, ReachMap, Target, VertexType,
};
use serde_json::{Value, json};

use super::encode::{front, runs};
use super::fold::Folded;

/// The version of the form.
const FORMAT: u32 = 1;

/// The numbers of words, sorted by bytes.
struct Table<'m>(BTreeMap<&'m str, usize>);

impl<'m> Table<'m> {
    fn of(words: impl IntoIterator<Item = &'m str>) -> Self {
        let words: BTreeSet<&str> = words.into_iter().collect();
        Self(words.into_iter().zip(0..).collect())
    }

    /// The number of a word; -1 for one that is not there.
    fn number(&self, word: &str) -> Value {
        self.0.get(word).map_or(json!(-1), |number| json!(number))
    }

    fn coded(&self) -> Value {
        front(self.0.keys().map(|word| Some(*word)))
    }
}

/// The data of a map. The names of the pods of folded nodes are left out.
pub(super) fn data(map: &ReachMap, folded: &Folded) -> Value {
    let aggregated: Vec<String> = map.grants.iter().map(|grant| grant.aggregated_from.join(", ")).collect();
    let of_grants = map.grants.iter().zip(&aggregated).flat_map(|(grant, from)| words(grant, from));
    let of_workloads =
        map.workloads.iter().flat_map(|workload| [workload.kind.as_str(), workload.name.as_str()]);
    let strings = Table::of(of_grants.chain(of_workloads));
    let spaces = map.vertices.iter().map(|vertex| &vertex.namespace);
    let spaces = spaces.chain(map.workloads.iter().map(|workload| &workload.namespace));
    let spaces = Table::of(spaces.map(String::as_str).filter(|namespace| !namespace.is_empty()));
    let workloads = map.workloads.iter().map(|workload| {
        json!([
            strings.number(&workload.kind),
            spaces.number(&workload.namespace),
            strings.number(&workload.name),
            optional(workload.account),
            flags(workload),
            runs(workload.objects.iter().copied()),
        ])
    });
    let grants = map.grants.iter().zip(&aggregated).map(|(grant, from)| {
        let [kind, namespace, binding, role_kind, role, text, from] =
            words(grant, from).map(|word| strings.number(word));
        let rule = grant.rule.map_or(json!(-1), |rule| json!(rule));
        json!([kind, namespace, binding, role_kind, role, rule, text, from])
    });
    json!({
        "format": FORMAT,
        "strings": strings.coded(),
        "namespaces": spaces.coded(),
        "names": names(map, &spaces, folded),
        "podNode": map.pods.iter().map(|pod| optional(pod.node)).collect::<Vec<Value>>(),
        "podGroup": map.pods.iter().map(|pod| pod.workload).collect::<Vec<u32>>(),
        "groups": workloads.collect::<Vec<Value>>(),
        "everyNode": map.every_node.iter().flat_map(edge).collect::<Vec<i64>>(),
        "nodeEdges": map.of_nodes.iter().flat_map(|from| start(from.from, from)).collect::<Vec<i64>>(),
        "edges": edges(&map.others),
        "creators": runs(map.creators.iter().copied()),
        "sets": map.sets.iter().map(|set| runs(set.iter().copied())).collect::<Vec<_>>(),
        "grants": grants.collect::<Vec<Value>>(),
        "counts": map.nodes.iter().flat_map(counts).collect::<Vec<usize>>(),
    })
}

/// The words of a grant, in the order of the form.
fn words<'m>(grant: &'m MapGrant, from: &'m str) -> [&'m str; 7] {
    let (kind, namespace, binding) = &grant.binding;
    [kind, namespace, binding, &grant.role.0, &grant.role.1, &grant.text, from]
}

fn optional(id: Option<u32>) -> Value {
    id.map_or(json!(-1), |id| json!(id))
}

/// The names of all vertices: by type, and by namespace within it.
fn names(map: &ReachMap, spaces: &Table<'_>, folded: &Folded) -> Value {
    let first_pod = map.vertices.iter().position(|vertex| vertex.kind == VertexType::Pod);
    let is_left_out = |place: usize| {
        let pod = first_pod.and_then(|first| map.pods.get(place.checked_sub(first)?));
        pod.and_then(|pod| pod.node).is_some_and(|node| folded.nodes.contains(&(node as usize)))
    };
    let vertices: Vec<(usize, _)> = map.vertices.iter().enumerate().collect();
    let mut by_type = Vec::new();
    for kind in VertexType::ALL {
        let start = vertices.partition_point(|(_, vertex)| vertex.kind < kind);
        let end = vertices.partition_point(|(_, vertex)| vertex.kind <= kind);
        let of_type = vertices.get(start..end).unwrap_or_default();
        let parts = of_type.chunk_by(|(_, a), (_, b)| a.namespace == b.namespace).map(|part| {
            let space = part.first().map_or(json!(-1), |(_, vertex)| spaces.number(&vertex.namespace));
            let names = part.iter().map(|(place, vertex)| {
                Some(vertex.name.as_str()).filter(|_| kind != VertexType::Pod || !is_left_out(*place))
            });
            json!([space, front(names)])
        });
        by_type.push(Value::Array(parts.collect()));
    }
    Value::Array(by_type)
}

fn flags(workload: &portcullis_policy::audit::reach::MapWorkload) -> u32 {
    let flags = [
        (workload.gives_token, 1),
        (workload.has_token, 2),
        (workload.can_leave, 4),
        (workload.is_mirror, 8),
        (workload.has_claim, 16),
    ];
    flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum()
}

/// The number of an edge, where it leads, and its grant. Sets are negative.
fn edge(edge: &MapEdge) -> [i64; 3] {
    let to = match edge.to {
        Target::One(id) => i64::from(id),
        Target::Set(set) => -1 - i64::from(set),
    };
    [i64::from(edge.number), to, edge.grant.map_or(-1, i64::from)]
}

fn start(from: u32, of: &MapEdge) -> [i64; 4] {
    let [number, to, grant] = edge(of);
    [i64::from(from), number, to, grant]
}

/// Edges, of which each names how far its start is behind that of the edge before.
fn edges(all: &[MapEdge]) -> Vec<i64> {
    let mut last = 0;
    let coded = all.iter().flat_map(|edge| {
        let gap = edge.from.saturating_sub(last);
        last = edge.from;
        start(gap, edge)
    });
    coded.collect()
}

/// How much a node reaches, in the order of the form.
fn counts(node: &MapNode) -> [usize; 13] {
    let admin = match node.size.cluster_admin {
        ClusterAdmin::No => 0,
        ClusterAdmin::Conditional => 1,
        ClusterAdmin::Yes => 2,
    };
    let (direct, end) = (&node.direct, &node.size.counts);
    [
        admin,
        node.way.map_or(0, |way| way.saturating_add(1)),
        direct.pods,
        direct.secrets,
        direct.configmaps,
        direct.volumes,
        direct.accounts,
        end.nodes,
        end.pods.count,
        end.pods.of_others,
        end.secrets.count,
        end.configmaps.count,
        end.serviceaccounts,
    ]
}
