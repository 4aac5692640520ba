//! PodDisruptionBudgets: how many pods of an application may be evicted at a time.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::time::Instant;
use serde_json::{Value, json};

use super::cells::{AGE, NAME, age, integer_column, name, text_column};
use super::formats::{not_negative, one_of};
use super::label_selectors::selects;
use super::scheduling::validate_label_selector;
use super::status;
use super::workloads::share_errors;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{MetadataChecks, Resource, Subresource};
use crate::schema::policy::{POD_DISRUPTION_BUDGET, POD_DISRUPTION_BUDGET_STATUS};
use crate::schema::values;
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
    let mut errors = Errors::new();
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
        errors.extend(one_of("spec.unhealthyPodEvictionPolicy", policy, values::EVICTION_POLICIES));
    }
    errors
}

/// Why a budget does not let a pod go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// Not now: 429.
    ForNow {
        /// The cause.
        why: String,
        /// The seconds after which to ask again; 0 if that is not known.
        retry_after: u32,
    },
    /// Not until its status is put right: 403.
    ByStatus(&'static str),
}

/// The number of pods that may be noted as evicted at a time.
const MAX_DISRUPTED: usize = 2000;

/// Whether a budget has a say in the eviction of a pod. It has none in that of a pod that serves nobody: one that has
/// finished, has not started, or is being deleted.
pub fn protects(budget: &Map, pod: &Map) -> bool {
    let spec = budget.object("spec");
    let is_idle = matches!(pod.object("status").text("phase"), "Failed" | "Pending" | "Succeeded")
        || !pod.metadata().text("deletionTimestamp").is_empty();
    if is_idle || !spec.object_if_set("selector").is_some_and(|selector| selects(selector, pod)) {
        return false;
    }
    let status = budget.object("status");
    let (healthy, needed) = (status.number("currentHealthy"), status.number("desiredHealthy"));
    let is_whole = needed > 0 && healthy >= needed;
    // A pod that is not ready is not counted among the healthy ones.
    is_ready(pod) || !(spec.text("unhealthyPodEvictionPolicy") == "AlwaysAllow" || is_whole)
}

fn is_ready(pod: &Map) -> bool {
    let mut conditions = pod.object("status").objects("conditions");
    conditions.any(|condition| condition.text("type") == "Ready" && condition.text("status") == "True")
}

/// Takes the eviction of a pod from what a budget allows, at a time in seconds since 1970.
///
/// # Errors
/// The budget does not allow it.
pub fn take(budget: &mut Map, pod: &str, now: i64) -> Result<(), Held> {
    let name = budget.metadata().text("name").to_owned();
    let (generation, status) = (budget.metadata().number("generation"), budget.object("status"));
    let (allowed, healthy, needed) = (
        status.number("disruptionsAllowed"),
        status.number("currentHealthy"),
        status.number("desiredHealthy"),
    );
    if status.number("observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(Held::ForNow { why, retry_after: 10 });
    }
    if allowed < 0 {
        return Err(Held::ByStatus("pdb disruptions allowed is negative"));
    }
    if status.object("disruptedPods").len() > MAX_DISRUPTED {
        return Err(Held::ByStatus(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        let why =
            format!("The disruption budget {name} needs {needed} healthy pods and has {healthy} currently");
        return Err(Held::ForNow { why, retry_after: 0 });
    }
    let now = Instant::of_seconds(now).to_string();
    let Some(status) = budget.object_or_new("status") else { return Ok(()) };
    let left = allowed.saturating_sub(1);
    status.insert("disruptionsAllowed".to_owned(), left.into());
    if let Some(disrupted) = status.object_or_new("disruptedPods") {
        disrupted.insert(pod.to_owned(), now.as_str().into());
    }
    if left == 0 {
        let mut conditions = status.objects_mut("conditions");
        if let Some(condition) = conditions.find(|condition| condition.text("type") == "DisruptionAllowed") {
            condition.insert("status".to_owned(), "False".into());
            condition.insert("reason".to_owned(), "InsufficientPods".into());
            condition.insert("lastTransitionTime".to_owned(), now.into());
        }
    }
    Ok(())
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
