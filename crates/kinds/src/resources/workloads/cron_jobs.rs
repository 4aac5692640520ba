//! CronJobs, which make a job from a template at certain times.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::{Value, json};

use super::BATCH;
use super::jobs::{default_spec, validate_spec};
use super::templates::{CONTAINERS, IMAGES, SELECTOR, container_cells};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, boolean_column, integer_column, name, text_column};
use crate::resources::formats::{not_negative, one_of};
use crate::resources::label_selectors::{cell, text};
use crate::resources::status;
use crate::schema::batch::{CRON_JOB, CRON_JOB_STATUS};
use crate::schema::values;
use crate::table::{self, Column, NONE, Row};

/// The row of CronJobs.
pub static CRON_JOBS: Resource = Resource {
    kind: "CronJob",
    plural: "cronjobs",
    short_names: &["cj"],
    categories: &["all"],
    subresources: &[Subresource::status("CronJob")],
    schema: &CRON_JOB,
    default,
    prepare_create: |cron| status::begin(cron, &CRON_JOB_STATUS),
    validate_create: |cron| {
        let mut errors = validate(cron, None);
        let name = cron.metadata().text("name");
        errors.push_if(name.len() > MAX_NAME, || {
            FieldError::invalid("metadata.name", quoted(name), "must be no more than 52 characters")
        });
        errors
    },
    prepare_update: status::keep,
    validate_update: |cron, old| validate(cron, Some(old)),
    prepare_status: status::keep_spec,
    columns: COLUMNS,
    row,
    ..BATCH
};

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Schedule", "When jobs are made."),
    text_column("Timezone", "The time zone of the schedule."),
    boolean_column("Suspend", "Whether no jobs are made for now."),
    integer_column("Active", "How many jobs are running."),
    text_column("Last Schedule", "How long ago the last job was made."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

/// The maximum length of a name: the names of its jobs are eleven characters longer.
const MAX_NAME: usize = 52;

fn default(cron: &mut Map) {
    let Some(spec) = cron.object_or_new("spec") else { return };
    spec.default_text("concurrencyPolicy", "Allow");
    spec.default_value("suspend", false);
    spec.default_value("successfulJobsHistoryLimit", 3);
    spec.default_value("failedJobsHistoryLimit", 1);
    if let Some(job) = spec.object_or_new("jobTemplate").and_then(|template| template.object_or_new("spec")) {
        default_spec(job);
    }
}

fn validate(cron: &Map, old: Option<&Map>) -> Errors {
    let spec = cron.object("spec");
    let mut errors = Errors::new();
    let schedule = spec.text("schedule");
    match schedule {
        "" => errors.push(FieldError::required("spec.schedule", "")),
        schedule => errors.extend(schedule_error(schedule)),
    }
    errors.push_if(spec.has("timeZone") && spec.text("timeZone").is_empty(), || {
        FieldError::invalid("spec.timeZone", quoted(""), "timeZone must be nil or non-empty string")
    });
    errors.extend(not_negative(
        "spec",
        spec,
        &["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"],
    ));
    errors.extend(one_of(
        "spec.concurrencyPolicy",
        spec.text("concurrencyPolicy"),
        values::CONCURRENCY_POLICIES,
    ));
    let job = |cron: &Map| cron.object("spec").object("jobTemplate").object("spec").clone();
    let (new, old) = (job(cron), old.map(job));
    let field = "spec.jobTemplate.spec";
    errors.push_if(new.is_true("manualSelector"), || {
        FieldError::not_supported(format!("{field}.manualSelector"), "true", &["nil", "false"])
    });
    errors.push_if(new.has("selector") && !new.is_true("manualSelector"), || {
        FieldError::invalid(format!("{field}.selector"), "{}", "`selector` will be auto-generated")
    });
    validate_spec(field, &new, old.as_ref(), &mut errors);
    errors
}

/// A schedule has five parts, or is one of a few names. What the parts may say is left to who reads the schedule.
fn schedule_error(schedule: &str) -> Option<FieldError> {
    let is_named = |name: &str| {
        matches!(name, "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly")
            || name.strip_prefix("@every ").is_some_and(|text| {
                portcullis_apimachinery::duration::parse(text).is_some_and(|duration| duration > 0)
            })
    };
    let is_part = |part: &str| {
        part.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'*' | b'?' | b',' | b'-' | b'/'))
    };
    let invalid = |detail: &str| Some(FieldError::invalid("spec.schedule", quoted(schedule), detail));
    if schedule.contains("TZ") {
        return invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    }
    let is_schedule = match schedule.starts_with('@') {
        true => is_named(schedule),
        false => schedule.split_whitespace().count() == 5 && schedule.split_whitespace().all(is_part),
    };
    if is_schedule { None } else { invalid("expected five fields, or a name such as @daily") }
}

fn row(cron: &Map, now: i64) -> Row {
    let (spec, status) = (cron.object("spec"), cron.object("status"));
    let job = spec.object("jobTemplate").object("spec");
    let [containers, images] = container_cells(job.object("template"));
    let or_none = |text: &str| Value::from(if text.is_empty() { NONE } else { text });
    let last = status.get("lastScheduleTime").and_then(Value::as_str);
    Row::of(vec![
        name(cron),
        Value::from(spec.text("schedule")),
        or_none(spec.text("timeZone")),
        Value::from(if spec.is_true("suspend") { "True" } else { "False" }),
        json!(status.list("active").len()),
        Value::from(last.map_or_else(|| NONE.to_owned(), |last| table::age(Some(last), now))),
        age(cron, now),
        containers,
        images,
        cell(text(job.object("selector"))),
    ])
}
