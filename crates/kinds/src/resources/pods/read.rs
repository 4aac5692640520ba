//! Reading objects: a place in an object with its path, and short ways to the members of a map. Reads never fail: what
//! is missing, `null` or of another type reads as empty.

use std::borrow::Cow;

use portcullis_policy::field_error::FieldError;
use serde_json::Value;

use crate::Map;

/// A place in an object: its path, and what is there. Errors about the place are made from it.
#[derive(Clone, Debug)]
pub(super) struct Field<'a> {
    path: String,
    value: Option<&'a Value>,
}

impl<'a> Field<'a> {
    /// A member of an object, whose path is its name.
    pub(super) fn root(object: &'a Map, name: &str) -> Self {
        Self { path: name.to_owned(), value: object.get(name).filter(|value| !value.is_null()) }
    }

    /// A value at a path of the caller's choice.
    pub(super) fn at(path: impl Into<String>, value: Option<&'a Value>) -> Self {
        Self { path: path.into(), value: value.filter(|value| !value.is_null()) }
    }

    /// A member of this object.
    pub(super) fn child(&self, name: &str) -> Self {
        Self::at(format!("{}.{name}", self.path), self.value.and_then(|value| value.get(name)))
    }

    /// A member of this object, printed as a key of a map.
    pub(super) fn key(&self, name: &str) -> Self {
        Self::at(format!("{}[{name}]", self.path), self.value.and_then(|value| value.get(name)))
    }

    /// The same value, as if it were elsewhere. Some errors of Kubernetes name a place beside the one they are about.
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

    /// Itself, when anything is there.
    pub(super) fn set(self) -> Option<Self> {
        self.value.is_some().then_some(self)
    }

    /// Whether anything is there.
    pub(super) fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// Whether nothing is there, or an empty text, list or map.
    pub(super) fn is_empty(&self) -> bool {
        match self.value {
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Object(map)) => map.is_empty(),
            other => other.is_none(),
        }
    }

    /// How many entries or members there are.
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

    /// One error for each fault that a syntax finds in this text.
    pub(super) fn faults(
        &self,
        syntax: fn(&str) -> Vec<Cow<'static, str>>,
    ) -> impl Iterator<Item = FieldError> {
        let field = self.clone();
        syntax(self.text()).into_iter().map(move |fault| field.invalid(fault))
    }
}

/// Short ways to the members of a map.
pub(super) trait Members {
    fn text(&self, name: &str) -> &str;
    fn number(&self, name: &str) -> Option<i64>;
    fn flag(&self, name: &str) -> Option<bool>;
    fn object(&self, name: &str) -> Option<&Map>;
    fn list(&self, name: &str) -> &[Value];
    /// Whether the member is there and not `null`.
    fn has(&self, name: &str) -> bool;
    fn object_mut(&mut self, name: &str) -> Option<&mut Map>;
    /// The objects in a list.
    fn objects_mut(&mut self, name: &str) -> impl Iterator<Item = &mut Map>;
    /// The object of this name, made when there is none.
    fn object_or_new(&mut self, name: &str) -> Option<&mut Map>;
    /// Sets a text that is missing or empty.
    fn default_text(&mut self, name: &str, text: &str);
    /// Sets a value that is missing or `null`.
    fn default_value(&mut self, name: &str, value: Value);
    /// Sets a number that is missing or zero.
    fn default_number(&mut self, name: &str, number: i64);
    /// Appends to a list, made when there is none.
    fn push_to(&mut self, name: &str, value: Value);
    /// Makes a member what it is in another map, or takes it away.
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
