//! The roles in force, and which bindings name them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::bound::Bound;
use super::packed::PackedRules;
use crate::objects::rbac::{Role, RoleRef};

/// The place of a role; stays the same while bindings name the role, whether it exists or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoleId(u32);

/// What a role is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum RoleKey {
    ClusterRole(Box<str>),
    Role(Box<str>, Box<str>),
}

/// All roles that exist or that a binding names.
#[derive(Debug, Default)]
pub(super) struct Roles {
    /// What decisions read, apart from the rest so that more of it is near. By id, as `slots`.
    packed: Vec<Option<PackedRules>>,
    slots: Vec<Slot>,
    by_key: HashMap<RoleKey, RoleId>,
    free: Vec<RoleId>,
}

#[derive(Debug, Default)]
struct Slot {
    role: Option<Box<Role>>,
    bound_by: HashSet<ByAddress>,
}

/// A role came or went.
pub(super) struct RoleChange {
    pub(super) is_there: bool,
    pub(super) bound_by: Vec<Arc<Bound>>,
}

/// A binding that is itself only: two of equal content differ.
#[derive(Clone, Debug)]
struct ByAddress(Arc<Bound>);

impl Roles {
    /// The rules of a role, if it exists. Without an id there is none.
    pub(super) fn packed(&self, id: Option<RoleId>) -> Option<&PackedRules> {
        self.packed.get(id?.0 as usize)?.as_ref()
    }

    /// The role, if it exists. Without an id there is none.
    pub(super) fn role(&self, id: Option<RoleId>) -> Option<&Role> {
        self.slots.get(id?.0 as usize)?.role.as_deref()
    }

    /// The role of a key, if it exists.
    pub(super) fn find(&self, key: &RoleKey) -> Option<&Role> {
        self.role(self.by_key.get(key).copied())
    }

    /// Sets or forgets a role. Returns the bindings that name it if it was there and is not any more, or the other
    /// way round.
    pub(super) fn set(&mut self, key: RoleKey, role: Option<Role>) -> Option<RoleChange> {
        let (packed, role) = match role {
            // A role that cannot be packed cannot be decided by: as if it were not there.
            Some(role) => match PackedRules::pack(&role.rules) {
                Some(packed) => (Some(packed), Some(Box::new(without_metadata(role)))),
                None => (None, None),
            },
            None => (None, None),
        };
        let is_there = role.is_some();
        let id = if is_there { self.place(&key)? } else { *self.by_key.get(&key)? };
        let slot = self.slots.get_mut(id.0 as usize)?;
        let was_there = slot.role.is_some();
        slot.role = role;
        *self.packed.get_mut(id.0 as usize)? = packed;
        let change = (was_there != is_there).then(|| RoleChange {
            is_there,
            bound_by: slot.bound_by.iter().map(|ByAddress(bound)| Arc::clone(bound)).collect(),
        });
        self.release_if_unused(&key, id);
        change
    }

    /// Notes that a binding names its role, and returns the role's place; nothing if it can never be found.
    pub(super) fn bind(&mut self, bound: &Arc<Bound>) -> Option<RoleId> {
        let id = self.place(&RoleKey::of(bound.role_ref(), bound.role_namespace())?)?;
        self.slots.get_mut(id.0 as usize)?.bound_by.insert(ByAddress(Arc::clone(bound)));
        Some(id)
    }

    /// Notes that a binding is gone.
    pub(super) fn unbind(&mut self, bound: &Arc<Bound>, id: Option<RoleId>) {
        let (Some(id), Some(key)) = (id, RoleKey::of(bound.role_ref(), bound.role_namespace())) else {
            return;
        };
        if let Some(slot) = self.slots.get_mut(id.0 as usize) {
            slot.bound_by.remove(&ByAddress(Arc::clone(bound)));
        }
        self.release_if_unused(&key, id);
    }

    /// The place of a key; a new one if it has none. Nothing when there are more roles than places: such a role stays
    /// unknown, and so grants nothing.
    fn place(&mut self, key: &RoleKey) -> Option<RoleId> {
        if let Some(&id) = self.by_key.get(key) {
            return Some(id);
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                let id = RoleId(u32::try_from(self.slots.len()).ok()?);
                self.slots.push(Slot::default());
                self.packed.push(None);
                id
            }
        };
        self.by_key.insert(key.clone(), id);
        Some(id)
    }

    fn release_if_unused(&mut self, key: &RoleKey, id: RoleId) {
        let is_unused = |slot: &Slot| slot.role.is_none() && slot.bound_by.is_empty();
        if self.slots.get(id.0 as usize).is_some_and(is_unused) && self.by_key.remove(key).is_some() {
            self.free.push(id);
        }
    }
}

impl RoleKey {
    pub(super) fn role(namespace: &str, name: &str) -> Self {
        Self::Role(namespace.into(), name.into())
    }

    pub(super) fn cluster_role(name: &str) -> Self {
        Self::ClusterRole(name.into())
    }

    /// RB-32: `apiGroup` is not looked at; nothing for what can never be found.
    pub(super) fn of(role_ref: &RoleRef, namespace: Option<&str>) -> Option<Self> {
        match role_ref.kind.as_str() {
            "ClusterRole" => Some(Self::cluster_role(&role_ref.name)),
            "Role" => Some(Self::role(namespace?, &role_ref.name)),
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

/// What decisions need of a role: annotations can be as large as the role itself.
fn without_metadata(mut role: Role) -> Role {
    role.metadata.labels = Vec::new();
    role.metadata.annotations = Vec::new();
    role
}
