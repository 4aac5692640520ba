//! The selection of fields of optional values, which the evaluator does not know: a field of an absent value is absent,
//! and `a.?b.c` is an optional value as `a.?b.?c` is.
//!
//! The checker replaces such selections by calls of the functions here. No expression can call them by itself, because
//! their names are not names of CEL.

use std::sync::Arc;

use kube_cel::cel::common::ast::{Expr, LiteralValue, SelectExpr};
use kube_cel::cel::objects::{KeyRef, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};

use super::parts::{call, part};

/// `a.b`: optional if `a` is.
pub(super) const FIELD: &str = "@field";
/// `has(a.b)`.
const HAS_FIELD: &str = "@has_field";
/// `a.?b`: always optional.
pub(super) const OPTIONAL_FIELD: &str = "@optional_field";

/// Returns the call for a selection from a value that is, or may be, optional.
pub(super) fn of(select: SelectExpr) -> Expr {
    let field = part(Expr::Literal(LiteralValue::String(select.field.into())));
    call(if select.test { HAS_FIELD } else { FIELD }, vec![*select.operand, field])
}

/// Declares the functions.
pub(super) fn declare(context: &mut Context<'_>) {
    context.add_function(FIELD, |operand: Value, field: Arc<String>| -> ResolveResult {
        match optional(&operand) {
            Some(_) => Ok(as_value(selected(&operand, &field)?)),
            None => selected(&operand, &field)?.ok_or(ExecutionError::NoSuchKey(field)),
        }
    });
    context.add_function(HAS_FIELD, |operand: Value, field: Arc<String>| {
        selected(&operand, &field).map(|found| found.is_some())
    });
    context.add_function(OPTIONAL_FIELD, |operand: Value, field: Arc<String>| -> ResolveResult {
        selected(&operand, &field).map(as_value)
    });
}

fn optional(value: &Value) -> Option<&OptionalValue> {
    <&OptionalValue>::try_from(value).ok()
}

fn as_value(found: Option<Value>) -> Value {
    Value::Opaque(Arc::new(found.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// Returns a field of an object, or of the object in an optional value; none if there is none.
fn selected(operand: &Value, field: &str) -> Result<Option<Value>, ExecutionError> {
    let operand = match optional(operand) {
        None => operand,
        Some(inner) => match inner.value() {
            None => return Ok(None),
            Some(inner) => inner,
        },
    };
    let Value::Map(map) = operand else { return Err(ExecutionError::NoSuchOverload) };
    Ok(map.get(&KeyRef::String(field)).cloned())
}
