//! The parts of an expression, and expressions made of parts.

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr};

/// Returns the direct subexpressions.
pub(super) fn parts(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(it) => {
            vec![&it.iter_range, &it.accu_init, &it.loop_cond, &it.loop_step, &it.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => entries(map.entries.iter().map(|entry| &entry.expr)),
        Expr::Struct(object) => entries(object.entries.iter().map(|entry| &entry.expr)),
        Expr::Select(select) => vec![&*select.operand],
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
    }
}

fn entries<'e>(entries: impl Iterator<Item = &'e EntryExpr>) -> Vec<&'e IdedExpr> {
    let both = |entry: &'e EntryExpr| match entry {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    };
    entries.flat_map(both).collect()
}

/// Returns the direct subexpressions, to change them.
pub(super) fn parts_mut(expression: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    match &mut expression.expr {
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Comprehension(it) => {
            let it = &mut **it;
            vec![&mut it.iter_range, &mut it.accu_init, &mut it.loop_cond, &mut it.loop_step, &mut it.result]
        }
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => entries_mut(map.entries.iter_mut().map(|entry| &mut entry.expr)),
        Expr::Struct(object) => entries_mut(object.entries.iter_mut().map(|entry| &mut entry.expr)),
        Expr::Select(select) => vec![&mut *select.operand],
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
    }
}

fn entries_mut<'e>(entries: impl Iterator<Item = &'e mut EntryExpr>) -> Vec<&'e mut IdedExpr> {
    let both = |entry: &'e mut EntryExpr| match entry {
        EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
        EntryExpr::StructField(field) => vec![&mut field.value],
    };
    entries.flat_map(both).collect()
}

/// A part that stands nowhere in the text.
pub(super) fn part(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

/// The call of a function that is no member of a value.
pub(super) fn call(function: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args })
}
