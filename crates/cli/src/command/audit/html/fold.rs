//! Nodes that are left out of a page that would be too large (AU-139): those with the least reach.

use std::collections::BTreeSet;

use portcullis_policy::audit::reach::{ClusterAdmin, MapNode, ReachMap};

/// The nodes that are folded.
#[derive(Default)]
pub(super) struct Folded {
    /// Their places.
    pub(super) nodes: BTreeSet<usize>,
    /// The same by whether they lead to admin.
    pub(super) classes: Vec<Class>,
}

/// Folded nodes that agree in whether they lead to admin.
pub(super) struct Class {
    /// Their places, in the order of their names.
    pub(super) nodes: Vec<usize>,
    /// The largest numbers of them.
    pub(super) most: MapNode,
}

impl Folded {
    /// Folds so many nodes, from the least reach.
    pub(super) fn least(map: &ReachMap, count: usize) -> Self {
        let mut order: Vec<(usize, &MapNode)> = map.nodes.iter().enumerate().collect();
        order.sort_by_key(|(place, node)| (node.size.order(), *place));
        order.truncate(count);
        let mut folded = Self { nodes: order.iter().map(|(place, _)| *place).collect(), classes: Vec::new() };
        for admin in [ClusterAdmin::Yes, ClusterAdmin::Conditional, ClusterAdmin::No] {
            let of_class = order.iter().filter(|(_, node)| node.size.cluster_admin == admin);
            let mut nodes: Vec<usize> = of_class.clone().map(|(place, _)| *place).collect();
            nodes.sort_unstable();
            let most = of_class.map(|(_, node)| (*node).clone()).reduce(|a, b| larger(a, &b));
            folded.classes.extend(most.map(|most| Class { nodes, most: MapNode { way: None, ..most } }));
        }
        folded
    }
}

/// The larger of each number.
fn larger(mut a: MapNode, b: &MapNode) -> MapNode {
    a.direct.pods = a.direct.pods.max(b.direct.pods);
    a.direct.secrets = a.direct.secrets.max(b.direct.secrets);
    a.direct.configmaps = a.direct.configmaps.max(b.direct.configmaps);
    a.direct.volumes = a.direct.volumes.max(b.direct.volumes);
    a.direct.accounts = a.direct.accounts.max(b.direct.accounts);
    let (counts, other) = (&mut a.size.counts, &b.size.counts);
    counts.nodes = counts.nodes.max(other.nodes);
    counts.pods.count = counts.pods.count.max(other.pods.count);
    counts.pods.of_others = counts.pods.of_others.max(other.pods.of_others);
    counts.secrets.count = counts.secrets.count.max(other.secrets.count);
    counts.secrets.all |= other.secrets.all;
    counts.configmaps.count = counts.configmaps.count.max(other.configmaps.count);
    counts.serviceaccounts = counts.serviceaccounts.max(other.serviceaccounts);
    a
}
