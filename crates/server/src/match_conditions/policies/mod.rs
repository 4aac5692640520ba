//! The expressions of ValidatingAdmissionPolicies: match conditions, variables, validations with their messages, and
//! annotations for the audit log, over the variables `request`, `object`, `oldObject`, `namespaceObject`, `params` and `authorizer`.
//!
//! A variable is evaluated at most once, before the first expression that reads it; that it fails matters where its value is
//! needed.
//!
//! DIVERGES: match conditions do not know `namespaceObject`, which is always null in Kubernetes. No two variables have the same
//! name.

#[cfg(feature = "cel")]
mod compile;
#[cfg(feature = "cel")]
mod evaluate;
mod judgement;
mod texts;

#[cfg(feature = "cel")]
use compile::Compiled;
pub use judgement::{Budget, Checked, Judgement, OUT_OF_BUDGET, Timed};
use serde_json::{Map, Value};
pub use texts::{AuditAnnotation, Fault, ParamKind, Texts, Validation};

use std::sync::Arc;

use super::Write;
use super::checks::Checks;

/// The compiled expressions of a policy.
#[derive(Debug)]
pub struct Program {
    #[cfg(feature = "cel")]
    compiled: Compiled,
}

/// A write and its namespace, as the expressions of all policies see it.
pub struct Inputs {
    #[cfg(feature = "cel")]
    request: super::evaluate::Request<'static>,
    /// The request as it is.
    #[cfg(feature = "cel")]
    facts: Map<String, Value>,
}

/// The compile errors of the expressions of a policy. Slow: not for a thread that serves requests.
pub fn faults(policy: &Map<String, Value>) -> Vec<Fault> {
    let empty = Map::new();
    let spec = policy.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    match Texts::of(spec) {
        Ok(texts) => Program::compile(&texts).err().unwrap_or_default(),
        Err(why) => vec![Fault { field: "spec".to_owned(), text: String::new(), why }],
    }
}

#[cfg(feature = "cel")]
impl Program {
    /// Compiles the expressions of a policy. Takes time.
    ///
    /// # Errors
    /// Everything wrong with them.
    pub fn compile(texts: &Texts) -> Result<Self, Vec<Fault>> {
        compile::compile(texts).map(|compiled| Self { compiled })
    }

    /// Evaluates the expressions. `params` is the object with the parameters, if the policy has any. If a check has no answer yet,
    /// so that a question is open, the result does not count.
    pub fn judge(
        &self,
        inputs: &Inputs,
        params: Option<&Map<String, Value>>,
        budget: &mut Budget,
        checks: &Arc<Checks>,
    ) -> Judgement {
        evaluate::judge(&self.compiled, (&inputs.request, &inputs.facts), params, budget, checks)
    }
}

#[cfg(feature = "cel")]
impl Inputs {
    /// The inputs of a write. Objects in no namespace have no `namespace`, and namespaces neither.
    pub fn of(write: &Write<'_>, namespace: Option<&Map<String, Value>>) -> Self {
        let variables = [
            ("request", Some(write.request)),
            ("object", write.object),
            ("oldObject", write.old),
            ("namespaceObject", namespace),
        ];
        Self { request: super::evaluate::Request::of_write(variables), facts: write.request.clone() }
    }
}

#[cfg(not(feature = "cel"))]
impl Program {
    /// Returns an error: this program was built without feature `cel`.
    ///
    /// # Errors
    /// Always.
    pub fn compile(_texts: &Texts) -> Result<Self, Vec<Fault>> {
        let why = "this program was built without feature cel, which policies need".to_owned();
        Err(vec![Fault { field: "spec".to_owned(), text: String::new(), why }])
    }

    /// Never called, because there are no programs.
    pub fn judge(
        &self,
        _inputs: &Inputs,
        _params: Option<&Map<String, Value>>,
        _budget: &mut Budget,
        _checks: &Arc<Checks>,
    ) -> Judgement {
        Judgement::Failed("built without feature cel".to_owned())
    }
}

#[cfg(not(feature = "cel"))]
impl Inputs {
    /// Nothing, because there are no expressions.
    pub fn of(_write: &Write<'_>, _namespace: Option<&Map<String, Value>>) -> Self {
        Self {}
    }
}
