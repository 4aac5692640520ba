//! What is on the page, and what follows from it for several of its parts.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_policy::audit::Incomplete;
use portcullis_policy::audit::findings::Finding;
use portcullis_policy::audit::reach::{ClusterAdmin, ReachMap, VertexType};

use crate::command::audit::selection::Selected;

/// What is on the page.
pub(in crate::command) struct Content<'a> {
    /// What nodes reach.
    pub(in crate::command) map: &'a ReachMap,
    /// What was found; none for a page about reach alone.
    pub(in crate::command) audited: Option<Audited<'a>>,
    /// What was missing.
    pub(in crate::command) incomplete: Vec<Incomplete>,
}

/// What was found.
#[derive(Clone, Copy)]
pub(in crate::command) struct Audited<'a> {
    /// The findings and notes.
    pub(in crate::command) selected: &'a Selected,
    /// The rules that were asked for; all if empty.
    pub(in crate::command) rules: &'a [String],
}

/// A finding, and why it is suppressed.
#[derive(Clone, Copy)]
pub(super) struct Listed<'a> {
    pub(super) finding: &'a Finding,
    pub(super) suppressed: Option<&'a str>,
}

impl<'a> Content<'a> {
    /// All findings in their order: severity falling, id, subject (AU-131). Suppressed ones are among them.
    pub(super) fn findings(&self) -> Vec<Listed<'a>> {
        let Some(Audited { selected, .. }) = self.audited else { return Vec::new() };
        let shown = selected.report.findings.iter().map(|finding| Listed { finding, suppressed: None });
        let suppressed = selected.suppressed.iter().map(|suppressed| Listed {
            finding: &suppressed.finding,
            suppressed: Some(suppressed.reason.as_deref().unwrap_or("known from the baseline")),
        });
        let mut all: Vec<Listed<'a>> = shown.chain(suppressed).collect();
        all.sort_by_key(|listed| {
            let finding = listed.finding;
            (std::cmp::Reverse(finding.severity), finding.rule.id, &finding.subject, &finding.fingerprint)
        });
        all
    }

    /// The rules, or other answers, that lack something.
    pub(super) fn gaps(&self) -> BTreeSet<&'static str> {
        self.incomplete.iter().flat_map(|missing| &missing.rules).copied().collect()
    }

    /// How many nodes lead to admin in this way.
    pub(super) fn count(&self, admin: ClusterAdmin) -> usize {
        self.map.nodes.iter().filter(|node| node.size.cluster_admin == admin).count()
    }

    /// The name of a node by its place.
    pub(super) fn node(&self, place: usize) -> &'a str {
        self.map.vertices.get(place).map(|vertex| vertex.name.as_str()).unwrap_or_default()
    }

    /// `NAMESPACE/NAME` or `NAME` of a vertex, and its type.
    pub(super) fn vertex(&self, id: u32) -> (VertexType, String) {
        match self.map.vertices.get(id as usize) {
            Some(vertex) if vertex.namespace.is_empty() => (vertex.kind, vertex.name.clone()),
            Some(vertex) => (vertex.kind, format!("{}/{}", vertex.namespace, vertex.name)),
            None => (VertexType::Admin, String::new()),
        }
    }

    /// How many nodes reach these identities and secrets in the end, by subject (AU-30).
    pub(super) fn reached_by(&self) -> BTreeMap<String, usize> {
        let reached = self.map.vertices.iter().zip(&self.map.reached_by);
        let is_subject = |kind| {
            matches!(kind, VertexType::Account | VertexType::User | VertexType::Group | VertexType::Secret)
        };
        let reached = reached.filter(|(vertex, count)| **count > 0 && is_subject(vertex.kind));
        reached.map(|(vertex, count)| (vertex.to_string(), *count as usize)).collect()
    }

    /// The workloads on each node, by the place of the node.
    pub(super) fn on_nodes(&self) -> Vec<BTreeSet<u32>> {
        let mut on = vec![BTreeSet::new(); self.map.nodes.len()];
        for pod in &self.map.pods {
            if let Some(on) = pod.node.and_then(|node| on.get_mut(node as usize)) {
                on.insert(pod.workload);
            }
        }
        on
    }
}
