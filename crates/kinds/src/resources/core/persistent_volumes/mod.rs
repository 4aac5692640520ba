//! PersistentVolumes, to which claims are bound.

mod sources;
mod validation;

use serde_json::{Value, json};

use super::storage::{class, modes_cell, or_unset, phase_cell, protect};
use crate::Map;
use crate::fields::Members;
use crate::resource::{MetadataChecks, OnRequest, Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column, wide_column};
use crate::resources::quantities::{quantity, round_amounts};
use crate::resources::volume_sources::default_sources;
use crate::schema;
use crate::table::{Column, Row};
use portcullis_apimachinery::time::Instant;

/// The row of PersistentVolumes.
pub static PERSISTENT_VOLUMES: Resource = Resource {
    kind: "PersistentVolume",
    plural: "persistentvolumes",
    short_names: &["pv"],
    is_namespaced: false,
    subresources: &[Subresource::status("PersistentVolume")],
    schema: &schema::core::persistent_volume::PERSISTENT_VOLUME,
    // Its validation checks the volume twice, and never as an update.
    metadata_checks: MetadataChecks { alone: 2, as_update: 0, knows_finalizers: true },
    deletes_to_object: true,
    default,
    prepare_create,
    validate_create: validation::validate,
    on_create: STAMPS,
    prepare_update: |volume, old| volume.copy("status", old),
    validate_update: validation::validate_update,
    prepare_status: |volume, old| volume.copy("spec", old),
    on_status: STAMPS,
    columns: COLUMNS,
    row,
    ..Resource::USUAL
};

/// The time of a new phase is noted.
const STAMPS: OnRequest = OnRequest {
    complete: |volume, old, context| {
        stamp_phase(volume, old, &Instant::of_seconds(context.now).to_string());
        Ok(())
    },
    ..OnRequest::NOTHING
};

/// The finalizer that keeps a volume until no claim is bound to it (AP-57).
pub const FINALIZER: &str = "kubernetes.io/pv-protection";
const PENDING: &str = "Pending";
const STAMP: &str = "lastPhaseTransitionTime";

/// AP-113 (table).
fn default(volume: &mut Map) {
    if let Some(status) = volume.object_or_new("status") {
        status.default_text("phase", PENDING);
    }
    let Some(spec) = volume.object_or_new("spec") else { return };
    round_amounts(spec, "capacity");
    spec.default_text("persistentVolumeReclaimPolicy", "Retain");
    spec.default_value("volumeMode", "Filesystem");
    default_sources(spec);
}

/// AP-30, AP-57.
fn prepare_create(volume: &mut Map) {
    volume.insert("status".to_owned(), json!({ "phase": PENDING }));
    protect(volume, FINALIZER);
}

/// AP-113 (table): sets the time of the last phase change, unless the client sets it. `now` is a time such as
/// `2026-01-02T03:04:05Z`. Call it after `prepare_create` (without an old volume) and after `prepare_status`.
pub fn stamp_phase(volume: &mut Map, old: Option<&Map>, now: &str) {
    let Some(status) = volume.object_or_new("status") else { return };
    let old = old.map(|old| old.object("status"));
    let has_changed = old.is_none_or(|old| old.text("phase") != status.text("phase"));
    let is_said = status.has(STAMP) && status.get(STAMP) != old.and_then(|old| old.get(STAMP));
    if has_changed && !is_said {
        status.insert(STAMP.to_owned(), Value::from(now));
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Capacity", "How much the volume holds."),
    text_column("Access Modes", "From how many nodes the volume is used, and how."),
    text_column("Reclaim Policy", "What becomes of the volume when its claim is gone."),
    text_column("Status", "Whether a claim is bound to the volume."),
    text_column("Claim", "Which claim the volume is for, with its namespace."),
    text_column("StorageClass", "Of which class the volume is."),
    text_column("VolumeAttributesClass", "Which class of attributes the volume has."),
    text_column("Reason", "Why the volume is in its phase, in one word."),
    AGE,
    wide_column("VolumeMode", "Whether the volume is a file system or a device."),
];

/// AP-92.
fn row(volume: &Map, now: i64) -> Row {
    let (spec, status) = (volume.object("spec"), volume.object("status"));
    let claim = match spec.has("claimRef") {
        true => {
            let claim = spec.object("claimRef");
            format!("{}/{}", claim.text("namespace"), claim.text("name"))
        }
        false => String::new(),
    };
    Row::of(vec![
        name(volume),
        Value::from(quantity(spec.object("capacity"), "storage").unwrap_or_default().to_string()),
        modes_cell(spec),
        Value::from(spec.text("persistentVolumeReclaimPolicy")),
        phase_cell(volume),
        Value::from(claim),
        Value::from(class(volume)),
        or_unset(spec, "volumeAttributesClassName"),
        Value::from(status.text("reason")),
        age(volume, now),
        or_unset(spec, "volumeMode"),
    ])
}
