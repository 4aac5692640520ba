//! Applying a configuration: the fields that it sets are the manager's, others may refuse that, and what the manager no
//! longer sets goes unless others manage it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::Map;

use super::compare::Comparison;
use super::endpoint::{Comparisons, Endpoint, Versions, reconcile};
use super::fields::{faults, fields};
use super::last_applied;
use super::managers::{Managed, Manager, Managers, Operation, Unreadable};
use super::merge::merged_object;
use super::remove::remove_members;
use super::set::FieldSet;
use super::update::{managed_fields, set_managed_fields};

/// The manager of an object's fields that were written before anybody applied a configuration.
const BEFORE: &str = "before-first-apply";

/// A configuration that is applied to an object. All objects are in the version of the endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Application<'o> {
    /// The object as it is; an empty one if it does not exist.
    pub live: &'o Map,
    /// An object of the kind in which nothing is set.
    pub empty: &'o Map,
    /// The configuration.
    pub config: &'o Map,
    /// The name of the manager.
    pub manager: &'o str,
    /// Whether fields that others manage are taken from them.
    pub forces: bool,
}

/// An error of an applied configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The version of the endpoint is none of the kind.
    #[error("there is no such version")]
    NoVersion,
    /// The configuration does not have the form of the kind.
    #[error("failed to create typed patch object: {}", list(.0))]
    Malformed(Vec<String>),
    /// The `managedFields` of the object.
    #[error(transparent)]
    ManagedFields(#[from] Unreadable),
    /// Others manage fields that it would change.
    #[error("{0}")]
    Conflicts(Conflicts),
}

fn list(faults: &[String]) -> String {
    match faults {
        [fault] => fault.clone(),
        faults => format!("errors:\n  {}", faults.join("\n  ")),
    }
}

/// The fields that others manage, and a configuration would change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(BTreeMap<Manager, FieldSet>);

impl<V: Versions> Endpoint<'_, V> {
    /// Applies a configuration. Returns the object as it will be, with its `managedFields`; the caller decodes it and
    /// fills in defaults.
    ///
    /// # Errors
    /// See [`ApplyError`].
    pub fn apply(&self, application: Application<'_>) -> Result<Map, ApplyError> {
        let Application { live, config, manager: name, .. } = application;
        let schema = self.versions.schema(self.version).ok_or(ApplyError::NoVersion)?;
        let mut managers = Managers::parse(managed_fields(live))?;
        if managers.entries.is_empty()
            && let Some(comparisons) = self.comparisons(application.empty, live)
        {
            let before = self.manager(BEFORE, Operation::Update);
            self.record(&mut managers, before, comparisons);
        }
        let faults = faults(schema, config);
        if !faults.is_empty() {
            return Err(ApplyError::Malformed(faults));
        }
        let manager = self.manager(name, Operation::Apply);
        reconcile(self.versions, &mut managers);
        let (object, conflicts) = self.settle(&mut managers, &manager, live, config);
        if !conflicts.is_empty() && !application.forces {
            let left = match name {
                last_applied::MANAGER => conflicts.without(&last_applied::allowed(self, live)),
                _ => conflicts,
            };
            if !left.is_empty() {
                return Err(ApplyError::Conflicts(left));
            }
        }
        let mut object = object;
        if object != *live
            && let Some(managed) = managers.entries.get_mut(&manager)
        {
            managed.time = Some(self.now.to_owned());
        }
        if name == last_applied::MANAGER {
            last_applied::renew(&mut object, config);
        }
        set_managed_fields(&mut object, managers.print());
        Ok(object)
    }

    /// Merges the configuration, and settles who manages what afterwards, as if it was forced. Returns the object and the
    /// fields that others lost.
    fn settle(
        &self,
        managers: &mut Managers,
        manager: &Manager,
        live: &Map,
        config: &Map,
    ) -> (Map, Conflicts) {
        let Some(schema) = self.versions.schema(self.version) else {
            return (live.clone(), Conflicts::default());
        };
        let merged = merged_object(schema, live.clone(), config);
        let mut set = fields(schema, config);
        self.keep(&mut set);
        let last = managers.entries.remove(manager);
        let time = last.as_ref().and_then(|last| last.time.clone());
        let managed = Managed { api_version: self.version.to_owned(), fields: set, time };
        managers.entries.insert(manager.clone(), managed);
        let object = match last {
            Some(last) => self.pruned(managers, manager, merged, &last),
            None => merged,
        };
        let mut conflicts = Conflicts::default();
        if let Some(mut comparisons) = self.comparisons(live, &object) {
            managers.entries.retain(|other, managed| {
                if other != manager {
                    match lost(&mut comparisons, managed) {
                        Some(lost) if lost.is_empty() => {}
                        Some(lost) => drop(conflicts.0.insert(other.clone(), lost)),
                        None => return false,
                    }
                }
                !managed.fields.is_empty()
            });
        }
        if let Some(managed) = managers.entries.get_mut(manager) {
            managed.fields = self.owned(std::mem::take(&mut managed.fields));
            if managed.fields.is_empty() {
                managers.entries.remove(manager);
            }
        }
        (object, conflicts)
    }

    /// Removes what the manager set last time and does not set any more, unless others manage it.
    fn pruned(&self, managers: &Managers, manager: &Manager, merged: Map, last: &Managed) -> Map {
        let is_kept = managers.entries.get(manager).is_some_and(|now| last.fields.is_within(&now.fields));
        if is_kept && last.api_version == self.version {
            return merged;
        }
        let pruned = self.pruned_at(managers, &merged, last);
        pruned.unwrap_or(merged)
    }

    /// See [`Self::pruned`]. Nothing if the version of last time is gone.
    fn pruned_at(&self, managers: &Managers, merged: &Map, last: &Managed) -> Option<Map> {
        let version = last.api_version.as_str();
        let schema = self.versions.schema(version)?;
        let first = self.converted(merged.clone(), self.version, version)?;
        let mut was = last.fields.clone();
        was.add_named(schema);
        let mut pruned = first.clone();
        remove_members(schema, &mut pruned, &was);
        // What is managed is put back, in each version in which something is managed.
        let mut owned: BTreeMap<&str, FieldSet> = BTreeMap::from([(version, FieldSet::default())]);
        for managed in managers.entries.values() {
            owned.entry(&managed.api_version).or_default().add(managed.fields.clone());
        }
        let of_last = owned.remove_entry(version).into_iter();
        let mut at = version;
        let mut whole = first.clone();
        for (version, owned) in of_last.chain(owned) {
            let Some(schema) = self.versions.schema(version) else { continue };
            whole = self.converted(whole, at, version)?;
            pruned = self.converted(pruned, at, version)?;
            at = version;
            let [mut goes, mut stays, mut owned] = [fields(schema, &whole), fields(schema, &pruned), owned];
            for set in [&mut goes, &mut stays, &mut owned] {
                set.add_named(schema);
            }
            goes.subtract(&stays);
            goes.subtract(&owned);
            pruned = whole.clone();
            remove_members(schema, &mut pruned, &goes);
        }
        // Only what the manager itself set goes.
        let pruned = self.converted(pruned, at, version)?;
        let [mut goes, mut stays] = [fields(schema, &first), fields(schema, &pruned)];
        goes.add_named(schema);
        stays.add_named(schema);
        goes.subtract(&stays);
        let mut object = first;
        remove_members(schema, &mut object, &goes.common(&was));
        self.converted(object, version, self.version)
    }

    fn converted(&self, object: Map, from: &str, to: &str) -> Option<Map> {
        match from == to {
            true => Some(object),
            false => self.versions.convert(Cow::Owned(object), from, to).map(Cow::into_owned),
        }
    }
}

/// Takes what was changed from another manager. Returns what of it conflicts; nothing if its version is gone.
fn lost<V: Versions>(comparisons: &mut Comparisons<'_, '_, V>, managed: &mut Managed) -> Option<FieldSet> {
    let Comparison { added, modified, removed } = comparisons.of(&managed.api_version)?;
    let mut lost = managed.fields.common(modified);
    lost.add(managed.fields.common(added));
    managed.fields.subtract(&lost);
    managed.fields.subtract(removed);
    Some(lost)
}

/// The maximum size of all conflicts that are named, in bytes.
///
/// DIVERGES: Kubernetes names them all, and each with its whole path.
const MAX_TEXT: usize = 256 * 1024;

impl Conflicts {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The conflicts about other fields than these.
    fn without(mut self, allowed: &FieldSet) -> Self {
        self.0.retain(|_, fields| {
            fields.subtract(allowed);
            !fields.is_empty()
        });
        self
    }

    /// Each conflict: who manages the field, and its path.
    pub fn list(&self) -> Vec<(String, String)> {
        let (mut listed, mut size) = (Vec::new(), 0_usize);
        for (manager, fields) in &self.0 {
            let manager = manager.to_string();
            let goes_on = fields.each_path(&mut String::new(), &mut |path| {
                size = size.saturating_add(manager.len()).saturating_add(path.len());
                if size <= MAX_TEXT {
                    listed.push((manager.clone(), path.to_owned()));
                }
                size <= MAX_TEXT
            });
            if !goes_on {
                break;
            }
        }
        listed
    }
}

/// As kubectl shows them.
impl std::fmt::Display for Conflicts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let conflicts = self.list();
        if let [(manager, path)] = conflicts.as_slice() {
            return write!(f, "Apply failed with 1 conflict: conflict with {manager}: {path}");
        }
        write!(f, "Apply failed with {} conflicts: ", conflicts.len())?;
        let mut last = None;
        for (manager, path) in &conflicts {
            if last != Some(manager) {
                let line = if last.is_some() { "\n" } else { "" };
                write!(f, "{line}conflicts with {manager}:")?;
            }
            last = Some(manager);
            write!(f, "\n- {path}")?;
        }
        Ok(())
    }
}
