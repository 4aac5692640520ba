//! Jobs, which run pods until enough of them have succeeded.

use std::borrow::Cow;

use portcullis_apimachinery::duration;
use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use portcullis_apimachinery::time::Instant;
use serde_json::{Value, json};

use super::BATCH;
use super::templates::{
    CONTAINERS, IMAGES, SELECTOR, container_cells, unselected, validate as validate_template,
};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{Dependents, Resource, Selectable, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::{immutable, not_negative, one_of};
use crate::resources::label_selectors::{cell, selects, text};
use crate::resources::pods::{default_template, same_value};
use crate::resources::scheduling::validate_label_selector;
use crate::resources::status;
use crate::schema::batch::{JOB, JOB_STATUS};
use crate::schema::values;
use crate::table::{Column, Row};

/// The row of Jobs.
pub static JOBS: Resource = Resource {
    kind: "Job",
    plural: "jobs",
    categories: &["all"],
    subresources: &[Subresource::status("Job")],
    schema: &JOB,
    selectable: &[Selectable::new("status.successful", successful)],
    default,
    prepare_create,
    validate_create: |job| {
        let mut errors = Errors::new();
        validate_generated_selector(job, &mut errors);
        validate_spec("spec", job.object("spec"), None, &mut errors);
        validate_selected(job, &mut errors);
        errors
    },
    prepare_update: status::keep,
    validate_update,
    prepare_status: status::keep_spec,
    validate_status: |job, _| {
        let counters = ["active", "succeeded", "failed", "ready", "terminating"];
        not_negative("status", job.object("status"), &counters)
    },
    // As long as there was no garbage collector, pods outlived their job. Clients rely on it.
    dependents: Dependents::Orphaned,
    columns: COLUMNS,
    row,
    ..BATCH
};

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Status", "Whether the job is running, suspended, complete or failed."),
    text_column("Completions", "How many pods have succeeded, of those that must."),
    text_column("Duration", "How long the job has been running, or ran."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

/// The label with the identity of the job, by which its pods are selected.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// The other labels of a job's pods: with its identity, and its name.
const UID_LABELS: [&str; 2] = [CONTROLLER_UID, "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
/// The backoff limit when each index has its own.
const NO_LIMIT: i64 = i32::MAX as i64;
/// The maximum parallelism of an indexed job.
const MAX_INDEXED: i64 = 100_000;

fn successful(job: &Map) -> Cow<'_, str> {
    Cow::Owned(job.object("status").number("succeeded").to_string())
}

fn default(job: &mut Map) {
    let Some(spec) = job.object_or_new("spec") else { return };
    if !spec.has("completions") && !spec.has("parallelism") {
        spec.insert("completions".to_owned(), json!(1));
    }
    spec.default_value("parallelism", 1);
    let limit = if spec.has("backoffLimitPerIndex") { NO_LIMIT } else { 6 };
    spec.default_value("backoffLimit", limit);
    spec.default_value("completionMode", "NonIndexed");
    spec.default_value("suspend", false);
    spec.default_value("manualSelector", false);
    let replacement = if spec.has("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    spec.default_value("podReplacementPolicy", replacement);
    default_spec(spec);
    label_like_template(job);
}

/// The defaults of the specification of a job that a cron job has as well.
pub(super) fn default_spec(spec: &mut Map) {
    if let Some(policy) = spec.object_mut("podFailurePolicy") {
        for rule in policy.objects_mut("rules") {
            for pattern in rule.objects_mut("onPodConditions") {
                pattern.default_text("status", "True");
            }
        }
    }
    if let Some(template) = spec.object_or_new("template") {
        default_template(template);
    }
}

/// A job without labels has those of its pods.
fn label_like_template(job: &mut Map) {
    let labels = job.object("spec").object("template").metadata().object("labels").clone();
    if labels.is_empty() || !job.metadata().object("labels").is_empty() {
        return;
    }
    if let Some(metadata) = job.object_or_new("metadata") {
        metadata.insert("labels".to_owned(), labels.into());
    }
}

fn prepare_create(job: &mut Map) {
    status::begin(job, &JOB_STATUS);
    if !job.object("spec").is_true("manualSelector") {
        generate_selector(job);
    }
    label_like_template(job);
}

/// Labels the pods with the name and the identity of the job, and selects them by the identity. Labels that are there
/// stay; validation refuses those of another job.
fn generate_selector(job: &mut Map) {
    let (uid, name) = (job.metadata().text("uid").to_owned(), job.metadata().text("name").to_owned());
    let Some(spec) = job.object_or_new("spec") else { return };
    let labels = spec
        .object_or_new("template")
        .and_then(|template| template.object_or_new("metadata"))
        .and_then(|metadata| metadata.object_or_new("labels"));
    if let Some(labels) = labels {
        for (keys, value) in [(UID_LABELS, &uid), (NAME_LABELS, &name)] {
            keys.iter().for_each(|key| labels.default_value(key, value.as_str()));
        }
    }
    let selected = spec.object_or_new("selector").and_then(|selector| selector.object_or_new("matchLabels"));
    if let Some(selected) = selected {
        selected.default_value(CONTROLLER_UID, uid.as_str());
    }
}

/// A generated selector selects by the identity of the job, and by nothing of another job.
fn validate_generated_selector(job: &Map, errors: &mut Errors) {
    let spec = job.object("spec");
    if spec.is_true("manualSelector") {
        return;
    }
    let (uid, name) = (job.metadata().text("uid"), job.metadata().text("name"));
    let labels = spec.object("template").metadata().object("labels");
    for (keys, value) in [(UID_LABELS, uid), (NAME_LABELS, name)] {
        for key in keys.into_iter().filter(|key| labels.text(key) != value) {
            let field = format!("spec.template.metadata.labels[{key}]");
            errors.push(FieldError::invalid(field, quoted(labels.text(key)), format!("must be '{value}'")));
        }
    }
    let selected = spec.object("selector").object("matchLabels");
    errors.push_if(selected.text(CONTROLLER_UID) != uid, || {
        FieldError::invalid("spec.selector", text(spec.object("selector")), "`selector` not auto-generated")
    });
}

/// The pods of the template must be those that the selector selects.
fn validate_selected(job: &Map, errors: &mut Errors) {
    let spec = job.object("spec");
    match spec.object_if_set("selector") {
        None => errors.push(FieldError::required("spec.selector", "")),
        Some(selector) => {
            errors.extend(validate_label_selector("spec.selector", selector, true));
            let template = spec.object("template");
            errors.push_if(!selects(selector, template), || unselected(template));
        }
    }
}

/// Validates the specification of a job, or that inside a cron job.
pub(super) fn validate_spec(field: &str, spec: &Map, old: Option<&Map>, errors: &mut Errors) {
    let counters = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    errors.extend(not_negative(field, spec, &counters));
    if spec.has("completionMode") {
        let mode = spec.text("completionMode");
        errors.extend(one_of(&format!("{field}.completionMode"), mode, values::COMPLETION_MODES));
    }
    let is_indexed = spec.text("completionMode") == "Indexed";
    if is_indexed {
        errors.push_if(!spec.has("completions"), || {
            FieldError::required(format!("{field}.completions"), "when completion mode is Indexed")
        });
        let parallelism = spec.number("parallelism");
        errors.push_if(parallelism > MAX_INDEXED, || {
            let detail = "must be less than or equal to 100000 when completion mode is Indexed";
            FieldError::invalid(format!("{field}.parallelism"), parallelism.to_string(), detail)
        });
    }
    for member in ["backoffLimitPerIndex", "successPolicy"] {
        errors.push_if(spec.has(member) && !is_indexed, || {
            FieldError::invalid(format!("{field}.{member}"), "", "requires indexed completion mode")
        });
    }
    if spec.has("podReplacementPolicy") {
        let known: &[&str] = match spec.has("podFailurePolicy") {
            true => &["Failed"],
            false => values::POD_REPLACEMENT_POLICIES,
        };
        let policy = spec.text("podReplacementPolicy");
        errors.extend(one_of(&format!("{field}.podReplacementPolicy"), policy, known));
    }
    let template = spec.object("template");
    let of_template = format!("{field}.template");
    errors.extend(validate_template(&of_template, template, old.map(|old| old.object("template"))));
    let policy = template.object("spec").text("restartPolicy");
    errors.push_if(!matches!(policy, "Never" | "OnFailure"), || {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        FieldError::required(format!("{of_template}.spec.restartPolicy"), detail)
    });
    errors.push_if(spec.has("podFailurePolicy") && policy != "Never", || {
        let detail = "only \"Never\" is supported when podFailurePolicy is specified";
        FieldError::invalid(format!("{of_template}.spec.restartPolicy"), quoted(policy), detail)
    });
}

fn validate_update(job: &Map, old: &Map) -> Errors {
    let (spec, old_spec) = (job.object("spec"), old.object("spec"));
    let mut errors = Errors::new();
    validate_spec("spec", spec, Some(old_spec), &mut errors);
    validate_selected(job, &mut errors);
    let of = |spec: &Map, member: &str| spec.get(member).filter(|value| !value.is_null()).cloned();
    let fixed = [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ];
    for member in fixed {
        errors.extend(immutable(&format!("spec.{member}"), of(spec, member), of(old_spec, member)));
    }
    // An indexed job grows and shrinks when parallelism and completions change together.
    let is_elastic = spec.text("completionMode") == "Indexed"
        && spec.number_if_set("completions") == spec.number_if_set("parallelism");
    if !is_elastic {
        errors.extend(immutable("spec.completions", of(spec, "completions"), of(old_spec, "completions")));
    }
    let template = mutable_template(spec.object("template"), old);
    let is_same = same_value(Some(&template), old_spec.get("template"));
    errors.push_if(!is_same, || FieldError::invalid("spec.template", "", "field is immutable"));
    errors
}

/// The template with what may change set back to the old values: of a job that is suspended and has not started,
/// where its pods may run.
fn mutable_template(template: &Map, old: &Map) -> Value {
    let mut template = template.clone();
    let old_template = old.object("spec").object("template");
    if old.object("spec").is_true("suspend") && !old.object("status").has("startTime") {
        if let Some(metadata) = template.object_or_new("metadata") {
            ["annotations", "labels"].iter().for_each(|name| metadata.copy(name, old_template.metadata()));
        }
        if let Some(pod) = template.object_or_new("spec") {
            for member in ["nodeSelector", "tolerations", "schedulingGates", "affinity"] {
                pod.copy(member, old_template.object("spec"));
            }
        }
    }
    template.into()
}

fn has_condition(job: &Map, kind: &str) -> bool {
    let mut conditions = job.object("status").objects("conditions");
    conditions.any(|condition| condition.text("type") == kind && condition.text("status") == "True")
}

fn row(job: &Map, now: i64) -> Row {
    let (spec, status) = (job.object("spec"), job.object("status"));
    let state = match () {
        () if has_condition(job, "Complete") => "Complete",
        () if has_condition(job, "Failed") => "Failed",
        () if !job.metadata().text("deletionTimestamp").is_empty() => "Terminating",
        () if has_condition(job, "Suspended") => "Suspended",
        () if has_condition(job, "FailureTarget") => "FailureTarget",
        () if has_condition(job, "SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let succeeded = status.number("succeeded");
    let completions = match (spec.number_if_set("completions"), spec.number("parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let time = |member: &str| Instant::parse(status.text(member)).ok().map(|time| time.seconds);
    let length = time("startTime")
        .map(|start| duration::human(time("completionTime").unwrap_or(now).saturating_sub(start)));
    let [containers, images] = container_cells(spec.object("template"));
    Row::of(vec![
        name(job),
        Value::from(state),
        Value::from(completions),
        Value::from(length.unwrap_or_default()),
        age(job, now),
        containers,
        images,
        cell(text(spec.object("selector"))),
    ])
}
