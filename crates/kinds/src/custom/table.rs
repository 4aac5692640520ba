//! The custom kinds of a server. The table changes while the server runs; readers never wait.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::definition::Definition;
use super::row::{CustomRow, Identity};
use crate::Map;
use crate::fields::Members;
use crate::resource::{Custom as _, Resource};

/// The most bytes that rows take for ever. A row is kept when its definition goes, and used again when one with the same
/// names comes, so changing definitions takes nothing; about 40,000 different kinds and versions fit.
///
/// DIVERGES: in Kubernetes there is no limit to the names that definitions have had since the server started.
const MAX_ROWS: usize = 32 << 20;

/// The custom kinds.
#[derive(Default)]
pub struct CustomKinds {
    live: ArcSwap<Live>,
    rows: Mutex<Rows>,
    /// The revision up to which stored definitions were taken in.
    taken_in: AtomicU64,
}

/// The definitions in force, and the rows of their versions.
#[derive(Debug, Default)]
struct Live {
    definitions: BTreeMap<Box<str>, Arc<Definition>>,
    /// The served rows, by plural name, version and group.
    by_path: HashMap<(&'static str, &'static str, &'static str), &'static Resource>,
    /// The rows in which objects are stored.
    stored: Vec<&'static Resource>,
    /// The same, by group and plural name.
    by_place: HashMap<(&'static str, &'static str), &'static Resource>,
    /// How often the table has changed.
    generation: u64,
}

#[derive(Debug, Default)]
struct Rows {
    by_identity: HashMap<Identity<'static>, &'static CustomRow>,
    size: usize,
}

/// No further names can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this server has known too many different kinds since it started: restart it to define kinds with new names"
)]
pub struct NoRoom;

impl fmt::Debug for CustomKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomKinds").field("definitions", &self.live.load().definitions.len()).finish()
    }
}

impl CustomKinds {
    /// The served row that a path names.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
        self.live.load().by_path.get(&(plural, version, group)).copied()
    }

    /// The served rows.
    pub fn rows(&self) -> Vec<&'static Resource> {
        let live = self.live.load();
        let mut rows: Vec<&'static Resource> = live.by_path.values().copied().collect();
        rows.sort_by_key(|row| (row.group, row.version, row.plural));
        rows
    }

    /// The rows in which objects are stored, served or not.
    pub fn stored(&self) -> Vec<&'static Resource> {
        self.live.load().stored.clone()
    }

    /// A definition that is in force.
    pub fn definition(&self, name: &str) -> Option<Arc<Definition>> {
        self.live.load().definitions.get(name).cloned()
    }

    /// The served row of a document of this `apiVersion` and kind.
    pub fn of_document(&self, api_version: &str, kind: &str) -> Option<&'static Resource> {
        let (group, version) = api_version.split_once('/')?;
        let live = self.live.load();
        let mut rows = live.by_path.values();
        rows.find(|row| row.kind == kind && row.version == version && row.group == group).copied()
    }

    /// The names of the definitions in force.
    pub fn names(&self) -> Vec<Box<str>> {
        self.live.load().definitions.keys().cloned().collect()
    }

    /// The row in which the objects of a definition are stored.
    pub fn stored_row(&self, definition: &Definition) -> Option<&'static Resource> {
        self.stored_in(&definition.group, &definition.plural)
    }

    /// The row in which the objects of a group and a plural name are stored.
    pub fn stored_in(&self, group: &str, plural: &str) -> Option<&'static Resource> {
        self.live.load().by_place.get(&(group, plural)).copied()
    }

    /// Whether the kind of a row that the table was given is defined here.
    pub(crate) fn defines(&self, row: &Resource) -> bool {
        let live = self.live.load();
        let mut definitions = live.definitions.values();
        definitions.any(|definition| {
            definition.is_served && *definition.group == *row.group && *definition.plural == *row.plural
        })
    }

    /// The revision up to which stored definitions were taken in.
    pub fn taken_in(&self) -> u64 {
        self.taken_in.load(Ordering::Acquire)
    }

    /// Notes that all definitions that were stored up to a revision were taken in.
    pub fn has_taken_in(&self, revision: u64) {
        self.taken_in.fetch_max(revision, Ordering::AcqRel);
    }

    /// How often the table has changed.
    pub fn generation(&self) -> u64 {
        self.live.load().generation
    }

    /// How many definitions are in force.
    pub fn len(&self) -> usize {
        self.live.load().definitions.len()
    }

    /// Whether no definition is in force.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the rows of a definition can be made.
    ///
    /// # Errors
    /// There is no room for them.
    pub fn has_room_for(&self, definition: &Map) -> Result<(), NoRoom> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let spec = definition.object("spec");
        let names = spec.object("names");
        let identities = spec.objects("versions").map(|version| Identity {
            group: spec.text("group"),
            version: version.text("name"),
            plural: names.text("plural"),
            kind: names.text("kind"),
            is_namespaced: spec.text("scope") == "Namespaced",
        });
        let new = identities.filter(|identity| !rows.by_identity.contains_key(identity));
        let size: usize = new.map(|identity| identity.size()).sum();
        if rows.size.saturating_add(size) > MAX_ROWS { Err(NoRoom) } else { Ok(()) }
    }

    /// Puts definitions in force, and takes away those that are gone: each name with its definition, if it has one. What is
    /// changed together takes the time of one change.
    ///
    /// # Errors
    /// There is no room for the names of one. All others are in force.
    pub fn change(
        &self,
        changes: impl IntoIterator<Item = (Box<str>, Option<Definition>)>,
    ) -> Result<(), NoRoom> {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let live = self.live.load_full();
        let mut definitions = live.definitions.clone();
        let mut outcome = Ok(());
        for (name, definition) in changes {
            let before = definitions.remove(&name);
            let after = definition.map(Arc::new);
            if let Some(before) = &before {
                rows.unset(before, after.as_deref());
            }
            let Some(after) = after else { continue };
            match rows.set(&after) {
                Ok(()) => drop(definitions.insert(name, after)),
                Err(error) => outcome = Err(error),
            }
        }
        let mut next = Live { definitions, generation: live.generation.wrapping_add(1), ..Live::default() };
        for definition in next.definitions.values() {
            for version in definition.versions() {
                let Some(row) = rows.of(definition, &version.name) else { continue };
                let resource = row.resource();
                if version.is_served && definition.is_served {
                    next.by_path.insert((resource.plural, resource.version, resource.group), resource);
                }
                if version.is_storage {
                    let storage = row.storage();
                    next.stored.push(storage);
                    next.by_place.insert((storage.group, storage.plural), storage);
                }
            }
        }
        self.live.store(Arc::new(next));
        outcome
    }
}

impl Rows {
    fn of(&self, definition: &Definition, version: &str) -> Option<&'static CustomRow> {
        self.by_identity.get(&identity(definition, version)).copied()
    }

    /// Leads the rows of a definition to it.
    fn set(&mut self, definition: &Arc<Definition>) -> Result<(), NoRoom> {
        let mut made = Vec::new();
        for version in definition.versions() {
            let identity = identity(definition, &version.name);
            let row = match self.by_identity.get(&identity) {
                Some(row) => *row,
                None => {
                    let size = self.size.saturating_add(identity.size());
                    if size > MAX_ROWS {
                        return Err(NoRoom);
                    }
                    self.size = size;
                    let row = CustomRow::leak(identity);
                    self.by_identity.insert(row.identity, row);
                    row
                }
            };
            made.push((row, version.is_storage));
        }
        let storage = made.iter().find(|(_, is_storage)| *is_storage).or(made.first()).map(|(row, _)| *row);
        for (row, _) in made {
            row.set(Some(Arc::clone(definition)), storage.unwrap_or(row));
        }
        Ok(())
    }

    /// Takes a definition from the rows that the next one does not have.
    fn unset(&self, before: &Definition, after: Option<&Definition>) {
        for version in before.versions() {
            let is_kept = after.is_some_and(|after| {
                after.version(&version.name).is_some()
                    && identity(after, &version.name) == identity(before, &version.name)
            });
            if let Some(row) = self.of(before, &version.name).filter(|_| !is_kept) {
                row.set(None, row);
            }
        }
    }
}

fn identity<'n>(definition: &'n Definition, version: &'n str) -> Identity<'n> {
    let Definition { group, plural, kind, is_namespaced, .. } = definition;
    Identity { group, version, plural, kind, is_namespaced: *is_namespaced }
}
