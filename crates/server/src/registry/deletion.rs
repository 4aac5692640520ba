//! The steps of a delete: grace periods, finalizers, dependents (AP-50 to AP-57).

use kinds::Map;
use kinds::resource::{Deletion, Dependents, Resource};

use super::meta::{self, now};
use super::options::DeleteOptions;

/// The finalizer for orphaning dependents.
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer for deleting dependents first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The effect of a delete on an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// The object is already being deleted, and this request does not shorten its grace period.
    Nothing,
    /// The object is changed to this, and stays until its deletion can complete.
    Mark(Map),
    /// The object is changed to this, and is removed at once.
    MarkAndRemove(Map),
    /// The object is removed at once.
    Remove,
}

/// The effect of a delete on an object.
pub(crate) fn step(resource: &Resource, object: &Map, options: &DeleteOptions) -> Step {
    let (mut marked, ends) = match (resource.delete)(object, options.grace_period, now()) {
        Deletion::Waits => return Step::Nothing,
        Deletion::Proceeds => (object.clone(), None),
        Deletion::Begins(marked) => (marked, Some(false)),
        Deletion::Ends(marked) => (marked, Some(true)),
    };
    if let Some(finalizers) = finalizers(resource.dependents, object, options) {
        meta::set_finalizers(&mut marked, finalizers);
    }
    match (ends, meta::finalizers(&marked).is_empty()) {
        (Some(true), true) => Step::MarkAndRemove(marked),
        (Some(_), _) => Step::Mark(marked),
        (None, true) => Step::Remove,
        (None, false) => {
            mark_deleted(&mut marked);
            Step::Mark(marked)
        }
    }
}

/// The grace period that a delete gives an object, in seconds; none for a kind without one.
pub(crate) fn grace_period(resource: &Resource, object: &Map, options: &DeleteOptions) -> Option<i64> {
    match (resource.delete)(object, options.grace_period, now()) {
        Deletion::Waits | Deletion::Proceeds => None,
        Deletion::Begins(marked) | Deletion::Ends(marked) => meta::grace_period(&marked),
    }
}

/// AP-54: marks an object that has no grace period as deleted.
fn mark_deleted(object: &mut Map) {
    if !meta::is_terminating(object) {
        meta::raise_generation(object);
    }
    let ends = meta::seconds(meta::text(object, "deletionTimestamp"));
    if ends.is_none_or(|ends| ends > now()) {
        meta::set(object, "deletionTimestamp", meta::time(now()));
    }
    meta::set(object, "deletionGracePeriodSeconds", 0);
}

/// AP-52: returns the finalizers that a delete sets; none if they do not change.
///
/// The request decides. If it says nothing, the finalizers that the object has decide, and then its kind.
fn finalizers(dependents: Dependents, object: &Map, options: &DeleteOptions) -> Option<Vec<String>> {
    let old = meta::finalizers(object);
    let (had_orphan, had_foreground) = (old.contains(&ORPHAN), old.contains(&FOREGROUND));
    let usual = had_orphan || (dependents == Dependents::Orphaned && !had_foreground);
    let has_dependents = dependents != Dependents::None;
    let orphans = has_dependents && options.orphans().unwrap_or(usual);
    let is_foreground = has_dependents && options.is_foreground().unwrap_or(had_foreground);
    if had_orphan == orphans && had_foreground == is_foreground {
        return None;
    }
    let mut new: Vec<&str> = old.into_iter().filter(|f| !matches!(*f, ORPHAN | FOREGROUND)).collect();
    new.extend(orphans.then_some(ORPHAN));
    new.extend(is_foreground.then_some(FOREGROUND));
    Some(new.into_iter().map(str::to_owned).collect())
}
