//! The types of values, as a schema declares them, and the names of their fields in expressions.

use std::collections::HashMap;
use std::sync::Arc;

use kinds::custom::{Format, JsonType, Schema};

use crate::match_conditions::types::{BOOL, Declared, INT, STRING, Type};

/// The words that are no names in expressions.
const WORDS: [&str; 22] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "type",
];

/// The name of a field in expressions; none for one that has no name there.
pub(super) fn escaped(name: &str) -> Option<String> {
    // `type` is a name; it only stands in the list to show that it is none of the words.
    if WORDS.contains(&name) && name != "type" {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (text, length) = match c {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            c if c.is_ascii_alphanumeric() || c == '_' => {
                escaped.push(c);
                ("", 1)
            }
            _ => return None,
        };
        escaped.push_str(text);
        rest = rest.get(length..).unwrap_or_default();
    }
    (!name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty()).then_some(escaped)
}

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
        .filter_map(|(name, property)| Some((escaped(name)?, of(property, false)?)))
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
