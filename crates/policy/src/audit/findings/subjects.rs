//! Findings about the subjects of bindings: what each may do that its kind may not (AU-39, AU-40).

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::by_rights::{About, RULES, RightsRule};
use super::finding::Instance;
use super::found::{All, Found};
use super::powers::Hit;
use super::severity::Severity;
use super::standing::{Standing, is_of_nodes, parent};
use crate::audit::Subject;
use crate::audit::rights::{GrantId, Rights};
use crate::chain::MASTERS_GROUP;

/// Where a rule holds for an identity, each place once: with the highest severity, and by what.
pub(super) type Places = BTreeMap<Instance, Place>;

#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    severity: Option<Severity>,
    grants: BTreeSet<GrantId>,
    assumed: BTreeSet<&'static str>,
    /// Whether it holds without an assumption.
    is_certain: bool,
}

/// Where each rule holds for the kinds of subjects.
pub(super) type Parents = HashMap<Subject, Vec<Places>>;

/// The findings of table 6.2. Accounts without a binding of their own have only what their parent has, so that the subjects of
/// bindings are enough.
pub(super) fn find(standing: &Standing<'_>, all_subjects: bool, include_built_in: bool, all: &mut All) {
    let subjects: BTreeSet<&Subject> = standing.grants.subjects().collect();
    let mut parents = Parents::new();
    for subject in subjects {
        find_of(standing, subject, all_subjects, &mut parents, all);
        if include_built_in {
            find_built_in(standing, subject, all);
        }
    }
}

/// What the default policy grants, as `info`.
fn find_built_in(standing: &Standing<'_>, subject: &Subject, all: &mut All) {
    let rights = standing.grants.of(subject);
    let own = rights.clone().without_built_in();
    for rule in &RULES {
        let known = places(standing, rule, &own);
        let mut built_in = places(standing, rule, &rights);
        built_in.retain(|instance, place| !is_covered(&known, instance, place));
        built_in.values_mut().for_each(|place| place.severity = Some(Severity::Info));
        add(standing, rule.id, subject, built_in, all);
    }
}

/// The findings about one subject. `parents` keeps what their kinds may do.
pub(super) fn find_of(
    standing: &Standing<'_>,
    subject: &Subject,
    all_subjects: bool,
    parents: &mut Parents,
    all: &mut All,
) {
    let is_masters = matches!(subject, Subject::Group { name } if name == MASTERS_GROUP);
    if is_of_nodes(subject) || is_masters {
        return;
    }
    let rights = standing.grants.of(subject).without_built_in();
    let is_exposed = all_subjects || standing.is_exposed(subject);
    let of_parent = parent(subject).map(|parent| {
        let made = || {
            let rights = standing.grants.of(&parent).without_built_in();
            RULES.iter().map(|rule| places(standing, rule, &rights)).collect()
        };
        &*parents.entry(parent.clone()).or_insert_with(made)
    });
    for (number, rule) in RULES.iter().enumerate() {
        let is_about = rule.about == About::Anybody || is_exposed;
        // A full identity is reported once (AU-36).
        if !is_about || (rights.full.is_some() && rule.id != "PC109") {
            continue;
        }
        let mut places = places(standing, rule, &rights);
        if let Some(wider) = of_parent.and_then(|parent| parent.get(number)) {
            places.retain(|instance, place| !is_covered(wider, instance, place));
        }
        add(standing, rule.id, subject, places, all);
    }
    find_talkers(standing, subject, &rights, all);
}

fn add(standing: &Standing<'_>, id: &'static str, subject: &Subject, places: Places, all: &mut All) {
    let Some(severity) = places.values().filter_map(|place| place.severity).max() else { return };
    let mut found = Found { severity, ..Found::of_subject(id, subject) };
    for (instance, place) in places {
        found.instances.insert(instance);
        found.grants.extend(place.grants);
        if !place.is_certain {
            found.assumed.extend(place.assumed);
        }
    }
    if standing.is_assumed && matches!(subject, Subject::ServiceAccount { .. }) {
        found.assumed.insert("hosted");
    }
    all.add(found);
}

/// Where a rule holds for some rights. What holds for the cluster holds in its namespaces and for its nodes.
fn places(standing: &Standing<'_>, rule: &RightsRule, rights: &Rights) -> Places {
    let mut places = Places::new();
    for Hit { instance, severity, grants, assumed } in (rule.hits)(standing, rights) {
        let place = places.entry(instance).or_default();
        place.severity = place.severity.max(Some(severity));
        place.grants.extend(grants);
        place.is_certain |= assumed.is_none();
        place.assumed.extend(assumed);
    }
    if let Some(wide) = places.get(&Instance::Cluster).and_then(|place| place.severity) {
        places.retain(|instance, place| *instance == Instance::Cluster || place.severity > Some(wide));
    }
    places
}

/// Whether the parent's places include one, as severe.
///
/// DIVERGES from AU-39, by which a place that the parent has is left out: a worse finding must not be hidden by a lesser one.
fn is_covered(wider: &Places, instance: &Instance, place: &Place) -> bool {
    let covers =
        |instance: &Instance| wider.get(instance).is_some_and(|other| other.severity >= place.severity);
    covers(instance) || covers(&Instance::Cluster)
}

/// PC127: an account that talks to kubelets shows them its token.
fn find_talkers(standing: &Standing<'_>, subject: &Subject, rights: &Rights, all: &mut All) {
    if rights.full.is_some() || !standing.hosted.contains(subject) {
        return;
    }
    let Some(grant) = standing.grants.talks_to_kubelets(subject) else { return };
    let severity = if standing.is_strong(subject) { Severity::High } else { Severity::Medium };
    let place = Place { severity: Some(severity), grants: BTreeSet::from([grant]), ..Place::default() };
    add(standing, "PC127", subject, Places::from([(Instance::Cluster, place)]), all);
}
