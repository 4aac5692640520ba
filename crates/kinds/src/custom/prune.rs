//! Pruning: members that the schema does not know are removed, unless it says that they are kept.

use serde_json::Value;

use super::schema::{Additional, Schema};
use crate::Map;

/// The members of every API object, which are not pruned by its schema.
const OF_OBJECTS: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// The most paths that are told.
const MAX_PATHS: usize = 100;
/// The longest path that is told, in bytes.
const MAX_PATH: usize = 8 * 1024;

/// Removes the members of an API object that its schema does not know.
pub fn prune(object: &mut Map, schema: &Schema) {
    Pruner { path: String::new(), found: None }.members(object, Some(schema), true);
}

/// As [`prune`]; also returns the paths of what was removed, the first hundred of them.
pub fn prune_telling(object: &mut Map, schema: &Schema) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), found: Some(Vec::new()) };
    pruner.members(object, Some(schema), true);
    pruner.found.unwrap_or_default()
}

/// Removes from a value what its schema does not know. `is_root`: the value is an API object.
pub(crate) fn prune_value(value: &mut Value, schema: &Schema, is_root: bool) {
    let mut pruner = Pruner { path: String::new(), found: None };
    match value {
        Value::Object(object) => pruner.members(object, Some(schema), is_root || schema.is_embedded),
        other => pruner.value(other, Some(schema)),
    }
}

struct Pruner {
    /// The path of what is looked at; empty unless paths are told.
    path: String,
    /// The paths of what was removed, if they are told.
    found: Option<Vec<String>>,
}

impl Pruner {
    fn value(&mut self, value: &mut Value, schema: Option<&Schema>) {
        match value {
            Value::Object(object) => {
                let is_object = schema.is_some_and(|schema| schema.is_embedded);
                self.members(object, schema, is_object);
            }
            Value::Array(entries) => {
                let items = schema.and_then(|schema| schema.items.as_deref());
                // What is kept as it is, is kept whole.
                if items.is_none() && schema.is_some_and(|schema| schema.preserves_unknown) {
                    return;
                }
                for (at, entry) in entries.iter_mut().enumerate() {
                    self.within(
                        |path| path.push_str(&format!("[{at}]")),
                        |pruner| pruner.value(entry, items),
                    );
                }
            }
            _ => {}
        }
    }

    /// `is_object`: this is an API object, whose common members are not pruned here.
    fn members(&mut self, object: &mut Map, schema: Option<&Schema>, is_object: bool) {
        let keeps = schema.is_some_and(|schema| schema.preserves_unknown);
        object.retain(|name, value| {
            if is_object && OF_OBJECTS.contains(&name.as_str()) {
                return true;
            }
            let known = schema.and_then(|schema| schema.property(name));
            let other = schema.and_then(|schema| schema.additional.as_deref());
            let inner = match (known, other) {
                (Some(known), _) => Some(known),
                (None, Some(Additional::Of(schema))) => Some(schema),
                (None, _) if keeps => return true,
                (None, Some(Additional::Any)) => None,
                (None, None) => {
                    self.tell(name);
                    return false;
                }
            };
            self.within(|path| add(path, name), |pruner| pruner.value(value, inner));
            true
        });
    }

    /// Looks at a part, whose path is told if paths are.
    fn within(&mut self, step: impl FnOnce(&mut String), act: impl FnOnce(&mut Self)) {
        if self.found.is_none() {
            act(self);
            return;
        }
        let length = self.path.len();
        step(&mut self.path);
        act(self);
        self.path.truncate(length);
    }

    fn tell(&mut self, name: &str) {
        let Some(found) = &mut self.found else { return };
        if found.len() >= MAX_PATHS {
            return;
        }
        let mut path = self.path.clone();
        add(&mut path, name);
        path.truncate(path.floor_char_boundary(MAX_PATH));
        found.push(path);
    }
}

fn add(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}
