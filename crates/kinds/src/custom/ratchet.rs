//! Ratcheting: which part of the old object belongs to a part of the new one.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

use super::lists;
use super::schema::{ListType, Schema};
use crate::Map;

/// The old value that an update replaces; none for a new value, and for entries of lists without keys.
#[derive(Clone, Copy, Debug)]
pub enum Old<'v> {
    /// Nothing is known.
    None,
    /// The value was this.
    Value(&'v Value),
    /// The object was this.
    Object(&'v Map),
}

/// The old entries of a list, by what makes them unique.
pub enum OldEntries<'v> {
    /// They cannot be told apart.
    None,
    /// By the text of their keys.
    ByKey(HashMap<String, &'v Value>),
}

impl<'v> Old<'v> {
    /// Whether the value is as before.
    pub fn is(self, value: &Value) -> bool {
        match (self, value) {
            (Self::None, _) => false,
            (Self::Value(old), value) => old == value,
            (Self::Object(old), Value::Object(object)) => old == object,
            (Self::Object(_), _) => false,
        }
    }

    /// The old value.
    pub fn value(self) -> Option<&'v Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::None | Self::Object(_) => None,
        }
    }

    /// The old value of a member.
    pub fn member(self, name: &str, _of: &Schema) -> Self {
        let object = match self {
            Self::None => None,
            Self::Value(value) => value.as_object(),
            Self::Object(object) => Some(object),
        };
        object.and_then(|object| object.get(name)).map_or(Self::None, Self::Value)
    }

    /// The entries that the list of a schema had. Only those of lists of type `map` can be found again.
    pub fn entries(self, schema: &Schema) -> OldEntries<'v> {
        let list = self.value().and_then(Value::as_array).filter(|_| schema.list_type == ListType::Map);
        let Some(list) = list else { return OldEntries::None };
        let mut by_key = HashMap::with_capacity(list.len());
        for entry in list {
            if let Some(key) = lists::key(entry, schema) {
                by_key.entry(key.to_string()).or_insert(entry);
            }
        }
        OldEntries::ByKey(by_key)
    }
}

impl<'v> OldEntries<'v> {
    /// The old value of an entry.
    pub fn entry(&self, entry: &Value, schema: &Schema) -> Old<'v> {
        let Self::ByKey(by_key) = self else { return Old::None };
        let key = lists::key(entry, schema).map(Cow::into_owned);
        let found = key.and_then(|key| by_key.get(&key.to_string()).copied());
        found.map_or(Old::None, Old::Value)
    }
}
