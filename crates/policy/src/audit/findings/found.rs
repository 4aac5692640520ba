//! A finding as a rule makes it, before it has words, a fingerprint and evidence.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Evidence, Instance};
use super::severity::Severity;
use crate::audit::Subject;
use crate::audit::reach::Vertex;
use crate::audit::rights::GrantId;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: &'static str,
    pub(super) subject: String,
    pub(super) severity: Severity,
    pub(super) instances: BTreeSet<Instance>,
    /// The grants behind it, in the order of bindings.
    pub(super) grants: BTreeSet<GrantId>,
    /// The bindings to remove the subject from (PC105, PC107, PC125): namespace and name.
    pub(super) bindings: BTreeSet<(String, String)>,
    /// The chains of objects and fields that prove it, the least ones.
    pub(super) evidence: BTreeSet<Vec<Evidence>>,
    /// What it is about: a way from a node there is evidence too.
    pub(super) about: Option<Vertex>,
    pub(super) assumed: BTreeSet<&'static str>,
}

impl Found {
    /// A finding about an object, from the field that proves it.
    pub(super) fn of_object(
        id: &'static str,
        severity: Severity,
        subject: impl Into<String>,
        instance: Instance,
        evidence: impl Into<Vec<Evidence>>,
    ) -> Self {
        Self {
            id,
            subject: subject.into(),
            severity,
            instances: BTreeSet::from([instance]),
            grants: BTreeSet::new(),
            bindings: BTreeSet::new(),
            evidence: BTreeSet::from([evidence.into()]),
            about: None,
            assumed: BTreeSet::new(),
        }
    }

    /// The same, about something that nodes may reach.
    #[must_use]
    pub(super) fn about(mut self, vertex: Vertex) -> Self {
        self.about = Some(vertex);
        self
    }

    /// Whether it is only about what the default policy grants. No rule about permissions has findings of this severity of its own.
    pub(super) fn is_built_in(&self) -> bool {
        self.severity == Severity::Info && !self.grants.is_empty()
    }

    /// Whether an audit log is a part of the evidence.
    pub(super) fn is_of_log(&self) -> bool {
        self.evidence.iter().flatten().any(|evidence| evidence.object == AUDIT_LOG)
    }

    /// A finding about a subject, without instances yet.
    pub(super) fn of_subject(id: &'static str, subject: &Subject) -> Self {
        Self {
            id,
            subject: subject.to_string(),
            severity: Severity::Info,
            instances: BTreeSet::new(),
            grants: BTreeSet::new(),
            bindings: BTreeSet::new(),
            evidence: BTreeSet::new(),
            about: Some(Vertex::of(subject)),
            assumed: BTreeSet::new(),
        }
    }
}

/// The object of evidence from an audit log.
pub(super) const AUDIT_LOG: &str = "audit-log";
/// The number of chains of evidence that are kept of a finding: a workload may have thousands of pods.
pub(super) const MAX_CHAINS: usize = 8;

/// Findings by rule and subject: one for each (AU-39).
#[derive(Debug, Default)]
pub(super) struct All(BTreeMap<(&'static str, String), Found>);

impl All {
    /// Adds a finding, or what it has to the one of the same rule and subject.
    pub(super) fn add(&mut self, found: Found) {
        match self.0.entry((found.id, found.subject.clone())) {
            std::collections::btree_map::Entry::Vacant(place) => drop(place.insert(found)),
            std::collections::btree_map::Entry::Occupied(mut place) => {
                let kept = place.get_mut();
                kept.severity = kept.severity.max(found.severity);
                kept.instances.extend(found.instances);
                kept.grants.extend(found.grants);
                kept.bindings.extend(found.bindings);
                kept.evidence.extend(found.evidence);
                while kept.evidence.len() > MAX_CHAINS {
                    kept.evidence.pop_last();
                }
                kept.about = [kept.about.take(), found.about].into_iter().flatten().min();
                kept.assumed.extend(found.assumed);
            }
        }
    }

    /// A finding by rule and subject.
    pub(super) fn get(&self, id: &'static str, subject: &str) -> Option<&Found> {
        self.0.get(&(id, subject.to_owned()))
    }

    /// The rules and subjects of all findings.
    pub(super) fn keys(&self) -> impl Iterator<Item = &(&'static str, String)> {
        self.0.keys()
    }

    /// All findings, by id and subject.
    pub(super) fn into_list(self) -> Vec<Found> {
        self.0.into_values().collect()
    }
}
