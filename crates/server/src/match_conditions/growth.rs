//! Computes how many copies of its input an expression can put into one value. A loop that makes `[x, x]` of each `x` doubles
//! the input; a loop over the result of such a loop doubles it again.

use kube_cel::cel::common::ast::operators::{
    ADD, CONDITIONAL, EQUALS, GREATER, GREATER_EQUALS, IN, INDEX, LESS, LESS_EQUALS, LOGICAL_AND,
    LOGICAL_NOT, LOGICAL_OR, NOT_EQUALS, NOT_STRICTLY_FALSE, OPT_INDEX, OPT_SELECT,
};
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr};

use super::macros::{PAIRS, PRESENT};
use super::parts::parts;

/// The most copies that any value of an expression holds, where each loop goes round once; at least one. How often loops go
/// round is counted apart.
pub(super) fn of(expression: &IdedExpr) -> usize {
    let mut growth = Growth { scopes: Vec::new(), most: 1 };
    growth.value(expression);
    growth.most
}

struct Growth {
    /// The variables of loops, the innermost last.
    scopes: Vec<(String, usize)>,
    most: usize,
}

impl Growth {
    /// The copies in the value of an expression. What is no part of an input, such as a literal or a boolean, is none.
    fn value(&mut self, expression: &IdedExpr) -> usize {
        let copies = match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => 0,
            Expr::Ident(name) => {
                let scopes = self.scopes.iter().rev();
                scopes.into_iter().find(|(known, _)| known == name).map_or(1, |(_, copies)| *copies)
            }
            Expr::Select(select) => {
                let operand = self.value(&select.operand);
                if select.test { 0 } else { operand }
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(it) => self.comprehension(it),
            Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => self.sum(&parts(expression)),
        };
        self.most = self.most.max(copies);
        copies
    }

    fn sum(&mut self, parts: &[&IdedExpr]) -> usize {
        parts.iter().fold(0, |sum, part| self.value(part).saturating_add(sum))
    }

    fn call(&mut self, call: &CallExpr) -> usize {
        let parts: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
        let copies: Vec<usize> = parts.iter().map(|part| self.value(part)).collect();
        match call.func_name.as_str() {
            LOGICAL_AND | LOGICAL_OR | LOGICAL_NOT | NOT_STRICTLY_FALSE | EQUALS | NOT_EQUALS | LESS
            | LESS_EQUALS | GREATER | GREATER_EQUALS | IN | "size" | "contains" | "startsWith"
            | "endsWith" | "matches" | "hasValue" => 0,
            INDEX | OPT_INDEX | OPT_SELECT => copies.first().copied().unwrap_or(1),
            CONDITIONAL | "or" | "orValue" => copies.into_iter().max().unwrap_or(1),
            _ => copies.into_iter().fold(0, usize::saturating_add),
        }
    }

    /// The copies in one entry of a value that a loop goes over.
    fn entry(&mut self, range: &IdedExpr) -> usize {
        match &range.expr {
            Expr::List(list) => list.elements.iter().map(|one| self.value(one)).max().unwrap_or(0),
            Expr::Call(call) if matches!(call.func_name.as_str(), ADD | PAIRS | PRESENT) => {
                call.args.iter().map(|one| self.entry(one)).max().unwrap_or(1)
            }
            _ => self.value(range),
        }
    }

    fn comprehension(&mut self, it: &ComprehensionExpr) -> usize {
        let (entry, start) = (self.entry(&it.iter_range), self.value(&it.accu_init));
        let before = self.scopes.len();
        self.scopes.push((it.accu_var.clone(), 0));
        self.scopes.push((it.iter_var.clone(), entry));
        self.scopes.extend(it.iter_var2.clone().map(|name| (name, entry)));
        self.value(&it.loop_cond);
        let step = self.value(&it.loop_step);
        self.scopes.truncate(before);
        self.scopes.push((it.accu_var.clone(), start.max(step)));
        let result = self.value(&it.result);
        self.scopes.truncate(before);
        result
    }
}
