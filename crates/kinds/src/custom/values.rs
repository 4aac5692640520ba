//! Checks values against their schema, with the errors of Kubernetes. In an update, errors of parts that have not changed do
//! not count (ratcheting), so that a definition can be made stricter while there are objects.
//!
//! The work of a check is bounded: schemas with many alternatives, applied to long lists, are an error.

use std::cell::Cell;

use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_apimachinery::quote::quoted;
use serde_json::{Number, Value};

use super::formats::Format;
use super::path::{at_entry, at_member};
use super::pattern;
use super::ratchet::Old;
use super::schema::{JsonType, Limits, Schema};
use crate::Map;

/// The field of an error that is about an object as a whole.
pub const WHOLE: &str = "<nil>";

/// How much is looked at in one check: schemas applied to values, values of enumerations, and bytes of texts that are
/// matched. DIVERGES: Kubernetes has no limit.
const MAX_STEPS: u64 = 20_000_000;

/// Everything wrong with an object, by its schema. `old` is what it was before, in an update.
pub fn validate(object: &Map, old: Option<&Map>, schema: &Schema) -> FieldErrors {
    let check = Check { base: None, left: Cell::new(MAX_STEPS) };
    let mut outcome = Outcome::default();
    check.object_of(schema, object, old, &mut outcome);
    outcome.errors
}

/// Everything wrong with a value at a path.
pub(crate) fn validate_at(path: &str, value: &Value, schema: &Schema) -> FieldErrors {
    let check = Check { base: Some(path), left: Cell::new(MAX_STEPS) };
    let mut outcome = Outcome::default();
    check.value(schema, value, Old::None, &mut String::new(), &mut outcome);
    outcome.errors
}

/// The result of a check.
#[derive(Default)]
struct Outcome {
    errors: FieldErrors,
    /// How many checks were made. Of several schemas that all fail, the errors of the one with the most are shown.
    matches: u64,
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.matches = self.matches.saturating_add(other.matches);
    }
}

struct Check<'c> {
    /// The path of the value; none for a whole object.
    base: Option<&'c str>,
    /// How many steps may still be made.
    left: Cell<u64>,
}

impl Check<'_> {
    /// Whether there are this many steps left, which are taken.
    fn takes(&self, steps: u64) -> bool {
        let left = self.left.get().checked_sub(steps);
        self.left.set(left.unwrap_or_default());
        left.is_some()
    }

    /// The field of an error.
    fn field(&self, path: &str) -> String {
        match (self.base, path) {
            (None, "") => WHOLE.to_owned(),
            (None, path) => path.to_owned(),
            (Some(base), "") => base.to_owned(),
            (Some(base), path) if path.starts_with('[') => format!("{base}{path}"),
            (Some(base), path) => format!("{base}.{path}"),
        }
    }

    /// An error about the whole value.
    fn whole(&self, why: String) -> FieldError {
        FieldError::invalid(self.base.unwrap_or(WHOLE), "\"\"", why)
    }

    fn too_much(&self, outcome: &mut Outcome) {
        let error = self.whole("the object has too many parts to be checked against its schema".to_owned());
        if !outcome.errors.contains(&error) {
            outcome.errors.push(error);
        }
    }

    fn object_of(&self, schema: &Schema, object: &Map, old: Option<&Map>, outcome: &mut Outcome) {
        if old.is_some_and(|old| old == object) {
            return;
        }
        let path = &mut String::new();
        let old = old.map_or(Old::None, Old::Object);
        self.combined(schema.limits(), Either::Object(object), old, path, outcome);
        self.members(schema, object, old, path, outcome);
    }

    /// Checks a value. Errors of one that is as before do not count.
    fn value(&self, schema: &Schema, value: &Value, old: Old<'_>, path: &mut String, outcome: &mut Outcome) {
        let mut own = Outcome::default();
        self.parts(schema, value, old, path, &mut own);
        if !own.errors.is_empty() && old.is(value) {
            own.errors = FieldErrors::new();
        }
        outcome.add(own);
    }

    fn parts(&self, schema: &Schema, value: &Value, old: Old<'_>, path: &mut String, outcome: &mut Outcome) {
        if !self.takes(1) {
            self.too_much(outcome);
            return;
        }
        outcome.matches = outcome.matches.saturating_add(1);
        let limits = schema.limits();
        if let Some(wanted) = wrong_type(schema, value) {
            let found = type_name(value);
            let field = self.field(path);
            let why = format!("{field} in body must be of type {wanted}: {}", quoted(found));
            outcome.errors.push(FieldError::type_invalid(field, quoted(found), why));
        }
        if !value.is_null() {
            self.combined(limits, Either::Value(value), old, path, outcome);
        }
        match value {
            Value::String(text) => self.text(limits, text, path, outcome),
            Value::Number(number) => self.number(schema, number, path, outcome),
            Value::Array(entries) => self.entries(schema, entries, old, path, outcome),
            _ => {}
        }
        self.enumerated(limits, value, path, outcome);
        if let Value::Object(object) = value {
            self.members(schema, object, old, path, outcome);
        }
    }

    /// Checks `anyOf`, `oneOf`, `allOf` and `not`.
    fn combined(
        &self,
        limits: &Limits,
        value: Either<'_>,
        old: Old<'_>,
        path: &mut String,
        outcome: &mut Outcome,
    ) {
        let mut run = |schema: &Schema| {
            let mut own = Outcome::default();
            match value {
                Either::Value(value) => self.parts(schema, value, old, path, &mut own),
                Either::Object(object) => {
                    self.combined(schema.limits(), value, old, path, &mut own);
                    self.members(schema, object, old, path, &mut own);
                }
            }
            own
        };
        let runs = |schemas: &[Schema], run: &mut dyn FnMut(&Schema) -> Outcome| {
            schemas.iter().map(run).collect::<Vec<Outcome>>()
        };
        let [any, one, all] = [&limits.any_of, &limits.one_of, &limits.all_of].map(|of| runs(of, &mut run));
        let not = limits.not.as_deref().map(&mut run);
        // Most values are valid, and need no name.
        let name = || quoted(if path.is_empty() { self.base.unwrap_or_default() } else { path.as_str() });
        if !any.is_empty() && any.iter().all(|outcome| !outcome.errors.is_empty()) {
            outcome.errors.push(self.whole(format!("{} must validate at least one schema (anyOf)", name())));
            outcome.add(best(any));
        }
        let valid = one.iter().filter(|outcome| outcome.errors.is_empty()).count();
        if !one.is_empty() && valid != 1 {
            let found = match valid {
                0 => "Found none valid".to_owned(),
                count => format!("Found {count} valid alternatives"),
            };
            let why = format!("{} must validate one and only one schema (oneOf). {found}", name());
            outcome.errors.push(self.whole(why));
            if valid == 0 {
                outcome.add(best(one));
            }
        }
        let are_all_valid = all.iter().all(|outcome| outcome.errors.is_empty());
        all.into_iter().for_each(|of_one| outcome.add(of_one));
        if !are_all_valid {
            outcome.errors.push(self.whole(format!("{} must validate all the schemas (allOf)", name())));
        }
        if not.is_some_and(|outcome| outcome.errors.is_empty()) {
            outcome.errors.push(self.whole(format!("{} must not validate the schema (not)", name())));
        }
    }

    /// Of a text, the first thing that is wrong is told, and whether it has its format.
    fn text(&self, limits: &Limits, text: &str, path: &str, outcome: &mut Outcome) {
        self.length_or_pattern(limits, text, path, outcome);
        if let Some(format) = limits.format.filter(|format| !format.holds(text)) {
            let field = self.field(path);
            let why = format!("{field} in body must be of type {}: {}", format.name(), quoted(text));
            outcome.errors.push(FieldError::type_invalid(field, quoted(text), why));
        }
    }

    fn length_or_pattern(&self, limits: &Limits, text: &str, path: &str, outcome: &mut Outcome) {
        let is_long_way = limits.min_length.is_some() || limits.max_length.is_some();
        let length = if is_long_way { text.chars().count() } else { 0 };
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        if let Some(most) = limits.max_length.filter(|most| length > *most) {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            outcome.errors.push(FieldError::too_long(self.field(path), most));
            return;
        }
        if let Some(least) = limits.min_length.filter(|least| length < *least) {
            let why = format!("{} in body should be at least {least} chars long", self.field(path));
            outcome.errors.push(FieldError::invalid(self.field(path), quoted(text), why));
            return;
        }
        if let Some(wanted) = &limits.pattern {
            if !self.takes(u64::try_from(text.len() / 8).unwrap_or(u64::MAX)) {
                self.too_much(outcome);
            } else if !pattern::matches(wanted, text) {
                let why = format!("{} in body should match '{wanted}'", self.field(path));
                outcome.errors.push(FieldError::invalid(self.field(path), quoted(text), why));
            }
        }
    }

    fn number(&self, schema: &Schema, number: &Number, path: &str, outcome: &mut Outcome) {
        let limits = schema.limits();
        let value = number.as_f64().unwrap_or(f64::NAN);
        let mut wrong = |why: String| {
            let field = self.field(path);
            let why = format!("{field} in body should be {why}");
            outcome.errors.push(FieldError::invalid(field, number, why));
        };
        if let Some(of) = limits.multiple_of.filter(|of| *of > 0.0) {
            let times = value / of;
            if times != times.trunc() {
                wrong(format!("a multiple of {of}"));
            }
        }
        match (limits.maximum, limits.is_maximum_exclusive) {
            (Some(most), true) if value >= most => wrong(format!("less than {most}")),
            (Some(most), false) if value > most => wrong(format!("less than or equal to {most}")),
            _ => {}
        }
        match (limits.minimum, limits.is_minimum_exclusive) {
            (Some(least), true) if value <= least => wrong(format!("greater than {least}")),
            (Some(least), false) if value < least => wrong(format!("greater than or equal to {least}")),
            _ => {}
        }
        if schema.kind == Some(JsonType::Integer) || schema.is_int_or_string {
            let is_in_range = match limits.format {
                Some(Format::Int32) => whole(number).is_some_and(|n| i32::try_from(n).is_ok()),
                _ => whole(number).is_some(),
            };
            if !is_in_range {
                let format = match limits.format {
                    Some(format @ (Format::Int32 | Format::Int64)) => {
                        format!("with format {}", format.name())
                    }
                    _ => "(default format)".to_owned(),
                };
                let field = self.field(path);
                outcome
                    .errors
                    .push(self.whole(format!("Checked value must be of type integer {format} in {field}")));
            }
        }
    }

    fn entries(
        &self,
        schema: &Schema,
        entries: &[Value],
        old: Old<'_>,
        path: &mut String,
        outcome: &mut Outcome,
    ) {
        if let Some(items) = schema.items.as_deref() {
            let before = old.entries(schema);
            for (at, entry) in entries.iter().enumerate() {
                let old = before.entry(entry, schema);
                at_entry(path, at, |path| self.value(items, entry, old, path, outcome));
            }
        }
        let limits = schema.limits();
        let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        if let Some(least) = limits.min_items.filter(|least| count < *least) {
            let why = format!("{} in body should have at least {least} items", self.field(path));
            outcome.errors.push(FieldError::invalid(self.field(path), count, why));
        }
        if let Some(most) = limits.max_items.filter(|most| count > *most) {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            outcome.errors.push(FieldError::too_many(self.field(path), entries.len(), most));
        }
    }

    fn members(&self, schema: &Schema, object: &Map, old: Old<'_>, path: &mut String, outcome: &mut Outcome) {
        let limits = schema.limits();
        let count = u64::try_from(object.len()).unwrap_or(u64::MAX);
        if let Some(least) = limits.min_properties.filter(|least| count < *least) {
            let why = format!("{} in body should have at least {least} properties", self.field(path));
            outcome.errors.push(FieldError::invalid(self.field(path), count, why));
            return;
        }
        if let Some(most) = limits.max_properties.filter(|most| count > *most) {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            outcome.errors.push(FieldError::too_many(self.field(path), object.len(), most));
            return;
        }
        for name in limits.required.iter().filter(|name| !object.contains_key(&***name)) {
            at_member(path, name, |path| outcome.errors.push(FieldError::required(self.field(path), "")));
        }
        for (name, value) in object {
            if let Some(member) = schema.member(name) {
                let old = old.member(name, schema);
                at_member(path, name, |path| self.value(member, value, old, path, outcome));
            }
        }
    }

    fn enumerated(&self, limits: &Limits, value: &Value, path: &str, outcome: &mut Outcome) {
        let Some(values) = &limits.values else { return };
        if !self.takes(u64::try_from(values.len()).unwrap_or(u64::MAX)) {
            self.too_much(outcome);
        } else if !values.iter().any(|known| is_same(known, value)) {
            let texts: Vec<String> = values.iter().map(shown).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            outcome.errors.push(FieldError::not_supported(self.field(path), value, &texts));
        }
    }
}

/// A value, or an object that is one.
#[derive(Clone, Copy)]
enum Either<'v> {
    Value(&'v Value),
    Object(&'v Map),
}

/// Of several that failed, the one that came furthest.
fn best(outcomes: Vec<Outcome>) -> Outcome {
    let further = |a: Outcome, b: Outcome| if b.matches > a.matches { b } else { a };
    outcomes.into_iter().reduce(further).unwrap_or_default()
}

/// The type that a value must have, if it has another one.
fn wrong_type(schema: &Schema, value: &Value) -> Option<&'static str> {
    let wanted = match (schema.kind, schema.is_int_or_string) {
        (_, true) => "integer,string",
        (Some(kind), _) => kind.name(),
        (None, false) => return None,
    };
    let is_right = match (value, schema.kind) {
        (Value::Null, _) => schema.is_nullable,
        (Value::String(_), _) if schema.is_int_or_string => true,
        (Value::Number(number), _) if schema.is_int_or_string => is_whole(number),
        (_, _) if schema.is_int_or_string => false,
        (Value::Bool(_), Some(kind)) => kind == JsonType::Boolean,
        (Value::Number(number), Some(JsonType::Integer)) => is_whole(number),
        (Value::Number(_), Some(kind)) => kind == JsonType::Number,
        (Value::String(_), Some(kind)) => kind == JsonType::String,
        (Value::Array(_), Some(kind)) => kind == JsonType::Array,
        (Value::Object(_), Some(kind)) => kind == JsonType::Object,
        (_, None) => true,
    };
    (!is_right).then_some(wanted)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_whole(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|value| value == value.trunc())
}

/// The whole number, if it is one of 64 bits.
fn whole(number: &Number) -> Option<i64> {
    match number.as_f64().filter(|_| number.is_f64()) {
        None => number.as_i64(),
        Some(value) => format!("{value:.0}").parse().ok().filter(|_| value == value.trunc()),
    }
}

/// Whether two values are equal: numbers by their value.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() != b.is_f64() => a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

/// A value of an enumeration in an error.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
