//! VolumeAttachments: requests to attach volumes to nodes, and their status.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use super::USUAL;
use crate::Map;
use crate::resource::{MetadataChecks, Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::fields::{is_present, is_set, keep, keep_metadata, list, number, object, text};
use crate::resources::formats::{dns_subdomain, driver_name, immutable};
use crate::schema::storage::VOLUME_ATTACHMENT;
use crate::table::{Column, Row};

/// The row of VolumeAttachments.
pub static VOLUME_ATTACHMENTS: Resource = Resource {
    kind: "VolumeAttachment",
    plural: "volumeattachments",
    schema: &VOLUME_ATTACHMENT,
    metadata_checks: MetadataChecks { alone: 1, as_update: 0, knows_finalizers: true },
    subresources: &[Subresource::status("VolumeAttachment")],
    prepare_create,
    validate_create,
    prepare_update: |attachment, old| keep(attachment, old, "status"),
    validate_update,
    prepare_status: |attachment, old| {
        keep(attachment, old, "spec");
        keep_metadata(attachment, old);
    },
    validate_status: validate_update,
    columns: COLUMNS,
    row,
    ..USUAL
};

const COLUMNS: &[Column] = &[
    NAME,
    Column {
        name: "Attacher",
        kind: "string",
        format: "name",
        description: "The driver that attaches the volume.",
        priority: 0,
    },
    text_column("PV", "The volume that is attached."),
    text_column("Node", "The node that it is attached to."),
    Column {
        name: "Attached",
        kind: "boolean",
        format: "",
        description: "Whether it has been attached.",
        priority: 0,
    },
    AGE,
];

/// The maximum size of the attachment metadata, in bytes.
const MAX_METADATA: usize = 256 * 1024;
/// The maximum length of an error message, in bytes.
const MAX_MESSAGE: usize = 1024;

/// AP-30.
fn prepare_create(attachment: &mut Map) {
    attachment.insert("status".to_owned(), json!({"attached": false}));
}

/// The rules for old objects, and two more for new ones: the names of driver and volume.
fn validate_create(attachment: &Map) -> Vec<FieldError> {
    let spec = object(attachment, "spec");
    let mut errors = validate(attachment);
    let attacher = text(spec, "attacher");
    if !attacher.is_empty() {
        errors.extend(driver_name("spec.attacher", attacher));
    }
    let source = object(spec, "source");
    if is_present(source, "persistentVolumeName") {
        let volume = text(source, "persistentVolumeName");
        errors.extend(dns_subdomain("spec.source.persistentVolumeName", volume));
    }
    errors
}

fn validate(attachment: &Map) -> Vec<FieldError> {
    let spec = object(attachment, "spec");
    let mut errors = Vec::new();
    if text(spec, "attacher").is_empty() {
        errors.push(FieldError::required("spec.attacher", ""));
    }
    errors.extend(validate_source(object(spec, "source")));
    errors.extend(dns_subdomain("spec.nodeName", text(spec, "nodeName")));
    errors.extend(validate_status(object(attachment, "status")));
    errors
}

fn validate_source(source: &Map) -> Vec<FieldError> {
    let (has_spec, has_name) =
        (is_present(source, "inlineVolumeSpec"), is_present(source, "persistentVolumeName"));
    if has_spec && !has_name {
        return validate_inline(object(source, "inlineVolumeSpec"));
    }
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let error = match has_name {
        false => FieldError::required("spec.source", detail),
        true if has_spec => FieldError::forbidden("spec.source", detail),
        true if text(source, "persistentVolumeName").is_empty() => {
            let detail = "must specify non empty persistentVolumeName";
            FieldError::required("spec.source.persistentVolumeName", detail)
        }
        true => return Vec::new(),
    };
    vec![error]
}

/// Validates an inline volume: a CSI volume without the fields that only concern claims.
fn validate_inline(spec: &Map) -> Vec<FieldError> {
    let field = |name: &str| format!("spec.source.inlineVolumeSpec.{name}");
    let of_objects =
        ["claimRef", "nodeAffinity", "volumeMode"].into_iter().filter(|name| is_present(spec, name));
    let of_objects = of_objects.chain((!object(spec, "capacity").is_empty()).then_some("capacity")).chain(
        ["persistentVolumeReclaimPolicy", "storageClassName"]
            .into_iter()
            .filter(|name| !text(spec, name).is_empty()),
    );
    let detail = "may not be specified in the context of inline volumes";
    let mut errors: Vec<FieldError> =
        of_objects.map(|name| FieldError::forbidden(field(name), detail)).collect();
    if list(spec, "accessModes").is_empty() {
        errors.push(FieldError::required(field("accessModes"), ""));
    }
    if !is_present(spec, "csi") {
        errors
            .push(FieldError::required(field("csi"), "has to be specified in the context of inline volumes"));
        return errors;
    }
    let csi = object(spec, "csi");
    errors.extend(driver_name(&field("csi.driver"), text(csi, "driver")));
    if text(csi, "volumeHandle").is_empty() {
        errors.push(FieldError::required(field("csi.volumeHandle"), ""));
    }
    errors
}

fn validate_status(status: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let facts = object(status, "attachmentMetadata").iter();
    if facts.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum::<usize>() > MAX_METADATA
    {
        errors.push(FieldError::too_long("status.attachmentMetadata", MAX_METADATA));
    }
    for name in ["attachError", "detachError"] {
        let error = object(status, name);
        if text(error, "message").len() > MAX_MESSAGE {
            errors.push(FieldError::too_long(format!("status.{name}.message"), MAX_MESSAGE));
        }
        let code = number(error, "errorCode");
        if code < 0 {
            let detail = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(format!("status.{name}.errorCode"), code.to_string(), detail));
        }
    }
    errors
}

/// AP-133.
fn validate_update(attachment: &Map, old: &Map) -> Vec<FieldError> {
    let mut errors = validate(attachment);
    errors.extend(immutable("spec", object(attachment, "spec"), object(old, "spec")));
    errors
}

/// AP-92.
fn row(attachment: &Map, now: i64) -> Row {
    let spec = object(attachment, "spec");
    let cells = vec![
        name(attachment),
        Value::from(text(spec, "attacher")),
        Value::from(text(object(spec, "source"), "persistentVolumeName")),
        Value::from(text(spec, "nodeName")),
        Value::from(is_set(object(attachment, "status"), "attached")),
        age(attachment, now),
    ];
    Row { cells, completed: None }
}
