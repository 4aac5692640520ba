//! Macros that the parser does not know: `optMap` and `optFlatMap`, loops over two variables, and `cel.bind`, which only
//! selectors of devices have. They become the loops that the language defines them as, so that types and costs of them
//! are found as those of all others.
//!
//! The evaluator knows loops over one variable only. After the types are checked, a loop over two becomes one over pairs.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::operators::{
    ADD, CONDITIONAL, EQUALS, INDEX, LOGICAL_AND, LOGICAL_NOT, LOGICAL_OR, NOT_STRICTLY_FALSE,
};
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr,
};
use kube_cel::cel::extractors::Arguments;
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};

use super::parts::{call, part, parts_mut};

/// Adds an entry, or the entries of another map, to a map, none of whose keys may be there already. No expression can call
/// the functions here by themselves, because their names are not names of CEL.
pub(super) const INSERT: &str = "cel.@mapInsert";
/// The list of the value of an optional value; empty without one.
pub(super) const PRESENT: &str = "@present";
/// The optional value of a list of one or none.
pub(super) const OPTIONAL: &str = "@optional";
/// The list of the pairs of index and value of a list, or of key and value of a map.
pub(super) const PAIRS: &str = "@pairs";
/// What a loop has made so far.
const RESULT: &str = "@result";

/// Whether a loop goes round at most once, because it is none in the text.
pub(super) fn is_single(it: &ComprehensionExpr) -> bool {
    match &it.iter_range.expr {
        Expr::Call(call) => call.func_name == PRESENT,
        Expr::List(list) => list.elements.is_empty(),
        _ => false,
    }
}

/// Whether a loop builds a list or a map, which it copies each time.
pub(super) fn is_building(it: &ComprehensionExpr) -> bool {
    !is_single(it) && matches!(it.accu_init.expr, Expr::List(_) | Expr::Map(_))
}

/// Replaces the macros of an expression by loops.
///
/// # Errors
/// A variable of a macro is no name, or is there twice.
pub(super) fn expand(expression: &mut IdedExpr, has_bind: bool) -> Result<(), String> {
    for inner in parts_mut(expression) {
        expand(inner, has_bind)?;
    }
    let Expr::Call(call) = &mut expression.expr else { return Ok(()) };
    let Some(target) = call.target.as_deref_mut() else { return Ok(()) };
    let is_macro = match (call.func_name.as_str(), call.args.len()) {
        ("optMap" | "optFlatMap", 2) | ("all" | "exists" | "existsOne" | "exists_one", 3) => true,
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => true,
        ("bind", 3) => has_bind && matches!(&target.expr, Expr::Ident(name) if name == "cel"),
        _ => false,
    };
    if is_macro {
        let target = std::mem::take(target);
        expression.expr = Expr::Comprehension(Box::new(of(call, target)?));
    }
    Ok(())
}

/// The loop of a macro with this target.
fn of(call: &mut CallExpr, target: IdedExpr) -> Result<ComprehensionExpr, String> {
    let mut arguments = std::mem::take(&mut call.args).into_iter();
    let mut next = || arguments.next().unwrap_or_default();
    let name = call.func_name.as_str();
    let first = variable(&next())?;
    match name {
        "bind" => return Ok(bound(first, next(), next())),
        "optMap" => return Ok(of_present(target, first, part(Expr::List(ListExpr::new(vec![next()]))))),
        "optFlatMap" => return Ok(of_present(target, first, operation(PRESENT, vec![next()]))),
        _ => {}
    }
    let second = variable(&next())?;
    if first == second {
        return Err(format!("duplicate variable name: {first}"));
    }
    let (body, transform) = (next(), arguments.next());
    let (filter, body) = match transform {
        Some(transform) => (Some(body), transform),
        None => (None, body),
    };
    let (accu_init, step) = match name {
        "all" => (boolean(true), operation(LOGICAL_AND, vec![result(), body])),
        "exists" => (boolean(false), operation(LOGICAL_OR, vec![result(), body])),
        "transformList" => {
            let (empty, one) = (ListExpr::new(Vec::new()), ListExpr::new(vec![body]));
            (part(Expr::List(empty)), operation(ADD, vec![result(), part(Expr::List(one))]))
        }
        "transformMap" => (empty_map(), operation(INSERT, vec![result(), ident(&first), body])),
        "transformMapEntry" => (empty_map(), operation(INSERT, vec![result(), body])),
        _ => {
            let more = operation(ADD, vec![result(), number(1)]);
            (number(0), operation(CONDITIONAL, vec![body, more, result()]))
        }
    };
    let loop_step = match filter {
        Some(filter) => operation(CONDITIONAL, vec![filter, step, result()]),
        None => step,
    };
    let loop_cond = match name {
        "all" => operation(NOT_STRICTLY_FALSE, vec![result()]),
        "exists" => operation(NOT_STRICTLY_FALSE, vec![operation(LOGICAL_NOT, vec![result()])]),
        _ => boolean(true),
    };
    let is_one = matches!(name, "existsOne" | "exists_one");
    Ok(ComprehensionExpr {
        iter_range: target,
        iter_var: first,
        iter_var2: Some(second),
        accu_var: RESULT.to_owned(),
        accu_init,
        loop_cond,
        loop_step,
        result: if is_one { operation(EQUALS, vec![result(), number(1)]) } else { result() },
    })
}

/// Goes over the value of an optional value, and makes an optional value of it. Meanwhile that is a list, because the
/// evaluator takes optional values for what is in them when it copies them.
fn of_present(target: IdedExpr, variable: String, step: IdedExpr) -> ComprehensionExpr {
    ComprehensionExpr {
        iter_range: operation(PRESENT, vec![target]),
        iter_var: variable,
        iter_var2: None,
        accu_var: RESULT.to_owned(),
        accu_init: part(Expr::List(ListExpr::new(Vec::new()))),
        loop_cond: boolean(true),
        loop_step: step,
        result: operation(OPTIONAL, vec![result()]),
    }
}

/// Evaluates an expression in which a variable has a value.
fn bound(variable: String, value: IdedExpr, body: IdedExpr) -> ComprehensionExpr {
    ComprehensionExpr {
        iter_range: part(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "@unused".to_owned(),
        iter_var2: None,
        loop_step: ident(&variable),
        accu_var: variable,
        accu_init: value,
        loop_cond: boolean(false),
        result: body,
    }
}

fn variable(expression: &IdedExpr) -> Result<String, String> {
    match &expression.expr {
        Expr::Ident(name) => Ok(name.clone()),
        _ => Err("argument must be a simple name".to_owned()),
    }
}

fn operation(function: &str, arguments: Vec<IdedExpr>) -> IdedExpr {
    part(call(function, arguments))
}

fn ident(name: &str) -> IdedExpr {
    part(Expr::Ident(name.to_owned()))
}

fn result() -> IdedExpr {
    ident(RESULT)
}

fn boolean(value: bool) -> IdedExpr {
    part(Expr::Literal(LiteralValue::Boolean(value.into())))
}

fn number(value: i64) -> IdedExpr {
    part(Expr::Literal(LiteralValue::Int(value.into())))
}

fn empty_map() -> IdedExpr {
    part(Expr::Map(MapExpr::default()))
}

/// Makes loops over two variables such over pairs, for the evaluator.
pub(super) fn lower(expression: &mut IdedExpr) {
    if let Expr::Comprehension(it) = &mut expression.expr
        && let Some(second) = it.iter_var2.take()
    {
        // Loops that hide only one of the two variables have another name.
        let pair = format!("@{},{second}", it.iter_var);
        let first = std::mem::replace(&mut it.iter_var, pair.clone());
        for (at, name) in [(0, &first), (1, &second)] {
            let member = operation(INDEX, vec![ident(&pair), number(at)]);
            for part in [&mut it.loop_cond, &mut it.loop_step] {
                replace(part, name, &member);
            }
        }
        let range = std::mem::take(&mut it.iter_range);
        it.iter_range = operation(PAIRS, vec![range]);
    }
    parts_mut(expression).into_iter().for_each(lower);
}

/// Replaces a variable, except where a loop has another of its name.
fn replace(expression: &mut IdedExpr, name: &str, by: &IdedExpr) {
    match &mut expression.expr {
        Expr::Ident(ident) if ident == name => expression.expr = by.expr.clone(),
        Expr::Comprehension(it) => {
            replace(&mut it.iter_range, name, by);
            replace(&mut it.accu_init, name, by);
            let is_hidden = it.accu_var == name;
            if !is_hidden && it.iter_var != name && it.iter_var2.as_deref() != Some(name) {
                replace(&mut it.loop_cond, name, by);
                replace(&mut it.loop_step, name, by);
            }
            if !is_hidden {
                replace(&mut it.result, name, by);
            }
        }
        _ => parts_mut(expression).into_iter().for_each(|part| replace(part, name, by)),
    }
}

/// Declares the functions.
pub(super) fn declare(context: &mut Context<'_>) {
    context.add_function(PRESENT, |optional: Value| -> ResolveResult {
        let value = <&OptionalValue>::try_from(&optional)?.value().cloned();
        Ok(Value::List(Arc::new(value.into_iter().collect())))
    });
    context.add_function(OPTIONAL, |values: Arc<Vec<Value>>| -> ResolveResult {
        let value = values.first().cloned();
        Ok(Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of))))
    });
    context.add_function(PAIRS, |range: Value| pairs(&range));
    context.add_function(INSERT, |Arguments(arguments): Arguments| match arguments.as_slice() {
        [Value::Map(map), key, value] => inserted(map, [(key.clone(), value.clone())]),
        [Value::Map(map), Value::Map(more)] => {
            inserted(map, more.map.iter().map(|(key, value)| (of_key(key), value.clone())))
        }
        _ => Err(ExecutionError::NoSuchOverload),
    });
}

fn pairs(range: &Value) -> ResolveResult {
    let pair = |(key, value): (Value, Value)| Value::List(Arc::new(vec![key, value]));
    let pairs: Vec<Value> = match range {
        Value::List(values) => {
            let indexed = (0_i64..).zip(values.iter());
            indexed.map(|(at, value)| pair((Value::Int(at), value.clone()))).collect()
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = map.map.iter().collect();
            // So that an evaluation can be repeated.
            entries.sort_unstable_by_key(|(key, _)| *key);
            entries.into_iter().map(|(key, value)| pair((of_key(key), value.clone()))).collect()
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(Value::List(Arc::new(pairs)))
}

fn inserted(map: &Map, entries: impl IntoIterator<Item = (Value, Value)>) -> ResolveResult {
    let mut whole: HashMap<Key, Value> = (*map.map).clone();
    for (key, value) in entries {
        let key: Key = key.try_into().map_err(ExecutionError::UnsupportedKeyType)?;
        // The same number is the same key, signed or not.
        let twin = match &key {
            Key::Int(number) => u64::try_from(*number).ok().map(Key::Uint),
            Key::Uint(number) => i64::try_from(*number).ok().map(Key::Int),
            Key::Bool(_) | Key::String(_) => None,
        };
        if whole.contains_key(&key) || twin.is_some_and(|twin| whole.contains_key(&twin)) {
            let why = format!("insert failed: key {} already exists", shown(&key));
            return Err(ExecutionError::function_error(INSERT, why));
        }
        whole.insert(key, value);
    }
    Ok(Value::Map(Map { map: Arc::new(whole) }))
}

fn of_key(key: &Key) -> Value {
    match key {
        Key::Int(number) => Value::Int(*number),
        Key::Uint(number) => Value::UInt(*number),
        Key::Bool(value) => Value::Bool(*value),
        Key::String(text) => Value::String(Arc::clone(text)),
    }
}

fn shown(key: &Key) -> String {
    match key {
        Key::Int(number) => number.to_string(),
        Key::Uint(number) => number.to_string(),
        Key::Bool(value) => value.to_string(),
        Key::String(text) => text.to_string(),
    }
}
