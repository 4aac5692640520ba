//! Support for expressions about tokens that expressions about requests do not need: functions that the checker puts in,
//! the names of claims, and the values of expressions.

use std::borrow::Cow;
use std::sync::Arc;

use kube_cel::cel::common::ast::operators::{
    CONDITIONAL, EQUALS, IN, INDEX, NOT_EQUALS, OPT_INDEX, OPT_SELECT,
};
use kube_cel::cel::common::ast::{Expr, IdedExpr, LiteralValue};
use kube_cel::cel::extractors::This;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};
use portcullis_apimachinery::cel;

use super::outcome::Outcome;
use crate::match_conditions::parts::{call, parts};
use crate::match_conditions::selection::OPTIONAL_FIELD;

/// Stands for `claims` where it is more than the operand of a field. No expression can call it by itself, nor the others here.
const WHOLE_CLAIMS: &str = "@whole_claims";
/// An integer as a double, also in lists.
const DOUBLES: &str = "@doubles";
/// A number or a boolean as Go writes it.
const SHOWN: &str = "@shown";
/// The parts of a text, which Kubernetes does not accept as a list of strings.
const PARTS: &str = "@parts";

/// Numbers with this exponent and above are written with it.
const WITH_EXPONENT: i32 = 6;

fn wrap(name: &str, expression: &mut IdedExpr) {
    let inner = std::mem::replace(&mut expression.expr, Expr::Unspecified);
    expression.expr = call(name, vec![IdedExpr { id: expression.id, expr: inner }]);
}

/// The claims as a whole.
pub(in crate::match_conditions) fn whole_claims() -> Expr {
    call(WHOLE_CLAIMS, Vec::new())
}

/// Makes the arguments of a function fit claims, whose numbers are doubles.
pub(in crate::match_conditions) fn adapt(function: &str, arguments: &mut [IdedExpr]) {
    match (function, arguments) {
        (EQUALS | NOT_EQUALS | IN, arguments) => {
            arguments.iter_mut().for_each(|argument| wrap(DOUBLES, argument));
        }
        ("string", [argument]) => wrap(SHOWN, argument),
        _ => {}
    }
}

/// Makes the parts of a text, if they are the value of the whole expression, an error: so they are in Kubernetes.
pub(in crate::match_conditions) fn refuse_parts(expression: &mut IdedExpr) {
    let Expr::Call(it) = &mut expression.expr else { return };
    match (it.func_name.as_str(), it.args.as_mut_slice()) {
        (CONDITIONAL, [_, one, other]) => {
            refuse_parts(one);
            refuse_parts(other);
        }
        ("dyn", [inner]) => refuse_parts(inner),
        ("split" | "findAll", _) if it.target.is_some() => wrap(PARTS, expression),
        _ => {}
    }
}

/// Declares the functions.
pub(in crate::match_conditions) fn declare(context: &mut Context<'_>) {
    context.add_function(WHOLE_CLAIMS, || -> ResolveResult {
        Err(ExecutionError::function_error("claims", "only the fields of claims can be read"))
    });
    context.add_function(PARTS, |This(_): This<Value>| -> ResolveResult {
        Err(ExecutionError::function_error(
            "split",
            "the expression must return a string or a list of strings: use map over the parts",
        ))
    });
    context.add_function(DOUBLES, |This(value): This<Value>| -> ResolveResult { Ok(doubles(&value)) });
    context.add_function(SHOWN, |This(value): This<Value>| -> ResolveResult {
        Ok(match value {
            Value::Float(number) => Value::String(Arc::new(shown(number))),
            Value::Bool(value) => Value::String(Arc::new(value.to_string())),
            other => other,
        })
    });
}

#[expect(clippy::cast_precision_loss, reason = "as Kubernetes reads the numbers of a token")]
fn doubles(value: &Value) -> Value {
    match value {
        Value::Int(number) => Value::Float(*number as f64),
        Value::UInt(number) => Value::Float(*number as f64),
        Value::List(values) if values.iter().any(|one| matches!(one, Value::Int(_) | Value::UInt(_))) => {
            Value::List(Arc::new(values.iter().map(doubles).collect()))
        }
        other => other.clone(),
    }
}

/// A number as Go writes it with the fewest digits: with an exponent below 0.0001 and from a million on.
fn shown(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let text = format!("{number:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..WITH_EXPONENT).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The escaped name of a claim, if it differs from the name.
pub(super) fn escaped(name: &str) -> Option<String> {
    cel::escaped(name).filter(|escaped| *escaped != name).map(Cow::into_owned)
}

/// Whether an expression reads a claim of this name.
pub(super) fn reads_claim(expression: &IdedExpr, name: &str) -> bool {
    let is_claims = |operand: &IdedExpr| matches!(&operand.expr, Expr::Ident(ident) if ident == "claims");
    let is_name = |field: &IdedExpr| matches!(&field.expr, Expr::Literal(LiteralValue::String(text)) if text.inner() == name);
    let own = match &expression.expr {
        Expr::Select(select) => select.field == name && is_claims(&select.operand),
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            (INDEX | OPT_INDEX | OPT_SELECT | OPTIONAL_FIELD, [operand, field]) => {
                is_claims(operand) && is_name(field)
            }
            _ => false,
        },
        _ => false,
    };
    own || parts(expression).into_iter().any(|part| reads_claim(part, name))
}

/// The value of an expression as something of a user.
pub(super) fn outcome(value: &Value) -> Outcome {
    match value {
        Value::Null => Outcome::Null,
        Value::Bool(value) => Outcome::Bool(*value),
        Value::String(_) => text(value).map_or(Outcome::Other, Outcome::Text),
        Value::List(values) => {
            values.iter().map(text).collect::<Option<Vec<_>>>().map_or(Outcome::Other, Outcome::Texts)
        }
        _ => Outcome::Other,
    }
}

/// A string; types are strings that begin with a zero, and no claim does.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.starts_with('\u{0}') => Some(text.to_string()),
        _ => None,
    }
}
