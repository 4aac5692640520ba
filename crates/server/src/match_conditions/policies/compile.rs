//! Compiles the expressions of a policy.

use std::collections::{BTreeSet, HashMap};

use kube_cel::cel::common::ast::{Expr, IdedExpr};

use super::texts::{Fault, Texts};
use crate::match_conditions::Conditions;
use crate::match_conditions::check::{PolicyScope, variable_name};
use crate::match_conditions::compile::{Expression, compile_policy, on_large_stack};
use crate::match_conditions::parts::parts;
use crate::match_conditions::types::{BOOL, NULL, STRING, Type};

/// The most expressions of a policy.
const MAX_EXPRESSIONS: usize = 500;

/// The compiled expressions of a policy.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) has_params: bool,
    pub(super) conditions: Conditions,
    pub(super) variables: Vec<Variable>,
    pub(super) validations: Vec<(Part, Option<Part>)>,
    pub(super) annotations: Vec<Part>,
}

/// A variable of a policy.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) part: Part,
}

/// An expression that may read variables.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) text: String,
    pub(super) expression: Expression,
    /// The variables that it reads, also by way of others, in their order.
    pub(super) needs: Vec<usize>,
}

/// Compiles the expressions of a policy.
///
/// # Errors
/// Everything wrong with them.
pub(super) fn compile(texts: &Texts) -> Result<Compiled, Vec<Fault>> {
    let fault =
        |why: &str| vec![Fault { field: "spec".to_owned(), text: String::new(), why: why.to_owned() }];
    let validations = texts.validations.iter();
    let count = [
        texts.match_conditions.len(),
        texts.variables.len(),
        validations.map(|one| if one.message_expression.is_empty() { 1 } else { 2 }).sum(),
        texts.audit_annotations.len(),
    ];
    if count.iter().sum::<usize>() > MAX_EXPRESSIONS {
        return Err(fault(&format!("a policy has at most {MAX_EXPRESSIONS} expressions")));
    }
    let compiled = on_large_stack(|| {
        let mut compiler = Compiler {
            scope: PolicyScope::new(texts.param_kind.is_some()),
            numbers: HashMap::new(),
            variables: Vec::new(),
            faults: Vec::new(),
        };
        let compiled = compiler.all(texts);
        (compiled, compiler.faults)
    });
    match compiled {
        Some((compiled, faults)) if faults.is_empty() => Ok(compiled),
        Some((_, faults)) => Err(faults),
        None => Err(fault("the expressions cannot be compiled")),
    }
}

struct Compiler {
    scope: PolicyScope,
    /// The places of the variables, by the names that they have in evaluations.
    numbers: HashMap<String, usize>,
    variables: Vec<Variable>,
    faults: Vec<Fault>,
}

impl Compiler {
    fn all(&mut self, texts: &Texts) -> Compiled {
        let mut conditions = Vec::new();
        for (at, condition) in texts.match_conditions.iter().enumerate() {
            let field = format!("spec.matchConditions[{at}].expression");
            let part = self.part(&field, &condition.expression, &[BOOL]);
            conditions.extend(part.map(|(part, _)| (part.text, part.expression)));
        }
        self.scope.enter_checks();
        for (at, variable) in texts.variables.iter().enumerate() {
            let field = format!("spec.variables[{at}]");
            self.variable(&field, &variable.name, &variable.expression);
        }
        let mut validations = Vec::new();
        for (at, validation) in texts.validations.iter().enumerate() {
            let field = format!("spec.validations[{at}]");
            let check = self.part(&format!("{field}.expression"), &validation.expression, &[BOOL]);
            let text = &validation.message_expression;
            // Kubernetes has no checks in messages but by variables.
            self.scope.set_authorizer(false);
            let message = (!text.trim().is_empty())
                .then(|| self.part(&format!("{field}.messageExpression"), text, &[STRING]))
                .flatten();
            self.scope.set_authorizer(true);
            validations.extend(check.map(|(check, _)| (check, message.map(|(message, _)| message))));
        }
        let mut annotations = Vec::new();
        for (at, annotation) in texts.audit_annotations.iter().enumerate() {
            let field = format!("spec.auditAnnotations[{at}].valueExpression");
            let part = self.part(&field, annotation.value_expression.trim(), &[STRING, NULL]);
            annotations.extend(part.map(|(part, _)| part));
        }
        Compiled {
            has_params: texts.param_kind.is_some(),
            conditions: Conditions { conditions },
            variables: std::mem::take(&mut self.variables),
            validations,
            annotations,
        }
    }

    /// A variable, which the expressions after it can read.
    fn variable(&mut self, field: &str, name: &str, text: &str) {
        let inner = variable_name(name);
        if self.numbers.contains_key(&inner) {
            let why = "another variable has this name".to_owned();
            self.faults.push(Fault { field: format!("{field}.name"), text: name.to_owned(), why });
            return;
        }
        // One that cannot be compiled is known, so that its readers are not wrong as well.
        let found = match self.part(&format!("{field}.expression"), text, &[]) {
            Some((part, found)) => {
                self.numbers.insert(inner.clone(), self.variables.len());
                self.variables.push(Variable { name: name.to_owned(), part });
                found
            }
            None => Type::Dyn,
        };
        self.scope.declare(inner, found);
    }

    /// Compiles an expression with one of these types, or any if there are none.
    fn part(&mut self, field: &str, text: &str, types: &[Type]) -> Option<(Part, Type)> {
        let compiled = compile_policy(text, &self.scope).and_then(|(expression, found)| {
            if types.is_empty() || types.contains(&found) {
                return Ok((expression, found));
            }
            let names: Vec<String> = types.iter().map(Type::to_string).collect();
            let wanted = match &names[..] {
                [one] => one.clone(),
                several => format!("one of [{}]", several.join(" ")),
            };
            Err(format!("must evaluate to {wanted}, and not to {found}"))
        });
        match compiled {
            Ok((expression, found)) => {
                let needs = self.needs(&expression);
                Some((Part { text: text.to_owned(), expression, needs }, found))
            }
            Err(why) => {
                self.faults.push(Fault { field: field.to_owned(), text: text.to_owned(), why });
                None
            }
        }
    }

    fn needs(&self, expression: &Expression) -> Vec<usize> {
        let mut direct = BTreeSet::new();
        collect(&expression.parsed, &self.numbers, &mut direct);
        let mut all = direct.clone();
        for at in direct {
            all.extend(self.variables.get(at).into_iter().flat_map(|variable| &variable.part.needs));
        }
        all.into_iter().collect()
    }
}

/// Adds the places of the variables that an expression reads.
fn collect(expression: &IdedExpr, numbers: &HashMap<String, usize>, found: &mut BTreeSet<usize>) {
    if let Expr::Ident(name) = &expression.expr {
        found.extend(numbers.get(name));
    }
    for part in parts(expression) {
        collect(part, numbers, found);
    }
}
