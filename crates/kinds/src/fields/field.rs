//! A field of an object, with its path.

use std::borrow::Cow;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::Faults;
use serde_json::Value;

use super::path::Path;
use crate::Map;

/// A function that finds what is wrong with a string.
pub(crate) type Syntax = fn(&str) -> Faults;

/// A field of an object: its path and value. It creates the errors about the field.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    path: Path<'a>,
    value: Option<&'a Value>,
}

impl<'a> Field<'a> {
    /// A top-level member of an object.
    pub(crate) fn root(object: &'a Map, name: &'a str) -> Self {
        Self::at(name, object.get(name))
    }

    /// A value with the given path.
    pub(crate) fn at(path: impl Into<Path<'a>>, value: Option<&'a Value>) -> Self {
        Self { path: path.into(), value: value.filter(|value| !value.is_null()) }
    }

    /// A member of this object.
    pub(crate) fn child(&self, name: &'a str) -> Self {
        Self::at(self.path.member(name), self.value.and_then(|value| value.get(name)))
    }

    /// A member of this map, with its path printed as a key.
    pub(crate) fn key(&self, name: impl Into<Cow<'a, str>>) -> Self {
        let name = name.into();
        let value = self.value.and_then(|value| value.get(&*name));
        Self::at(self.path.key(name), value)
    }

    /// The same value with another path, because some errors of Kubernetes have an inaccurate path.
    pub(crate) fn named(&self, path: impl Into<Path<'a>>) -> Self {
        Self { path: path.into(), value: self.value }
    }

    /// The entries of this list.
    pub(crate) fn items(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let path = self.path.clone();
        let list = self.value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        list.iter().enumerate().map(move |(i, value)| Self::at(path.index(i), Some(value)))
    }

    /// The members of this object, each with its path printed as a key.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, Field<'a>)> + use<'a> {
        let path = self.path.clone();
        self.value
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(move |(key, value)| (key.as_str(), Self { path: path.key(key.into()), value: Some(value) }))
    }

    /// Returns the field if it is set.
    pub(crate) fn set(self) -> Option<Self> {
        self.value.is_some().then_some(self)
    }

    /// Returns whether the field is set.
    pub(crate) fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// Returns whether the field is not set, or an empty string, list or map.
    pub(crate) fn is_empty(&self) -> bool {
        match self.value {
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Object(map)) => map.is_empty(),
            other => other.is_none(),
        }
    }

    /// The number of entries or members.
    pub(crate) fn len(&self) -> usize {
        match self.value {
            Some(Value::Array(list)) => list.len(),
            Some(Value::Object(map)) => map.len(),
            _ => 0,
        }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    /// The number; 0 if not set.
    pub(crate) fn number(&self) -> i64 {
        self.number_if_set().unwrap_or_default()
    }

    pub(crate) fn number_if_set(&self) -> Option<i64> {
        self.value.and_then(Value::as_i64)
    }

    pub(crate) fn is_true(&self) -> bool {
        self.value.and_then(Value::as_bool).unwrap_or_default()
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        self.value.and_then(Value::as_bool)
    }

    pub(crate) fn value(&self) -> Option<&'a Value> {
        self.value
    }

    pub(crate) fn path(&self) -> Path<'a> {
        self.path.clone()
    }

    /// The value for an error, which formats only as much of it as it shows.
    fn shown(&self) -> &dyn std::fmt::Display {
        match &self.value {
            Some(value) => value,
            None => &"\"\"",
        }
    }

    pub(crate) fn invalid(&self, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(self.path.to_string(), self.shown(), detail)
    }

    pub(crate) fn required(&self, detail: &str) -> FieldError {
        FieldError::required(self.path.to_string(), detail)
    }

    pub(crate) fn forbidden(&self, detail: &str) -> FieldError {
        FieldError::forbidden(self.path.to_string(), detail)
    }

    pub(crate) fn duplicate(&self) -> FieldError {
        FieldError::duplicate(self.path.to_string(), self.shown())
    }

    pub(crate) fn not_found(&self) -> FieldError {
        FieldError::not_found(self.path.to_string(), self.shown())
    }

    pub(crate) fn not_supported(&self, known: &[&str]) -> FieldError {
        FieldError::not_supported(self.path.to_string(), self.shown(), known)
    }

    /// One error for each fault that a syntax function finds in this string.
    pub(crate) fn faults(&self, syntax: Syntax) -> impl Iterator<Item = FieldError> {
        let field = self.clone();
        syntax(self.text()).into_iter().map(move |fault| field.invalid(fault))
    }
}
