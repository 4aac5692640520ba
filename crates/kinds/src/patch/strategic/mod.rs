//! Strategic merge patches: the type determines which lists are merged, and by which key (AP-63); directives in the
//! patch control the rest (AP-64).

mod directive;
mod list;

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use self::directive::{
    DELETE_FROM_LIST, DIRECTIVE, RETAIN_KEYS, SET_ORDER, name_after, unknown_directive, without_directives,
};
use self::list::{
    Entries, Key, Order, arrange, check_order, is_alike, key_of, kind_of, merge_key, no_merge_key,
};
use super::error::PatchError;
use crate::Map;
use crate::schema::{Merge, Shape, Type};

/// How many entries of a list in a patch may have the same key. Each is merged into what those before it made.
///
/// DIVERGES: Kubernetes merges any number of them, which takes quadratic time.
const MAX_REPEATED: usize = 16;

/// Merges the patch into the object.
pub(super) fn apply(current: Map, patch: Map, of_type: &'static Type) -> Result<Map, PatchError> {
    merge(current, patch, Shape::Object(of_type))
}

/// The shape of an object's member, and how it is merged.
fn member(shape: Shape, name: &str) -> Result<(Shape, Merge), PatchError> {
    match shape {
        Shape::Object(of_type) => match of_type.field(name) {
            Some(field) => Ok((field.shape, field.merge)),
            None => {
                let message = format!(
                    "unable to find api field in struct {} for the json field {name:?}",
                    of_type.name
                );
                Err(PatchError::Internal(message))
            }
        },
        Shape::Map(value) => Ok((*value, Merge::Default)),
        _ => Ok((Shape::Any, Merge::Default)),
    }
}

fn merge(mut original: Map, mut patch: Map, shape: Shape) -> Result<Map, PatchError> {
    match patch.remove(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "replace" => return Ok(patch),
        Some(Value::String(directive)) if directive == "delete" => return Ok(Map::new()),
        Some(_) => return Err(unknown_directive()),
    }
    retain_keys(&mut original, &mut patch)?;
    set_orders(&mut original, &mut patch, shape)?;
    for (name, value) in patch {
        merge_member(&mut original, name, value, shape)?;
    }
    Ok(original)
}

fn merge_member(original: &mut Map, name: String, value: Value, shape: Shape) -> Result<(), PatchError> {
    let of_list = name_after(&name, DELETE_FROM_LIST)?;
    let (name, deletes) = match of_list {
        Some(list) => (list.to_owned(), true),
        None => (name, false),
    };
    if value.is_null() {
        original.remove(&name);
        return Ok(());
    }
    let Some(old) = original.get_mut(&name) else {
        if let (false, Some(value)) = (deletes, without_directives(value)) {
            original.insert(name, value);
        }
        return Ok(());
    };
    match (old, value) {
        (Value::Object(old), Value::Object(patch)) => {
            let (shape, how) = member(shape, &name)?;
            *old = match how {
                Merge::Replace => patch,
                _ => merge(std::mem::take(old), patch, shape)?,
            };
        }
        (Value::Array(old), Value::Array(patch)) => {
            let (shape, how) = member(shape, &name)?;
            let entry = list::entry_shape(shape)?;
            *old = merge_list(std::mem::take(old), patch, entry, how, deletes)?;
        }
        // Deleting from something that is not a list has no effect, unless both are plain values of one type.
        (old, value) if deletes && !is_alike(old, &value) => {}
        (old, value) => match without_directives(value) {
            Some(value) => *old = value,
            None => {
                original.remove(&name);
            }
        },
    }
    Ok(())
}

/// Merges a list of a patch into the stored one. With `deletes`, the plain values of the patch are removed.
fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    entry: Shape,
    how: Merge,
    deletes: bool,
) -> Result<Vec<Value>, PatchError> {
    if matches!(how, Merge::Default | Merge::Replace | Merge::Retaining) {
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
    let mut repeated: HashMap<Key, usize> = HashMap::new();
    for value in new {
        let name = key_of(&value, Some(key))?;
        let count = repeated.entry(name.clone()).or_default();
        *count = count.saturating_add(1);
        if *count > MAX_REPEATED {
            let message = format!("more than {MAX_REPEATED} entries of a list have the {key} {name}");
            return Err(PatchError::Unprocessable(message));
        }
        let place = *places.entry(name).or_insert(original.len());
        match (original.get_mut(place), value) {
            (Some(Value::Object(old)), Value::Object(patch)) => {
                *old = merge(std::mem::take(old), patch, entry)?;
            }
            (_, value) => original.push(value),
        }
    }
    arrange(original, &order, &original_order, Some(key))
}

/// Merges two lists, either of which may be missing, and orders the result (AP-64). `None` if both are missing.
fn merge_list_in_order(
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
        (Some(old), Some(new)) => merge_list(old.to_vec(), new.to_vec(), entry, how, false)?,
    };
    let kind = kind_of([old, new])?;
    if (kind == Entries::Objects) != key.is_some() {
        return Err(no_merge_key(key.unwrap_or_default()));
    }
    let (wanted, stored) = (Order::of(wanted, key)?, Order::of(old, key)?);
    arrange(merged, &wanted, &stored, key).map(Some)
}

/// Removes members that are not in the patch's `$retainKeys` list, if it has one.
fn retain_keys(original: &mut Map, patch: &mut Map) -> Result<(), PatchError> {
    let malformed = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let listed = match patch.remove(RETAIN_KEYS) {
        None => return Ok(()),
        Some(Value::Array(listed)) => listed,
        Some(_) => return Err(malformed()),
    };
    let listed: HashSet<&str> = listed.iter().filter_map(Value::as_str).collect();
    let is_directive = |name: &str| name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER);
    let is_allowed =
        |(name, value): (&String, &Value)| value.is_null() || is_directive(name) || listed.contains(&**name);
    if !patch.iter().all(is_allowed) {
        return Err(malformed());
    }
    original.retain(|name, _| listed.contains(&**name));
    Ok(())
}

/// Merges the lists for which the patch sets an order, and removes them and the orders from the patch.
fn set_orders(original: &mut Map, patch: &mut Map, shape: Shape) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err(PatchError::Internal(format!("{directive} is no list")));
        };
        let Some(name) = name_after(&directive, SET_ORDER)? else { continue };
        let (old, new) = (list::of(original, name)?, list::of(patch, name)?);
        let (shape, how) = member(shape, name)?;
        let entry = list::entry_shape(shape)?;
        if let Some(merged) = merge_list_in_order(old, new, &order, entry, how)? {
            original.insert(name.to_owned(), Value::Array(merged));
            patch.remove(name);
        }
    }
    Ok(())
}
