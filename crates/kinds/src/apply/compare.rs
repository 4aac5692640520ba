//! Compares two states of an object: the fields that were added, removed and modified.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::schema::{Schema, Structure};
use super::set::FieldSet;
use super::step::{self, Step};

/// The fields that two states of an object differ in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The fields that only the new state has, with the lists and maps that are new.
    pub added: FieldSet,
    /// The fields that both have, with other values.
    pub modified: FieldSet,
    /// The fields that only the old state has.
    pub removed: FieldSet,
}

impl Comparison {
    /// Compares two states of an object.
    pub fn of<S: Schema>(schema: S, old: &Map<String, Value>, new: &Map<String, Value>) -> Self {
        let mut found = Self::default();
        found.map(schema, Some(old), Some(new));
        found
    }

    /// Whether the states do not differ.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Applies a function to each of the three sets.
    pub(super) fn each(&mut self, act: impl Fn(&mut FieldSet)) {
        for set in [&mut self.added, &mut self.modified, &mut self.removed] {
            act(set);
        }
    }

    /// Compares the values at one place. At least one of them is there; `null` is a value.
    fn walk<S: Schema>(&mut self, schema: S, old: Option<&Value>, new: Option<&Value>) {
        let is_empty_list = |value: Option<&Value>| match value {
            Some(Value::Array(items)) => items.is_empty(),
            Some(Value::Object(members)) => members.is_empty(),
            value => value.is_none_or(Value::is_null),
        };
        let is_inner = match schema.structure() {
            Structure::Scalar(_) | Structure::AtomicList | Structure::AtomicMap | Structure::AnyAtomic => {
                false
            }
            Structure::Set | Structure::KeyedList => {
                is_list(old) && is_list(new) && !(is_empty_list(old) && is_empty_list(new))
            }
            Structure::Map | Structure::Deduced => {
                is_map(old) && is_map(new) && !(is_empty_list(old) && is_empty_list(new))
            }
        };
        if !is_inner {
            return match (old, new) {
                (None, _) => self.added.insert_self(),
                (_, None) => self.removed.insert_self(),
                (Some(old), Some(new)) if old != new => self.modified.insert_self(),
                _ => {}
            };
        }
        match schema.structure() {
            Structure::Set | Structure::KeyedList => self.list(schema, items(old), items(new)),
            _ => self.map(schema, members(old), members(new)),
        }
        if old.is_none() {
            self.added.insert_self();
        } else if new.is_none() {
            self.removed.insert_self();
        }
    }

    /// Compares the values one step below.
    fn below<S: Schema>(
        &mut self,
        step: impl FnOnce() -> Step,
        schema: S,
        old: Option<&Value>,
        new: Option<&Value>,
    ) {
        let mut inner = Self::default();
        inner.walk(schema, old, new);
        if !inner.is_empty() {
            self.insert(step(), inner);
        }
    }

    fn insert(&mut self, step: Step, inner: Self) {
        self.added.insert(step.clone(), inner.added);
        self.modified.insert(step.clone(), inner.modified);
        self.removed.insert(step, inner.removed);
    }

    fn map<S: Schema>(
        &mut self,
        schema: S,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
    ) {
        let inner = |name: &str| schema.field(name).or_else(|| schema.inner());
        for (name, value) in old.into_iter().flatten() {
            let new = new.and_then(|new| new.get(name));
            // Most members do not change, and following their schema costs more than comparing them.
            if new == Some(value) {
                continue;
            }
            let Some(inner) = inner(name) else { continue };
            self.below(|| step::field(name), inner, Some(value), new);
        }
        for (name, value) in new.into_iter().flatten() {
            if old.is_some_and(|old| old.contains_key(name)) {
                continue;
            }
            let Some(inner) = inner(name) else { continue };
            self.below(|| step::field(name), inner, None, Some(value));
        }
    }

    fn list<S: Schema>(&mut self, schema: S, old: &[Value], new: &[Value]) {
        // Most lists do not change, and finding their entries costs more than comparing them.
        if old == new {
            return;
        }
        let mut entries: BTreeMap<Step, [Vec<&Value>; 2]> = BTreeMap::new();
        for (side, items) in [old, new].into_iter().enumerate() {
            for item in items {
                // What has no step was refused before, or is in no object that the server made.
                let Ok(step) = step::entry(schema, item) else { continue };
                if let Some(found) = entries.entry(step).or_default().get_mut(side) {
                    found.push(item);
                }
            }
        }
        let inner = schema.inner();
        for (step, [old, new]) in entries {
            let mut found = Self::default();
            let mut compare = |old: Option<&&Value>, new: Option<&&Value>| {
                if let Some(inner) = inner {
                    found.walk(inner, old.copied(), new.copied());
                }
            };
            // Entries with the same keys count as one value.
            match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => compare(old.first(), new.first()),
                ([_, _, ..], [_, _, ..]) => {
                    if old != new {
                        found.modified.insert_self();
                    }
                }
                ([_, _, ..], new) => {
                    if let Some(new) = new.first() {
                        compare(None, Some(new));
                    }
                    found.removed.insert_self();
                }
                (old, _) => {
                    if let Some(old) = old.first() {
                        compare(Some(old), None);
                    }
                    found.added.insert_self();
                }
            }
            self.insert(step, found);
        }
    }
}

/// Whether a value is a list, or nothing that is none.
fn is_list(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.is_array() || value.is_null())
}

/// Whether a value is an object, or nothing that is none.
fn is_map(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.is_object() || value.is_null())
}

pub(super) fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn members(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}
