//! The errors of a validation.

use portcullis_apimachinery::field_error::FieldError;
/// Validation errors, in the order in which Kubernetes reports them.
pub(crate) use portcullis_apimachinery::field_error::FieldErrors as Errors;

use super::Field;
use super::field::Syntax;

/// Adds the errors of common checks.
pub(crate) trait ErrorList {
    /// Adds an error if something is wrong. The error is only made then.
    fn push_if(&mut self, is_wrong: bool, error: impl FnOnce() -> FieldError);
    /// Adds an error if the field is empty or not set.
    fn require(&mut self, field: &Field<'_>);
    /// Adds an error if the field is empty or not set, else its faults of syntax.
    fn require_syntax(&mut self, field: &Field<'_>, syntax: Syntax);
    /// Adds the faults of syntax of a field that may be empty.
    fn check_syntax(&mut self, field: &Field<'_>, syntax: Syntax);
    /// Adds an error if a field that is set has none of these values.
    fn check_one_of(&mut self, field: &Field<'_>, known: &[&str]);
    /// Adds an error if the field has none of these values. An empty one is missing, not unsupported.
    fn require_one_of(&mut self, field: &Field<'_>, known: &[&str]);
}

impl ErrorList for Errors {
    fn push_if(&mut self, is_wrong: bool, error: impl FnOnce() -> FieldError) {
        if is_wrong {
            self.push(error());
        }
    }

    fn require(&mut self, field: &Field<'_>) {
        self.push_if(field.is_empty(), || field.required(""));
    }

    fn require_syntax(&mut self, field: &Field<'_>, syntax: Syntax) {
        self.require(field);
        self.check_syntax(field, syntax);
    }

    fn check_syntax(&mut self, field: &Field<'_>, syntax: Syntax) {
        if !field.text().is_empty() {
            self.extend(field.faults(syntax));
        }
    }

    fn check_one_of(&mut self, field: &Field<'_>, known: &[&str]) {
        self.push_if(field.is_set() && !known.contains(&field.text()), || field.not_supported(known));
    }

    fn require_one_of(&mut self, field: &Field<'_>, known: &[&str]) {
        match field.text() {
            "" => self.push(field.required("")),
            text => self.push_if(!known.contains(&text), || field.not_supported(known)),
        }
    }
}
