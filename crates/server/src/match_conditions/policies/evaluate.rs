//! Evaluates the expressions of a policy for a write.

use std::sync::Arc;
use std::time::Instant;

use kube_cel::cel::Value;
use serde_json::{Map, Value as Json};

use super::compile::{Compiled, Part};
use super::judgement::{Budget, Checked, Judgement, OUT_OF_BUDGET, Timed};
use crate::match_conditions::check::variable_name;
use crate::match_conditions::checks::Checks;
use crate::match_conditions::compile::Expression;
use crate::match_conditions::evaluate::{Request, text_of};
use crate::match_conditions::{Matched, authorizer};

/// The longest message of an expression.
const MAX_MESSAGE: usize = 5 << 10;
/// The minimum cost of an evaluation.
const EACH: u64 = 1 << 10;

impl Budget {
    /// Charges the evaluation of an expression.
    ///
    /// # Errors
    /// There is not enough left.
    fn take(&mut self, request: &Request<'_>, expression: &Expression) -> Result<(), String> {
        let cost = request.cost(expression).map(|cost| cost.saturating_add(EACH));
        self.0 = self.0.and_then(|left| left.checked_sub(cost?));
        self.0.map(drop).ok_or_else(|| OUT_OF_BUDGET.to_owned())
    }
}

/// Evaluates all expressions.
pub(super) fn judge(
    compiled: &Compiled,
    (request, facts): (&Request<'_>, &Map<String, Json>),
    params: Option<&Map<String, Json>>,
    budget: &mut Budget,
    checks: &Arc<Checks>,
) -> Judgement {
    let mut request = request.within();
    request.declare_authorizer(authorizer::variables(checks, facts));
    if compiled.has_params {
        request.declare("params", params);
    }
    let conditions = &compiled.conditions;
    for (_, condition) in &conditions.conditions {
        if let Err(why) = budget.take(&request, condition) {
            return Judgement::Failed(why);
        }
    }
    match conditions.matched(&request) {
        Matched::Yes => {}
        Matched::No { .. } => return Judgement::Unmatched,
        Matched::Failed(why) => return Judgement::Failed(why),
    }
    let known = vec![None; compiled.variables.len()];
    let mut evaluation = Evaluation { compiled, request, known, budget };
    let validations = compiled.validations.iter();
    let checked =
        validations.map(|(check, message)| timed(|| evaluation.checked(check, message.as_ref()))).collect();
    let annotations = compiled.annotations.iter().map(|part| timed(|| evaluation.annotation(part))).collect();
    Judgement::Judged(checked, annotations)
}

fn timed<T>(run: impl FnOnce() -> T) -> Timed<T> {
    let started = Instant::now();
    let result = run();
    (result, started.elapsed())
}

struct Evaluation<'e> {
    compiled: &'e Compiled,
    request: Request<'e>,
    /// Whether each variable was evaluated, and why it failed.
    known: Vec<Option<Result<(), String>>>,
    budget: &'e mut Budget,
}

impl Evaluation<'_> {
    fn checked(&mut self, check: &Part, message: Option<&Part>) -> Checked {
        let resulted = |why: String| format!("expression '{}' resulted in error: {why}", check.text);
        match self.value(check) {
            Ok(Value::Bool(true)) => Checked::Holds,
            Ok(Value::Bool(false)) => Checked::Fails(message.and_then(|message| self.message(message))),
            Ok(_) => Checked::Failed(resulted("it must evaluate to bool".to_owned())),
            Err(why) => Checked::Failed(resulted(why)),
        }
    }

    /// The message that an expression makes. One that is empty, too long or of several lines does not count.
    fn message(&mut self, part: &Part) -> Option<String> {
        let text = text_of(&self.value(part).ok()?)?.trim().to_owned();
        (!text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n')).then_some(text)
    }

    fn annotation(&mut self, part: &Part) -> Result<Option<String>, String> {
        match self.value(part) {
            Ok(Value::Null) => Ok(None),
            Ok(value) => match text_of(&value) {
                Some(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
                None => Err(format!(
                    "valueExpression '{}' resulted in unsupported return type. Return type must be either string or null.",
                    part.text
                )),
            },
            Err(why) => Err(format!("expression '{}' resulted in error: {why}", part.text)),
        }
    }

    /// The value of an expression. The variables that it reads are evaluated first.
    fn value(&mut self, part: &Part) -> Result<Value, String> {
        for at in &part.needs {
            let Some(variable) = self.compiled.variables.get(*at) else { continue };
            if self.known.get(*at).is_some_and(Option::is_none) {
                let value = self.run(&variable.part);
                let kept = value.and_then(|value| self.request.keep(&variable_name(&variable.name), value));
                if let Some(known) = self.known.get_mut(*at) {
                    *known = Some(kept);
                }
            }
        }
        self.run(part)
    }

    /// Evaluates an expression whose variables are known.
    fn run(&mut self, part: &Part) -> Result<Value, String> {
        self.budget.take(&self.request, &part.expression)?;
        self.request.value_of(&part.expression).map_err(|error| self.explained(part, error))
    }

    /// An error, in place of which that of a variable is told if that is missing. Functions do not say which argument fails.
    fn explained(&self, part: &Part, error: String) -> String {
        let failed = part.needs.iter().rev().find_map(|at| {
            let name = &self.compiled.variables.get(*at)?.name;
            let why = self.known.get(*at)?.as_ref()?.as_ref().err()?;
            let is_missing = error.contains(&format!("'{}'", variable_name(name)))
                || error == "Missing argument or target";
            is_missing.then(|| format!("composited variable {name:?} fails to evaluate: {why}"))
        });
        failed.unwrap_or(error)
    }
}
