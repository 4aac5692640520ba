//! The fields of a value, and whether it has the form that its schema says.

use std::collections::HashSet;

use serde_json::Value;

use crate::Map;

use super::schema::{Scalar, Schema, Structure};
use super::set::FieldSet;
use super::step;

/// The maximum number of faults that are told.
const MAX_FAULTS: usize = 100;
/// The maximum size of the path of a fault, in bytes.
const MAX_PATH: usize = 8 * 1024;

/// The fields that a value sets: plain values, what has one owner, entries of lists, members of maps, and what is empty.
pub fn fields<S: Schema>(schema: S, object: &Map) -> FieldSet {
    let mut set = FieldSet::default();
    of_members(schema, object, &mut set);
    set
}

fn of_value<S: Schema>(schema: S, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match (schema.structure(), value) {
        (Structure::Set | Structure::KeyedList, Value::Array(items)) => {
            for item in items {
                let Ok(step) = step::entry(schema, item) else { continue };
                let mut inner = schema.inner().map(|inner| of_value(inner, item)).unwrap_or_default();
                inner.insert_self();
                set.insert(step, inner);
            }
        }
        (Structure::Map | Structure::Deduced, Value::Object(members)) => {
            of_members(schema, members, &mut set);
        }
        (Structure::Set | Structure::KeyedList | Structure::Map, Value::Null) => {}
        _ => set.insert_self(),
    }
    set
}

fn of_members<S: Schema>(schema: S, members: &Map, set: &mut FieldSet) {
    for (name, value) in members {
        let named = schema.field(name);
        let Some(inner) = named.or_else(|| schema.inner()) else { continue };
        let mut inner = of_value(inner, value);
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        if is_empty || named.is_none() {
            inner.insert_self();
        }
        set.insert(step::field(name), inner);
    }
}

/// Returns the errors of an object: fields that the schema does not have, values of other types, and entries of lists that
/// cannot be told apart.
pub fn faults<S: Schema>(schema: S, object: &Map) -> Vec<String> {
    let mut checker = Checker::default();
    checker.members(schema, object);
    checker.faults
}

#[derive(Default)]
struct Checker {
    path: String,
    faults: Vec<String>,
}

impl Checker {
    fn report(&mut self, fault: impl std::fmt::Display) {
        if self.faults.len() < MAX_FAULTS {
            let path = self.path.get(..self.path.floor_char_boundary(MAX_PATH)).unwrap_or_default();
            self.faults.push(format!("{path}: {fault}"));
        }
    }

    fn below(&mut self, step: &str, act: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        step::show(step, &mut self.path);
        act(self);
        self.path.truncate(length);
    }

    fn check<S: Schema>(&mut self, schema: S, value: &Value) {
        if value.is_null() {
            return;
        }
        let structure = schema.structure();
        match (structure, value) {
            (Structure::AnyAtomic | Structure::Deduced, _) => {}
            (Structure::Scalar(scalar), value) => self.scalar(scalar, value),
            (Structure::AtomicList | Structure::Set | Structure::KeyedList, Value::Array(items)) => {
                self.list(schema, items);
            }
            (Structure::AtomicMap | Structure::Map, Value::Object(members)) => {
                self.members(schema, members);
            }
            (Structure::AtomicMap | Structure::Map, other) => self.mismatch("map", other),
            (Structure::AtomicList | Structure::Set | Structure::KeyedList, other) => {
                self.mismatch("list", other);
            }
        }
    }

    fn members<S: Schema>(&mut self, schema: S, members: &Map) {
        for (name, value) in members {
            let inner = schema.field(name).or_else(|| schema.inner());
            self.below(&step::field(name), |checker| match inner {
                Some(inner) => checker.check(inner, value),
                None => checker.report("field not declared in schema"),
            });
        }
    }

    fn list<S: Schema>(&mut self, schema: S, items: &[Value]) {
        let is_atomic = schema.structure() == Structure::AtomicList;
        let mut seen = HashSet::new();
        for (index, item) in items.iter().enumerate() {
            let step = match is_atomic {
                true => format!("i:{index}").into(),
                false => match step::entry(schema, item) {
                    Ok(step) => step,
                    Err(why) => {
                        self.report(format_args!("element {index}: {why}"));
                        continue;
                    }
                },
            };
            if let Some(inner) = schema.inner() {
                self.below(&step, |checker| checker.check(inner, item));
            }
            if !is_atomic && !seen.insert(step.clone()) {
                let mut shown = String::new();
                step::show(&step, &mut shown);
                self.report(format_args!("duplicate entries for key {shown}"));
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        let (is_right, wanted) = match scalar {
            Scalar::Any => (!value.is_array() && !value.is_object(), "any scalar"),
            Scalar::Bool => (value.is_boolean(), "boolean"),
            Scalar::Number => (value.is_number(), "numeric (int or float)"),
            Scalar::Text => (value.is_string(), "string"),
        };
        if !is_right {
            self.mismatch(wanted, value);
        }
    }

    fn mismatch(&mut self, wanted: &str, found: &Value) {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "list",
            Value::Object(_) => "map",
        };
        self.report(format_args!("expected {wanted}, got {found}"));
    }
}
