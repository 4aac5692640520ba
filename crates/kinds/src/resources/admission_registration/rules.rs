//! The rules of webhooks and policies, which select requests.

use std::collections::BTreeSet;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::json;

use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resources::formats::{one_of, path_segment};
use crate::resources::scheduling::validate_label_selector;
use crate::schema::values;

/// The defaults of a webhook, or of what a policy is for.
pub(super) fn default_matching(holder: &mut Map) {
    holder.default_value("matchPolicy", "Equivalent");
    holder.default_value("namespaceSelector", json!({}));
    holder.default_value("objectSelector", json!({}));
    for list in ["rules", "resourceRules", "excludeResourceRules"] {
        for rule in holder.objects_mut(list) {
            rule.default_value("scope", "*");
        }
    }
}

/// Validates what a webhook or a policy is for.
pub(super) fn validate_matching(field: &str, holder: &Map, errors: &mut Errors) {
    if holder.has("matchPolicy") {
        let policy = holder.text("matchPolicy");
        errors.extend(one_of(&format!("{field}.matchPolicy"), policy, values::MATCH_POLICIES));
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        let of = format!("{field}.{selector}");
        errors.extend(validate_label_selector(&of, holder.object(selector), true));
    }
    for list in ["rules", "resourceRules", "excludeResourceRules"] {
        for (i, rule) in holder.objects(list).enumerate() {
            validate_rule(&format!("{field}.{list}[{i}]"), rule, errors);
        }
    }
}

fn validate_rule(field: &str, rule: &Map, errors: &mut Errors) {
    for list in ["operations", "apiGroups", "apiVersions", "resources"] {
        let field = format!("{field}.{list}");
        errors.push_if(rule.list(list).is_empty(), || FieldError::required(&field, ""));
        errors.push_if(rule.list(list).len() > 1 && list != "resources" && has_all(rule, list), || {
            let detail = "if '*' is present, must not specify other values";
            FieldError::invalid(&field, "[\"*\"]", detail)
        });
    }
    let mut names = BTreeSet::new();
    for (i, name) in rule.texts("resourceNames").enumerate() {
        let field = format!("{field}.resourceNames[{i}]");
        errors.extend(path_segment(&field, name));
        errors.push_if(!names.insert(name), || FieldError::duplicate(&field, quoted(name)));
    }
    for (i, operation) in rule.texts("operations").enumerate() {
        errors.extend(one_of(&format!("{field}.operations[{i}]"), operation, values::OPERATIONS));
    }
    if rule.has("scope") {
        errors.extend(one_of(&format!("{field}.scope"), rule.text("scope"), values::RULE_SCOPES));
    }
}

/// The most match conditions of a webhook or a policy.
pub(super) const MAX_CONDITIONS: usize = 64;

/// Validates the number and the names of match conditions.
pub(super) fn validate_conditions(field: &str, holder: &Map, errors: &mut Errors) {
    validate_texts(field, holder, "matchConditions", &["name", "expression"], errors);
    let conditions = holder.objects("matchConditions");
    let field = format!("{field}.matchConditions");
    errors.push_if(conditions.len() > MAX_CONDITIONS, || {
        FieldError::too_many(&field, conditions.len(), MAX_CONDITIONS)
    });
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.take(MAX_CONDITIONS).enumerate() {
        let name = condition.text("name");
        errors.push_if(!seen.insert(name), || {
            FieldError::duplicate(format!("{field}[{i}].name"), quoted(name))
        });
    }
}

fn has_all(rule: &Map, list: &str) -> bool {
    rule.texts(list).any(|entry| entry == "*")
}

/// Validates what becomes of a request when a webhook or a policy fails.
pub(super) fn validate_failure(field: &str, holder: &Map, errors: &mut Errors) {
    if holder.has("failurePolicy") {
        let field = format!("{field}.failurePolicy");
        errors.extend(one_of(&field, holder.text("failurePolicy"), values::FAILURE_POLICIES));
    }
}

/// Validates that the entries of a list have these texts.
pub(super) fn validate_texts(field: &str, holder: &Map, list: &str, texts: &[&str], errors: &mut Errors) {
    for (i, entry) in holder.objects(list).enumerate() {
        for text in texts {
            errors.push_if(entry.text(text).trim().is_empty(), || {
                FieldError::required(format!("{field}.{list}[{i}].{text}"), "")
            });
        }
    }
}
