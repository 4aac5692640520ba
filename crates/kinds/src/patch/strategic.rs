//! Strategic merge patches: the type says which lists are merged, and by which key (AP-63); directives in the patch say
//! the rest (AP-64).

mod list;

use serde_json::Value;

use super::PatchError;
use crate::Map;
use crate::schema::{Merge, Shape, Type};

/// What is to be done with the object or entry that holds it.
const DIRECTIVE: &str = "$patch";
/// The members of the stored object that stay.
const RETAIN_KEYS: &str = "$retainKeys";
/// Before the name of a list of plain values: what is to be taken out of it.
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
/// Before the name of a list: in which order its entries are wanted.
const SET_ORDER: &str = "$setElementOrder";

/// The object with the patch merged into it.
pub(super) fn apply(current: Map, patch: Map, of_type: &'static Type) -> Result<Map, PatchError> {
    merge(current, patch, Shape::Object(of_type))
}

/// How the members of an object are shaped and treated.
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

/// Without the value: a patch of a secret holds what is not to be repeated.
fn unknown_directive() -> PatchError {
    PatchError::Internal(format!("unknown patch type: {DIRECTIVE} takes replace, merge and delete"))
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
            let (shape, _) = member(shape, &name)?;
            *old = merge(std::mem::take(old), patch, shape)?;
        }
        (Value::Array(old), Value::Array(patch)) => {
            let (shape, how) = member(shape, &name)?;
            let entry = list::entry_shape(shape)?;
            *old = list::merge(std::mem::take(old), patch, entry, how, deletes)?;
        }
        // What is taken out of something that is no list leaves it as it is, unless both are plain and alike.
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

/// Whether two values are of one JSON type.
fn is_alike(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// The name of the list that a directive is about; nothing for another member.
fn name_after<'a>(member: &'a str, directive: &str) -> Result<Option<&'a str>, PatchError> {
    let Some(rest) = member.strip_prefix(directive) else { return Ok(None) };
    let malformed = || PatchError::Malformed(format!("{member:?} names no list: write {directive}/NAME"));
    rest.strip_prefix('/').map(Some).ok_or_else(malformed)
}

/// A value that takes no other's place: without what is null and without directives, which have nothing to work on.
/// Nothing for an object that is a directive itself.
fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Array(entries) => {
            entries.into_iter().filter_map(without_directives).collect::<Vec<_>>().into()
        }
        Value::Object(members) => {
            if members.contains_key(DIRECTIVE) {
                return None;
            }
            let kept = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.filter_map(|(name, value)| Some((name, without_directives(value)?))).collect())
        }
        value => value,
    })
}

/// Takes what a patch does not list out of the stored object, when it has such a list.
fn retain_keys(original: &mut Map, patch: &mut Map) -> Result<(), PatchError> {
    let malformed = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let listed = match patch.remove(RETAIN_KEYS) {
        None => return Ok(()),
        Some(Value::Array(listed)) => listed,
        Some(_) => return Err(malformed()),
    };
    let listed: std::collections::HashSet<&str> = listed.iter().filter_map(Value::as_str).collect();
    let is_directive = |name: &str| name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER);
    let is_allowed =
        |(name, value): (&String, &Value)| value.is_null() || is_directive(name) || listed.contains(&**name);
    if !patch.iter().all(is_allowed) {
        return Err(malformed());
    }
    original.retain(|name, _| listed.contains(&**name));
    Ok(())
}

/// Merges the lists for which the patch says an order, and takes them and the orders out of the patch.
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
        if let Some(merged) = list::merge_in_order(old, new, &order, entry, how)? {
            original.insert(name.to_owned(), Value::Array(merged));
            patch.remove(name);
        }
    }
    Ok(())
}
