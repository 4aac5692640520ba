//! ResourceQuotas and LimitRanges: how much a namespace may use, and how much of it one of its objects.
//!
//! [`super::limit_ranges`] applies LimitRanges to pods and claims, [`crate::quota`] counts for ResourceQuotas.

use std::collections::BTreeSet;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::quota::REQUIRED;
use crate::resource::{MetadataChecks, Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::{immutable, qualified_name};
use crate::resources::pods::same_value;
use crate::resources::quantities::{amount_errors, quantity, round_amounts};
use crate::resources::resource_names::is_standard_in_quotas;
use crate::resources::status;
use crate::schema::core::quota::{LIMIT_RANGE, RESOURCE_QUOTA, RESOURCE_QUOTA_STATUS};
use crate::schema::values;
use crate::table::{Column, Row};

/// The row of ResourceQuotas.
pub static RESOURCE_QUOTAS: Resource = Resource {
    kind: "ResourceQuota",
    plural: "resourcequotas",
    short_names: &["quota"],
    subresources: &[Subresource::status("ResourceQuota")],
    schema: &RESOURCE_QUOTA,
    metadata_checks: CHECKS,
    deletes_to_object: true,
    default: |quota| {
        if let Some(spec) = quota.object_or_new("spec") {
            round_amounts(spec, "hard");
        }
        if let Some(status) = quota.object_or_new("status") {
            round_amounts(status, "hard");
            round_amounts(status, "used");
        }
    },
    prepare_create: |quota| status::reset(quota, &RESOURCE_QUOTA_STATUS),
    validate_create: validate_quota,
    prepare_update: |quota, old| quota.copy("status", old),
    validate_update: |quota, old| {
        let mut errors = validate_quota(quota);
        let scopes = |quota: &Map| -> BTreeSet<String> {
            quota.object("spec").texts("scopes").map(str::to_owned).collect()
        };
        errors.extend(immutable("spec.scopes", scopes(quota), scopes(old)));
        let selector = |quota: &Map| quota.object("spec").get("scopeSelector").cloned();
        let is_same = same_value(selector(quota).as_ref(), selector(old).as_ref());
        errors.extend(immutable("spec.scopeSelector", is_same, true));
        errors
    },
    prepare_status: status::keep_spec,
    validate_status: |quota, _| {
        let status = quota.object("status");
        let mut errors = counted("status.hard", status.object("hard"));
        errors.extend(counted("status.used", status.object("used")));
        errors
    },
    columns: COLUMNS,
    row,
    ..Resource::USUAL
};

/// The row of LimitRanges.
pub static LIMIT_RANGES: Resource = Resource {
    kind: "LimitRange",
    plural: "limitranges",
    short_names: &["limits"],
    schema: &LIMIT_RANGE,
    metadata_checks: CHECKS,
    creates_on_update: true,
    default: default_limits,
    validate_create: validate_limits,
    validate_update: |range, _| validate_limits(range),
    columns: &[NAME, text_column("Created At", "When the object was created.")],
    row: |range, _| Row::of(vec![name(range), Value::from(range.metadata().text("creationTimestamp"))]),
    ..Resource::USUAL
};

const CHECKS: MetadataChecks = MetadataChecks { alone: 1, as_update: 1, knows_finalizers: true };

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Request", "What is used of what is requested, and how much may be."),
    text_column("Limit", "What is used of what is limited, and how much may be."),
    AGE,
];

fn amounts(field: &str, amounts: &Map) -> Errors {
    let of = |(resource, amount): (&String, &Value)| {
        let field = format!("{field}[{resource}]");
        let mut errors = qualified_name(&field, resource);
        errors.extend(amount_errors(&field, resource, amount));
        errors
    };
    amounts.iter().flat_map(of).collect()
}

/// The most limits of one quota. DIVERGES: Kubernetes has no limit. Each new object of the namespace is compared with all.
const MOST_LIMITS: usize = 500;
/// The most expressions of a scope selector, and the most values of one. DIVERGES: Kubernetes has no limit. Each is compared with
/// each new object.
pub const MOST_EXPRESSIONS: usize = 100;
/// See [`MOST_EXPRESSIONS`].
pub const MOST_VALUES: usize = 500;

/// The limits of a quota, or what is used of them.
fn counted(field: &str, counted: &Map) -> Errors {
    let mut errors = amounts(field, counted);
    let unknown = counted.keys().filter(|name| !name.contains('/') && !is_standard_in_quotas(name));
    errors.extend(unknown.map(|name| {
        FieldError::invalid(
            format!("{field}[{name}]"),
            quoted(name),
            "must be a standard resource for quotas",
        )
    }));
    errors
}

fn validate_quota(quota: &Map) -> Errors {
    let spec = quota.object("spec");
    let hard = spec.object("hard");
    let expressions = spec.object("scopeSelector").objects("matchExpressions");
    let most_values = expressions.clone().map(|expression| expression.list("values").len()).max();
    let of_selector = "spec.scopeSelector.matchExpressions";
    // Limited before they are compared with each other. Of more scopes than there are, one would be there twice.
    for (field, count, most) in [
        ("spec.hard", hard.len(), MOST_LIMITS),
        ("spec.scopes", spec.list("scopes").len(), values::QUOTA_SCOPES.len()),
        (of_selector, expressions.len(), MOST_EXPRESSIONS),
        (of_selector, most_values.unwrap_or_default(), MOST_VALUES),
    ] {
        if count > most {
            return Errors::from_iter([FieldError::too_many(field, count, most)]);
        }
    }
    let mut errors = counted("spec.hard", hard);
    // Found once for each scope, and not for each time that one is named.
    let does_not_apply = |scope: &&&str| !hard.keys().all(|name| applies_to(scope, name));
    let unsupported: Vec<&str> = values::QUOTA_SCOPES.iter().filter(does_not_apply).copied().collect();
    for (i, scope) in spec.texts("scopes").enumerate() {
        errors.push_if(unsupported.contains(&scope), || {
            let field = format!("spec.scopes[{i}]");
            FieldError::invalid(field, quoted(scope), "unsupported scope applied to resource")
        });
    }
    for pair in [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]] {
        let has_both = pair.iter().all(|scope| spec.texts("scopes").any(|given| given == *scope));
        errors.push_if(has_both, || {
            FieldError::invalid("spec.scopes", pair.map(quoted).join(", "), "conflicting scopes")
        });
    }
    let mut seen = BTreeSet::new();
    for (i, scope) in spec.texts("scopes").enumerate() {
        let field = format!("spec.scopes[{i}]");
        errors.push_if(!values::QUOTA_SCOPES.contains(&scope), || {
            FieldError::invalid(&field, quoted(scope), "unsupported scope")
        });
        errors.push_if(!seen.insert(scope), || FieldError::duplicate(field, quoted(scope)));
    }
    let selector = spec.object("scopeSelector");
    for (i, expression) in selector.objects("matchExpressions").enumerate() {
        let field = format!("spec.scopeSelector.matchExpressions[{i}]");
        let is_unsupported = unsupported.contains(&expression.text("scopeName"));
        errors.extend(scope_errors(&field, expression, is_unsupported));
    }
    errors
}

/// Validates an expression of a scope selector, also of one that is not in a quota. `is_unsupported` says that the quota limits what
/// objects in that scope do not use.
pub fn scope_errors(field: &str, expression: &Map, is_unsupported: bool) -> Errors {
    let mut errors = Errors::new();
    let scope = expression.text("scopeName");
    errors.push_if(!values::QUOTA_SCOPES.contains(&scope), || {
        FieldError::invalid(format!("{field}.scopeName"), quoted(scope), "unsupported scope")
    });
    let takes_values = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
    errors.push_if(!takes_values && expression.text("operator") != "Exists", || {
        let detail = format!("must be 'Exists' when scope is {scope}");
        FieldError::invalid(format!("{field}.operator"), quoted(expression.text("operator")), detail)
    });
    errors.push_if(is_unsupported, || {
        FieldError::invalid(
            format!("{field}.scopeName"),
            quoted(scope),
            "unsupported scope applied to resource",
        )
    });
    let has_values = !expression.list("values").is_empty();
    let values = format!("{field}.values");
    match expression.text("operator") {
        "In" | "NotIn" => errors.push_if(!has_values, || {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            FieldError::required(values, detail)
        }),
        "Exists" | "DoesNotExist" => errors.push_if(has_values, || {
            let detail = "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector";
            FieldError::invalid(values, "", detail)
        }),
        operator => errors.push(FieldError::invalid(
            format!("{field}.operator"),
            quoted(operator),
            "not a valid selector operator",
        )),
    }
    errors
}

/// Whether objects in a scope can use what has this name. Extended resources and numbers of objects (`count/pods`) are not
/// looked at, as in Kubernetes.
fn applies_to(scope: &str, name: &str) -> bool {
    if !is_standard_in_quotas(name) {
        return true;
    }
    match scope {
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        "BestEffort" => name == "pods",
        _ => name == "pods" || REQUIRED.contains(&name),
    }
}

/// The members of a limit, each with a value for every resource.
const LIMITS: [&str; 5] = ["default", "defaultRequest", "max", "maxLimitRequestRatio", "min"];

/// Of a container, the default limit is the maximum, and the default request the default limit, or the minimum.
fn default_limits(range: &mut Map) {
    let Some(spec) = range.object_or_new("spec") else { return };
    for item in spec.objects_mut("limits") {
        LIMITS.into_iter().for_each(|name| round_amounts(item, name));
        if item.text("type") != "Container" {
            continue;
        }
        for (name, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
            let given = item.object(from).clone();
            if given.is_empty() {
                continue;
            }
            if let Some(limits) = item.object_or_new(name) {
                for (resource, amount) in given {
                    limits.entry(resource).or_insert(amount);
                }
            }
        }
    }
}

fn validate_limits(range: &Map) -> Errors {
    let mut errors = Errors::new();
    let mut seen = BTreeSet::new();
    for (i, item) in range.object("spec").objects("limits").enumerate() {
        let field = format!("spec.limits[{i}]");
        let kind = item.text("type");
        errors.extend(qualified_name(&format!("{field}.type"), kind));
        errors.push_if(!seen.insert(kind), || FieldError::duplicate(format!("{field}.type"), quoted(kind)));
        for name in LIMITS {
            errors.extend(amounts(&format!("{field}.{name}"), item.object(name)));
        }
        for name in ["default", "defaultRequest"] {
            errors.push_if(kind == "Pod" && !item.object(name).is_empty(), || {
                FieldError::forbidden(format!("{field}.{name}"), "may not be specified when `type` is 'Pod'")
            });
        }
        for (low, high) in
            [("min", "max"), ("min", "default"), ("defaultRequest", "default"), ("default", "max")]
        {
            errors.extend(ordered(&field, item, low, high));
        }
    }
    errors
}

/// No amount of the one may be above that of the other.
fn ordered(field: &str, item: &Map, low: &str, high: &str) -> Errors {
    let above = item.object(low).iter().filter(|(resource, _)| {
        let (least, most) = (quantity(item.object(low), resource), quantity(item.object(high), resource));
        least.zip(most).is_some_and(|(least, most)| least > most)
    });
    let error = |(resource, amount): (&String, &Value)| {
        let detail = format!("{low} value {amount} is greater than {high} value");
        FieldError::invalid(format!("{field}.{low}[{resource}]"), amount.to_string(), detail)
    };
    above.map(error).collect()
}

fn row(quota: &Map, now: i64) -> Row {
    let status = quota.object("status");
    let used = |resource: &str| quantity(status.object("used"), resource).unwrap_or_default();
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in status.object("hard") {
        let hard = hard.as_str().unwrap_or_default();
        let shown = format!("{resource}: {}/{hard}", used(resource));
        if resource.starts_with("limits") { limits.push(shown) } else { requests.push(shown) }
    }
    Row::of(vec![name(quota), requests.join(", ").into(), limits.join(", ").into(), age(quota, now)])
}
