//! Checks an expression before it is evaluated (AC-100, AC-101): every name is declared, every call matches a
//! signature, and the result is a boolean. Selections from optional values are replaced by calls (see `selection`).

use std::collections::HashMap;

use kube_cel::cel::common::ast::operators::{
    GREATER, GREATER_EQUALS, INDEX, LESS, LESS_EQUALS, OPT_INDEX, OPT_SELECT,
};
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::authorizer::{AUTHORIZER, REQUEST_RESOURCE, REQUEST_RESOURCE_FIELD};
use super::claims::functions;
use super::macros::PRESENT;
use super::objects::Object;
use super::selection;
use super::types::{BOOL, INT, NULL, STRING, TYPE_NAMES, Type, signatures};

/// The variables of conditions about writes whose fields are not known: the objects.
pub(super) const OBJECTS: [&str; 2] = ["object", "oldObject"];
/// What comes before the names of the variables of a policy.
const VARIABLES: &str = "variables";
/// The ordered types.
const ORDERED: [&str; 8] = ["bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"];
/// The types that can be compared with each other.
const NUMBERS: [&str; 3] = ["double", "int", "uint"];

/// Checks an expression as a condition about authorization: with the variable `request`.
///
/// # Errors
/// A description of the error.
pub(super) fn check(expression: &mut IdedExpr) -> Result<(), String> {
    check_condition(expression, vec![("request".to_owned(), Object::request())])
}

/// Checks an expression as a condition about a write: with the variables `request`, `object`, `oldObject` and `authorizer`.
///
/// # Errors
/// A description of the error.
pub(super) fn check_admission(expression: &mut IdedExpr) -> Result<(), String> {
    let request = ("request".to_owned(), Object::admission_request());
    let objects = OBJECTS.map(|name| (name.to_owned(), Type::Dyn));
    check_condition(expression, std::iter::once(request).chain(objects).chain(of_authorizer()).collect())
}

/// The variables about authorization.
fn of_authorizer() -> [(String, Type); 2] {
    [(AUTHORIZER.to_owned(), Object::authorizer()), (REQUEST_RESOURCE.to_owned(), Object::request_resource())]
}

fn check_condition(expression: &mut IdedExpr, scopes: Vec<(String, Type)>) -> Result<(), String> {
    let found = Checker { scopes, ..Checker::default() }.type_of(expression)?;
    if found == BOOL { Ok(()) } else { Err(format!("must evaluate to bool, and not to {found}")) }
}

/// Checks an expression of a rule about values of this type, which are its variable `self`. `old` is the type of `oldSelf`.
///
/// # Errors
/// A description of the error.
pub(super) fn check_rule(expression: &mut IdedExpr, of: Type, old: Type) -> Result<Type, String> {
    let scopes = vec![("self".to_owned(), of), ("oldSelf".to_owned(), old)];
    Checker { scopes, ..Checker::default() }.type_of(expression)
}

/// Checks an expression as a selector of devices.
///
/// # Errors
/// A description of the error.
pub(super) fn check_selector(expression: &mut IdedExpr) -> Result<(), String> {
    let scopes = vec![("device".to_owned(), Object::device())];
    let mut checker = Checker { scopes, ..Checker::default() };
    match checker.type_of(expression)? {
        BOOL | Type::Dyn => Ok(()),
        found => Err(format!("must evaluate to bool or the unknown type, not {found}")),
    }
}

/// Checks an expression about the claims of a token, with the variable `claims`. A rule must evaluate to bool.
///
/// # Errors
/// A description of the error.
pub(super) fn check_claims(expression: &mut IdedExpr, is_rule: bool) -> Result<(), String> {
    check_of_token(expression, ("claims", Type::Claims), is_rule)
}

/// Checks a rule about the user of a token, with the variable `user`.
///
/// # Errors
/// A description of the error.
pub(super) fn check_user(expression: &mut IdedExpr) -> Result<(), String> {
    check_of_token(expression, ("user", Object::user()), true)
}

fn check_of_token(
    expression: &mut IdedExpr,
    (name, variable): (&str, Type),
    is_rule: bool,
) -> Result<(), String> {
    let scopes = vec![(name.to_owned(), variable)];
    let found = Checker { scopes, is_of_token: true, ..Checker::default() }.type_of(expression)?;
    if is_rule && found != BOOL {
        return Err(format!("must evaluate to bool, and not to {found}"));
    }
    Ok(())
}

/// The name of a variable of a policy in an evaluation. No name in an expression begins so.
pub(super) fn variable_name(name: &str) -> String {
    format!("@{VARIABLES}.{name}")
}

/// What the expressions of a policy can read.
pub(super) struct PolicyScope {
    scopes: Vec<(String, Type)>,
    has_variables: bool,
    has_authorizer: bool,
}

impl PolicyScope {
    /// The scope of match conditions.
    pub(super) fn new(has_params: bool) -> Self {
        let request = ("request".to_owned(), Object::admission_request());
        let objects = OBJECTS.iter().copied().chain(has_params.then_some("params"));
        let objects = objects.map(|name| (name.to_owned(), Type::Dyn));
        let scopes = std::iter::once(request).chain(objects).collect();
        Self { scopes, has_variables: false, has_authorizer: true }
    }

    /// Makes it the scope of all other expressions.
    pub(super) fn enter_checks(&mut self) {
        self.declare("namespaceObject".to_owned(), Object::namespace());
        self.has_variables = true;
    }

    /// Says whether there is the variable `authorizer`.
    pub(super) fn set_authorizer(&mut self, has_authorizer: bool) {
        self.has_authorizer = has_authorizer;
    }

    /// Adds a variable, by its name in evaluations.
    pub(super) fn declare(&mut self, name: String, of: Type) {
        self.scopes.push((name, of));
    }
}

/// Checks an expression of a policy, and returns its type.
///
/// # Errors
/// A description of the error.
pub(super) fn check_policy(expression: &mut IdedExpr, scope: &PolicyScope) -> Result<Type, String> {
    let (mut scopes, has_variables) = (scope.scopes.clone(), scope.has_variables);
    scopes.extend(of_authorizer().into_iter().filter(|_| scope.has_authorizer));
    Checker { scopes, has_variables, ..Checker::default() }.type_of(expression)
}

#[derive(Default)]
struct Checker {
    /// The variables in scope, the innermost last.
    scopes: Vec<(String, Type)>,
    /// Whether there are variables of a policy.
    has_variables: bool,
    /// Whether it is about a token, whose numbers are all of type double.
    is_of_token: bool,
}

impl Checker {
    fn variable(&self, name: &str) -> Option<Type> {
        self.scopes.iter().rev().find(|(known, _)| known == name).map(|(_, found)| found.clone())
    }

    /// Whether a name is that of the variables of a policy.
    fn is_variables(&self, name: &str) -> bool {
        self.has_variables && name == VARIABLES && self.variable(name).is_none()
    }

    /// Replaces the selection of a variable of a policy by its name in evaluations, and returns its type; none for any other
    /// expression.
    fn policy_variable(&self, expression: &mut IdedExpr) -> Option<Result<Type, String>> {
        let Expr::Select(select) = &expression.expr else { return None };
        let Expr::Ident(holder) = &select.operand.expr else { return None };
        if !self.is_variables(holder) {
            return None;
        }
        let name = variable_name(&select.field);
        let Some(found) = self.variable(&name) else {
            return Some(Err(format!("undefined field '{}'", select.field)));
        };
        if select.test {
            expression.expr = Expr::Literal(LiteralValue::Boolean(true.into()));
            return Some(Ok(BOOL));
        }
        expression.expr = Expr::Ident(name);
        Some(Ok(found))
    }

    /// Replaces `authorizer.requestResource`, which is a variable, by its name in evaluations, and returns its type; none for any
    /// other expression.
    fn request_resource(&self, expression: &mut IdedExpr) -> Option<Type> {
        let Expr::Select(select) = &expression.expr else { return None };
        let is_asked = matches!(&select.operand.expr, Expr::Ident(name) if name == AUTHORIZER);
        if !is_asked || select.test || select.field != REQUEST_RESOURCE_FIELD {
            return None;
        }
        // A variable of a loop can have the name of the other.
        self.variable(AUTHORIZER).filter(|found| *found == Object::authorizer())?;
        let found = self.variable(REQUEST_RESOURCE)?;
        expression.expr = Expr::Ident(REQUEST_RESOURCE.to_owned());
        Some(found)
    }

    fn type_of(&mut self, expression: &mut IdedExpr) -> Result<Type, String> {
        if let Some(found) = self.policy_variable(expression) {
            return found;
        }
        if let Some(found) = self.request_resource(expression) {
            return Ok(found);
        }
        let is_type = matches!(expression.expr, Expr::Select(_))
            && qualified(expression).is_some_and(|name| TYPE_NAMES.contains(&name.as_str()));
        if is_type {
            return Ok(Type::Kind);
        }
        match &mut expression.expr {
            Expr::Unspecified => Err("an empty expression".to_owned()),
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => BOOL,
                LiteralValue::Bytes(_) => Type::Plain("bytes"),
                LiteralValue::Double(_) => Type::Plain("double"),
                LiteralValue::Int(_) => INT,
                LiteralValue::Null => NULL,
                LiteralValue::String(_) => STRING,
                LiteralValue::UInt(_) => Type::Plain("uint"),
            }),
            Expr::Ident(name) => match self.variable(name) {
                Some(Type::Claims) => {
                    expression.expr = functions::whole_claims();
                    Ok(Type::claims())
                }
                Some(found) => Ok(found),
                None if TYPE_NAMES.contains(&name.as_str()) => Ok(Type::Kind),
                None => Err(format!("undeclared reference to '{name}'")),
            },
            Expr::Select(select) => {
                let operand = self.type_of_operand(&mut select.operand)?;
                let field = field_of(&operand, &select.field)?;
                let found = if select.test { BOOL } else { field };
                if matches!(operand, Type::Optional(_) | Type::Dyn | Type::Any) {
                    let select = std::mem::take(select);
                    expression.expr = selection::of(select);
                }
                Ok(found)
            }
            Expr::List(list) => {
                self.elements(list.elements.iter_mut(), true).map(|one| Type::List(Box::new(one)))
            }
            Expr::Map(map) => {
                let mut keys = Vec::new();
                let mut values = Vec::new();
                for entry in &mut map.entries {
                    let EntryExpr::MapEntry(entry) = &mut entry.expr else {
                        return Err("a field where an entry must be".to_owned());
                    };
                    keys.push(&mut entry.key);
                    values.push(&mut entry.value);
                }
                let key = self.elements(keys.into_iter(), true)?;
                let value = self.elements(values.into_iter(), true)?;
                Ok(Type::Map(Box::new(key), Box::new(value)))
            }
            Expr::Struct(object) => Err(format!("undeclared reference to '{}'", object.type_name)),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    /// Returns the type of an expression of which a field or an element is read.
    fn type_of_operand(&mut self, operand: &mut IdedExpr) -> Result<Type, String> {
        match &operand.expr {
            Expr::Ident(name) if self.variable(name) == Some(Type::Claims) => Ok(Type::claims()),
            _ => self.type_of(operand),
        }
    }

    /// Returns the common type of several values. All must agree, except for the arguments of `format`.
    fn elements<'e>(
        &mut self,
        elements: impl Iterator<Item = &'e mut IdedExpr>,
        must_agree: bool,
    ) -> Result<Type, String> {
        let mut common: Option<Type> = None;
        for element in elements {
            let found = self.type_of(element)?;
            common = Some(match common {
                None => found,
                Some(common) if common.agrees(&found) => common,
                Some(_) if !must_agree => Type::Dyn,
                Some(common) => return Err(format!("expected type '{common}' but found '{found}'")),
            });
        }
        Ok(common.unwrap_or(Type::Dyn))
    }

    fn call(&mut self, call: &mut CallExpr) -> Result<Type, String> {
        if call.func_name == OPT_SELECT {
            return self.optional_select(call);
        }
        let name = call.func_name.as_str();
        // `sets.contains(..)`: what precedes the dot is a part of the function name, unless it is a variable.
        let namespace = call.target.as_deref().and_then(qualified).filter(|name| {
            let first = name.split('.').next().unwrap_or_default();
            self.variable(first).is_none() && !self.is_variables(first)
        });
        let (name, target) = match namespace {
            Some(namespace) => (format!("{namespace}.{name}"), None),
            None => (name.to_owned(), call.target.as_deref_mut()),
        };
        let is_member = target.is_some();
        let mut arguments = Vec::new();
        if let Some(target) = target {
            arguments.push(self.type_of(target)?);
        }
        let is_index = matches!(name.as_str(), INDEX | OPT_INDEX);
        for (at, argument) in call.args.iter_mut().enumerate() {
            arguments.push(match &mut argument.expr {
                Expr::Ident(_) if is_index && at == 0 => self.type_of_operand(argument)?,
                Expr::List(list) if name == "format" => {
                    self.elements(list.elements.iter_mut(), false)?;
                    Type::List(Box::new(Type::Dyn))
                }
                _ => self.type_of(argument)?,
            });
        }
        if matches!(name.as_str(), LESS | LESS_EQUALS | GREATER | GREATER_EQUALS) {
            return compare(&arguments).ok_or_else(|| no_way(&name, &arguments));
        }
        if self.is_of_token {
            functions::adapt(&name, &mut call.args);
        }
        let ways = signatures(&name).iter().filter(|way| way.is_member == is_member);
        let mut result: Option<Type> = None;
        for way in ways.filter(|way| way.parameters.len() == arguments.len()) {
            let mut letters = HashMap::new();
            let fits = way
                .parameters
                .iter()
                .zip(&arguments)
                .all(|(wanted, given)| wanted.takes(given, &mut letters));
            if fits {
                let found = way.result.filled(&letters);
                result = Some(match result {
                    // With several matching signatures the result type is dynamic.
                    Some(other) if other != found => Type::Dyn,
                    _ => found,
                });
            }
        }
        match result {
            Some(found) => Ok(found),
            None if signatures(&name).is_empty() => Err(format!("undeclared reference to '{name}'")),
            None => Err(no_way(&name, &arguments)),
        }
    }

    fn optional_select(&mut self, call: &mut CallExpr) -> Result<Type, String> {
        selection::OPTIONAL_FIELD.clone_into(&mut call.func_name);
        let [operand, field] = call.args.as_mut_slice() else {
            return Err("an optional selection without field".to_owned());
        };
        let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
            return Err("an optional selection without field".to_owned());
        };
        let operand = match self.type_of_operand(operand)? {
            Type::Optional(inner) => *inner,
            other => other,
        };
        Ok(match field_of(&operand, field.inner())? {
            Type::Optional(inner) => Type::Optional(inner),
            field => Type::Optional(Box::new(field)),
        })
    }

    fn comprehension(&mut self, it: &mut ComprehensionExpr) -> Result<Type, String> {
        let (first, second) = match self.type_of(&mut it.iter_range)? {
            Type::List(element) if it.iter_var2.is_some() => (INT, *element),
            Type::List(element) => (*element, Type::Dyn),
            Type::Map(key, value) => (*key, *value),
            Type::Dyn => (Type::Dyn, Type::Dyn),
            other => return Err(format!("expression of type '{other}' cannot be range of a comprehension")),
        };
        let start = self.type_of(&mut it.accu_init)?;
        let before = self.scopes.len();
        self.scopes.push((it.accu_var.clone(), start.clone()));
        self.scopes.push((it.iter_var.clone(), first));
        if let Some(name) = &it.iter_var2 {
            self.scopes.push((name.clone(), second));
        }
        let condition = self.type_of(&mut it.loop_cond)?;
        let step = self.type_of(&mut it.loop_step)?;
        self.scopes.truncate(before);
        if !condition.agrees(&BOOL) || !start.agrees(&step) {
            return Err(format!("expected type '{start}' but found '{step}'"));
        }
        self.scopes.push((it.accu_var.clone(), step));
        let result = self.type_of(&mut it.result);
        self.scopes.truncate(before);
        result
    }
}

/// Returns the type of a field.
fn field_of(operand: &Type, field: &str) -> Result<Type, String> {
    match operand {
        Type::Dyn | Type::Any => Ok(Type::Dyn),
        Type::Object(object) => object.field(field).ok_or_else(|| format!("undefined field '{field}'")),
        Type::Declared(object) => {
            object.fields.get(field).cloned().ok_or_else(|| format!("undefined field '{field}'"))
        }
        Type::Map(key, value) if key.agrees(&STRING) => Ok((**value).clone()),
        Type::Optional(inner) => Ok(match field_of(inner, field)? {
            Type::Optional(inner) => Type::Optional(inner),
            found => Type::Optional(Box::new(found)),
        }),
        other => Err(format!("type '{other}' does not support field selection")),
    }
}

/// Checks a comparison. Numbers of all types can be compared with each other; otherwise both must have the same ordered
/// type.
fn compare(arguments: &[Type]) -> Option<Type> {
    let [a, b] = arguments else { return None };
    let may = |found: &Type| match found {
        Type::Dyn | Type::Any | Type::Param(_) => true,
        Type::Plain(name) => ORDERED.contains(name),
        _ => false,
    };
    let is_number = |found: &Type| matches!(found, Type::Plain(name) if NUMBERS.contains(name));
    (may(a) && may(b) && (a.agrees(b) || (is_number(a) && is_number(b)))).then_some(BOOL)
}

fn no_way(name: &str, arguments: &[Type]) -> String {
    // The first thing that the macros about optional values ask of one.
    let name = if name == PRESENT { "hasValue" } else { name };
    let arguments: Vec<String> = arguments.iter().map(Type::to_string).collect();
    format!("found no matching overload for '{name}' applied to '({})'", arguments.join(", "))
}

/// Returns a qualified name.
fn qualified(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => {
            Some(format!("{}.{}", qualified(&select.operand)?, select.field))
        }
        _ => None,
    }
}
