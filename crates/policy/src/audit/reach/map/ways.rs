//! The ends of paths to admin that nodes share.

use std::collections::BTreeMap;

use super::data::{MapStep, MapWay};
use crate::audit::reach::closure::{ClusterAdmin, Step};
use crate::audit::reach::universe::Id;
use crate::audit::rights::GrantId;

/// What nodes with the same end of their path agree in: what it is worth, where the end starts, the step to admin if that is the
/// first one, and all later steps.
type Key = (ClusterAdmin, Id, Option<(u8, Option<GrantId>)>, Vec<(Id, Step)>);

/// The ends, while nodes are searched.
#[derive(Default)]
pub(super) struct Ways(BTreeMap<Key, Shared>);

/// Who has an end, and the first node's step to it.
struct Shared {
    first: Step,
    nodes: Vec<usize>,
}

impl Ways {
    /// Takes the path of a node to admin, without the steps to what is the node's own.
    pub(super) fn take(
        &mut self,
        node: usize,
        worth: ClusterAdmin,
        path: &[(Id, Step)],
        admin: Id,
        is_own: impl Fn(Id) -> bool,
    ) {
        let own = path.iter().take_while(|(to, _)| is_own(*to)).count();
        let Some(((start, first), rest)) = path.get(own..).and_then(<[_]>::split_first) else { return };
        let to_admin = (*start == admin).then_some((first.0, first.2));
        let key = (worth, *start, to_admin, rest.to_vec());
        self.0.entry(key).or_insert_with(|| Shared { first: *first, nodes: Vec::new() }).nodes.push(node);
    }

    /// The ends, the sure and the most shared ones first; and for each node that has one, its place.
    pub(super) fn into_sorted(
        self,
        numbers: &BTreeMap<GrantId, u32>,
    ) -> (Vec<MapWay>, BTreeMap<usize, usize>) {
        let mut sorted: Vec<(Key, Shared)> = self.0.into_iter().collect();
        // Stable: of ends that as many nodes share, the order of the keys is kept.
        sorted.sort_by_key(|((worth, ..), shared)| (*worth, std::cmp::Reverse(shared.nodes.len())));
        let grant = |grant: Option<GrantId>| grant.and_then(|grant| numbers.get(&grant).copied());
        let mut of_nodes = BTreeMap::new();
        let mut ways = Vec::new();
        for (place, ((admin, start, _, rest), shared)) in sorted.into_iter().enumerate() {
            of_nodes.extend(shared.nodes.iter().map(|node| (*node, place)));
            let steps = std::iter::once((start, shared.first)).chain(rest);
            let steps = steps.map(|(to, (number, _, by))| MapStep { number, to, grant: grant(by) });
            ways.push(MapWay { admin, nodes: shared.nodes.len(), steps: steps.collect() });
        }
        (ways, of_nodes)
    }
}
