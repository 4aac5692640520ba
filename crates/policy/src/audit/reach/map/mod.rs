//! The whole graph of a state, for a page that searches in it by itself (AU-137): what is there, what leads where, and how much each
//! node reaches.
//!
//! What many have is kept once: pods by workload, targets of edges by set, and the ends of paths to admin (AU-139). Everything is
//! numbered in the order in which paths are chosen (AU-65), so that a search over numbers finds the same paths as [`super::report`].

mod build;
mod data;
mod edges;
mod pods;
mod ways;

pub use self::data::{
    DirectCounts, MapEdge, MapGrant, MapNode, MapPod, MapStep, MapWay, MapWorkload, ReachMap, Target,
};
