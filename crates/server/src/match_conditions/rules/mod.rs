//! The rules of custom kinds (`x-kubernetes-validations`): compiled with the types that the schema declares, and evaluated
//! over objects, with `self` and `oldSelf`.
//!
//! DIVERGES: the cost of a rule is estimated in fewer steps than in Kubernetes, and what a request may cost is bounded by
//! the size of its object and the loops of its rules. Lists of type `set` and `map` are compared entry by entry.

#[cfg(feature = "cel")]
mod compile;
#[cfg(feature = "cel")]
mod cost;
#[cfg(feature = "cel")]
mod evaluate;
#[cfg(feature = "cel")]
mod names;
#[cfg(feature = "cel")]
mod values;

use kinds::custom::{RuleCompiler, Rules, Schema};
use portcullis_apimachinery::field_error::FieldErrors;

/// Compiles rules.
#[derive(Clone, Copy, Debug)]
pub struct Compiler;

/// The compiler of rules.
pub static RULES: Compiler = Compiler;

#[cfg(feature = "cel")]
impl RuleCompiler for Compiler {
    fn compile(&self, schema: &Schema, path: &str) -> Result<Box<dyn Rules>, FieldErrors> {
        compile::compile(schema, path)
    }
}

#[cfg(not(feature = "cel"))]
impl RuleCompiler for Compiler {
    fn compile(&self, _schema: &Schema, path: &str) -> Result<Box<dyn Rules>, FieldErrors> {
        let why = "this program was built without feature cel, which rules need";
        Err([portcullis_apimachinery::field_error::FieldError::forbidden(path, why)].into())
    }
}
