//! Rules in CEL. Another crate compiles and evaluates them, so it is passed in.

use std::fmt::Debug;

use portcullis_apimachinery::field_error::FieldErrors;

use super::schema::Schema;
use crate::Map;

/// The compiled rules of a schema.
pub trait Rules: Debug + Send + Sync {
    /// The errors of the rules that do not hold for an object. `old` is the stored object, in an update.
    fn check(&self, schema: &Schema, object: &Map, old: Option<&Map>) -> FieldErrors;
}

/// Compiles the rules of schemas. Takes long: not for a thread that serves requests.
pub trait RuleCompiler: Sync {
    /// Compiles the rules of a schema, which has some.
    ///
    /// # Errors
    /// Everything wrong with the rules. `path` is that of the schema in its definition.
    fn compile(&self, schema: &Schema, path: &str) -> Result<Box<dyn Rules>, FieldErrors>;
}
