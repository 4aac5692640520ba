//! The types of values, as a schema declares them.

use std::collections::HashMap;
use std::sync::Arc;

use kinds::custom::{Format, JsonType, Schema};
use portcullis_apimachinery::cel;

use crate::match_conditions::types::{BOOL, Declared, INT, STRING, Type};

/// The type of the values of a schema; none for values of which nothing is known. `is_root`: they are API objects.
pub(super) fn of(schema: &Schema, is_root: bool) -> Option<Type> {
    if schema.is_int_or_string {
        return Some(Type::Dyn);
    }
    Some(match schema.kind? {
        JsonType::Array => Type::List(Box::new(of(schema.items.as_deref()?, false)?)),
        JsonType::Boolean => BOOL,
        JsonType::Integer => INT,
        JsonType::Number => Type::Plain("double"),
        JsonType::String => match schema.limits().format {
            Some(Format::Byte) => Type::Plain("bytes"),
            Some(Format::Duration) => Type::Plain("duration"),
            Some(Format::Date | Format::DateTime) => Type::Plain("timestamp"),
            _ => STRING,
        },
        JsonType::Object => match schema.additional() {
            Some(values) => Type::Map(Box::new(STRING), Box::new(of(values, false)?)),
            None => object(schema, is_root || schema.is_embedded),
        },
    })
}

fn object(schema: &Schema, is_object: bool) -> Type {
    let mut fields: HashMap<String, Type> = schema
        .properties()
        .filter_map(|(name, property)| Some((cel::escaped(name)?.into_owned(), of(property, false)?)))
        .collect();
    if is_object {
        let metadata = ["name", "generateName"].map(|name| (name.to_owned(), STRING));
        let metadata = Type::Declared(Arc::new(Declared { fields: metadata.into() }));
        for (name, of) in [("apiVersion", STRING), ("kind", STRING), ("metadata", metadata)] {
            fields.insert(name.to_owned(), of);
        }
    }
    Type::Declared(Arc::new(Declared { fields }))
}
