//! Evaluates single expressions over requests, within bounds.

use std::sync::Arc;

use kube_cel::cel::objects::{Key, OptionalValue};
use kube_cel::cel::{Context, Value};
use policy::review::AccessReview;
use serde_json::Value as Json;

use super::compile::{Expression, STEPS};
use super::context::{base, run, type_name};
use super::review_values::{foreign_text, longest_list, map, request};

/// The most bytes of an object that an expression about a write may go through, in all iterations together. DIVERGES:
/// Kubernetes computes a cost instead; here a loop over a large object is an error.
const WRITE_WORK: usize = 1 << 28;
/// The most values that the loops of an expression about a token may copy. DIVERGES: Kubernetes computes a cost instead.
const COPIES: usize = 1 << 24;
/// How many bytes of a request can be gone through while one byte of an expression is evaluated.
const PART: usize = 16;
/// The largest value of a variable that an expression has made, in bytes, and how deep it may nest.
const KEPT_BYTES: usize = 4 << 20;
const KEPT_DEPTH: usize = 100;
/// The maximum size of a request.
const REQUEST_BYTES: usize = 256 << 10;

/// Evaluates an expression of a rule with these variables.
pub(super) fn run_rule(
    expression: &Expression,
    variables: impl IntoIterator<Item = (&'static str, Value)>,
) -> Result<Value, String> {
    let mut context = base();
    for (name, value) in variables {
        context.add_variable_from_value(name, value);
    }
    run(&expression.parsed, &context)
}

/// A request for which expressions are evaluated.
pub(super) struct Request<'c> {
    context: Context<'c>,
    /// The length of its longest list.
    longest: usize,
    /// Its size as text.
    bytes: usize,
    /// The most iterations of the innermost part.
    steps: usize,
}

impl Request<'static> {
    /// # Errors
    /// The request is too large.
    pub(super) fn of(review: &AccessReview) -> Result<Self, String> {
        let size = serde_json::to_string(&review.spec()).map_or(usize::MAX, |text| text.len());
        if size > REQUEST_BYTES {
            return Err(format!("the request is larger than {REQUEST_BYTES} bytes"));
        }
        let mut context = base();
        context.add_variable_from_value("request", request(review));
        Ok(Self { context, longest: longest_list(review), bytes: size, steps: STEPS })
    }

    /// A write, with these variables. One without an object is null.
    pub(super) fn of_write<'v>(
        variables: impl IntoIterator<Item = (&'static str, Option<&'v serde_json::Map<String, Json>>)>,
    ) -> Self {
        let mut context = base();
        let mut measured = Measured::default();
        for (name, members) in variables {
            let value = members.map_or(Value::Null, |members| measured.members(members));
            context.add_variable_from_value(name, value);
        }
        let Measured { longest, bytes, .. } = measured;
        // In each step an expression may go through all of an object.
        Self { context, longest, bytes, steps: STEPS.min(WRITE_WORK / bytes.max(1)) }
    }

    /// A token: its claims, or its user.
    pub(super) fn of_token<'v>(
        name: &'static str,
        members: impl IntoIterator<Item = (String, &'v Json)>,
    ) -> Self {
        let mut context = base();
        let mut measured = Measured { has_doubles: true, ..Measured::default() };
        let members: Vec<_> =
            members.into_iter().map(|(name, value)| (name, measured.value(value))).collect();
        measured.longest = measured.longest.max(members.len());
        context.add_variable_from_value(name, map(members));
        let Measured { longest, bytes, .. } = measured;
        Self { context, longest, bytes, steps: STEPS.min(WRITE_WORK / bytes.max(1)) }
    }
}

impl Request<'_> {
    /// The same request, for further variables.
    pub(super) fn within(&self) -> Request<'_> {
        let Self { longest, bytes, steps, .. } = *self;
        Request { context: self.context.new_inner_scope(), longest, bytes, steps }
    }

    /// Allows one of so many evaluations its share of the work.
    pub(super) fn share(&mut self, rounds: usize) {
        self.steps = self.steps.checked_div(rounds).unwrap_or(self.steps);
    }

    /// Adds the variables about authorization.
    pub(super) fn declare_authorizer(&mut self, variables: impl IntoIterator<Item = (&'static str, Value)>) {
        for (name, value) in variables {
            self.context.add_variable_from_value(name, value);
        }
    }

    /// Adds a variable: an object, or null.
    pub(super) fn declare(&mut self, name: &str, members: Option<&serde_json::Map<String, Json>>) {
        let mut measured = Measured { longest: self.longest, bytes: self.bytes, has_doubles: false };
        let value = members.map_or(Value::Null, |members| measured.members(members));
        self.context.add_variable_from_value(name, value);
        (self.longest, self.bytes) = (measured.longest, measured.bytes);
    }

    /// Adds a variable with a value that an expression has made.
    ///
    /// # Errors
    /// The value is too large to be kept.
    pub(super) fn keep(&mut self, name: &str, value: Value) -> Result<(), String> {
        let mut made = Made { longest: 0, left: KEPT_BYTES };
        made.take(&value, KEPT_DEPTH).ok_or("its value is too large, or nested too deep")?;
        self.context.add_variable_from_value(name, value);
        self.longest = self.longest.max(made.longest);
        self.bytes = self.bytes.saturating_add(KEPT_BYTES.saturating_sub(made.left));
        Ok(())
    }

    /// How often the innermost part of an expression can run; none if the request has too many parts for that.
    fn rounds(&self, expression: &Expression) -> Option<usize> {
        let longest = expression.longest.max(self.longest);
        let longest = if expression.splits { longest.max(self.bytes) } else { longest };
        let steps = longest.checked_pow(expression.loops).filter(|steps| *steps <= self.steps.max(1))?;
        self.has_room(expression, steps).then_some(steps)
    }

    /// Whether an expression that puts several copies of what it reads into a value may do so this often.
    fn has_room(&self, expression: &Expression, steps: usize) -> bool {
        let copied = self.bytes.saturating_mul(steps).saturating_mul(expression.growth);
        expression.growth <= 1 || steps <= 1 || copied <= WRITE_WORK
    }

    /// About the bytes that an expression goes through, of the request and of its own; none if it cannot be evaluated.
    pub(super) fn cost(&self, expression: &Expression) -> Option<u64> {
        let each = self.bytes.checked_add(expression.length.checked_mul(PART)?)?;
        u64::try_from(self.rounds(expression)?.checked_mul(each)?).ok()
    }

    /// Evaluates an expression.
    pub(super) fn value_of(&self, expression: &Expression) -> Result<Value, String> {
        if self.rounds(expression).is_none() {
            return Err(
                "actual cost limit exceeded: the request has too many parts to be gone through".to_owned()
            );
        }
        run(&expression.parsed, &self.context)
    }

    /// Evaluates an expression about a token. One that builds a list in a loop is allowed more steps than a condition: a step
    /// of it only adds to the list.
    pub(super) fn evaluate_of_token(&self, expression: &Expression) -> Result<Value, String> {
        let longest = expression.longest.max(self.longest);
        let longest = if expression.splits { longest.max(self.bytes) } else { longest };
        let is_within = |depth: u32, most: usize| longest.checked_pow(depth).is_some_and(|n| n <= most);
        let has_room = self.has_room(expression, longest.saturating_pow(expression.rounds));
        if !has_room
            || !is_within(expression.rounds, self.steps.max(1))
            || !is_within(expression.loops, COPIES)
        {
            return Err(
                "actual cost limit exceeded: the token has too many parts to be gone through".to_owned()
            );
        }
        run(&expression.parsed, &self.context)
    }

    /// Evaluates a condition.
    pub(super) fn evaluate(&self, expression: &Expression) -> Result<bool, String> {
        match self.value_of(expression)? {
            Value::Bool(holds) => Ok(holds),
            other => Err(format!("must evaluate to bool, and not to {}", type_name(&other))),
        }
    }
}

/// Measures a value that an expression has made.
struct Made {
    /// The length of the longest list or map.
    longest: usize,
    /// The bytes that it may still have.
    left: usize,
}

impl Made {
    /// Takes a value; none if it is too large or nests too deep.
    fn take(&mut self, value: &Value, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let own = match value {
            Value::String(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        self.left = self.left.checked_sub(own.saturating_add(1))?;
        match value {
            Value::List(entries) => {
                self.longest = self.longest.max(entries.len());
                entries.iter().try_for_each(|entry| self.take(entry, depth))
            }
            Value::Map(map) => {
                self.longest = self.longest.max(map.map.len());
                map.map.iter().try_for_each(|(key, value)| {
                    let own = if let Key::String(text) = key { text.len() } else { 8 };
                    self.left = self.left.checked_sub(own)?;
                    self.take(value, depth)
                })
            }
            Value::Opaque(opaque) => {
                let inner = opaque.downcast_ref::<OptionalValue>().and_then(OptionalValue::value);
                inner.map_or(Some(()), |inner| self.take(inner, depth))
            }
            // Nothing that an expression makes.
            Value::Function(..) => None,
            _ => Some(()),
        }
    }
}

/// A value as text, if it is one. Types are no text.
pub(super) fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text.as_str()).filter(|text| !text.starts_with('\u{0}')),
        _ => None,
    }
}

/// Converts JSON to the values of expressions, and measures it.
#[derive(Default)]
struct Measured {
    /// The length of the longest list or map.
    longest: usize,
    /// About the size as text, in bytes.
    bytes: usize,
    /// Whether all numbers are of type double.
    has_doubles: bool,
}

impl Measured {
    fn value(&mut self, json: &Json) -> Value {
        self.bytes = self.bytes.saturating_add(1);
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) if self.has_doubles => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            Json::Number(number) => {
                let whole = number.as_i64().map(Value::Int).or_else(|| number.as_u64().map(Value::UInt));
                whole.unwrap_or_else(|| Value::Float(number.as_f64().unwrap_or(f64::NAN)))
            }
            Json::String(text) => self.text(text),
            Json::Array(entries) => {
                self.longest = self.longest.max(entries.len());
                Value::List(Arc::new(entries.iter().map(|entry| self.value(entry)).collect()))
            }
            Json::Object(members) => self.members(members),
        }
    }

    fn members(&mut self, members: &serde_json::Map<String, Json>) -> Value {
        self.longest = self.longest.max(members.len());
        map(members.iter().map(|(name, value)| {
            self.bytes = self.bytes.saturating_add(name.len());
            (name.clone(), self.value(value))
        }))
    }

    fn text(&mut self, value: &str) -> Value {
        self.bytes = self.bytes.saturating_add(value.len());
        foreign_text(value)
    }
}
