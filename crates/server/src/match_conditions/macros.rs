//! Macros that the evaluator lacks: `cel.bind`, `optMap`, `optFlatMap`, and comprehensions with two variables. Expressions
//! that only other programs evaluate are checked with them.

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};

use super::types::{BOOL, INT, Type};

/// What finds the types of the parts of a macro.
pub(super) trait Typing {
    /// The type of an expression.
    fn type_of(&mut self, expression: &mut IdedExpr) -> Result<Type, String>;

    /// The type of an expression in which further variables are declared.
    fn with(&mut self, variables: Vec<(String, Type)>, expression: &mut IdedExpr) -> Result<Type, String>;
}

/// The type of a call of one of these macros; nothing for any other call.
pub(super) fn of(call: &mut CallExpr, checker: &mut impl Typing) -> Option<Result<Type, String>> {
    let target = call.target.as_deref_mut()?;
    let name = call.func_name.as_str();
    match (name, call.args.as_mut_slice()) {
        ("bind", [variable, value, body]) if matches!(&target.expr, Expr::Ident(name) if name == "cel") => {
            let variable = ident(variable)?;
            Some(checker.type_of(value).and_then(|value| checker.with(vec![(variable, value)], body)))
        }
        ("optMap" | "optFlatMap", [variable, body]) => {
            let variable = ident(variable)?;
            let is_flat = name == "optFlatMap";
            Some(optional(checker, target, variable, body, is_flat))
        }
        (
            "all" | "exists" | "existsOne" | "exists_one" | "transformList" | "transformMap"
            | "transformMapEntry",
            [first, second, bodies @ ..],
        ) if matches!(bodies, [_] | [_, _]) => {
            let variables = [ident(first)?, ident(second)?];
            Some(comprehension(checker, name, target, variables, bodies))
        }
        _ => None,
    }
}

fn ident(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.clone()),
        _ => None,
    }
}

fn optional(
    checker: &mut impl Typing,
    target: &mut IdedExpr,
    variable: String,
    body: &mut IdedExpr,
    is_flat: bool,
) -> Result<Type, String> {
    let inner = match checker.type_of(target)? {
        Type::Optional(inner) => *inner,
        Type::Dyn => Type::Dyn,
        other => return Err(format!("expected an optional value but found '{other}'")),
    };
    match checker.with(vec![(variable, inner)], body)? {
        found if !is_flat => Ok(Type::Optional(Box::new(found))),
        found @ (Type::Optional(_) | Type::Dyn) => Ok(found),
        other => Err(format!("expected an optional value but found '{other}'")),
    }
}

/// All bodies but the last are conditions.
fn comprehension(
    checker: &mut impl Typing,
    name: &str,
    target: &mut IdedExpr,
    [first, second]: [String; 2],
    bodies: &mut [IdedExpr],
) -> Result<Type, String> {
    let (key, value) = match checker.type_of(target)? {
        Type::List(element) => (INT, *element),
        Type::Map(key, value) => (*key, *value),
        Type::Dyn => (Type::Dyn, Type::Dyn),
        other => return Err(format!("expression of type '{other}' cannot be range of a comprehension")),
    };
    let mut found = Vec::new();
    for body in bodies {
        let variables = vec![(first.clone(), key.clone()), (second.clone(), value.clone())];
        found.push(checker.with(variables, body)?);
    }
    let result = found.pop().unwrap_or(Type::Dyn);
    let is_quantifier = matches!(name, "all" | "exists" | "existsOne" | "exists_one");
    let conditions = if is_quantifier { std::slice::from_ref(&result) } else { found.as_slice() };
    if let Some(other) = conditions.iter().find(|condition| !condition.agrees(&BOOL)) {
        return Err(format!("expected type 'bool' but found '{other}'"));
    }
    Ok(match name {
        "transformList" => Type::List(Box::new(result)),
        "transformMap" => Type::Map(Box::new(key), Box::new(result)),
        "transformMapEntry" => result,
        _ => BOOL,
    })
}
