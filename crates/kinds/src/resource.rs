//! One row of the resource table: everything that the server must know of a kind.

use std::borrow::Cow;

use portcullis_policy::field_error::FieldError;

use crate::Map;
use crate::schema::Type;
use crate::table::{Column, Row};

/// A kind that is stored and served. The functions are pure; what they need of other objects is for admission, which
/// is not here.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version that is stored and preferred.
    pub version: &'static str,
    /// The kind: `Pod`.
    pub kind: &'static str,
    /// The name in paths: `pods`.
    pub plural: &'static str,
    /// Short names for kubectl (AP-102).
    pub short_names: &'static [&'static str],
    /// Categories for kubectl (AP-102).
    pub categories: &'static [&'static str],
    /// Whether objects live in namespaces.
    pub is_namespaced: bool,
    /// What lies below an object, in name order (AP-101).
    pub subresources: &'static [Subresource],
    /// The shape of objects.
    pub schema: &'static Type,
    /// What names are allowed (AP-33).
    pub names: NameRule,
    /// How often the kind's own validation of an update looks at the metadata.
    pub metadata_checks: MetadataChecks,
    /// The fields that a field selector may name besides `metadata.name` and `metadata.namespace` (AP-74).
    pub selectable: &'static [Selectable],
    /// Whether a field selector may name `metadata.namespace` (AP-75).
    pub selects_namespace: bool,
    /// Whether a delete answers with the deleted object; else with a Status (AP-50).
    pub deletes_to_object: bool,
    /// Whether a PUT on a missing object creates it (AP-41).
    pub creates_on_update: bool,
    /// Whether a PUT may leave the resourceVersion out (AP-40).
    pub updates_unconditionally: bool,
    /// Fills in what the API's types have as defaults (AP-110 to AP-113). Runs after every decoding.
    pub default: fn(&mut Map),
    /// Takes away what a client cannot set at creation, and sets the initial status (AP-30, AP-114).
    pub prepare_create: fn(&mut Map),
    /// Everything wrong with a new object, apart from its metadata.
    pub validate_create: fn(&Map) -> Vec<FieldError>,
    /// Keeps of the old object what an update of the main resource cannot change (first the new, then the old object).
    pub prepare_update: fn(&mut Map, &Map),
    /// Everything wrong with an update, apart from the metadata (first the new, then the old object).
    pub validate_update: fn(&Map, &Map) -> Vec<FieldError>,
    /// As `prepare_update`, for the status subresource.
    pub prepare_status: fn(&mut Map, &Map),
    /// As `validate_update`, for the status subresource.
    pub validate_status: fn(&Map, &Map) -> Vec<FieldError>,
    /// The columns of tables (AP-91).
    pub columns: &'static [Column],
    /// The row of an object, at a time in seconds since 1970 (AP-92).
    pub row: fn(&Map, i64) -> Row,
}

/// A field that a field selector may name.
#[derive(Clone, Copy, Debug)]
pub struct Selectable {
    /// The name: `spec.nodeName`.
    pub name: &'static str,
    /// Its value in an object; empty when it is not set.
    pub value: for<'a> fn(&'a Map) -> Cow<'a, str>,
}

/// Something below an object.
#[derive(Clone, Copy, Debug)]
pub struct Subresource {
    /// The name in paths: `status`.
    pub name: &'static str,
    /// The kind of its documents.
    pub kind: &'static str,
    /// The group of its documents, when it is not the resource's.
    pub group: Option<&'static str>,
    /// The version of its documents, when it is not the resource's.
    pub version: Option<&'static str>,
    /// What can be done, in name order.
    pub verbs: &'static [&'static str],
}

/// What names are allowed (AP-33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS label, at most 63 characters.
    Label,
    /// A segment of a path (RB-70).
    PathSegment,
    /// A DNS subdomain, at most 253 characters.
    Subdomain,
}

/// How often a kind's own validation of an update looks at the metadata, which has been looked at both ways before. A
/// fault is reported each time anew (AP-22). An update of the status is looked at once, as an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataChecks {
    /// How often by itself, as for a new object.
    pub alone: u8,
    /// How often against the stored object.
    pub as_update: u8,
    /// Whether a finalizer without a domain must be one of Kubernetes' own (not so for leases).
    pub knows_finalizers: bool,
}

impl MetadataChecks {
    /// What most kinds do: once each.
    pub const USUAL: Self = Self { alone: 1, as_update: 1, knows_finalizers: true };
}

/// `get`, `patch`, `update`: the verbs of a status subresource.
pub const STATUS_VERBS: &[&str] = &["get", "patch", "update"];

impl Subresource {
    /// The status of a kind (AP-101).
    pub const fn status(kind: &'static str) -> Self {
        Self { name: "status", kind, group: None, version: None, verbs: STATUS_VERBS }
    }
}

impl Resource {
    /// What most kinds have. A row names what differs, and always its names, schema, columns and row.
    pub const USUAL: Self = Self {
        group: "",
        version: "v1",
        kind: "",
        plural: "",
        short_names: &[],
        categories: &[],
        is_namespaced: true,
        subresources: &[],
        schema: &Type { name: "", package: "", fields: &[] },
        names: NameRule::Subdomain,
        metadata_checks: MetadataChecks::USUAL,
        selectable: &[],
        selects_namespace: true,
        deletes_to_object: false,
        creates_on_update: false,
        updates_unconditionally: true,
        default: |_| {},
        prepare_create: |_| {},
        validate_create: |_| Vec::new(),
        prepare_update: |_, _| {},
        validate_update: |_, _| Vec::new(),
        prepare_status: |_, _| {},
        validate_status: |_, _| Vec::new(),
        columns: &[],
        row: |_, _| Row::default(),
    };

    /// `v1` or `rbac.authorization.k8s.io/v1`.
    pub fn api_version(&self) -> Cow<'static, str> {
        match self.group {
            "" => Cow::Borrowed(self.version),
            group => Cow::Owned(format!("{group}/{}", self.version)),
        }
    }
}
