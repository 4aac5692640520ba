//! Lists in strategic merge patches: which entries belong together, and in which order the result has them.
//!
//! The order is that of the patch for what the patch names, and that of the stored list for the rest. Where both meet,
//! an entry that was stored before another one stays before it, and a new one goes in front.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{DIRECTIVE, merge as merge_objects, unknown_directive, without_directives};
use crate::Map;
use crate::patch::PatchError;
use crate::schema::{Merge, Shape};

/// What tells entries apart: the text of a plain value, or of an object's merge key.
type Key = String;

/// What a list holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entries {
    Objects,
    Plain,
}

/// The list that a member is; nothing when there is no such member.
pub(super) fn of<'a>(map: &'a Map, name: &str) -> Result<Option<&'a [Value]>, PatchError> {
    match map.get(name) {
        None => Ok(None),
        Some(Value::Array(entries)) => Ok(Some(entries)),
        Some(_) => Err(PatchError::Internal(format!("{name:?} is no list"))),
    }
}

/// What the entries of a list are.
pub(super) fn entry_shape(shape: Shape) -> Result<Shape, PatchError> {
    match shape {
        Shape::List(entry) => Ok(*entry),
        Shape::Any => Ok(Shape::Any),
        _ => Err(PatchError::Internal("expected a list".to_owned())),
    }
}

/// The merge key; nothing for a list that has none.
fn merge_key(how: Merge) -> Option<&'static str> {
    match how {
        Merge::ByKey(key) | Merge::ByKeyRetaining(key) => Some(key),
        Merge::Default | Merge::Retaining | Merge::Set => None,
    }
}

/// Merges a list of a patch into the stored one. With `deletes` the plain values of the patch are taken out.
pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    entry: Shape,
    how: Merge,
    deletes: bool,
) -> Result<Vec<Value>, PatchError> {
    if matches!(how, Merge::Default | Merge::Retaining) {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    match (kind_of([&original, &patch])?, merge_key(how)) {
        (Entries::Plain, None) if deletes => {
            let deleted: HashSet<Key> = patch.iter().map(Value::to_string).collect();
            Ok(original.into_iter().filter(|value| !deleted.contains(&value.to_string())).collect())
        }
        (Entries::Plain, None) => {
            let (original_order, order) = (Order::of(&original, None)?, Order::of(&patch, None)?);
            let mut seen = HashSet::new();
            let all = original.into_iter().chain(patch);
            let merged = all.filter(|value| seen.insert(value.to_string())).collect();
            arrange(merged, &order, &original_order, None)
        }
        (Entries::Objects, Some(key)) => merge_by_key(original, patch, entry, key),
        (Entries::Objects, None) => {
            Err(PatchError::Internal("cannot merge lists without merge key".to_owned()))
        }
        (Entries::Plain, Some(key)) => Err(no_merge_key(key)),
    }
}

fn merge_by_key(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    entry: Shape,
    key: &str,
) -> Result<Vec<Value>, PatchError> {
    let mut replaces = false;
    let mut deleted = HashSet::new();
    let mut new = Vec::with_capacity(patch.len());
    for value in patch {
        match value.get(DIRECTIVE).map(Value::as_str) {
            None => new.push(value),
            Some(Some("delete")) => {
                deleted.insert(key_of(&value, Some(key))?);
            }
            Some(Some("replace")) => replaces = true,
            Some(_) => return Err(unknown_directive()),
        }
    }
    if replaces {
        original = std::mem::take(&mut new);
    } else if !deleted.is_empty() {
        original.retain(|value| !key_of(value, Some(key)).is_ok_and(|key| deleted.contains(&key)));
    }
    let original_order = Order::of_some(&original, key);
    let order = Order::of(&new, Some(key))?;

    let mut places = original_order.0.clone();
    for value in new {
        let name = key_of(&value, Some(key))?;
        let place = *places.entry(name).or_insert(original.len());
        match (original.get_mut(place), value) {
            (Some(Value::Object(old)), Value::Object(patch)) => {
                *old = merge_objects(std::mem::take(old), patch, entry)?;
            }
            (_, value) => original.push(value),
        }
    }
    arrange(original, &order, &original_order, Some(key))
}

/// Merges two lists, either of which may be missing, and brings the result into an order (AP-64). Nothing when both
/// are missing.
pub(super) fn merge_in_order(
    original: Option<&[Value]>,
    patch: Option<&[Value]>,
    wanted: &[Value],
    entry: Shape,
    how: Merge,
) -> Result<Option<Vec<Value>>, PatchError> {
    let key = merge_key(how);
    let (old, new) = (original.unwrap_or_default(), patch.unwrap_or_default());
    check_order(new, wanted, key)?;
    let merged = match (original, patch) {
        (None, None) => return Ok(None),
        (Some(old), None) => old.to_vec(),
        (None, Some(new)) => new.iter().cloned().filter_map(without_directives).collect(),
        (Some(old), Some(new)) => merge(old.to_vec(), new.to_vec(), entry, how, false)?,
    };
    let kind = kind_of([old, new])?;
    if (kind == Entries::Objects) != key.is_some() {
        return Err(no_merge_key(key.unwrap_or_default()));
    }
    let (wanted, stored) = (Order::of(wanted, key)?, Order::of(old, key)?);
    arrange(merged, &wanted, &stored, key).map(Some)
}

/// The entries of a patch stand in the wanted order, and in no other (AP-64). Entries that are directives do not count.
fn check_order(patch: &[Value], wanted: &[Value], key: Option<&str>) -> Result<(), PatchError> {
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

/// All entries are objects, or all are plain values of one JSON type.
fn kind_of(lists: [&[Value]; 2]) -> Result<Entries, PatchError> {
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
    match entries.all(|entry| super::is_alike(first, entry)) {
        true => Ok(kind),
        false => Err(PatchError::Internal("list element types are not identical".to_owned())),
    }
}

fn no_merge_key(key: &str) -> PatchError {
    PatchError::Internal(format!("an entry does not contain declared merge key: {key}"))
}

fn key_of(value: &Value, key: Option<&str>) -> Result<Key, PatchError> {
    match key {
        None => Ok(value.to_string()),
        Some(key) => value.get(key).map(Value::to_string).ok_or_else(|| no_merge_key(key)),
    }
}

/// Where the entries of a list stand; of equal ones the first.
#[derive(Clone)]
struct Order(HashMap<Key, usize>);

impl Order {
    fn of(list: &[Value], key: Option<&str>) -> Result<Self, PatchError> {
        let mut places = HashMap::with_capacity(list.len());
        for (place, value) in list.iter().enumerate() {
            places.entry(key_of(value, key)?).or_insert(place);
        }
        Ok(Self(places))
    }

    /// As [`Order::of`], of those entries that have the key.
    fn of_some(list: &[Value], key: &str) -> Self {
        let mut places = HashMap::with_capacity(list.len());
        for (place, value) in list.iter().enumerate() {
            if let Ok(name) = key_of(value, Some(key)) {
                places.entry(name).or_insert(place);
            }
        }
        Self(places)
    }
}

/// An entry with its places in the wanted and in the stored order.
struct Placed {
    value: Value,
    wanted: Option<usize>,
    stored: Option<usize>,
}

/// Brings entries into the order that is described above.
fn arrange(
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
