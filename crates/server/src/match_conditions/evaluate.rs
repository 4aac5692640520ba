//! Parses and evaluates single expressions, within bounds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::thread;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{Expr, IdedExpr};
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::{Key, OptionalValue};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};
use policy::review::AccessReview;
use serde_json::Value as Json;

use super::claims::functions;
use super::parts::parts;
use super::review_values::{foreign_text, longest_list, map, request};
use super::types::{TYPE_NAMES, Type};
use super::{authorizer, check, growth, macros, selection};

/// The maximum length of an expression.
const EXPRESSION_BYTES: usize = 16 << 10;
/// The maximum nesting depth of an expression, both as text and as parsed.
const DEPTH: usize = 40;
/// The maximum nesting depth of comprehensions.
const LOOPS: u32 = 4;
/// The maximum number of iterations of the innermost part (AC-102).
const STEPS: usize = 250_000;
/// The most bytes of an object that an expression about a write may go through, in all iterations together. DIVERGES:
/// Kubernetes computes a cost instead; here a loop over a large object is an error.
const WRITE_WORK: usize = 1 << 28;
/// The most copies of what it reads that an expression may put into one value.
const GROWTH: usize = 64;
/// The most values that the loops of an expression about a token may copy. DIVERGES: Kubernetes computes a cost instead.
const COPIES: usize = 1 << 24;
/// How many bytes of a request can be gone through while one byte of an expression is evaluated.
const PART: usize = 16;
/// The largest value of a variable that an expression has made, in bytes, and how deep it may nest.
const KEPT_BYTES: usize = 4 << 20;
const KEPT_DEPTH: usize = 100;
/// The maximum size of a request.
const REQUEST_BYTES: usize = 256 << 10;
/// The stack size for the recursive parser.
const STACK_BYTES: usize = 64 << 20;

/// A checked expression.
#[derive(Debug)]
pub(super) struct Expression {
    parsed: IdedExpr,
    /// The nesting depth of loops. Those that build a list or a map count twice.
    loops: u32,
    /// The nesting depth of loops, in which each counts once.
    rounds: u32,
    /// The length of the longest list literal.
    longest: usize,
    /// How many copies of what it reads a value may hold.
    growth: usize,
    /// Whether it splits strings into lists.
    splits: bool,
    /// Whether it reads `object` and `oldObject`.
    reads: [bool; check::OBJECTS.len()],
    /// The length of its text.
    length: usize,
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

    /// The compiled expression.
    pub(super) fn parsed(&self) -> &IdedExpr {
        &self.parsed
    }

    /// How often its innermost part can run, for values whose longest list, or text, has this length. None for too often.
    pub(super) fn steps(&self, longest: usize) -> Option<usize> {
        longest.max(self.longest).max(1).checked_pow(self.loops).filter(|steps| *steps <= STEPS)
    }

    /// How many copies of what it reads a value of it may hold.
    pub(super) fn growth(&self) -> usize {
        self.growth
    }

    /// Whether it splits texts into lists.
    pub(super) fn splits(&self) -> bool {
        self.splits
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

/// Runs something on a thread with enough stack for the recursive parser.
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
    let failed = |why: &str| expressions.iter().map(|_| Err(why.to_owned())).collect();
    if expressions.is_empty() {
        return Vec::new();
    }
    thread::scope(|scope| {
        let compiling = thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || expressions.iter().map(compile).collect());
        match compiling.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(compiled)) => compiled,
            Ok(Err(_)) => failed("the expression cannot be parsed"),
            Err(error) => failed(&error.to_string()),
        }
    })
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
            run(expression, &BASE.new_inner_scope())?;
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
            run(&IdedExpr { id: 0, expr: Expr::Call(tried) }, &BASE.new_inner_scope())?;
        }
    }
    parts(expression).into_iter().try_for_each(fold)
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

fn type_name(value: &Value) -> &'static str {
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

/// Evaluates an expression of a rule with these variables.
pub(super) fn run_rule(
    expression: &Expression,
    variables: impl IntoIterator<Item = (&'static str, Value)>,
) -> Result<Value, String> {
    let mut context = BASE.new_inner_scope();
    for (name, value) in variables {
        context.add_variable_from_value(name, value);
    }
    run(&expression.parsed, &context)
}

/// Evaluates an expression over `self`; none if it fails.
pub(super) fn convert_with(expression: &IdedExpr, value: Value) -> Option<Value> {
    let mut context = BASE.new_inner_scope();
    context.add_variable_from_value("self", value);
    run(expression, &context).ok()
}

/// Evaluates an expression. What the evaluator does not support is an error.
fn run(expression: &IdedExpr, context: &Context<'_>) -> Result<Value, String> {
    let evaluated = catch_unwind(AssertUnwindSafe(|| Value::resolve(expression, context)));
    match evaluated {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the expression cannot be evaluated".to_owned()),
    }
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
        let mut context = BASE.new_inner_scope();
        context.add_variable_from_value("request", request(review));
        Ok(Self { context, longest: longest_list(review), bytes: size, steps: STEPS })
    }

    /// A write, with these variables. One without an object is null.
    pub(super) fn of_write<'v>(
        variables: impl IntoIterator<Item = (&'static str, Option<&'v serde_json::Map<String, Json>>)>,
    ) -> Self {
        let mut context = BASE.new_inner_scope();
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
        let mut context = BASE.new_inner_scope();
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
