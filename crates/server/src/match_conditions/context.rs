//! The functions and types that every expression has, and the evaluation of one with given variables.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::extractors::This;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};

use super::claims::functions;
use super::types::TYPE_NAMES;
use super::{authorizer, macros, selection};

/// A context with all functions, for the variables of one evaluation.
pub(super) fn base() -> Context<'static> {
    BASE.new_inner_scope()
}

/// The functions, and types as values.
static BASE: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    context.add_function("dyn", |This(value): This<Value>| -> ResolveResult { Ok(value) });
    context.add_function("type", |This(value): This<Value>| -> ResolveResult {
        Ok(type_value(type_name(&value)))
    });
    context.add_function("bool", |This(value): This<Value>| match value {
        Value::Bool(value) => Ok(value),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            other => Err(ExecutionError::function_error("bool", format!("{other:?} is not a boolean"))),
        },
        _ => Err(ExecutionError::NoSuchOverload),
    });
    authorizer::declare(&mut context);
    macros::declare(&mut context);
    selection::declare(&mut context);
    functions::declare(&mut context);
    for name in TYPE_NAMES {
        context.add_variable_from_value(name, type_value(name));
    }
    context
});

/// Types are represented by strings that no request can contain. The checker ensures that they are compared only with
/// each other.
fn type_value(name: &str) -> Value {
    Value::String(Arc::new(format!("\u{0}{name}")))
}

/// The name of the type of a value.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(text) if text.starts_with('\u{0}') => "type",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Function(..) | Value::Opaque(_) => "opaque",
    }
}

/// Evaluates an expression over `self`; none if it fails.
pub(super) fn convert_with(expression: &IdedExpr, value: Value) -> Option<Value> {
    let mut context = base();
    context.add_variable_from_value("self", value);
    run(expression, &context).ok()
}

/// Evaluates an expression. What the evaluator does not support is an error.
pub(super) fn run(expression: &IdedExpr, context: &Context<'_>) -> Result<Value, String> {
    let evaluated = catch_unwind(AssertUnwindSafe(|| Value::resolve(expression, context)));
    match evaluated {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the expression cannot be evaluated".to_owned()),
    }
}
