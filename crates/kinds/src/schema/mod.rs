//! The shapes of objects: which fields a type has, of which type, under which number in protobuf, when a field is
//! printed, and how a strategic merge patch treats it.
//!
//! Decoding from JSON, YAML and protobuf, the OpenAPI documents and strategic merge patches all follow from these tables.

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
#[derive(Debug)]
pub struct Field {
    /// The name in JSON.
    pub name: &'static str,
    /// The number in protobuf; 0 for a type that has no protobuf form.
    pub number: u32,
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
    /// A time span such as `1h0m0s`.
    Duration,
    /// A floating point number.
    Float,
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
    /// Always, with its zero value (`""`, `0`, `null` for lists and maps, `{}` for objects) when it is not set.
    Always,
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
    /// The field of this name in JSON.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}
