//! Sets the `managedFields` of stored objects aside as text. Most writes leave them as they are, and to read, copy, compare
//! and write them as values takes as long as all the rest of a small object.

use std::fmt;

use kinds::Map;
use kinds::apply::ManagedFieldsText;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::meta;
use crate::http::status::Status;

/// The metadata that is set aside.
pub(super) const MANAGED_FIELDS: &str = "managedFields";

/// Reads an object, and apart from it the text of its `managedFields`.
///
/// # Errors
/// It is not an object.
pub(super) fn decode(text: &str) -> serde_json::Result<(Map, Option<ManagedFieldsText>)> {
    let mut managed_fields = None;
    let mut reader = serde_json::Deserializer::from_str(text);
    let object = Object { is_metadata: false, managed_fields: &mut managed_fields };
    let object = object.deserialize(&mut reader)?;
    reader.end()?;
    Ok((object, managed_fields))
}

/// Puts the text of `managedFields` back into its object.
///
/// # Errors
/// The text is nested too deeply.
pub(super) fn put_back(object: &mut Map, managed_fields: &ManagedFieldsText) -> Result<(), Status> {
    let value: Value = serde_json::from_str(managed_fields.as_str()).map_err(Status::internal)?;
    meta::set(object, MANAGED_FIELDS, value);
    Ok(())
}

/// An object, or its metadata.
struct Object<'m> {
    is_metadata: bool,
    managed_fields: &'m mut Option<ManagedFieldsText>,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = Map;

    fn deserialize<D: Deserializer<'de>>(self, object: D) -> Result<Map, D::Error> {
        object.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Map;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Map, A::Error> {
        let Object { is_metadata, managed_fields } = self;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = match (is_metadata, name.as_str()) {
                (true, MANAGED_FIELDS) => {
                    *managed_fields = Some(members.next_value()?);
                    continue;
                }
                (false, "metadata") => {
                    let metadata = Object { is_metadata: true, managed_fields: &mut *managed_fields };
                    Value::Object(members.next_value_seed(metadata)?)
                }
                _ => members.next_value()?,
            };
            object.insert(name, value);
        }
        Ok(object)
    }
}
