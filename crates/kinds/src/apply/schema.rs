//! The view of a schema that server-side apply needs. The built-in kinds have one
//! ([`Typed`](super::typed::Typed)), and a schema that is made at run time can have one as well.

/// The schema of one value. Copied while walking through objects, so it is a reference or as small as one.
pub trait Schema: Copy {
    /// The type of the value, and whether its parts have owners of their own.
    fn structure(self) -> Structure;

    /// The schema of a named field: a field that is declared under this name. For a [`Structure::Map`].
    fn field(self, name: &str) -> Option<Self>;

    /// The schema of the entries of a list, or of the members of a map that have no named field. Nothing if there can
    /// be no other members.
    fn inner(self) -> Option<Self>;

    /// The keys of a [`Structure::KeyedList`], in any order.
    fn keys(&self) -> impl Iterator<Item = Key<'_>>;
}

/// See [`Schema::structure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// A plain value.
    Scalar(Scalar),
    /// A list with one owner.
    AtomicList,
    /// A list of different plain values, each with owners of its own.
    Set,
    /// A list of objects that [`Schema::keys`] tell apart, each with owners of its own.
    KeyedList,
    /// An object or a map with one owner.
    AtomicMap,
    /// An object with named fields, other members, or both, each with owners of its own.
    Map,
    /// Any value, with one owner.
    AnyAtomic,
    /// Any value: the members of objects have owners of their own, lists have one (an unknown field that is preserved).
    Deduced,
}

/// The kinds of plain values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Any of the others (quantities, ports).
    Any,
    /// `true` or `false`.
    Bool,
    /// An integer or a fraction.
    Number,
    /// Text.
    Text,
}

/// A key of a list of objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key<'s> {
    /// The name of the field.
    pub name: &'s str,
    /// The value for entries that lack the field. Without a default the key is left out.
    pub default: Option<KeyDefault<'s>>,
}

/// The default of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyDefault<'s> {
    /// Text.
    Text(&'s str),
    /// A number.
    Number(i64),
    /// `true` or `false`.
    Bool(bool),
}
