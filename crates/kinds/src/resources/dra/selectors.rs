//! Selectors of devices: CEL expressions, which the scheduler evaluates.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;

use super::lists::validate_list;
use crate::Map;
use crate::fields::{Errors, Members};

/// The maximum number of selectors.
const MAX_SELECTORS: usize = 32;
/// The maximum size of an expression, in bytes.
const MAX_EXPRESSION: usize = 10 * 1024;

/// What is wrong with expressions, by expression.
pub(super) type Faults = BTreeMap<String, String>;

/// For objects whose expressions are not compiled: those that do not come from clients.
pub(super) static NO_FAULTS: Faults = Faults::new();

/// Validates the selectors of a request or a class.
pub(super) fn validate_selectors(field: &str, owner: &Map, faults: &Faults) -> Errors {
    validate_list(field, owner.objects("selectors"), MAX_SELECTORS, |field, selector| {
        if !selector.has("cel") {
            return Errors::from([FieldError::required(format!("{field}.cel"), "")]);
        }
        let field = format!("{field}.cel.expression");
        let expression = selector.object("cel").text("expression");
        if expression.len() > MAX_EXPRESSION {
            return Errors::from([FieldError::too_long(field, MAX_EXPRESSION)]);
        }
        let fault = match expression {
            "" => Some("must be an expression".to_owned()),
            expression => faults.get(expression).map(|fault| format!("compilation failed: {fault}")),
        };
        fault.map(|fault| FieldError::invalid(field, quoted(expression), fault)).into_iter().collect()
    })
}

/// The expressions of a class.
pub(super) fn of_class(class: &Map) -> BTreeSet<&str> {
    expressions(class.object("spec")).collect()
}

/// The expressions of the spec of a claim.
pub(super) fn of_claim<'c>(spec: &'c Map) -> BTreeSet<&'c str> {
    let of_request = |request: &'c Map| {
        let alternatives = request.objects("firstAvailable").flat_map(expressions);
        expressions(request.object("exactly")).chain(alternatives)
    };
    spec.object("devices").objects("requests").flat_map(of_request).collect()
}

/// The expressions of a request or a class that are not refused unseen.
fn expressions(owner: &Map) -> impl Iterator<Item = &str> {
    let selectors = owner.objects("selectors").take(MAX_SELECTORS);
    selectors
        .map(|selector| selector.object("cel").text("expression"))
        .filter(|expression| (1..=MAX_EXPRESSION).contains(&expression.len()))
}
