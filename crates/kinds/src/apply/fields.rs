//! The fields of a value, and whether it has the form that its schema says.

use std::cell::OnceCell;
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
    checker.members(schema, object, None);
    checker.faults
}

/// The place of a value: a list of steps on the stack, because hardly any value has a fault that needs it as text.
#[derive(Clone, Copy)]
struct Place<'p> {
    outer: Option<&'p Place<'p>>,
    step: At<'p>,
}

#[derive(Clone, Copy)]
enum At<'p> {
    Member(&'p str),
    Index(usize),
    /// An entry of a list, with its step as people read it: shown once, however many faults the entry has.
    Entry(&'p str, &'p OnceCell<String>),
}

impl Place<'_> {
    /// Appends the path, up to the size that is told.
    fn show(&self, path: &mut String) {
        if let Some(outer) = self.outer {
            outer.show(path);
        }
        let mut push = |text: &str| {
            // Names can be as long as a body.
            let mut characters = text.chars();
            while path.len() <= MAX_PATH
                && let Some(character) = characters.next()
            {
                path.push(character);
            }
        };
        match self.step {
            At::Member(name) => {
                push(".");
                push(name);
            }
            At::Index(index) => push(&format!("[{index}]")),
            At::Entry(step, shown) => push(shown.get_or_init(|| {
                let mut shown = String::new();
                step::show(step, &mut shown);
                shown
            })),
        }
    }
}

#[derive(Default)]
struct Checker {
    faults: Vec<String>,
}

impl Checker {
    fn report(&mut self, outer: Option<&Place<'_>>, fault: impl std::fmt::Display) {
        if self.faults.len() < MAX_FAULTS {
            let mut path = String::new();
            if let Some(place) = outer {
                place.show(&mut path);
            }
            let path = path.get(..path.floor_char_boundary(MAX_PATH)).unwrap_or_default();
            self.faults.push(format!("{path}: {fault}"));
        }
    }

    fn check<S: Schema>(&mut self, schema: S, value: &Value, place: &Place<'_>) {
        if value.is_null() {
            return;
        }
        let structure = schema.structure();
        match (structure, value) {
            (Structure::AnyAtomic | Structure::Deduced, _) => {}
            (Structure::Scalar(scalar), value) => self.scalar(scalar, value, place),
            (Structure::AtomicList | Structure::Set | Structure::KeyedList, Value::Array(items)) => {
                self.list(schema, items, place);
            }
            (Structure::AtomicMap | Structure::Map, Value::Object(members)) => {
                self.members(schema, members, Some(place));
            }
            (Structure::AtomicMap | Structure::Map, other) => self.mismatch("map", other, place),
            (Structure::AtomicList | Structure::Set | Structure::KeyedList, other) => {
                self.mismatch("list", other, place);
            }
        }
    }

    fn members<S: Schema>(&mut self, schema: S, members: &Map, outer: Option<&Place<'_>>) {
        for (name, value) in members {
            let place = Place { outer, step: At::Member(name) };
            match schema.field(name).or_else(|| schema.inner()) {
                Some(inner) => self.check(inner, value, &place),
                None => self.report(Some(&place), "field not declared in schema"),
            }
        }
    }

    fn list<S: Schema>(&mut self, schema: S, items: &[Value], place: &Place<'_>) {
        let outer = Some(place);
        let inner = schema.inner();
        if schema.structure() == Structure::AtomicList {
            for (index, item) in items.iter().enumerate() {
                if let Some(inner) = inner {
                    self.check(inner, item, &Place { outer, step: At::Index(index) });
                }
            }
            return;
        }
        let mut seen = HashSet::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let step = match step::entry(schema, item) {
                Ok(step) => step,
                Err(why) => {
                    self.report(outer, format_args!("element {index}: {why}"));
                    continue;
                }
            };
            if let Some(inner) = inner {
                self.check(inner, item, &Place { outer, step: At::Entry(&step, &OnceCell::new()) });
            }
            if let Some(step) = seen.replace(step) {
                let mut shown = String::new();
                step::show(&step, &mut shown);
                self.report(outer, format_args!("duplicate entries for key {shown}"));
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value, place: &Place<'_>) {
        let (is_right, wanted) = match scalar {
            Scalar::Any => (!value.is_array() && !value.is_object(), "any scalar"),
            Scalar::Bool => (value.is_boolean(), "boolean"),
            Scalar::Number => (value.is_number(), "numeric (int or float)"),
            Scalar::Text => (value.is_string(), "string"),
        };
        if !is_right {
            self.mismatch(wanted, value, place);
        }
    }

    fn mismatch(&mut self, wanted: &str, found: &Value, place: &Place<'_>) {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "list",
            Value::Object(_) => "map",
        };
        self.report(Some(place), format_args!("expected {wanted}, got {found}"));
    }
}
