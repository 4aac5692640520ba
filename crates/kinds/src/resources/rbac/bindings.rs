//! RoleBindings and ClusterRoleBindings.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::{GROUP, USUAL};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::Resource;
use crate::resources::cells::{AGE, NAME, age, name, text_column, wide_column};
use crate::resources::formats::{dns_subdomain, one_of, path_segment};
use crate::schema::rbac::{CLUSTER_ROLE_BINDING, ROLE_BINDING};
use crate::table::{Column, Row};

/// The row of RoleBindings.
pub static ROLE_BINDINGS: Resource = Resource {
    kind: "RoleBinding",
    plural: "rolebindings",
    schema: &ROLE_BINDING,
    default,
    validate_create: |binding| validate(binding, true),
    validate_update: |binding, old| validate_update(binding, old, true),
    columns: COLUMNS,
    row,
    ..USUAL
};

/// The row of ClusterRoleBindings.
pub static CLUSTER_ROLE_BINDINGS: Resource = Resource {
    kind: "ClusterRoleBinding",
    plural: "clusterrolebindings",
    schema: &CLUSTER_ROLE_BINDING,
    is_namespaced: false,
    default,
    validate_create: |binding| validate(binding, false),
    validate_update: |binding, old| validate_update(binding, old, false),
    columns: COLUMNS,
    row,
    ..USUAL
};

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Role", "The role that is granted."),
    AGE,
    wide_column("Users", "The users that it is granted to."),
    wide_column("Groups", "The groups that it is granted to."),
    wide_column("ServiceAccounts", "The service accounts that it is granted to."),
];

/// RB-1.
fn default(binding: &mut Map) {
    if let Some(role) = binding.object_or_new("roleRef") {
        role.default_text("apiGroup", GROUP);
    }
    for subject in binding.objects_mut("subjects") {
        if matches!(subject.text("kind"), "User" | "Group") {
            subject.default_text("apiGroup", GROUP);
        }
    }
}

fn validate(binding: &Map, is_namespaced: bool) -> Errors {
    let mut errors = validate_role(binding.object("roleRef"), is_namespaced);
    for (i, subject) in binding.objects("subjects").enumerate() {
        validate_subject(&format!("subjects[{i}]"), subject, is_namespaced, &mut errors);
    }
    errors
}

/// RB-74.
fn validate_role(role: &Map, is_namespaced: bool) -> Errors {
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let mut errors = Errors::new();
    errors.extend(one_of("roleRef.apiGroup", role.text("apiGroup"), &[GROUP]));
    errors.extend(one_of("roleRef.kind", role.text("kind"), kinds));
    match role.text("name") {
        "" => errors.push(FieldError::required("roleRef.name", "")),
        name => errors.extend(path_segment("roleRef.name", name)),
    }
    errors
}

/// RB-75, RB-76.
fn validate_subject(field: &str, subject: &Map, is_namespaced: bool, errors: &mut Errors) {
    let (subject_name, group) = (subject.text("name"), subject.text("apiGroup"));
    let (at_name, at_group) = (format!("{field}.name"), format!("{field}.apiGroup"));
    errors.push_if(subject_name.is_empty(), || FieldError::required(&at_name, ""));
    match subject.text("kind") {
        "ServiceAccount" => {
            if !subject_name.is_empty() {
                errors.extend(dns_subdomain(&at_name, subject_name));
            }
            errors.extend(one_of(&at_group, group, &[""]));
            if !is_namespaced && subject.text("namespace").is_empty() {
                errors.push(FieldError::required(format!("{field}.namespace"), ""));
            }
        }
        "User" | "Group" => errors.extend(one_of(&at_group, group, &[GROUP])),
        kind => {
            let known = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(format!("{field}.kind"), quoted(kind), &known));
        }
    }
}

/// RB-77.
fn validate_update(binding: &Map, old: &Map, is_namespaced: bool) -> Errors {
    let mut errors = validate(binding, is_namespaced);
    let (role, old_role) = (binding.object("roleRef"), old.object("roleRef"));
    if ["apiGroup", "kind", "name"].into_iter().any(|name| role.text(name) != old_role.text(name)) {
        let shown = Value::Object(role.clone()).to_string();
        errors.push(FieldError::invalid("roleRef", shown, "cannot change roleRef"));
    }
    errors
}

/// AP-92.
fn row(binding: &Map, now: i64) -> Row {
    let role = binding.object("roleRef");
    let subjects = |kind: &str| {
        let of_kind = binding.objects("subjects").filter(|subject| subject.text("kind") == kind);
        let shown: Vec<String> = of_kind.map(shown_subject).collect();
        Value::from(shown.join(", "))
    };
    Row::of(vec![
        name(binding),
        Value::from(format!("{}/{}", role.text("kind"), role.text("name"))),
        age(binding, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ])
}

fn shown_subject(subject: &Map) -> String {
    match subject.text("kind") {
        "ServiceAccount" => format!("{}/{}", subject.text("namespace"), subject.text("name")),
        _ => subject.text("name").to_owned(),
    }
}
