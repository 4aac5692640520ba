//! Completes an object to the form that Go prints: removes zero values that Go omits, and adds those that it always
//! prints (AP-136).

use serde_json::Value;

use crate::Map;
use crate::schema::{Field, Presence, REST, Shape, Type};

/// Completes an object that contains only the fields that are set. `null` counts as not set.
pub(crate) fn object(object: &mut Map, ty: &Type) {
    // An object has few of the fields of its type, so they are not looked up one by one.
    object.retain(|name, value| {
        let Some(field) = ty.named(name).filter(|field| field.name != REST) else { return true };
        if value.is_null() {
            // If it is printed all the same, it is added below.
            return false;
        }
        inner(value, field.shape);
        match field.presence {
            Presence::WhenNotZero => !is_zero(value, field.shape),
            Presence::Always if is_list(field.shape) && is_zero(value, field.shape) => {
                // The stored form does not distinguish an empty list from none.
                *value = Value::Null;
                true
            }
            _ => true,
        }
    });
    for field in ty.fields.iter().filter(|field| field.name != REST && is_printed_unset(field)) {
        if !object.contains_key(field.name) {
            let value = if field.presence == Presence::OrNull { Value::Null } else { zero(field.shape) };
            object.insert(field.name.to_owned(), value);
        }
    }
}

/// Returns whether a field that is not set is printed.
fn is_printed_unset(field: &Field) -> bool {
    match field.presence {
        Presence::Always | Presence::OrNull => true,
        Presence::WhenNotZero => matches!(field.shape, Shape::Object(_)),
        Presence::WhenSet => false,
    }
}

/// Completes the objects in a value.
fn inner(value: &mut Value, shape: Shape) {
    match (shape, value) {
        (Shape::Object(ty), Value::Object(members)) => object(members, ty),
        (Shape::List(shape), Value::Array(items)) => {
            for item in items {
                inner(item, *shape);
            }
        }
        (Shape::Map(shape), Value::Object(members)) => {
            for member in members.values_mut() {
                inner(member, *shape);
            }
        }
        _ => {}
    }
}

/// The value that is printed for a field that is not set.
pub(crate) fn zero(shape: Shape) -> Value {
    match shape {
        Shape::Any | Shape::List(_) | Shape::Map(_) | Shape::MicroTime | Shape::Time => Value::Null,
        Shape::Bool => false.into(),
        Shape::Bytes | Shape::Text => "".into(),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => 0.into(),
        Shape::Quantity => "0".into(),
        Shape::Object(ty) => {
            let mut members = Map::new();
            object(&mut members, ty);
            Value::Object(members)
        }
    }
}

/// Returns whether a value is the zero value of its shape. An object never is; an empty map is.
fn is_zero(value: &Value, shape: Shape) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(bool) => !bool,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty() && matches!(shape, Shape::Map(_)),
    }
}

/// Returns whether values of a shape can be empty and yet set.
fn is_list(shape: Shape) -> bool {
    matches!(shape, Shape::List(_) | Shape::Map(_))
}
