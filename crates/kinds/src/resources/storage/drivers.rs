//! CSIDrivers: the capabilities and requirements of CSI drivers.

use std::collections::BTreeSet;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::USUAL;
use crate::Map;
use crate::fields::{Errors, Members, raise_generation};
use crate::resource::{MetadataChecks, Resource};
use crate::resources::cells::{AGE, NAME, age, boolean_column, name, text_column};
use crate::resources::formats::{immutable, one_of};
use crate::schema::storage::CSI_DRIVER;
use crate::table::{Column, NONE, Row};

/// The row of CSIDrivers.
pub static CSI_DRIVERS: Resource = Resource {
    kind: "CSIDriver",
    plural: "csidrivers",
    schema: &CSI_DRIVER,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    default,
    validate_create: validate,
    prepare_update,
    validate_update,
    columns: COLUMNS,
    row,
    ..USUAL
};

const COLUMNS: &[Column] = &[
    NAME,
    boolean_column("AttachRequired", "Whether volumes must be attached before they are mounted."),
    boolean_column("PodInfoOnMount", "Whether the driver is told about the pod that it mounts for."),
    boolean_column("StorageCapacity", "Whether the scheduler looks at how much storage is left."),
    text_column(
        "TokenRequests",
        "The audiences of the tokens that the driver gets of a pod's service account.",
    ),
    boolean_column("RequiresRepublish", "Whether the driver is called again from time to time."),
    text_column("Modes", "Which kinds of volumes it serves."),
    AGE,
];

/// The minimum and maximum lifetime of a token, in seconds.
const TOKEN_LIFE: std::ops::RangeInclusive<i64> = 600..=1 << 32;

fn default(driver: &mut Map) {
    let Some(spec) = driver.object_or_new("spec") else { return };
    spec.default_value("attachRequired", true);
    spec.default_text("fsGroupPolicy", "ReadWriteOnceWithFSType");
    for name in ["podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"] {
        spec.default_value(name, false);
    }
    if spec.list("volumeLifecycleModes").is_empty() {
        spec.insert("volumeLifecycleModes".to_owned(), Value::from(vec!["Persistent"]));
    }
}

fn validate(driver: &Map) -> Errors {
    let spec = driver.object("spec");
    let mut errors = Errors::new();
    let policies = ["ReadWriteOnceWithFSType", "File", "None"];
    errors.extend(one_of("spec.fsGroupPolicy", spec.text("fsGroupPolicy"), &policies));
    validate_token_requests(spec, &mut errors);
    let modes = spec.texts("volumeLifecycleModes");
    errors.extend(
        modes.filter_map(|mode| one_of("spec.volumeLifecycleModes", mode, &["Persistent", "Ephemeral"])),
    );
    let period = spec.get("nodeAllocatableUpdatePeriodSeconds").and_then(Value::as_i64);
    if let Some(period) = period.filter(|&period| period < 10) {
        let field = "spec.nodeAllocatableUpdatePeriodSeconds";
        let detail = "must be greater than or equal to 10 seconds";
        errors.push(FieldError::invalid(field, period.to_string(), detail));
    }
    if spec.has("serviceAccountTokenInSecrets") && spec.list("tokenRequests").is_empty() {
        let detail = "may only be set when there are token requests";
        let shown = spec.is_true("serviceAccountTokenInSecrets").to_string();
        errors.push(FieldError::invalid("spec.serviceAccountTokenInSecrets", shown, detail));
    }
    errors
}

/// A second request for the same audience is not validated further.
fn validate_token_requests(spec: &Map, errors: &mut Errors) {
    let mut audiences = BTreeSet::new();
    for (i, request) in spec.objects("tokenRequests").enumerate() {
        let field = format!("spec.tokenRequests[{i}]");
        let audience = request.text("audience");
        if !audiences.insert(audience) {
            errors.push(FieldError::duplicate(format!("{field}.audience"), quoted(audience)));
            continue;
        }
        let seconds = request.get("expirationSeconds").and_then(Value::as_i64);
        if let Some(seconds) = seconds.filter(|seconds| !TOKEN_LIFE.contains(seconds)) {
            let detail = match seconds < *TOKEN_LIFE.start() {
                true => "may not specify a duration less than 10 minutes",
                false => "may not specify a duration larger than 2^32 seconds",
            };
            errors.push(FieldError::invalid(
                format!("{field}.expirationSeconds"),
                seconds.to_string(),
                detail,
            ));
        }
    }
}

fn prepare_update(driver: &mut Map, old: &Map) {
    let has_changed = driver.object("spec") != old.object("spec");
    raise_generation(driver, old, has_changed);
}

/// AP-133. The first path is misspelt in Kubernetes, too.
fn validate_update(driver: &Map, old: &Map) -> Errors {
    let (spec, old_spec) = (driver.object("spec"), old.object("spec"));
    let (attach, modes) = ("attachRequired", "volumeLifecycleModes");
    let mut errors = validate(driver);
    errors.extend(immutable("spec.attachedRequired", spec.is_true(attach), old_spec.is_true(attach)));
    errors.extend(immutable("spec.volumeLifecycleModes", spec.list(modes), old_spec.list(modes)));
    errors
}

fn row(driver: &Map, now: i64) -> Row {
    let spec = driver.object("spec");
    let flag = |name| Value::from(spec.is_true(name));
    let audiences: Vec<&str> =
        spec.objects("tokenRequests").map(|request| request.text("audience")).collect();
    let modes: Vec<&str> = spec.texts("volumeLifecycleModes").collect();
    Row::of(vec![
        name(driver),
        flag("attachRequired"),
        flag("podInfoOnMount"),
        flag("storageCapacity"),
        Value::from(if audiences.is_empty() { "<unset>".to_owned() } else { audiences.join(",") }),
        flag("requiresRepublish"),
        Value::from(if modes.is_empty() { NONE.to_owned() } else { modes.join(",") }),
        age(driver, now),
    ])
}
