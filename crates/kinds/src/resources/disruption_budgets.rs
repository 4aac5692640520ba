//! PodDisruptionBudgets: how many pods of an application may be evicted at a time.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use super::cells::{AGE, NAME, age, integer_column, name, text_column};
use super::formats::{not_negative, one_of};
use super::scheduling::validate_label_selector;
use super::status;
use super::workloads::share_errors;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{MetadataChecks, Resource, Subresource};
use crate::schema::policy::{POD_DISRUPTION_BUDGET, POD_DISRUPTION_BUDGET_STATUS};
use crate::table::Row;

/// The row of PodDisruptionBudgets.
pub static POD_DISRUPTION_BUDGETS: Resource = Resource {
    group: "policy",
    kind: "PodDisruptionBudget",
    plural: "poddisruptionbudgets",
    short_names: &["pdb"],
    subresources: &[Subresource::status("PodDisruptionBudget")],
    schema: &POD_DISRUPTION_BUDGET,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    updates_unconditionally: false,
    prepare_create: |budget| status::begin(budget, &POD_DISRUPTION_BUDGET_STATUS),
    validate_create: |budget| validate(budget, true),
    prepare_update: status::keep,
    validate_update: |budget, _| validate(budget, false),
    prepare_status: status::keep_spec,
    validate_status: |budget, _| {
        let counters = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
        not_negative("status", budget.object("status"), &counters)
    },
    columns: &[
        NAME,
        text_column("Min Available", "How many pods must stay."),
        text_column("Max Unavailable", "How many pods may be missing."),
        integer_column("Allowed Disruptions", "How many pods may be evicted now."),
        AGE,
    ],
    row,
    ..Resource::USUAL
};

fn validate(budget: &Map, checks_values: bool) -> Errors {
    let spec = budget.object("spec");
    let mut errors = Vec::new();
    errors.push_if(spec.has("minAvailable") && spec.has("maxUnavailable"), || {
        FieldError::invalid("spec", "{}", "minAvailable and maxUnavailable cannot be both set")
    });
    for member in ["minAvailable", "maxUnavailable"] {
        let amount = spec.get(member).filter(|amount| !amount.is_null());
        errors.extend(amount.and_then(|amount| share_errors(&format!("spec.{member}"), amount)));
    }
    errors.extend(validate_label_selector("spec.selector", spec.object("selector"), checks_values));
    if spec.has("unhealthyPodEvictionPolicy") {
        let policy = spec.text("unhealthyPodEvictionPolicy");
        let known = ["AlwaysAllow", "IfHealthyBudget"];
        errors.extend(one_of("spec.unhealthyPodEvictionPolicy", policy, &known));
    }
    errors
}

fn row(budget: &Map, now: i64) -> Row {
    let spec = budget.object("spec");
    let amount = |member: &str| match spec.get(member) {
        None | Some(Value::Null) => Value::from("N/A"),
        Some(Value::String(share)) => Value::from(share.as_str()),
        Some(number) => Value::from(number.to_string()),
    };
    Row::of(vec![
        name(budget),
        amount("minAvailable"),
        amount("maxUnavailable"),
        json!(budget.object("status").number("disruptionsAllowed")),
        age(budget, now),
    ])
}
