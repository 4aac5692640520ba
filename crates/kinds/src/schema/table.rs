//! The notation of the schemas: one field per line.

use super::{Field, Merge, Ownership, Presence, Required, Shape};

/// Defines the types of a package, each with the name of its static. One that is marked `object` begins with the three
/// fields that all objects have; one that is marked `atomic` has one owner.
macro_rules! types {
    (@type [atomic] $($part:expr),*) => { crate::schema::Type::atomic($($part),*) };
    (@type [$($mark:ident)?] $($part:expr),*) => { crate::schema::Type::new($($part),*) };
    (@fields [atomic] $($field:expr),*) => { &[$($field),*] };
    (@fields [] $($field:expr),*) => { &[$($field),*] };
    (@fields [object] $($field:expr),*) => {
        &[
            crate::schema::table::KIND,
            crate::schema::table::API_VERSION,
            crate::schema::meta::METADATA,
            $($field),*
        ]
    };
    ($package:literal; $($name:ident $static:ident $($mark:ident)? { $($field:expr),* $(,)? })*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of `", $package, "`.")]
            pub static $static: crate::schema::Type = crate::schema::table::types!(
                @type [$($mark)?]
                stringify!($name),
                $package,
                crate::schema::table::types!(@fields [$($mark)?] $($field),*)
            );
        )*
    };
}
pub(super) use types;

/// The kind of a document. In protobuf it is in the envelope.
pub(super) const KIND: Field = unless_zero("kind", 0, Shape::Text);

/// The group and version of a document. In protobuf they are in the envelope.
pub(super) const API_VERSION: Field = unless_zero("apiVersion", 0, Shape::Text);

/// A field that is always printed.
pub(super) const fn always(name: &'static str, number: u32, shape: Shape) -> Field {
    Field {
        name,
        number,
        within: &[],
        shape,
        presence: Presence::Always,
        required: Required::Usual,
        merge: Merge::Default,
        ownership: Ownership::Usual,
        default: None,
        values: &[],
    }
}

/// A field that is printed as `null` if not set.
pub(super) const fn or_null(name: &'static str, number: u32, shape: Shape) -> Field {
    Field { presence: Presence::OrNull, ..always(name, number, shape) }
}

/// A field that is printed unless it is its zero value.
pub(super) const fn unless_zero(name: &'static str, number: u32, shape: Shape) -> Field {
    Field { presence: Presence::WhenNotZero, ..always(name, number, shape) }
}

/// A field that is printed if set.
pub(super) const fn when_set(name: &'static str, number: u32, shape: Shape) -> Field {
    Field { presence: Presence::WhenSet, ..always(name, number, shape) }
}

/// The catch-all field, which keeps all other members unchanged. For types without a protobuf form.
pub(super) const REST: Field = when_set(super::REST, 0, Shape::Any);

impl Field {
    /// In protobuf the field is in embedded messages with these numbers, from the outside in.
    pub(super) const fn within(self, numbers: &'static [u32]) -> Self {
        Self { within: numbers, ..self }
    }

    /// The text, or each text of the list or map, is one of these.
    pub(super) const fn one_of(self, values: &'static [&'static str]) -> Self {
        Self { values, ..self }
    }

    /// Objects must have the field.
    pub(super) const fn required(self) -> Self {
        Self { required: Required::Yes, ..self }
    }

    /// Objects need not have the field, although it is always printed.
    pub(super) const fn optional(self) -> Self {
        Self { required: Required::No, ..self }
    }

    /// Entries with the same value of `key` are merged.
    pub(super) const fn by_key(self, key: &'static str) -> Self {
        Self { merge: Merge::ByKey(key), ..self }
    }

    /// Like `by_key`, and keeps only the members that the patch lists in `$retainKeys`.
    pub(super) const fn by_key_retaining(self, key: &'static str) -> Self {
        Self { merge: Merge::ByKeyRetaining(key), ..self }
    }

    /// The value has one owner, for server-side apply.
    pub(super) const fn atomic(self) -> Self {
        Self { ownership: Ownership::Atomic, ..self }
    }

    /// The fields of the object have owners of their own, for server-side apply, although its type is atomic.
    pub(super) const fn granular(self) -> Self {
        Self { ownership: Ownership::Granular, ..self }
    }

    /// The entries have owners of their own, for server-side apply. These members tell them apart.
    pub(super) const fn keyed(self, keys: &'static [&'static str]) -> Self {
        Self { ownership: Ownership::Keys(keys), ..self }
    }

    /// The entries are plain values with owners of their own, for server-side apply.
    pub(super) const fn owned_as_set(self) -> Self {
        Self { ownership: Ownership::Set, ..self }
    }

    /// The value that an entry of a list has without the field, which is a key of the list.
    pub(super) const fn defaults_to(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// The object is replaced.
    pub(super) const fn replaced(self) -> Self {
        Self { merge: Merge::Replace, ..self }
    }

    /// Only the members that the patch lists in `$retainKeys` are kept.
    pub(super) const fn retaining(self) -> Self {
        Self { merge: Merge::Retaining, ..self }
    }

    /// The list is merged as a set.
    pub(super) const fn as_set(self) -> Self {
        Self { merge: Merge::Set, ..self }
    }
}
