//! The expressions of a policy as they are written, and what can be wrong with them.

use policy::objects::decode::List;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The expressions of the `spec` of a policy, and what goes with them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Texts {
    /// The kind of the objects with its parameters.
    pub param_kind: Option<ParamKind>,
    pub(super) match_conditions: List<Condition>,
    pub(super) variables: List<Variable>,
    /// The validations.
    pub validations: List<Validation>,
    /// The audit annotations.
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
pub(super) struct Condition {
    pub(super) expression: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) expression: String,
}

/// A validation of a policy.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Validation {
    /// The expression, which must be true.
    pub expression: String,
    /// The message if it is false.
    pub message: String,
    pub(super) message_expression: String,
    /// The reason of the refusal; empty for the usual one.
    pub reason: String,
}

/// An annotation for the audit log.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AuditAnnotation {
    /// Its name, without that of the policy.
    pub key: String,
    pub(super) value_expression: String,
}

/// Why a policy cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field with the expression.
    pub field: String,
    /// The expression.
    pub text: String,
    /// The compile error.
    pub why: String,
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
