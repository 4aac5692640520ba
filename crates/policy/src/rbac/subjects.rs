//! The grants by subject: the only data besides the rules that decisions read.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;

use super::bound::{Bound, SubjectKey};
use super::roles::RoleId;
use super::short::ShortBytes;
use crate::request::User;

/// A user or a group, and its grants in one scope. Shared with returned reasons, so that creating a reason touches no
/// memory that the decision has not; copied on write while a reason is still held.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    name: ShortBytes<54>,
    pub(super) grants: SmallVec<[Grant; 1]>,
}

/// A binding, and the ID of its role.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) bound: Arc<Bound>,
    /// `None` if the reference can never be resolved.
    pub(super) role: Option<RoleId>,
}

/// The subjects of one scope. Service accounts are users (RB-21).
#[derive(Debug, Default)]
pub(super) struct Subjects {
    users: HashTable<Arc<Subject>>,
    groups: HashTable<Arc<Subject>>,
}

/// A user, hashed once for all scopes.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    user: &'a User,
    hash: u64,
    hasher: &'a DefaultHashBuilder,
}

impl<'a> Asker<'a> {
    pub(super) fn new(user: &'a User, hasher: &'a DefaultHashBuilder) -> Self {
        Self { user, hash: hasher.hash_one(user.name.as_bytes()), hasher }
    }
}

impl Subject {
    /// The name of the user or of the group.
    pub(super) fn name(&self) -> &str {
        // It was made of text.
        str::from_utf8(&self.name).unwrap_or_default()
    }
}

impl Subjects {
    /// All users, and all groups, in no particular order.
    pub(super) fn all(&self) -> (impl Iterator<Item = &Subject>, impl Iterator<Item = &Subject>) {
        (self.users.iter().map(|user| &**user), self.groups.iter().map(|group| &**group))
    }

    /// The entries of the user, then of each of the user's groups.
    pub(super) fn of<'a>(&'a self, asker: Asker<'a>) -> impl Iterator<Item = &'a Arc<Subject>> {
        let user = find(&self.users, asker.hash, &asker.user.name);
        let groups = if self.groups.is_empty() { &[] } else { asker.user.groups.as_slice() };
        let groups = groups
            .iter()
            .filter_map(move |group| find(&self.groups, asker.hasher.hash_one(group.as_bytes()), group));
        user.into_iter().chain(groups)
    }

    pub(super) fn grant(&mut self, key: &SubjectKey, grant: Grant, hasher: &DefaultHashBuilder) {
        let (table, name) = self.table(key);
        let hash = hasher.hash_one(name.as_bytes());
        let is_this = |subject: &Arc<Subject>| *subject.name == *name.as_bytes();
        match table.entry(hash, is_this, |subject| hasher.hash_one(&*subject.name)) {
            Entry::Occupied(mut known) => Arc::make_mut(known.get_mut()).grants.push(grant),
            Entry::Vacant(free) => {
                let subject = Subject { name: name.as_bytes().into(), grants: SmallVec::from_iter([grant]) };
                free.insert(Arc::new(subject));
            }
        }
    }

    pub(super) fn revoke(&mut self, key: &SubjectKey, bound: &Arc<Bound>, hasher: &DefaultHashBuilder) {
        let (table, name) = self.table(key);
        let hash = hasher.hash_one(name.as_bytes());
        let is_this = |subject: &Arc<Subject>| *subject.name == *name.as_bytes();
        let Ok(mut entry) = table.find_entry(hash, is_this) else { return };
        let Some(place) = entry.get().grants.iter().position(|g| Arc::ptr_eq(&g.bound, bound)) else {
            return;
        };
        if entry.get().grants.len() == 1 {
            entry.remove();
            return;
        }
        Arc::make_mut(entry.get_mut()).grants.swap_remove(place);
    }

    fn table<'a>(&mut self, key: &'a SubjectKey) -> (&mut HashTable<Arc<Subject>>, &'a str) {
        match key {
            SubjectKey::User(name) => (&mut self.users, name),
            SubjectKey::Group(name) => (&mut self.groups, name),
        }
    }
}

#[inline]
fn find<'a>(table: &'a HashTable<Arc<Subject>>, hash: u64, name: &str) -> Option<&'a Arc<Subject>> {
    table.find(hash, |subject| *subject.name == *name.as_bytes())
}
