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
mod map;
mod missing;
mod report;
mod steps;
mod universe;
mod worst;

use std::panic::resume_unwind;
use std::thread;

pub use self::closure::ClusterAdmin;
pub use self::direct::DirectReach;
pub use self::edges::Asked;
pub use self::map::{
    DirectCounts, MapEdge, MapGrant, MapNode, MapPod, MapStep, MapWay, MapWorkload, ReachMap, Target,
};
pub use self::report::{
    Closure, Counts, DirectLists, Names, NodeReach, Path, PathEdge, Pods, ReachSize, Report,
};

use self::closure::Search;
use self::edges::Edges;
use self::missing::missing;
use self::report::Describe;
pub use self::steps::STEPS;
pub(in crate::audit) use self::universe::Universe;
pub use self::universe::{Vertex, VertexType};
pub(in crate::audit) use self::worst::{Closures, Way};
use super::rights::Grants;
use super::state::State;

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
    let read = || Grants::new(&state.facts().rbac);
    #[expect(
        clippy::disallowed_methods,
        reason = "half the time of a large report; without threads it works as well"
    )]
    let (direct, grants) = thread::scope(|scope| {
        let beside = (!wanted.direct_alone).then(|| thread::Builder::new().spawn_scoped(scope, read));
        let direct = DirectReach::of(state);
        let grants = beside.map(|started| match started {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            // The system has no threads, or no more of them.
            Err(_) => read(),
        });
        (direct, grants)
    });
    let is_wanted = |node: &str| wanted.nodes.is_empty() || wanted.nodes.iter().any(|name| name == node);
    let nodes = direct.nodes.keys().filter(|node| is_wanted(node));
    let absent = |node: &str| wanted.absent.then(|| report::absent(state, &direct, node));
    let mut report = Report { nodes: Vec::new(), incomplete: missing(state, wanted.direct_alone) };
    let Some(grants) = grants else {
        report.nodes.extend(nodes.map(|node| NodeReach {
            node: node.clone(),
            direct: DirectLists::of(&direct, node),
            closure: None,
            absent: absent(node),
        }));
        return report;
    };
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
