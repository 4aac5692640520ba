//! The schemas of custom objects, as server-side apply sees them.

use serde_json::Value;

use super::schema::{Additional, JsonType, ListType, Schema};
use crate::apply::Typed;
use crate::apply::schema::{Key, KeyDefault, Scalar, Schema as ApplySchema, Structure};
use crate::schema::custom::CUSTOM;

/// The schema of a value in an object of any kind.
#[derive(Clone, Copy, Debug)]
pub enum ObjectSchema<'s> {
    /// Of a built-in kind, or metadata.
    BuiltIn(Typed),
    /// Described by the definition of a custom kind.
    Structural(Structural<'s>),
}

/// A part of a structural schema.
#[derive(Clone, Copy, Debug)]
pub struct Structural<'s> {
    schema: &'s Schema,
    /// Whether the value is an API object, with a kind, a version and metadata.
    is_object: bool,
    /// Whether an object around the value keeps members that have no schema.
    is_in_preserved: bool,
}

impl<'s> Structural<'s> {
    /// The schema of whole objects.
    pub(super) fn whole(schema: &'s Schema) -> Self {
        Self { schema, is_object: true, is_in_preserved: false }
    }

    fn preserves_unknown(self) -> bool {
        self.is_in_preserved || self.schema.preserves_unknown
    }

    fn part(self, schema: &'s Schema) -> ObjectSchema<'s> {
        let is_in_preserved = self.preserves_unknown();
        ObjectSchema::Structural(Self { schema, is_object: schema.is_embedded, is_in_preserved })
    }

    fn structure(self) -> Structure {
        let Schema { kind, is_int_or_string, is_atomic, list_type, .. } = self.schema;
        match kind {
            _ if *is_int_or_string => Structure::Scalar(Scalar::Any),
            None => Structure::Deduced,
            Some(JsonType::Boolean) => Structure::Scalar(Scalar::Bool),
            Some(JsonType::Integer | JsonType::Number) => Structure::Scalar(Scalar::Number),
            Some(JsonType::String) if self.schema.limits().format.is_some() => Structure::Scalar(Scalar::Any),
            Some(JsonType::String) => Structure::Scalar(Scalar::Text),
            Some(JsonType::Object) if *is_atomic => Structure::AtomicMap,
            Some(JsonType::Object) => Structure::Map,
            Some(JsonType::Array) => match list_type {
                ListType::Atomic => Structure::AtomicList,
                ListType::Map => Structure::KeyedList,
                ListType::Set => Structure::Set,
            },
        }
    }

    fn field(self, name: &str) -> Option<ObjectSchema<'s>> {
        if self.is_object && matches!(name, "apiVersion" | "kind" | "metadata") {
            return Typed::of(&CUSTOM).field(name).map(ObjectSchema::BuiltIn);
        }
        self.schema.property(name).map(|schema| self.part(schema))
    }

    fn inner(self) -> Option<ObjectSchema<'s>> {
        let deduced = Some(ObjectSchema::BuiltIn(Typed::undeclared()));
        if self.schema.kind == Some(JsonType::Array) {
            return self.schema.items.as_deref().map_or(deduced, |items| Some(self.part(items)));
        }
        match self.schema.additional.as_deref() {
            Some(Additional::Of(schema)) => Some(self.part(schema)),
            Some(Additional::Any) => deduced,
            None if self.preserves_unknown() => deduced,
            // An object that says nothing of its members has any.
            None if !self.is_object && !self.schema.has_properties() => deduced,
            None => None,
        }
    }

    fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        let of_entries = self.schema.items.as_deref();
        self.schema.list_keys().iter().map(move |name| {
            let default = of_entries.and_then(|entry| entry.property(name)?.default.as_deref());
            Key { name, default: default.and_then(key_default) }
        })
    }
}

fn key_default(value: &Value) -> Option<KeyDefault<'_>> {
    match value {
        Value::String(text) => Some(KeyDefault::Text(text)),
        Value::Number(number) => number.as_i64().map(KeyDefault::Number),
        Value::Bool(value) => Some(KeyDefault::Bool(*value)),
        _ => None,
    }
}

impl ApplySchema for ObjectSchema<'_> {
    fn structure(self) -> Structure {
        match self {
            Self::BuiltIn(typed) => typed.structure(),
            Self::Structural(part) => part.structure(),
        }
    }

    fn field(self, name: &str) -> Option<Self> {
        match self {
            Self::BuiltIn(typed) => typed.field(name).map(Self::BuiltIn),
            Self::Structural(part) => part.field(name),
        }
    }

    fn inner(self) -> Option<Self> {
        match self {
            Self::BuiltIn(typed) => typed.inner().map(Self::BuiltIn),
            Self::Structural(part) => part.inner(),
        }
    }

    fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        let (built_in, structural) = match self {
            Self::BuiltIn(typed) => (Some(typed), None),
            Self::Structural(part) => (None, Some(part)),
        };
        built_in.into_iter().flat_map(Typed::keys).chain(structural.into_iter().flat_map(Structural::keys))
    }
}
