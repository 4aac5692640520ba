//! VolumeAttachments: requests to attach volumes to nodes, and their status.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use super::USUAL;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members, keep_metadata};
use crate::resource::{MetadataChecks, Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, boolean_column, name, text_column};
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
    prepare_update: |attachment, old| attachment.copy("status", old),
    validate_update,
    status_resets: &["metadata", "spec"],
    prepare_status: |attachment, old| {
        attachment.copy("spec", old);
        keep_metadata(attachment, old);
    },
    validate_status: validate_update,
    columns: COLUMNS,
    row,
    ..USUAL
};

const COLUMNS: &[Column] = &[
    NAME,
    Column { format: "name", ..text_column("Attacher", "The driver that attaches the volume.") },
    text_column("PV", "The volume that is attached."),
    text_column("Node", "The node that it is attached to."),
    boolean_column("Attached", "Whether it has been attached."),
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
fn validate_create(attachment: &Map) -> Errors {
    let spec = attachment.object("spec");
    let mut errors = validate(attachment);
    let attacher = spec.text("attacher");
    if !attacher.is_empty() {
        errors.extend(driver_name("spec.attacher", attacher));
    }
    let source = spec.object("source");
    if source.has("persistentVolumeName") {
        let volume = source.text("persistentVolumeName");
        errors.extend(dns_subdomain("spec.source.persistentVolumeName", volume));
    }
    errors
}

fn validate(attachment: &Map) -> Errors {
    let spec = attachment.object("spec");
    let mut errors = Errors::new();
    errors.push_if(spec.text("attacher").is_empty(), || FieldError::required("spec.attacher", ""));
    errors.extend(validate_source(spec.object("source")));
    errors.extend(dns_subdomain("spec.nodeName", spec.text("nodeName")));
    errors.extend(validate_status(attachment.object("status")));
    errors
}

fn validate_source(source: &Map) -> Errors {
    let (has_spec, has_name) = (source.has("inlineVolumeSpec"), source.has("persistentVolumeName"));
    if has_spec && !has_name {
        return validate_inline(source.object("inlineVolumeSpec"));
    }
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let error = match has_name {
        false => FieldError::required("spec.source", detail),
        true if has_spec => FieldError::forbidden("spec.source", detail),
        true if source.text("persistentVolumeName").is_empty() => {
            let detail = "must specify non empty persistentVolumeName";
            FieldError::required("spec.source.persistentVolumeName", detail)
        }
        true => return Errors::new(),
    };
    Errors::from([error])
}

/// Validates an inline volume: a CSI volume without the fields that only concern claims.
fn validate_inline(spec: &Map) -> Errors {
    let field = |name: &str| format!("spec.source.inlineVolumeSpec.{name}");
    let of_objects = ["claimRef", "nodeAffinity", "volumeMode"].into_iter().filter(|name| spec.has(name));
    let of_objects = of_objects.chain((!spec.object("capacity").is_empty()).then_some("capacity")).chain(
        ["persistentVolumeReclaimPolicy", "storageClassName"]
            .into_iter()
            .filter(|name| !spec.text(name).is_empty()),
    );
    let detail = "may not be specified in the context of inline volumes";
    let mut errors: Errors = of_objects.map(|name| FieldError::forbidden(field(name), detail)).collect();
    errors.push_if(spec.list("accessModes").is_empty(), || FieldError::required(field("accessModes"), ""));
    if !spec.has("csi") {
        errors
            .push(FieldError::required(field("csi"), "has to be specified in the context of inline volumes"));
        return errors;
    }
    let csi = spec.object("csi");
    errors.extend(driver_name(&field("csi.driver"), csi.text("driver")));
    errors
        .push_if(csi.text("volumeHandle").is_empty(), || FieldError::required(field("csi.volumeHandle"), ""));
    errors
}

fn validate_status(status: &Map) -> Errors {
    let mut errors = Errors::new();
    let facts = status.object("attachmentMetadata").iter();
    if facts.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum::<usize>() > MAX_METADATA
    {
        errors.push(FieldError::too_long("status.attachmentMetadata", MAX_METADATA));
    }
    for name in ["attachError", "detachError"] {
        let error = status.object(name);
        if error.text("message").len() > MAX_MESSAGE {
            errors.push(FieldError::too_long(format!("status.{name}.message"), MAX_MESSAGE));
        }
        let code = error.number("errorCode");
        if code < 0 {
            let detail = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(format!("status.{name}.errorCode"), code.to_string(), detail));
        }
    }
    errors
}

/// AP-133.
fn validate_update(attachment: &Map, old: &Map) -> Errors {
    let mut errors = validate(attachment);
    errors.extend(immutable("spec", attachment.object("spec"), old.object("spec")));
    errors
}

/// AP-92.
fn row(attachment: &Map, now: i64) -> Row {
    let spec = attachment.object("spec");
    Row::of(vec![
        name(attachment),
        Value::from(spec.text("attacher")),
        Value::from(spec.object("source").text("persistentVolumeName")),
        Value::from(spec.text("nodeName")),
        Value::from(attachment.object("status").is_true("attached")),
        age(attachment, now),
    ])
}
