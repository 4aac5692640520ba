//! The roles in force, and the bindings that refer to them.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashSet, HashTable};

use super::bound::Bound;
use super::packed::PackedRules;
use crate::objects::rbac::{OwnedMetadata, Role, RoleRef};

/// The ID of a role. It is stable while bindings refer to the role, whether it exists or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RoleId(u32);

/// The key of a role: its namespace, which is `None` for a ClusterRole, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RoleKey<'a> {
    namespace: Option<&'a str>,
    name: &'a str,
}

/// All roles that exist or that a binding refers to.
#[derive(Debug, Default)]
pub(super) struct Roles {
    /// The data that decisions read, contiguous and separate from the rest. Indexed like `slots`.
    packed: Vec<Option<PackedRules>>,
    slots: Vec<Slot>,
    by_key: HashTable<RoleId>,
    free: Vec<RoleId>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug, Default)]
struct Slot {
    namespace: Option<Box<str>>,
    name: Box<str>,
    bound_by: BoundBy,
}

/// The bindings that refer to a role; for most roles one.
#[derive(Debug, Default)]
struct BoundBy {
    one: Option<Arc<Bound>>,
    others: Option<Box<HashSet<ByAddress>>>,
}

/// A role was added or removed.
pub(super) struct RoleChange {
    pub(super) is_there: bool,
    pub(super) bound_by: Vec<Arc<Bound>>,
}

/// A binding compared by address: two with equal content differ.
#[derive(Clone, Debug)]
struct ByAddress(Arc<Bound>);

impl Roles {
    /// The rules of a role, if it exists. Without an ID there are none.
    #[inline]
    pub(super) fn packed(&self, id: Option<RoleId>) -> Option<&PackedRules> {
        self.packed.get(id?.0 as usize)?.as_ref()
    }

    /// The role, if it exists, without labels, annotations and aggregation rule.
    pub(super) fn role(&self, id: Option<RoleId>) -> Option<Role> {
        let rules = self.packed(id)?.unpack();
        let Slot { namespace, name, .. } = self.slots.get(id?.0 as usize)?;
        let metadata = OwnedMetadata {
            name: (**name).to_owned(),
            namespace: namespace.as_deref().unwrap_or_default().to_owned(),
            ..OwnedMetadata::default()
        };
        Some(Role { metadata, rules, aggregation_rule: None })
    }

    /// Every role that exists, with the bindings that refer to it: its namespace, which is `None` for a ClusterRole, and its name.
    pub(super) fn all(&self) -> impl Iterator<Item = (Option<&str>, &str, &PackedRules, Vec<&Arc<Bound>>)> {
        self.slots.iter().zip(&self.packed).filter_map(|(slot, packed)| {
            let Slot { namespace, name, bound_by } = slot;
            Some((namespace.as_deref(), &**name, packed.as_ref()?, bound_by.iter().collect()))
        })
    }

    /// The ID of a key, if it has one.
    pub(super) fn find(&self, key: RoleKey<'_>) -> Option<RoleId> {
        let is_this = |id: &RoleId| self.slots.get(id.0 as usize).is_some_and(|slot| slot.key() == key);
        self.by_key.find(self.hasher.hash_one(key), is_this).copied()
    }

    /// Sets or deletes a role. If it was added or removed, returns the bindings that refer to it.
    pub(super) fn set(&mut self, key: RoleKey<'_>, rules: Option<PackedRules>) -> Option<RoleChange> {
        let is_there = rules.is_some();
        let id = if is_there { self.place(key)? } else { self.find(key)? };
        let packed = self.packed.get_mut(id.0 as usize)?;
        let was_there = packed.is_some();
        *packed = rules;
        let bound_by = &self.slots.get(id.0 as usize)?.bound_by;
        let change = (was_there != is_there)
            .then(|| RoleChange { is_there, bound_by: bound_by.iter().map(Arc::clone).collect() });
        self.release_if_unused(id);
        change
    }

    /// Records that a binding refers to its role, and returns the role's ID; `None` if the reference can never be
    /// resolved.
    pub(super) fn bind(&mut self, bound: &Arc<Bound>) -> Option<RoleId> {
        let id = self.place(RoleKey::of_bound(bound)?)?;
        self.slots.get_mut(id.0 as usize)?.bound_by.add(Arc::clone(bound));
        Some(id)
    }

    /// The ID of the role that a binding refers to.
    pub(super) fn of(&self, bound: &Bound) -> Option<RoleId> {
        self.find(RoleKey::of_bound(bound)?)
    }

    /// Records that a binding was removed.
    pub(super) fn unbind(&mut self, bound: &Arc<Bound>) {
        let Some(id) = self.of(bound) else { return };
        if let Some(slot) = self.slots.get_mut(id.0 as usize) {
            slot.bound_by.remove(bound);
        }
        self.release_if_unused(id);
    }

    /// Returns the ID of a key, assigning a new one if needed. `None` if no ID is left; such a role stays unknown and
    /// grants nothing.
    fn place(&mut self, key: RoleKey<'_>) -> Option<RoleId> {
        if let Some(id) = self.find(key) {
            return Some(id);
        }
        let slot =
            Slot { namespace: key.namespace.map(Into::into), name: key.name.into(), ..Slot::default() };
        let id = match self.free.pop() {
            Some(id) => {
                *self.slots.get_mut(id.0 as usize)? = slot;
                id
            }
            None => {
                let id = RoleId(u32::try_from(self.slots.len()).ok()?);
                self.slots.push(slot);
                self.packed.push(None);
                id
            }
        };
        let Self { slots, hasher, by_key, .. } = self;
        by_key.insert_unique(hasher.hash_one(key), id, |id| {
            slots.get(id.0 as usize).map_or(0, |slot| hasher.hash_one(slot.key()))
        });
        Some(id)
    }

    fn release_if_unused(&mut self, id: RoleId) {
        let Some(slot) = self.slots.get_mut(id.0 as usize) else { return };
        if self.packed.get(id.0 as usize).is_some_and(Option::is_some) || slot.bound_by.one.is_some() {
            return;
        }
        let hash = self.hasher.hash_one(slot.key());
        if let Ok(entry) = self.by_key.find_entry(hash, |other| *other == id) {
            entry.remove();
            *slot = Slot::default();
            self.free.push(id);
        }
    }
}

impl Slot {
    fn key(&self) -> RoleKey<'_> {
        RoleKey { namespace: self.namespace.as_deref(), name: &self.name }
    }
}

impl BoundBy {
    fn iter(&self) -> impl Iterator<Item = &Arc<Bound>> {
        let others = self.others.iter().flat_map(|others| others.iter()).map(|ByAddress(bound)| bound);
        self.one.iter().chain(others)
    }

    fn add(&mut self, bound: Arc<Bound>) {
        if self.one.is_none() {
            self.one = Some(bound);
            return;
        }
        self.others.get_or_insert_default().insert(ByAddress(bound));
    }

    fn remove(&mut self, bound: &Arc<Bound>) {
        let is_one = self.one.as_ref().is_some_and(|one| Arc::ptr_eq(one, bound));
        let Some(others) = &mut self.others else {
            self.one.take_if(|_| is_one);
            return;
        };
        if !is_one {
            others.remove(&ByAddress(Arc::clone(bound)));
        } else {
            self.one = others.iter().next().cloned().map(|ByAddress(other)| other);
            if let Some(other) = &self.one {
                others.remove(&ByAddress(Arc::clone(other)));
            }
        }
        if others.is_empty() {
            self.others = None;
        }
    }
}

impl<'a> RoleKey<'a> {
    pub(super) fn role(namespace: &'a str, name: &'a str) -> Self {
        Self { namespace: Some(namespace), name }
    }

    pub(super) fn cluster_role(name: &'a str) -> Self {
        Self { namespace: None, name }
    }

    /// RB-32: `apiGroup` is ignored. `None` if the reference can never be resolved.
    pub(super) fn of(role_ref: &'a RoleRef, namespace: Option<&'a str>) -> Option<Self> {
        Self::of_words(&role_ref.kind, &role_ref.name, namespace)
    }

    fn of_bound(bound: &'a Bound) -> Option<Self> {
        let [kind, _, name] = bound.role_words();
        Self::of_words(kind, name, bound.role_namespace())
    }

    fn of_words(kind: &str, name: &'a str, namespace: Option<&'a str>) -> Option<Self> {
        match kind {
            "ClusterRole" => Some(Self::cluster_role(name)),
            "Role" => Some(Self::role(namespace?, name)),
            _ => None,
        }
    }
}

impl PartialEq for ByAddress {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ByAddress {}

impl Hash for ByAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}
