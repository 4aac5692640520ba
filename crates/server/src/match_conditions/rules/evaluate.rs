//! Evaluates the rules of a schema over an object.

use std::cell::Cell;
use std::sync::Arc;

use kinds::Map;
use kinds::custom::{JsonType, Old, Rule, Rules, Schema, WHOLE};
use kube_cel::cel::Value;
use kube_cel::cel::objects::OptionalValue;
use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_apimachinery::quote::quoted;
use serde_json::Value as Json;

use super::values::Converted;
use crate::match_conditions::compile::Expression;
use crate::match_conditions::evaluate::run_rule;

/// The budget of the rules of one write, in bytes that they read, approximately.
const BUDGET: u64 = 1 << 27;
/// How many evaluations cost as much as one kilobyte.
const EACH: u64 = 1 << 10;
/// The longest message of an expression.
const MAX_MESSAGE: usize = 2 << 10;

/// A compiled rule.
#[derive(Debug)]
pub(super) struct CompiledRule {
    pub(super) rule: Rule,
    pub(super) compiled: Expression,
    /// Makes the message.
    pub(super) message: Option<Expression>,
    /// Whether it compares with the old value.
    pub(super) reads_old: bool,
    /// The field of its errors, below that of the value.
    pub(super) below: Option<Box<str>>,
}

/// The rules of a schema and of its parts. Parts without rules are left out.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) rules: Vec<CompiledRule>,
    pub(super) properties: Vec<(Box<str>, Node)>,
    pub(super) additional: Option<Box<Node>>,
    pub(super) items: Option<Box<Node>>,
}

/// The rules of a whole schema.
#[derive(Debug)]
pub(super) struct CompiledRules {
    pub(super) root: Node,
}

impl Rules for CompiledRules {
    fn check(&self, schema: &Schema, object: &Map, old: Option<&Map>) -> FieldErrors {
        let mut walk = Walk { errors: FieldErrors::new(), left: Cell::new(Some(BUDGET)) };
        let old = old.map_or(Old::None, Old::Object);
        walk.rules(&self.root, schema, This::Object(object), old, "");
        walk.members(&self.root, schema, object, old, "");
        if walk.left.get().is_none() {
            let why = "validation failed due to running out of cost budget, no further validation rules will be run";
            walk.errors.push(FieldError::invalid(WHOLE, "\"null\"", why));
        }
        walk.errors
    }
}

/// The value that rules are about.
#[derive(Clone, Copy)]
enum This<'v> {
    Value(&'v Json),
    Object(&'v Map),
}

struct Walk {
    errors: FieldErrors,
    /// The remaining budget; none once it is exceeded.
    left: Cell<Option<u64>>,
}

impl Walk {
    fn value(&mut self, node: &Node, schema: &Schema, value: &Json, old: Old<'_>, path: &str) {
        if value.is_null() || self.left.get().is_none() {
            return;
        }
        self.rules(node, schema, This::Value(value), old, path);
        match value {
            Json::Object(object) => self.members(node, schema, object, old, path),
            Json::Array(entries) => {
                let (Some(inner), Some(items)) = (node.items.as_deref(), schema.items.as_deref()) else {
                    return;
                };
                let before = old.entries(schema);
                for (at, entry) in entries.iter().enumerate() {
                    self.value(inner, items, entry, before.entry(entry, schema), &format!("{path}[{at}]"));
                }
            }
            _ => {}
        }
    }

    fn members(&mut self, node: &Node, schema: &Schema, object: &Map, old: Old<'_>, path: &str) {
        for (name, inner) in &node.properties {
            let (Some(value), Some(property)) = (object.get(&**name), schema.property(name)) else {
                continue;
            };
            let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            self.value(inner, property, value, old.member(name, schema), &path);
        }
        let (Some(inner), Some(additional)) = (node.additional.as_deref(), schema.additional()) else {
            return;
        };
        for (name, value) in object.iter().filter(|(name, _)| schema.property(name).is_none()) {
            self.value(inner, additional, value, old.member(name, schema), &format!("{path}[{name}]"));
        }
    }

    /// Evaluates the rules of one value.
    fn rules(&mut self, node: &Node, schema: &Schema, this: This<'_>, old: Old<'_>, path: &str) {
        if node.rules.is_empty() {
            return;
        }
        let is_same = match this {
            This::Value(value) => old.is(value),
            This::Object(object) => matches!(old, Old::Object(old) if old == object),
        };
        let mut measured = Converted::default();
        let value = match this {
            This::Value(Json::Object(object)) => measured.object(object, schema, false),
            This::Value(value) => measured.value(value, schema),
            This::Object(object) => measured.object(object, schema, true),
        };
        let reads_old = node.rules.iter().any(|rule| rule.reads_old);
        let before = match old {
            _ if !reads_old => None,
            Old::None => None,
            Old::Value(Json::Null) => None,
            Old::Value(Json::Object(object)) => Some(measured.object(object, schema, false)),
            Old::Value(old) => Some(measured.value(old, schema)),
            Old::Object(old) => Some(measured.object(old, schema, true)),
        };
        for rule in &node.rules {
            let old = match (rule.reads_old, rule.rule.optional_old_self == Some(true), &before) {
                (false, _, _) => None,
                (true, true, before) => Some(optional(before.clone())),
                // A rule about a change says nothing about what is new.
                (true, false, None) => continue,
                (true, false, Some(before)) => Some(before.clone()),
            };
            // What has not changed stays valid when a rule is added.
            if !rule.reads_old && is_same {
                continue;
            }
            if !self.takes(&rule.compiled, &measured) {
                return;
            }
            self.rule(rule, schema, (&value, old), &measured, path);
        }
    }

    /// Whether an expression may be evaluated, which is charged.
    fn takes(&self, expression: &Expression, measured: &Converted) -> bool {
        let longest = match expression.splits {
            true => measured.longest.max(measured.longest_text),
            false => measured.longest,
        };
        let cost = expression.steps(longest).and_then(|steps| {
            let bytes = u64::try_from(measured.bytes).ok()?;
            let copies = if steps > 1 { expression.growth } else { 1 };
            let steps = u64::try_from(steps.checked_mul(copies)?).ok()?;
            steps.checked_mul(bytes.max(64))?.checked_add(EACH)
        });
        let left = self.left.get().and_then(|left| left.checked_sub(cost?));
        self.left.set(left);
        left.is_some()
    }

    fn rule(
        &mut self,
        rule: &CompiledRule,
        schema: &Schema,
        (value, old): (&Value, Option<Value>),
        measured: &Converted,
        path: &str,
    ) {
        let variables = || {
            let old = old.clone().map(|old| ("oldSelf", old));
            std::iter::once(("self", value.clone())).chain(old)
        };
        let text = &rule.rule.rule;
        // The value can be large. As in Kubernetes, its type stands for it.
        let value_type = quoted(schema.kind.map_or("", JsonType::name));
        let field = match (&rule.below, path) {
            (None, "") => WHOLE.to_owned(),
            (None, path) => path.to_owned(),
            (Some(below), "") => below.to_string(),
            (Some(below), path) if below.starts_with('[') => format!("{path}{below}"),
            (Some(below), path) => format!("{path}.{below}"),
        };
        match run_rule(&rule.compiled, variables()) {
            Ok(Value::Bool(true)) => return,
            Ok(Value::Bool(false)) => {}
            Ok(_) => {
                self.errors.push(FieldError::invalid(
                    field,
                    value_type,
                    format!("rule evaluates to no bool: {text}"),
                ));
                return;
            }
            Err(why) => {
                self.errors.push(FieldError::invalid(field, value_type, format!("rule: {text}: {why}")));
                return;
            }
        }
        let made = rule.message.as_ref().filter(|message| self.takes(message, measured));
        let made = made.and_then(|message| match run_rule(message, variables()) {
            Ok(Value::String(text)) => Some(text.trim().to_owned()),
            _ => None,
        });
        let made = made.filter(|text| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n'));
        let message = made.unwrap_or_else(|| match rule.rule.message.trim() {
            "" => format!("failed rule: {}", text.trim()),
            text => text.to_owned(),
        });
        self.errors.push(match &*rule.rule.reason {
            "FieldValueForbidden" => FieldError::forbidden(field, message),
            "FieldValueRequired" => FieldError::required(field, message),
            "FieldValueDuplicate" => FieldError::duplicate(field, message),
            _ => FieldError::invalid(field, value_type, message),
        });
    }
}

/// An optional value.
fn optional(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}
