//! One edge: its number, where it leads, and the grant that makes it.

use crate::audit::reach::universe::{Id, NamespaceId, VertexType};
use crate::audit::rights::GrantId;

/// Where an edge leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::audit::reach) enum To {
    One(Id),
    /// All vertices of a type, in one namespace or everywhere.
    All(VertexType, Option<NamespaceId>),
    /// A list of vertices, by its number among the shared lists.
    List(usize),
}

/// An edge: its number in the rules (E1 to E31), where it leads, and the grant that makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::audit::reach) struct Edge {
    pub(in crate::audit::reach) number: u8,
    pub(in crate::audit::reach) to: To,
    pub(in crate::audit::reach) grant: Option<GrantId>,
}

/// The edges that leave a vertex.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::audit::reach) struct Leaving {
    pub(in crate::audit::reach) edges: Vec<Edge>,
    /// Whether the vertex can have pods created somewhere: then its edge E27 holds, whatever nodes the closure has.
    pub(in crate::audit::reach) creates_pods: bool,
}
