//! Helpers for reading objects: a field with its path, and access to the members of a map. Reads never fail: a value
//! that is missing, `null` or of another type reads as empty.

use std::borrow::Cow;

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use crate::Map;

/// A field of an object: its path and value. It creates the errors about the field.
#[derive(Clone, Debug)]
pub(super) struct Field<'a> {
    path: String,
    value: Option<&'a Value>,
}

impl<'a> Field<'a> {
    /// A top-level member of an object.
    pub(super) fn root(object: &'a Map, name: &str) -> Self {
        Self { path: name.to_owned(), value: object.get(name).filter(|value| !value.is_null()) }
    }

    /// A value with the given path.
    pub(super) fn at(path: impl Into<String>, value: Option<&'a Value>) -> Self {
        Self { path: path.into(), value: value.filter(|value| !value.is_null()) }
    }

    /// A member of this object.
    pub(super) fn child(&self, name: &str) -> Self {
        Self::at(format!("{}.{name}", self.path), self.value.and_then(|value| value.get(name)))
    }

    /// A member of this map, with its path printed as a key.
    pub(super) fn key(&self, name: &str) -> Self {
        Self::at(format!("{}[{name}]", self.path), self.value.and_then(|value| value.get(name)))
    }

    /// The same value with another path, because some errors of Kubernetes have an inaccurate path.
    pub(super) fn named(&self, path: impl Into<String>) -> Self {
        Self { path: path.into(), value: self.value }
    }

    /// The entries of this list.
    pub(super) fn items(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let path = self.path.clone();
        let list = self.value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        list.iter().enumerate().map(move |(i, value)| Self::at(format!("{path}[{i}]"), Some(value)))
    }

    /// The members of this object, each with its path printed as a key.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, Field<'a>)> + use<'a> {
        let path = self.path.clone();
        self.value.and_then(Value::as_object).into_iter().flatten().map(move |(key, value)| {
            (key.as_str(), Self { path: format!("{path}[{key}]"), value: Some(value) })
        })
    }

    /// Returns the field if it is set.
    pub(super) fn set(self) -> Option<Self> {
        self.value.is_some().then_some(self)
    }

    /// Returns whether the field is set.
    pub(super) fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// Returns whether the field is not set, or an empty string, list or map.
    pub(super) fn is_empty(&self) -> bool {
        match self.value {
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Object(map)) => map.is_empty(),
            other => other.is_none(),
        }
    }

    /// The number of entries or members.
    pub(super) fn len(&self) -> usize {
        match self.value {
            Some(Value::Array(list)) => list.len(),
            Some(Value::Object(map)) => map.len(),
            _ => 0,
        }
    }

    pub(super) fn text(&self) -> &'a str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn number(&self) -> Option<i64> {
        self.value.and_then(Value::as_i64)
    }

    pub(super) fn is_true(&self) -> bool {
        self.value.and_then(Value::as_bool).unwrap_or_default()
    }

    pub(super) fn flag(&self) -> Option<bool> {
        self.value.and_then(Value::as_bool)
    }

    pub(super) fn value(&self) -> Option<&'a Value> {
        self.value
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    fn shown(&self) -> String {
        self.value.map_or_else(|| "\"\"".to_owned(), Value::to_string)
    }

    pub(super) fn invalid(&self, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(self.path.as_str(), self.shown(), detail)
    }

    pub(super) fn required(&self, detail: &str) -> FieldError {
        FieldError::required(self.path.as_str(), detail)
    }

    pub(super) fn forbidden(&self, detail: &str) -> FieldError {
        FieldError::forbidden(self.path.as_str(), detail)
    }

    pub(super) fn duplicate(&self) -> FieldError {
        FieldError::duplicate(self.path.as_str(), self.shown())
    }

    pub(super) fn not_found(&self) -> FieldError {
        FieldError::not_found(self.path.as_str(), self.shown())
    }

    pub(super) fn not_supported(&self, known: &[&str]) -> FieldError {
        FieldError::not_supported(self.path.as_str(), self.shown(), known)
    }

    /// One error for each fault that a syntax function finds in this string.
    pub(super) fn faults(
        &self,
        syntax: fn(&str) -> Vec<Cow<'static, str>>,
    ) -> impl Iterator<Item = FieldError> {
        let field = self.clone();
        syntax(self.text()).into_iter().map(move |fault| field.invalid(fault))
    }
}

/// Access to the members of a map.
pub(super) trait Members {
    fn text(&self, name: &str) -> &str;
    fn number(&self, name: &str) -> Option<i64>;
    fn flag(&self, name: &str) -> Option<bool>;
    fn object(&self, name: &str) -> Option<&Map>;
    fn list(&self, name: &str) -> &[Value];
    /// Returns whether the member is present and not `null`.
    fn has(&self, name: &str) -> bool;
    fn object_mut(&mut self, name: &str) -> Option<&mut Map>;
    /// The objects in a list.
    fn objects_mut(&mut self, name: &str) -> impl Iterator<Item = &mut Map>;
    /// The object of this name, created if missing.
    fn object_or_new(&mut self, name: &str) -> Option<&mut Map>;
    /// Sets a string that is missing or empty.
    fn default_text(&mut self, name: &str, text: &str);
    /// Sets a value that is missing or `null`.
    fn default_value(&mut self, name: &str, value: Value);
    /// Sets a number that is missing or zero.
    fn default_number(&mut self, name: &str, number: i64);
    /// Appends to a list, created if missing.
    fn push_to(&mut self, name: &str, value: Value);
    /// Copies a member from another map, or removes it.
    fn copy(&mut self, name: &str, from: &Map);
}

impl Members for Map {
    fn text(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(Value::as_bool)
    }

    fn object(&self, name: &str) -> Option<&Map> {
        self.get(name).and_then(Value::as_object)
    }

    fn list(&self, name: &str) -> &[Value] {
        self.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.is_null())
    }

    fn object_mut(&mut self, name: &str) -> Option<&mut Map> {
        self.get_mut(name).and_then(Value::as_object_mut)
    }

    fn objects_mut(&mut self, name: &str) -> impl Iterator<Item = &mut Map> {
        self.get_mut(name)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
    }

    fn object_or_new(&mut self, name: &str) -> Option<&mut Map> {
        self.default_value(name, Value::Object(Map::new()));
        self.object_mut(name)
    }

    fn default_text(&mut self, name: &str, text: &str) {
        if self.get(name).is_none_or(|value| value.is_null() || value.as_str() == Some("")) {
            self.insert(name.to_owned(), text.into());
        }
    }

    fn default_value(&mut self, name: &str, value: Value) {
        if !self.has(name) {
            self.insert(name.to_owned(), value);
        }
    }

    fn default_number(&mut self, name: &str, number: i64) {
        if self.get(name).is_none_or(|value| value.is_null() || value.as_i64() == Some(0)) {
            self.insert(name.to_owned(), number.into());
        }
    }

    fn push_to(&mut self, name: &str, value: Value) {
        self.default_value(name, Value::Array(Vec::new()));
        if let Some(list) = self.get_mut(name).and_then(Value::as_array_mut) {
            list.push(value);
        }
    }

    fn copy(&mut self, name: &str, from: &Map) {
        match from.get(name) {
            Some(value) => self.insert(name.to_owned(), value.clone()),
            None => self.remove(name),
        };
    }
}
