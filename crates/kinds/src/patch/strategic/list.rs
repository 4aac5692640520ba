//! Lists in strategic merge patches: matching of entries, and the order of the result.
//!
//! Entries in the patch have the order of the patch, the others that of the stored list. When both are combined,
//! entries keep their stored order, and new ones go first.

use std::collections::HashMap;

use serde_json::Value;

use super::directive::DIRECTIVE;
use crate::Map;
use crate::patch::PatchError;
use crate::schema::{Merge, Shape};

/// The identity of an entry: the text of a plain value, or of an object's merge key.
pub(super) type Key = String;

/// The kind of entries of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entries {
    Objects,
    Plain,
}

/// Returns the list of a member; `None` if there is no such member.
pub(super) fn of<'a>(map: &'a Map, name: &str) -> Result<Option<&'a [Value]>, PatchError> {
    match map.get(name) {
        None => Ok(None),
        Some(Value::Array(entries)) => Ok(Some(entries)),
        Some(_) => Err(PatchError::Internal(format!("{name:?} is no list"))),
    }
}

/// The shape of a list's entries.
pub(super) fn entry_shape(shape: Shape) -> Result<Shape, PatchError> {
    match shape {
        Shape::List(entry) => Ok(*entry),
        Shape::Any => Ok(Shape::Any),
        _ => Err(PatchError::Internal("expected a list".to_owned())),
    }
}

/// The merge key; `None` for a list without one.
pub(super) fn merge_key(how: Merge) -> Option<&'static str> {
    match how {
        Merge::ByKey(key) | Merge::ByKeyRetaining(key) => Some(key),
        Merge::Default | Merge::Replace | Merge::Retaining | Merge::Set => None,
    }
}

/// Checks that the entries of a patch are in the requested order (AP-64). Directive entries are ignored.
pub(super) fn check_order(patch: &[Value], wanted: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let is_delete = |value: &&Value| value.get(DIRECTIVE).and_then(Value::as_str) == Some("delete");
    let mut wanted = wanted.iter();
    for value in patch.iter().filter(|value| key.is_none() || !is_delete(value)) {
        if value.get(DIRECTIVE).is_some() && wanted.len() > 0 {
            continue;
        }
        loop {
            let Some(next) = wanted.next() else {
                let message = "the order in patch list doesn't match $setElementOrder list";
                return Err(PatchError::Internal(message.to_owned()));
            };
            if key_of(value, key)? == key_of(next, key)? {
                break;
            }
        }
    }
    Ok(())
}

/// Checks that all entries are objects, or all are plain values of one JSON type.
pub(super) fn kind_of(lists: [&[Value]; 2]) -> Result<Entries, PatchError> {
    let mut entries = lists.into_iter().flatten();
    let first = entries.next().ok_or_else(|| PatchError::Internal("no elements in the lists".to_owned()))?;
    let kind = match first {
        Value::Array(_) => {
            return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned()));
        }
        Value::Null => return Err(PatchError::Internal("an entry is null".to_owned())),
        Value::Object(_) => Entries::Objects,
        _ => Entries::Plain,
    };
    match entries.all(|entry| is_alike(first, entry)) {
        true => Ok(kind),
        false => Err(PatchError::Internal("list element types are not identical".to_owned())),
    }
}

pub(super) fn no_merge_key(key: &str) -> PatchError {
    PatchError::Internal(format!("an entry does not contain declared merge key: {key}"))
}

pub(super) fn key_of(value: &Value, key: Option<&str>) -> Result<Key, PatchError> {
    match key {
        None => Ok(value.to_string()),
        Some(key) => value.get(key).map(Value::to_string).ok_or_else(|| no_merge_key(key)),
    }
}

/// Returns whether two values have the same JSON type.
pub(super) fn is_alike(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// The positions of the entries of a list; the first of equal ones.
#[derive(Clone)]
pub(super) struct Order(pub(super) HashMap<Key, usize>);

impl Order {
    pub(super) fn of(list: &[Value], key: Option<&str>) -> Result<Self, PatchError> {
        let mut places = HashMap::with_capacity(list.len());
        for (place, value) in list.iter().enumerate() {
            places.entry(key_of(value, key)?).or_insert(place);
        }
        Ok(Self(places))
    }

    /// Like [`Order::of`], for entries with the key.
    pub(super) fn of_some(list: &[Value], key: &str) -> Self {
        let mut places = HashMap::with_capacity(list.len());
        for (place, value) in list.iter().enumerate() {
            if let Ok(name) = key_of(value, Some(key)) {
                places.entry(name).or_insert(place);
            }
        }
        Self(places)
    }
}

/// An entry with its positions in the requested and in the stored order.
struct Placed {
    value: Value,
    wanted: Option<usize>,
    stored: Option<usize>,
}

/// Sorts entries as described above.
pub(super) fn arrange(
    merged: Vec<Value>,
    wanted: &Order,
    stored: &Order,
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for value in merged {
        let name = key_of(&value, key)?;
        let placed =
            Placed { value, wanted: wanted.0.get(&name).copied(), stored: stored.0.get(&name).copied() };
        if placed.wanted.is_some() { named.push(placed) } else { others.push(placed) }
    }
    named.sort_by_key(|placed| placed.wanted);
    others.sort_by_key(|placed| placed.stored);

    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for next in named {
        let is_before = |other: &Placed| matches!((other.stored, next.stored), (Some(a), Some(b)) if a < b);
        while let Some(other) = others.next_if(is_before) {
            arranged.push(other.value);
        }
        arranged.push(next.value);
    }
    arranged.extend(others.map(|other| other.value));
    Ok(arranged)
}
