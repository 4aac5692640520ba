//! Sets of fields, as tries of [`step`]s.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::schema::Schema;
use super::step::{self, Step};

/// A set of fields. A field in the set does not imply those below it.
///
/// No operation costs more than the size of the smaller set, apart from what it copies: an object can have thousands of
/// managers, and each has a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Whether the field of this node is in the set. Never for the root.
    is_member: bool,
    /// The nodes below. None of them is empty.
    children: BTreeMap<Step, FieldSet>,
}

impl FieldSet {
    /// The set of this one node.
    pub(super) fn member() -> Self {
        Self { is_member: true, children: BTreeMap::new() }
    }

    /// The set of the fields with these names from the outside in, joined by dots: `spec`, `metadata.labels`.
    pub fn of_names(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let mut node = &mut set;
            for name in path.split('.') {
                node = node.children.entry(step::field(name)).or_default();
            }
            node.is_member = true;
        }
        set
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        !self.is_member && self.children.is_empty()
    }

    /// Whether the field of this node is in the set.
    pub(super) fn is_member(&self) -> bool {
        self.is_member
    }

    /// The part of the set at a step and below.
    pub(super) fn below(&self, step: &str) -> Option<&Self> {
        self.children.get(step)
    }

    /// The nodes below, in order.
    pub(super) fn children(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.children.iter().map(|(step, child)| (&**step, child))
    }

    pub(super) fn children_mut(&mut self) -> impl Iterator<Item = (&str, &mut Self)> {
        self.children.iter_mut().map(|(step, child)| (&**step, child))
    }

    /// Whether there are fields below this node.
    pub(super) fn has_below(&self) -> bool {
        !self.children.is_empty()
    }

    /// Puts the field of this node into the set.
    pub(super) fn insert_self(&mut self) {
        self.is_member = true;
    }

    /// Adds a set below a step. An empty one is left out.
    pub(super) fn insert(&mut self, step: Step, set: Self) {
        if set.is_empty() {
            return;
        }
        match self.children.entry(step) {
            Entry::Vacant(entry) => drop(entry.insert(set)),
            Entry::Occupied(mut entry) => entry.get_mut().add(set),
        }
    }

    /// Adds all fields of another set (union).
    pub fn add(&mut self, mut other: Self) {
        if other.children.len() > self.children.len() {
            std::mem::swap(&mut self.children, &mut other.children);
        }
        self.is_member |= other.is_member;
        for (step, set) in other.children {
            self.insert(step, set);
        }
    }

    /// Removes the fields of another set, but not those below them (difference).
    pub fn subtract(&mut self, other: &Self) {
        self.subtract_by(other, |node, other| node.subtract(other));
        self.is_member &= !other.is_member;
    }

    /// Removes the fields of another set and all that is below them.
    pub fn subtract_deep(&mut self, other: &Self) {
        if other.is_member {
            *self = Self::default();
            return;
        }
        self.subtract_by(other, |node, other| node.subtract_deep(other));
    }

    fn subtract_by(&mut self, other: &Self, subtract: impl Fn(&mut Self, &Self)) {
        if self.children.len() <= other.children.len() {
            self.children.retain(|step, child| {
                if let Some(other) = other.children.get(step) {
                    subtract(child, other);
                }
                !child.is_empty()
            });
            return;
        }
        for (step, other) in &other.children {
            let Some(child) = self.children.get_mut(step) else { continue };
            subtract(child, other);
            if child.is_empty() {
                self.children.remove(step);
            }
        }
    }

    /// The fields that are in both sets (intersection).
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let (few, many) = match self.children.len() <= other.children.len() {
            true => (self, other),
            false => (other, self),
        };
        let mut common = Self { is_member: self.is_member && other.is_member, children: BTreeMap::new() };
        for (step, child) in &few.children {
            if let Some(other) = many.children.get(step) {
                let child = child.common(other);
                if !child.is_empty() {
                    common.children.insert(step.clone(), child);
                }
            }
        }
        common
    }

    /// Whether all fields are in another set, too.
    pub fn is_within(&self, other: &Self) -> bool {
        (!self.is_member || other.is_member)
            && self
                .children
                .iter()
                .all(|(step, child)| other.children.get(step).is_some_and(|other| child.is_within(other)))
    }

    /// Keeps only what is at these paths of names and below; `*` stands for any step.
    pub(super) fn keep_only(&mut self, paths: &[&str]) {
        let kept = std::mem::take(self);
        for path in paths {
            let names: Vec<&str> = path.split('.').collect();
            self.add(kept.at(&names));
        }
    }

    fn at(&self, path: &[&str]) -> Self {
        let Some((first, rest)) = path.split_first() else { return self.clone() };
        let mut found = Self::default();
        for (step, child) in &self.children {
            if *first == "*" || step::name(step) == Some(first) {
                found.insert(step.clone(), child.at(rest));
            }
        }
        found
    }

    /// Adds the named fields that lead to fields of the set: `spec` for `spec.replicas`, but no key of a map.
    pub(super) fn add_named<S: Schema>(&mut self, schema: S) {
        for (step, child) in &mut self.children {
            let field = step::name(step).and_then(|name| schema.field(name));
            child.is_member |= field.is_some();
            if let Some(inner) = field.or_else(|| schema.inner()) {
                child.add_named(inner);
            }
        }
    }

    /// Calls a function for each field with its path as people read it, until it returns false. Returns whether it never
    /// did.
    pub(super) fn each_path(&self, path: &mut String, act: &mut impl FnMut(&str) -> bool) -> bool {
        // Fields at one level come before those below them.
        let length = path.len();
        for is_inner in [false, true] {
            for (step, child) in &self.children {
                if is_inner && child.children.is_empty() || !is_inner && !child.is_member {
                    continue;
                }
                step::show(step, path);
                let goes_on = if is_inner { child.each_path(path, act) } else { act(path) };
                path.truncate(length);
                if !goes_on {
                    return false;
                }
            }
        }
        true
    }
}
