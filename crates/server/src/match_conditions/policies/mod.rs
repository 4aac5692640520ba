//! The expressions of ValidatingAdmissionPolicies: match conditions, variables, validations with their messages, and
//! annotations for the audit log, over the variables `request`, `object`, `oldObject`, `namespaceObject` and `params`.
//!
//! A variable is evaluated at most once, before the first expression that reads it; that it fails matters where its value is
//! needed.
//!
//! DIVERGES: the variable `authorizer` is not supported. Match conditions do not know `namespaceObject`, which is always null in
//! Kubernetes. No two variables have the same name.

#[cfg(feature = "cel")]
mod compile;
#[cfg(feature = "cel")]
mod evaluate;

#[cfg(feature = "cel")]
use compile::Compiled;
use policy::objects::decode::List;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Write;

/// What the expressions of a policy may go through for one binding: about the bytes of what they read. DIVERGES: Kubernetes
/// computes a cost instead, when a policy is written and while it is evaluated.
const BUDGET: u64 = 1 << 28;

/// The expressions of the `spec` of a policy, and what goes with them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Texts {
    /// The kind of the objects with its parameters.
    pub param_kind: Option<ParamKind>,
    match_conditions: List<Condition>,
    variables: List<Variable>,
    /// What must be true.
    pub validations: List<Validation>,
    /// What goes into the audit log.
    pub audit_annotations: List<AuditAnnotation>,
}

/// The kind of the objects with the parameters of a policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParamKind {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    expression: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Variable {
    name: String,
    expression: String,
}

/// A validation of a policy.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Validation {
    /// What must be true.
    pub expression: String,
    /// What is said if it is not.
    pub message: String,
    message_expression: String,
    /// The reason of the refusal; empty for the usual one.
    pub reason: String,
}

/// An annotation for the audit log.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AuditAnnotation {
    /// Its name, without that of the policy.
    pub key: String,
    value_expression: String,
}

/// Why a policy cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field with the expression.
    pub field: String,
    /// The expression.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

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
}

/// What the expressions of a policy may still go through.
#[derive(Debug)]
pub struct Budget(Option<u64>);

impl Default for Budget {
    fn default() -> Self {
        Self(Some(BUDGET))
    }
}

/// What a policy says about a write.
#[derive(Debug, PartialEq, Eq)]
pub enum Judgement {
    /// A match condition is false: it says nothing.
    Unmatched,
    /// The match conditions failed.
    Failed(String),
    /// What becomes of each validation and each annotation.
    Judged(Vec<Checked>, Vec<Result<Option<String>, String>>),
}

/// What becomes of a validation.
#[derive(Debug, PartialEq, Eq)]
pub enum Checked {
    /// It is true.
    Holds,
    /// It is false. The message, if an expression makes it.
    Fails(Option<String>),
    /// It failed.
    Failed(String),
}

/// What is wrong with the expressions of a policy. Takes time.
pub fn faults(policy: &Map<String, Value>) -> Vec<Fault> {
    let empty = Map::new();
    let spec = policy.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    match Texts::of(spec) {
        Ok(texts) => Program::compile(&texts).err().unwrap_or_default(),
        Err(why) => vec![Fault { field: "spec".to_owned(), text: String::new(), why }],
    }
}

impl Texts {
    /// Reads the `spec` of a policy.
    ///
    /// # Errors
    /// It is none.
    pub fn of(spec: &Map<String, Value>) -> Result<Self, String> {
        policy::objects::strict::from_map(spec).map_err(|error| error.to_string())
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

    /// Evaluates the expressions. `params` is the object with the parameters, if the policy has any.
    pub fn judge(
        &self,
        inputs: &Inputs,
        params: Option<&Map<String, Value>>,
        budget: &mut Budget,
    ) -> Judgement {
        evaluate::judge(&self.compiled, &inputs.request, params, budget)
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
        Self { request: super::evaluate::Request::of_write(variables) }
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
