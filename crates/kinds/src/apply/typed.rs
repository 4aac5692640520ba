//! The schemas of the built-in kinds, as server-side apply sees them.

use crate::schema::{Field, Merge, Ownership, Presence, REST, Shape, Type};

use super::schema::{Key, KeyDefault, Scalar, Schema, Structure};

/// The schema of a value of a built-in kind.
#[derive(Clone, Copy, Debug)]
pub struct Typed {
    shape: Shape,
    merge: Merge,
    ownership: Ownership,
}

impl Typed {
    /// The schema of the objects of a type.
    pub fn of(ty: &'static Type) -> Self {
        Self::plain(Shape::Object(ty))
    }

    /// The schema of a field.
    pub fn of_field(field: &Field) -> Self {
        Self { shape: field.shape, merge: field.merge, ownership: field.ownership }
    }

    fn plain(shape: Shape) -> Self {
        Self { shape, merge: Merge::Default, ownership: Ownership::Usual }
    }

    /// The schema of a value that has no declared field.
    pub(crate) fn undeclared() -> Self {
        Self { ownership: Ownership::Granular, ..Self::plain(Shape::Any) }
    }

    /// The key of a list by which a strategic merge patch merges it, too.
    fn merge_key(self) -> Option<&'static str> {
        match (self.ownership, self.merge) {
            (Ownership::Usual, Merge::ByKey(key) | Merge::ByKeyRetaining(key)) => Some(key),
            _ => None,
        }
    }

    fn list(self) -> Structure {
        match (self.ownership, self.merge) {
            (Ownership::Keys(_), _) => Structure::KeyedList,
            (Ownership::Set, _) | (Ownership::Usual, Merge::Set) => Structure::Set,
            _ if self.merge_key().is_some() => Structure::KeyedList,
            _ => Structure::AtomicList,
        }
    }
}

impl Schema for Typed {
    fn structure(self) -> Structure {
        match self.shape {
            Shape::Any if matches!(self.ownership, Ownership::Granular) => Structure::Deduced,
            Shape::Any => Structure::AnyAtomic,
            Shape::Bool => Structure::Scalar(Scalar::Bool),
            Shape::Int32 | Shape::Int64 => Structure::Scalar(Scalar::Number),
            Shape::Bytes | Shape::Text => Structure::Scalar(Scalar::Text),
            Shape::IntOrString | Shape::MicroTime | Shape::Quantity | Shape::Time => {
                Structure::Scalar(Scalar::Any)
            }
            Shape::List(_) => self.list(),
            Shape::Map(_) => match self.ownership {
                Ownership::Atomic => Structure::AtomicMap,
                _ => Structure::Map,
            },
            Shape::Object(ty) => match self.ownership {
                Ownership::Granular => Structure::Map,
                Ownership::Atomic => Structure::AtomicMap,
                _ if ty.is_atomic => Structure::AtomicMap,
                _ => Structure::Map,
            },
        }
    }

    fn field(self, name: &str) -> Option<Self> {
        let Shape::Object(ty) = self.shape else { return None };
        ty.named(name).filter(|field| field.name != REST).map(Self::of_field)
    }

    fn inner(self) -> Option<Self> {
        match self.shape {
            Shape::List(inner) | Shape::Map(inner) => Some(Self::plain(*inner)),
            Shape::Object(ty) => ty.rest().map(|_| Self::undeclared()),
            Shape::Any => Some(Self::undeclared()),
            _ => None,
        }
    }

    fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        let keys = match self.ownership {
            Ownership::Keys(keys) => keys,
            _ => &[],
        };
        let entry = match self.shape {
            Shape::List(Shape::Object(ty)) => Some(*ty),
            _ => None,
        };
        let default = move |name: &str| entry.and_then(|ty| default(ty, name));
        keys.iter().copied().chain(self.merge_key()).map(move |name| Key { name, default: default(name) })
    }
}

/// The value of a key that an entry lacks: the default of its field, or the zero value if Go always prints the field.
fn default(ty: &'static Type, name: &str) -> Option<KeyDefault<'static>> {
    let field = ty.field(name)?;
    match (field.default, field.shape) {
        (Some(text), _) => Some(KeyDefault::Text(text)),
        _ if field.presence != Presence::Always => None,
        (None, Shape::Bool) => Some(KeyDefault::Bool(false)),
        (None, Shape::Int32 | Shape::Int64) => Some(KeyDefault::Number(0)),
        (None, Shape::Text) => Some(KeyDefault::Text("")),
        _ => None,
    }
}
