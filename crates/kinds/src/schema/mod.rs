//! The shapes of objects: which fields a type has, of which type, under which number in protobuf, when a field is
//! printed, and how a strategic merge patch treats it.
//!
//! Decoding from JSON, YAML and protobuf, the OpenAPI documents and strategic merge patches all follow from these tables.

mod find;
mod table;

pub mod authentication;
pub mod authorization;
pub mod authorization_v1beta1;
pub mod certificates;
pub mod coordination;
pub mod core;
pub mod discovery;
pub mod events;
pub mod machine;
pub mod meta;
pub mod node;
pub mod policy;
pub mod rbac;
pub mod resource;
pub mod storage;

pub use find::{find, group_version, kinds};

/// The name of the field that stands for all members that no other field of its type names; it holds any value.
pub const REST: &str = "*";

/// A type with named fields.
#[derive(Debug)]
pub struct Type {
    /// The name, as in OpenAPI documents, without package: `PodSpec`.
    pub name: &'static str,
    /// The package, in the form of the group and version: `core/v1`, `rbac/v1`, `meta/v1`.
    pub package: &'static str,
    /// The fields. A type whose fields lie in those of the type around it (inlined) is written out there.
    pub fields: &'static [Field],
}

/// A field of a type.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name in JSON.
    pub name: &'static str,
    /// The number in protobuf; 0 for a type that has no protobuf form, and for what the envelope says.
    pub number: u32,
    /// The number of the embedded message that holds the field in protobuf, where JSON has it beside the others
    /// (inlined); 0 when the field is the type's own.
    pub within: u32,
    /// What it holds.
    pub shape: Shape,
    /// When it is printed.
    pub presence: Presence,
    /// How a strategic merge patch treats it.
    pub merge: Merge,
}

/// What a field, a list entry or a map value holds.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Any JSON value, kept as it is (`RawExtension`, `FieldsV1`).
    Any,
    /// `true` or `false`.
    Bool,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A number or a text, such as a port.
    IntOrString,
    /// A list.
    List(&'static Shape),
    /// A map from text.
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
    /// Always, with its zero value (`""`, `0`, `null` for lists, maps, times and any value, `"0"` for quantities,
    /// its own zero values for objects) when it is not set.
    Always,
    /// Always, as `null` when it is not set: Go's pointer without `omitempty`.
    OrNull,
    /// When it is set, also to its zero value: Go's pointer.
    WhenSet,
    /// When it is not its zero value. An object always is (Go never leaves a struct out), a nil pointer never.
    WhenNotZero,
}

/// How a strategic merge patch treats a field (AP-63).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// A list or value is replaced; objects and maps are merged.
    Default,
    /// List entries with the same value of this member are merged.
    ByKey(&'static str),
    /// As `ByKey`, and members of the merged object that the patch does not list in `$retainKeys` go (`retainKeys`).
    ByKeyRetaining(&'static str),
    /// An object of which only the keys named in `$retainKeys` stay.
    Retaining,
    /// A list of plain values, merged as a set.
    Set,
}

impl Type {
    /// The field of this name in JSON; that of the [`REST`] when no field has the name and the type keeps all others.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name).or_else(|| self.rest())
    }

    /// The field that stands for what no other names.
    pub fn rest(&self) -> Option<&'static Field> {
        self.fields.last().filter(|field| field.name == REST)
    }
}
