//! Roles and ClusterRoles.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use super::USUAL;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::Resource;
use crate::resources::cells::{NAME, name, text_column};
use crate::resources::scheduling::validate_label_selector;
use crate::schema::rbac::{CLUSTER_ROLE, ROLE};
use crate::table::{Column, Row};

/// The row of Roles.
pub static ROLES: Resource = Resource {
    kind: "Role",
    plural: "roles",
    schema: &ROLE,
    default,
    validate_create: |role| validate_rules(role, true),
    validate_update: |role, _| validate_rules(role, true),
    columns: COLUMNS,
    row,
    ..USUAL
};

/// The row of ClusterRoles.
pub static CLUSTER_ROLES: Resource = Resource {
    kind: "ClusterRole",
    plural: "clusterroles",
    schema: &CLUSTER_ROLE,
    is_namespaced: false,
    default,
    validate_create: |role| validate_cluster_role(role, true),
    validate_update: |role, old| validate_cluster_role(role, !has_bad_selector_value(old)),
    columns: COLUMNS,
    row,
    ..USUAL
};

const COLUMNS: &[Column] =
    &[NAME, Column { kind: "date", ..text_column("Created At", "When the object was created.") }];

/// RB-2.
fn default(role: &mut Map) {
    role.empty_to_null("rules");
}

/// RB-71, RB-72: validates all rules, in order.
fn validate_rules(role: &Map, is_namespaced: bool) -> Errors {
    let rules = role.objects("rules").enumerate();
    rules.flat_map(|(i, rule)| validate_rule(&format!("rules[{i}]"), rule, is_namespaced)).collect()
}

/// RB-71.
fn validate_rule(field: &str, rule: &Map, is_namespaced: bool) -> Errors {
    let is_empty = |name: &str| rule.list(name).is_empty();
    let mut errors = Errors::new();
    let mut require = |name: &str, detail: &str| {
        errors.push_if(is_empty(name), || FieldError::required(format!("{field}.{name}"), detail));
    };
    require("verbs", "verbs must contain at least one value");
    if is_empty("nonResourceURLs") {
        require("apiGroups", "resource rules must supply at least one api group");
        require("resources", "resource rules must supply at least one resource");
        return errors;
    }
    let invalid = |detail| {
        let urls = Value::from(rule.list("nonResourceURLs"));
        FieldError::invalid(format!("{field}.nonResourceURLs"), urls.to_string(), detail)
    };
    errors.push_if(is_namespaced, || invalid("namespaced rules cannot apply to non-resource URLs"));
    if !["apiGroups", "resources", "resourceNames"].into_iter().all(is_empty) {
        errors.push(invalid("rules cannot apply to both regular resources and non-resource URLs"));
    }
    errors
}

/// RB-71, RB-73.
fn validate_cluster_role(role: &Map, checks_selector_values: bool) -> Errors {
    let mut errors = validate_rules(role, false);
    if !role.has("aggregationRule") {
        return errors;
    }
    let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
    errors.push_if(selectors(role).len() == 0, || FieldError::required(SELECTORS, detail));
    for (i, selector) in selectors(role).enumerate() {
        let field = format!("{SELECTORS}[{i}]");
        errors.extend(validate_label_selector(&field, selector, checks_selector_values));
        // Kubernetes then checks the whole selector a second time, without tolerating invalid values.
        if !validate_label_selector(&field, selector, true).is_empty() {
            let shown = Value::Object(selector.clone()).to_string();
            errors.push(FieldError::invalid(field, shown, "invalid label selector."));
        }
    }
    errors
}

const SELECTORS: &str = "aggregationRule.clusterRoleSelectors";

fn selectors(role: &Map) -> impl ExactSizeIterator<Item = &Map> {
    role.object("aggregationRule").objects("clusterRoleSelectors")
}

/// RB-73: returns whether a selector of the stored role has an invalid label value.
fn has_bad_selector_value(role: &Map) -> bool {
    let count = |checks_values| {
        selectors(role)
            .map(|selector| validate_label_selector("", selector, checks_values).len())
            .sum::<usize>()
    };
    count(true) > count(false)
}

/// AP-91: the time itself, not the age.
fn row(role: &Map, _now: i64) -> Row {
    let created = role.metadata().text("creationTimestamp");
    Row::of(vec![name(role), Value::from(created)])
}
