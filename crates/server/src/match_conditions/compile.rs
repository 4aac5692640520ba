//! Parses and checks single expressions, within bounds.

use std::thread;

use kube_cel::cel::common::ast::{Expr, IdedExpr};
use kube_cel::cel::parser::Parser;

use super::claims::functions;
use super::context::{base, run};
use super::parts::parts;
use super::types::Type;
use super::{check, growth, macros};

/// The maximum length of an expression.
const EXPRESSION_BYTES: usize = 16 << 10;
/// The maximum nesting depth of an expression, both as text and as parsed.
const DEPTH: usize = 40;
/// The maximum nesting depth of comprehensions.
const LOOPS: u32 = 4;
/// The maximum number of iterations of the innermost part (AC-102).
pub(super) const STEPS: usize = 250_000;
/// The most copies of what it reads that an expression may put into one value.
const GROWTH: usize = 64;
/// The stack size for the recursive parser.
const STACK_BYTES: usize = 64 << 20;

/// A checked expression.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) parsed: IdedExpr,
    /// The nesting depth of loops. Those that build a list or a map count twice.
    pub(super) loops: u32,
    /// The nesting depth of loops, in which each counts once.
    pub(super) rounds: u32,
    /// The length of the longest list literal.
    pub(super) longest: usize,
    /// How many copies of what it reads a value may hold.
    pub(super) growth: usize,
    /// Whether it splits strings into lists.
    pub(super) splits: bool,
    /// Whether it reads `object` and `oldObject`.
    reads: [bool; check::OBJECTS.len()],
    /// The length of its text.
    pub(super) length: usize,
}

impl Expression {
    fn new(parsed: IdedExpr, loops: u32, rounds: u32, length: usize) -> Self {
        let (longest, growth, splits) = (longest(&parsed), growth::of(&parsed), splits(&parsed));
        let reads = check::OBJECTS.map(|name| reads(&parsed, name));
        Self { parsed, loops, rounds, longest, growth, splits, reads, length }
    }

    /// Whether it reads a variable of this name.
    pub(super) fn reads_variable(&self, name: &str) -> bool {
        reads(&self.parsed, name)
    }

    /// How often its innermost part can run, for values whose longest list, or text, has this length. None for too often.
    pub(super) fn steps(&self, longest: usize) -> Option<usize> {
        longest.max(self.longest).max(1).checked_pow(self.loops).filter(|steps| *steps <= STEPS)
    }

    /// Whether it reads `object` and `oldObject`, in this order.
    pub(super) fn reads(&self) -> [bool; check::OBJECTS.len()] {
        self.reads
    }
}

/// Compiles match conditions about authorization, one result for each.
pub(super) fn compile(expressions: &[String]) -> Vec<Result<Expression, String>> {
    each(expressions, |text| compiled(text, check::check))
}

/// Compiles an expression of a rule on a thread with enough stack: see [`check::check_rule`]. Returns the expression with
/// its type.
pub(super) fn compile_rule(text: &str, of: &Type, old: &Type) -> Result<(Expression, Type), String> {
    typed(text, |expression| check::check_rule(expression, of.clone(), old.clone()))
}

/// Compiles an expression of a policy on a thread with enough stack. Returns the expression with its type.
pub(super) fn compile_policy(text: &str, scope: &check::PolicyScope) -> Result<(Expression, Type), String> {
    typed(text, |expression| check::check_policy(expression, scope))
}

fn typed(
    text: &str,
    check: impl FnOnce(&mut IdedExpr) -> Result<Type, String>,
) -> Result<(Expression, Type), String> {
    let (mut expression, loops) = parse(text, false)?;
    let rounds = nesting(&expression, 1);
    let found = check(&mut expression)?;
    macros::lower(&mut expression);
    fold(&expression)?;
    Ok((Expression::new(expression, loops, rounds, text.len()), found))
}

/// Runs something on a thread with enough stack for the recursive parser. None if it panics, or there is no thread.
pub(super) fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let working = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        working.ok().and_then(|thread| thread.join().ok())
    })
}

/// Compiles match conditions about writes, one result for each.
pub(super) fn compile_admission(expressions: &[String]) -> Vec<Result<Expression, String>> {
    each(expressions, |text| compiled(text, check::check_admission))
}

/// Compiles an expression about a token: its claims, or its user.
pub(super) fn compile_of_token(expressions: &[(String, TokenCheck)]) -> Vec<Result<Expression, String>> {
    each(expressions, |(text, check)| {
        let mut expression = compiled(text, *check)?;
        functions::refuse_parts(&mut expression.parsed);
        Ok(expression)
    })
}

/// The type checker for expressions about tokens.
pub(super) type TokenCheck = fn(&mut IdedExpr) -> Result<(), String>;

fn compiled(text: &str, check: fn(&mut IdedExpr) -> Result<(), String>) -> Result<Expression, String> {
    let compiled = typed(text, |expression| check(expression).map(|()| Type::Dyn));
    compiled.map(|(expression, _)| expression)
}

/// Checks selectors of devices, one result for each.
pub(super) fn check_selectors(expressions: &[String]) -> Vec<Result<(), String>> {
    each(expressions, |text| {
        let (mut expression, _) = parse(text, true)?;
        check::check_selector(&mut expression)?;
        fold(&expression)
    })
}

/// Compiles expressions on a thread with enough stack.
fn each<E: Sync, T: Send>(expressions: &[E], compile: fn(&E) -> Result<T, String>) -> Vec<Result<T, String>> {
    if expressions.is_empty() {
        return Vec::new();
    }
    let compiled = on_large_stack(|| expressions.iter().map(compile).collect());
    let failed = || Err("the expression cannot be parsed".to_owned());
    compiled.unwrap_or_else(|| expressions.iter().map(|_| failed()).collect())
}

/// Parses an expression, with or without the macro `cel.bind`, and returns it with the nesting depth of its loops.
fn parse(text: &str, has_bind: bool) -> Result<(IdedExpr, u32), String> {
    if text.len() > EXPRESSION_BYTES {
        return Err(format!("longer than {EXPRESSION_BYTES} bytes"));
    }
    let too_deep = || format!("nested deeper than {DEPTH} levels");
    if written_depth(text) > DEPTH {
        return Err(too_deep());
    }
    let parser = Parser::new().max_recursion_depth(90).enable_optional_syntax(true);
    let mut expression = parser.parse(text).map_err(|errors| errors.to_string())?;
    measure(&expression, DEPTH).ok_or_else(too_deep)?;
    macros::expand(&mut expression, has_bind)?;
    measure(&expression, DEPTH).ok_or_else(too_deep)?;
    let loops = nesting(&expression, 2);
    if loops > LOOPS {
        let twice = "those that build a list or a map count twice";
        return Err(format!("comprehensions nest deeper than {LOOPS} levels ({twice})"));
    }
    if growth::of(&expression) > GROWTH {
        return Err(format!("a value would hold more than {GROWTH} copies of what the expression reads"));
    }
    Ok((expression, loops))
}

/// Returns the nesting depth of brackets and prefix operators in a text. Strings are not treated specially: an
/// expression that is refused for brackets in a string can be shortened.
fn written_depth(text: &str) -> usize {
    let (mut open, mut before, mut deepest) = (0_usize, 0_usize, 0_usize);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open = open.saturating_add(1),
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'!' | b'-' | b'?' => before = before.saturating_add(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest.max(before / 2)
}

/// Returns none if an expression nests deeper than this.
fn measure(expression: &IdedExpr, depth: usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    parts(expression).into_iter().try_for_each(|part| measure(part, depth))
}

/// Returns the nesting depth of loops. A loop that builds a list or a map, which it copies in each step, counts so often.
fn nesting(expression: &IdedExpr, building: u32) -> u32 {
    let deepest = |parts: &[&IdedExpr]| parts.iter().map(|part| nesting(part, building)).max().unwrap_or(0);
    match &expression.expr {
        Expr::Comprehension(it) => {
            let own = match it {
                it if macros::is_single(it) => 0,
                it if macros::is_building(it) => building,
                _ => 1,
            };
            let within = deepest(&[&it.loop_cond, &it.loop_step, &it.result]);
            nesting(&it.iter_range, building).max(within.saturating_add(own))
        }
        _ => deepest(&parts(expression)),
    }
}

/// Returns the length of the longest list literal.
fn longest(expression: &IdedExpr) -> usize {
    let own = match &expression.expr {
        Expr::List(list) => list.elements.len(),
        Expr::Map(map) => map.entries.len(),
        _ => 0,
    };
    parts(expression).into_iter().map(longest).fold(own, usize::max)
}

/// Returns whether an expression splits strings into lists.
fn splits(expression: &IdedExpr) -> bool {
    let own = matches!(&expression.expr, Expr::Call(call) if matches!(call.func_name.as_str(), "split" | "findAll"));
    own || parts(expression).into_iter().any(splits)
}

/// Returns whether an expression reads a variable of this name.
fn reads(expression: &IdedExpr, name: &str) -> bool {
    let own = matches!(&expression.expr, Expr::Ident(ident) if ident == name);
    own || parts(expression).into_iter().any(|part| reads(part, name))
}

/// Evaluates conversions and regular expressions of literals at compile time, so that those that can only fail are
/// compile errors.
fn fold(expression: &IdedExpr) -> Result<(), String> {
    if let Expr::Call(call) = &expression.expr {
        let is_literal = |argument: &IdedExpr| matches!(argument.expr, Expr::Literal(_));
        let is_conversion = call.target.is_none()
            && call.args.len() == 1
            && call.args.iter().all(is_literal)
            && matches!(
                call.func_name.as_str(),
                "bool" | "bytes" | "double" | "duration" | "int" | "string" | "timestamp" | "uint"
            );
        if is_conversion {
            run(expression, &base())?;
        }
        let is_match = matches!(call.func_name.as_str(), "matches" | "find" | "findAll");
        let pattern = if call.target.is_some() { call.args.first() } else { call.args.get(1) };
        if let Some(pattern) = pattern.filter(|pattern| is_match && is_literal(pattern)) {
            let mut tried = call.clone();
            let empty = IdedExpr {
                id: 0,
                expr: Expr::Literal(kube_cel::cel::common::ast::LiteralValue::String("".into())),
            };
            tried.target = Some(Box::new(empty));
            tried.args = vec![pattern.clone()];
            run(&IdedExpr { id: 0, expr: Expr::Call(tried) }, &base())?;
        }
    }
    parts(expression).into_iter().try_for_each(fold)
}
