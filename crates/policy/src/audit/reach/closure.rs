//! The closure: what a stolen node reaches in the end (section 5 of the audit's rules).
//!
//! A search goes from the node outwards, one edge a step, so that the first way to a vertex is a shortest one. Of several
//! shortest ways the least edge counts (AU-65); the result never depends on the order of the state.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};

use super::super::rights::GrantId;
use super::edges::{Edges, Leaving, To};
use super::universe::{Id, NamespaceId, Universe, VertexType};

/// Whether a node leads to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClusterAdmin {
    /// Yes.
    Yes,
    /// Only after something that others must do (AU-64).
    Conditional,
    /// No.
    No,
}

impl ClusterAdmin {
    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Conditional => "conditional",
            Self::No => "no",
        }
    }
}

/// How a vertex was reached: the edge's number, where it comes from, and its grant. Ordered as ways are chosen.
pub(super) type Step = (u8, Id, Option<GrantId>);

/// The number of the only conditional edge (AU-64).
const CONDITIONAL: u8 = 26;
/// The edge that holds only beside a node with a claim, or a right to create pods.
const NEW_VOLUME: u8 = 27;

/// Searches from one node after the other. The edges of a vertex are made once.
pub(super) struct Search<'e, 'a> {
    edges: &'e Edges<'a>,
    admin: Id,
    with_claims: Vec<Id>,
    made: HashMap<Id, Leaving>,
    /// Edges that another search has made.
    known: Option<&'e Known>,
    /// Vertices that the search ignores.
    ignored: &'e [Id],
    /// The number of the current search.
    run: u32,
    /// For each vertex, the last search that found it, and the last step of it there.
    found_by: Vec<u32>,
    steps: Vec<Step>,
    level: Level,
    found: Found,
}

/// The edges that a search has made, but for some vertices.
#[derive(Default)]
pub(super) struct Known {
    pub(super) made: HashMap<Id, Leaving>,
    pub(super) but: HashSet<Id>,
}

/// The vertices that are one step further than those found so far, each with the least step to it.
struct Level {
    ids: Vec<Id>,
    steps: Vec<Option<Step>>,
}

impl Level {
    /// Takes a step to a vertex that was not found before.
    fn least(&mut self, found_by: &[u32], run: u32, to: Id, step: Step) {
        if found_by.get(to as usize) == Some(&run) {
            return;
        }
        match self.steps.get_mut(to as usize) {
            Some(Some(kept)) => *kept = step.min(*kept),
            Some(kept) => {
                *kept = Some(step);
                self.ids.push(to);
            }
            None => {}
        }
    }
}

/// What one node reaches in the end.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The vertices, nearest first; not the node itself.
    pub(super) order: Vec<Id>,
    /// The last step of the shortest way to admin that needs something which others must do.
    pub(super) conditional: Option<Step>,
    /// The sets that were reached as a whole.
    pub(super) sets: BTreeSet<To>,
}

impl<'e, 'a> Search<'e, 'a> {
    pub(super) fn new(edges: &'e Edges<'a>, universe: &Universe) -> Self {
        Self {
            edges,
            admin: universe.find(VertexType::Admin, "", "").unwrap_or_default(),
            with_claims: edges.nodes_with_claims(),
            made: HashMap::new(),
            known: None,
            ignored: &[],
            run: 0,
            found_by: vec![0; universe.len()],
            steps: vec![(0, 0, None); universe.len()],
            level: Level { ids: Vec::new(), steps: vec![None; universe.len()] },
            found: Found::default(),
        }
    }

    /// Uses edges that another search has made.
    pub(super) fn with_known(mut self, known: &'e Known) -> Self {
        self.known = Some(known);
        self
    }

    /// Ignores vertices, as if they did not exist.
    pub(super) fn ignoring(mut self, vertices: &'e [Id]) -> Self {
        self.ignored = vertices;
        self
    }

    /// The edges that were made.
    pub(super) fn into_made(self) -> HashMap<Id, Leaving> {
        self.made
    }

    /// Finds what a node reaches in the end.
    pub(super) fn search(&mut self, node: Id) {
        let mut has_claim = self.with_claims.binary_search(&node).is_ok();
        self.walk(node, has_claim);
        if !has_claim && self.with_claims.iter().any(|node| self.has_found(*node)) {
            // A node with a claim was found on the way: once more, with the edges that it makes.
            has_claim = true;
            self.walk(node, has_claim);
        }
    }

    /// What the last search found.
    pub(super) fn found(&self) -> &Found {
        &self.found
    }

    /// Whether the last search found a vertex.
    pub(super) fn has_found(&self, id: Id) -> bool {
        self.found_by.get(id as usize) == Some(&self.run)
    }

    /// The steps of the way to a vertex that the last search found: where each leads, and the step.
    pub(super) fn way(&self, to: Id) -> Vec<(Id, Step)> {
        let mut way = Vec::new();
        let mut at = to;
        // The start of the search is found too, but no step leads to it.
        while let Some(step) = self.steps.get(at as usize).filter(|step| self.has_found(at) && step.0 != 0) {
            way.push((at, *step));
            at = step.1;
        }
        way.reverse();
        way
    }

    fn walk(&mut self, node: Id, has_claim: bool) {
        self.run = self.run.saturating_add(1);
        self.found = Found::default();
        self.mark(node, (0, node, None));
        // A vertex that is marked as found is not visited.
        for id in self.ignored {
            self.mark(*id, (0, *id, None));
        }
        let mut frontier = vec![node];
        while !frontier.is_empty() {
            let mut sets = BTreeMap::<(u8, To), Step>::new();
            let mut conditional: Option<Step> = None;
            for from in &frontier {
                let edges = self.edges;
                let known = self.known.filter(|known| !known.but.contains(from));
                let leaving = match known.and_then(|known| known.made.get(from)) {
                    Some(leaving) => leaving,
                    None => self.made.entry(*from).or_insert_with(|| edges.of(*from)),
                };
                let holds = |number| number != NEW_VOLUME || has_claim || leaving.creates_pods;
                for edge in leaving.edges.iter().filter(|edge| holds(edge.number)) {
                    let step = (edge.number, *from, edge.grant);
                    match &edge.to {
                        To::One(_) if edge.number == CONDITIONAL => {
                            conditional = conditional.into_iter().chain([step]).min();
                        }
                        To::One(to) => self.level.least(&self.found_by, self.run, *to, step),
                        set => {
                            let kept = sets.entry((edge.number, set.clone())).or_insert(step);
                            *kept = step.min(*kept);
                        }
                    }
                }
            }
            for ((_, set), step) in sets {
                // A set that was reached before has nothing new.
                if self.found.sets.insert(set.clone()) {
                    for to in self.edges.members(&set) {
                        self.level.least(&self.found_by, self.run, to, step);
                    }
                }
            }
            self.found.conditional = self.found.conditional.or(conditional);
            let mut next = std::mem::take(&mut self.level.ids);
            next.sort_unstable();
            for id in &next {
                if let Some(step) = self.level.steps.get(*id as usize).copied().flatten() {
                    self.mark(*id, step);
                }
                if let Some(step) = self.level.steps.get_mut(*id as usize) {
                    *step = None;
                }
            }
            self.found.order.extend(&next);
            frontier = next;
        }
    }

    fn mark(&mut self, id: Id, step: Step) {
        if let (Some(found), Some(kept)) =
            (self.found_by.get_mut(id as usize), self.steps.get_mut(id as usize))
        {
            (*found, *kept) = (self.run, step);
        }
    }

    /// Whether a node leads to everything.
    pub(super) fn cluster_admin(&self) -> ClusterAdmin {
        if self.has_found(self.admin) {
            ClusterAdmin::Yes
        } else if self.found.conditional.is_some() {
            ClusterAdmin::Conditional
        } else {
            ClusterAdmin::No
        }
    }

    /// The way to admin: a sure one, else one that needs something which others must do.
    pub(super) fn way_to_admin(&self) -> Vec<(Id, Step)> {
        match (self.has_found(self.admin), self.found.conditional) {
            (false, Some(step)) => {
                let mut way = self.way(step.1);
                way.push((self.admin, step));
                way
            }
            _ => self.way(self.admin),
        }
    }
}

impl Found {
    /// Whether all vertices of a type were reached as such, and else the namespaces of which all were.
    pub(super) fn wholes(&self, kind: VertexType) -> (bool, impl Iterator<Item = NamespaceId>) {
        let is_all = self.sets.contains(&To::All(kind, None));
        let namespaces = self.sets.iter().filter_map(move |set| match set {
            To::All(of, namespace) if *of == kind && !is_all => *namespace,
            _ => None,
        });
        (is_all, namespaces)
    }
}
