//! Validation of reviews (WH-72, WH-73, WH-74, WH-87, NA-22). An invalid review gets a 422 response with these errors.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::{label_key_errors, label_value_errors};
use portcullis_apimachinery::selector::SelectorRequirement;
use serde_json::json;

use super::{AccessReview, NonResourceAttributes, ResourceAttributes, ReviewKind, SelectorAttributes};

impl AccessReview {
    /// Returns all validation errors, in the order of the API server. A valid review has none.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        match (&self.resource, &self.non_resource) {
            (Some(_), Some(path)) => errors.push(FieldError::invalid(
                "spec.nonResourceAttributes",
                shown(path),
                "cannot be specified in combination with resourceAttributes",
            )),
            (None, None) => errors.push(FieldError::invalid(
                "spec.resourceAttributes",
                "\"null\"",
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            )),
            _ => {}
        }
        if self.kind.names_subject() && self.user.name.is_empty() && self.user.groups.is_empty() {
            errors.push(FieldError::invalid(
                "spec.user",
                "\"\"",
                "at least one of user or group must be specified",
            ));
        }
        if let Some(resource) = &self.resource {
            validate_selectors(resource, &mut errors);
        }
        self.validate_metadata(&mut errors);
        errors
    }

    fn validate_metadata(&self, errors: &mut Vec<FieldError>) {
        let namespace = &self.metadata.namespace;
        let is_local = self.kind == ReviewKind::LocalSubjectAccessReview;
        let rest = self.metadata.rest.clone();
        let set = if is_local || namespace.is_empty() {
            rest
        } else {
            Some(rest.unwrap_or_else(|| json!({ "namespace": namespace }).to_string()))
        };
        if let Some(set) = set {
            let detail = if is_local { "must be empty except for namespace" } else { "must be empty" };
            errors.push(FieldError::invalid("metadata", set, detail));
        }
        if !is_local {
            return;
        }
        // WH-73: an empty namespace is not filled in.
        if let Some(resource) = self.resource.as_ref().filter(|resource| resource.namespace != *namespace) {
            errors.push(FieldError::invalid(
                "spec.resourceAttributes.namespace",
                format!("{:?}", resource.namespace),
                "must match metadata.namespace",
            ));
        }
        if let Some(path) = &self.non_resource {
            errors.push(FieldError::invalid(
                "spec.nonResourceAttributes",
                shown(path),
                "disallowed on this kind of request",
            ));
        }
    }
}

fn shown(attributes: &NonResourceAttributes) -> String {
    json!({ "path": attributes.path, "verb": attributes.verb }).to_string()
}

fn validate_selectors(resource: &ResourceAttributes, errors: &mut Vec<FieldError>) {
    if let Some(selector) = &resource.field_selector {
        let path = "spec.resourceAttributes.fieldSelector";
        validate_selector(path, selector, errors, |path, requirement, errors| {
            if requirement.key.is_empty() {
                errors.push(FieldError::required(format!("{path}.key"), "must be specified"));
            }
            validate_operator(path, requirement, errors);
        });
    }
    if let Some(selector) = &resource.label_selector {
        let path = "spec.resourceAttributes.labelSelector";
        validate_selector(path, selector, errors, |path, requirement, errors| {
            validate_operator(path, requirement, errors);
            let invalid = |field: &str, value: &str, detail| {
                FieldError::invalid(format!("{path}.{field}"), format!("{value:?}"), detail)
            };
            let SelectorRequirement { key, values, .. } = requirement;
            errors.extend(label_key_errors(key).into_iter().map(|detail| invalid("key", key, detail)));
            for (i, value) in values.iter().enumerate() {
                let details = label_value_errors(value).into_iter();
                errors.extend(details.map(|detail| invalid(&format!("values[{i}]"), value, detail)));
            }
        });
    }
}

fn validate_selector(
    path: &str,
    selector: &SelectorAttributes,
    errors: &mut Vec<FieldError>,
    validate_requirement: impl Fn(&str, &SelectorRequirement, &mut Vec<FieldError>),
) {
    if !selector.raw.is_empty() && !selector.requirements.is_empty() {
        errors.push(FieldError::invalid(
            format!("{path}.rawSelector"),
            format!("{:?}", selector.raw),
            "may not specified at the same time as requirements",
        ));
    }
    if selector.raw.is_empty() && selector.requirements.is_empty() {
        errors.push(FieldError::required(
            format!("{path}.requirements"),
            format!("when {path} is specified, requirements or rawSelector is required"),
        ));
    }
    for (i, requirement) in selector.requirements.iter().enumerate() {
        validate_requirement(&format!("{path}.requirements[{i}]"), requirement, errors);
    }
}

/// The conversion drops unknown operators, which newer clients may use (WH-72, WH-77).
fn validate_operator(path: &str, requirement: &SelectorRequirement, errors: &mut Vec<FieldError>) {
    let field = || format!("{path}.values");
    match requirement.operator.as_str() {
        "In" | "NotIn" if requirement.values.is_empty() => {
            errors.push(FieldError::required(field(), "must be specified when `operator` is 'In' or 'NotIn'"))
        }
        "Exists" | "DoesNotExist" if !requirement.values.is_empty() => errors.push(FieldError::forbidden(
            field(),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        _ => {}
    }
}
