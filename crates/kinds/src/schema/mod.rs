//! Schemas of objects: the fields of a type, with their types, their protobuf numbers, when they are printed, and how a
//! strategic merge patch and server-side apply treat them.
//!
//! Decoding of JSON, YAML and protobuf, the OpenAPI documents, strategic merge patches and server-side apply are all
//! based on these tables.

mod find;
mod table;

use std::sync::OnceLock;

pub mod admission_registration;
pub mod api_registration;
pub mod apiextensions;
pub mod apps;
pub mod authentication;
pub mod authorization;
pub mod authorization_v1beta1;
pub mod autoscaling;
pub mod batch;
pub mod certificates;
pub mod certificates_v1beta1;
pub mod coordination;
pub mod core;
pub mod custom;
pub mod discovery;
pub mod events;
pub mod flow_control;
pub mod machine;
pub mod meta;
pub mod networking;
pub mod node;
pub mod policy;
pub mod rbac;
pub mod rbac_old;
pub mod resource;
pub mod scheduling;
pub mod storage;
pub mod values;

pub use find::{common, find, group_version, kinds};

/// The name of the catch-all field, which stands for all members without a field of their own and has any value.
pub const REST: &str = "*";

/// A type with named fields.
#[derive(Debug)]
pub struct Type {
    /// The name without the package, as in OpenAPI documents: `PodSpec`.
    pub name: &'static str,
    /// The package, in the form group/version: `core/v1`, `rbac/v1`, `meta/v1`.
    pub package: &'static str,
    /// The fields, including those of inlined types.
    pub fields: &'static [Field],
    /// Whether an object has one owner, for server-side apply.
    pub is_atomic: bool,
    /// See [`Type::numbered`].
    numbered: OnceLock<Vec<Field>>,
}

/// A field of a type.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name in JSON.
    pub name: &'static str,
    /// The protobuf field number; 0 for a type without a protobuf form, and for fields of the envelope.
    pub number: u32,
    /// The numbers of the embedded protobuf messages that contain the field, from the outside in, if it is inlined in
    /// JSON; empty if the field is the type's own.
    pub within: &'static [u32],
    /// The shape of its value.
    pub shape: Shape,
    /// When the field is printed.
    pub presence: Presence,
    /// Whether objects must have the field, as documents of the API state it.
    pub required: Required,
    /// How a strategic merge patch treats the field.
    pub merge: Merge,
    /// The ownership of the parts of its value.
    pub ownership: Ownership,
    /// The default of a key of lists, as documents of the API state it.
    pub default: Option<&'static str>,
    /// The values that the text, or each text of the list or map, can have; empty if any. See [`values`].
    pub values: &'static [&'static str],
}

/// The shape of a field, a list entry or a map value.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Any JSON value, kept unchanged (`RawExtension`, `FieldsV1`).
    Any,
    /// `true` or `false`.
    Bool,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A number or a string, such as a port.
    IntOrString,
    /// A list.
    List(&'static Shape),
    /// A map with string keys.
    Map(&'static Shape),
    /// A time with six fractional digits (AP-130).
    MicroTime,
    /// An object.
    Object(&'static Type),
    /// A quantity such as `500m` (AP-112).
    Quantity,
    /// Text.
    Text,
    /// A time in whole seconds.
    Time,
}

/// When a field is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Always. If not set, as its zero value (`""`, `0`, `null` for lists, maps, times and any value, `"0"` for
    /// quantities, its own zero values for objects).
    Always,
    /// Always, as `null` if not set: a pointer without `omitempty` in Go.
    OrNull,
    /// If set, even to its zero value: a pointer in Go.
    WhenSet,
    /// If not its zero value. An object is always printed (Go never omits a struct), a nil pointer never.
    WhenNotZero,
}

/// Whether objects must have a field. Validation decides by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Required {
    /// If it is plain and always printed.
    Usual,
    /// They need not, although it is always printed.
    No,
    /// They must.
    Yes,
}

/// How a strategic merge patch treats a field (AP-63).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// A list or value is replaced; objects and maps are merged.
    Default,
    /// List entries with the same value of this member are merged.
    ByKey(&'static str),
    /// Like `ByKey`, and removes members of the merged object that the patch does not list in `$retainKeys`
    /// (`retainKeys`).
    ByKeyRetaining(&'static str),
    /// An object that is replaced.
    Replace,
    /// An object of which only the keys in `$retainKeys` are kept.
    Retaining,
    /// A list of plain values, merged as a set.
    Set,
}

/// The ownership of the parts of a field, for server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// What follows from the [`Merge`] of a list, and otherwise from the shape: entries of lists that a strategic merge
    /// patch merges, members of maps and fields of types that are not atomic have owners of their own. Other lists have
    /// one owner.
    Usual,
    /// One owner has all of it.
    Atomic,
    /// Each field has owners of its own, also of a type that is atomic.
    Granular,
    /// Each entry of a list has owners of its own. These members tell entries apart.
    Keys(&'static [&'static str]),
    /// Each entry of a list of plain values has owners of its own.
    Set,
}

impl Type {
    /// A type of this name and package with these fields.
    pub const fn new(name: &'static str, package: &'static str, fields: &'static [Field]) -> Self {
        Self { name, package, fields, is_atomic: false, numbered: OnceLock::new() }
    }

    /// As [`Self::new`], of objects that have one owner each, for server-side apply.
    pub const fn atomic(name: &'static str, package: &'static str, fields: &'static [Field]) -> Self {
        Self { name, package, fields, is_atomic: true, numbered: OnceLock::new() }
    }

    /// The fields of the protobuf message in the order of their numbers; those of an embedded message are next to each
    /// other.
    pub(crate) fn numbered(&self) -> &[Field] {
        self.numbered.get_or_init(|| {
            let mut fields: Vec<Field> =
                self.fields.iter().filter(|field| field.number > 0).copied().collect();
            let path = |field: &Field| field.within.iter().copied().chain([field.number]);
            fields.sort_by(|a, b| path(a).cmp(path(b)));
            fields
        })
    }

    /// Whether documents of this type have a protobuf form: all fields but those of the envelope have numbers.
    pub fn has_protobuf(&self) -> bool {
        self.fields.iter().all(|field| field.number > 0 || matches!(field.name, "kind" | "apiVersion"))
    }

    /// Returns the field with this JSON name, else the [`REST`] field if the type has one.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.named(name).or_else(|| self.rest())
    }

    /// Returns the field that is declared under this JSON name.
    pub(crate) fn named(&self, name: &str) -> Option<&'static Field> {
        // Looked up for each member of each object. Hardly any two names of a type have the same length and the same last
        // letter, so nearly no name is compared in vain.
        let last = |name: &str| name.as_bytes().last().copied();
        let may_be = |field: &&Field| field.name.len() == name.len() && last(field.name) == last(name);
        self.fields.iter().filter(may_be).find(|field| field.name == name)
    }

    /// The catch-all field, if the type has one.
    pub fn rest(&self) -> Option<&'static Field> {
        self.fields.last().filter(|field| field.name == REST)
    }
}
