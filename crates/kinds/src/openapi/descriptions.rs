//! Descriptions of types and fields, which `kubectl explain` shows. They are read from the files in `texts/`.
//!
//! DIVERGES: the texts are not those of Kubernetes, but our own.
//!
//! A file has sections, each for the types of one or more packages: `[rbac/v1 rbac/v1beta1]`. A line that begins with a
//! name describes a type, a line that begins with two spaces a field of that type, and a line that begins with four
//! spaces continues the text before it. `Name like Other: text` takes texts of fields that the type does not have itself
//! from another type. The section `[*]` describes what all objects and all lists have, and scalars.
//!
//! The texts are read when documents are made, and are not kept.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::schema::{Field, Shape, Type, meta};

const TEXTS: &[&str] = &[
    include_str!("texts/cluster.txt"),
    include_str!("texts/core.txt"),
    include_str!("texts/meta.txt"),
    include_str!("texts/nodes.txt"),
    include_str!("texts/pod.txt"),
    include_str!("texts/security.txt"),
    include_str!("texts/volume.txt"),
    include_str!("texts/workloads.txt"),
];

/// The package of what all objects and lists have.
const COMMON: &str = "*";

/// A package and the name of a type.
type Name = (&'static str, &'static str);

/// The texts.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    /// Which of `types` describes a type.
    named: HashMap<Name, usize>,
    types: Vec<Described>,
}

/// The texts of a type.
#[derive(Debug)]
struct Described {
    text: Cow<'static, str>,
    /// The type that describes further fields.
    like: Option<Name>,
    fields: Vec<(&'static str, Cow<'static, str>)>,
}

impl Descriptions {
    /// Reads the texts.
    pub(super) fn read() -> Self {
        let mut read = Self::default();
        for text in TEXTS {
            read.add(text);
        }
        read
    }

    fn add(&mut self, text: &'static str) {
        let mut packages: Vec<&'static str> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(section) = line.strip_prefix('[') {
                packages = section.trim_end_matches(']').split(' ').collect();
            } else if let Some(more) = line.strip_prefix("    ") {
                let Some(last) = self.types.last_mut() else { continue };
                let text = last.fields.last_mut().map_or(&mut last.text, |(_, text)| text).to_mut();
                text.push(' ');
                text.push_str(more);
            } else if let Some(field) = line.strip_prefix("  ") {
                let (name, text) = field.split_once(": ").unwrap_or((field, ""));
                self.types.last_mut().into_iter().for_each(|last| last.fields.push((name, text.into())));
            } else {
                let (name, text) = line.split_once(": ").unwrap_or((line, ""));
                let (name, like) = match name.split_once(" like ") {
                    Some((name, like)) => (name, Some(like)),
                    None => (name, None),
                };
                let here = packages.first().copied().unwrap_or_default();
                let like = like.map(|like| like.rsplit_once('.').unwrap_or((here, like)));
                self.named.extend(packages.iter().map(|package| ((*package, name), self.types.len())));
                self.types.push(Described { text: text.into(), like, fields: Vec::new() });
            }
        }
    }

    fn find(&self, name: (&str, &str)) -> Option<&Described> {
        self.named.get(&name).and_then(|at| self.types.get(*at))
    }

    /// The description of a type.
    pub(super) fn of_type(&self, ty: &Type) -> Option<&str> {
        self.find((ty.package, ty.name)).map(|described| &*described.text)
    }

    /// The description of a field of a type.
    pub(super) fn of_field(&self, ty: &Type, field: &Field) -> Option<&str> {
        let common = || match (field.name, field.shape) {
            ("kind" | "apiVersion", Shape::Text) if field.number == 0 => self.of_object(field.name),
            ("metadata", Shape::Object(of)) if std::ptr::eq(of, &meta::OBJECT_META) => {
                self.of_object("metadata")
            }
            ("metadata", Shape::Object(of)) if std::ptr::eq(of, &meta::LIST_META) => self.of_list("metadata"),
            _ => None,
        };
        self.member((ty.package, ty.name), field.name).or_else(common)
    }

    /// The description of a field that all objects have.
    pub(super) fn of_object(&self, member: &str) -> Option<&str> {
        self.member((COMMON, "Object"), member)
    }

    /// The description of a field that all lists have.
    pub(super) fn of_list(&self, member: &str) -> Option<&str> {
        self.member((COMMON, "List"), member)
    }

    /// The description of a scalar type: `Quantity`, `Time`.
    pub(super) fn of_scalar(&self, name: &str) -> Option<&str> {
        self.find((COMMON, name)).map(|described| &*described.text)
    }

    /// The text of a field, which the type has itself or takes from others.
    fn member(&self, ty: (&str, &str), field: &str) -> Option<&str> {
        let mut described = self.find(ty)?;
        // No chain is longer than this, and none is a circle.
        for _ in 0..4 {
            if let Some((_, text)) = described.fields.iter().find(|(name, _)| *name == field) {
                return Some(text);
            }
            described = self.find(described.like?)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::kinds::Kinds;
    use crate::schema::{self, REST};

    /// All types that kinds reach, by package and name.
    fn types() -> BTreeMap<Name, &'static Type> {
        fn walk(ty: &'static Type, found: &mut BTreeMap<Name, &'static Type>) {
            if found.insert((ty.package, ty.name), ty).is_some() {
                return;
            }
            for field in ty.fields {
                let mut shape = field.shape;
                while let Shape::List(inner) | Shape::Map(inner) = shape {
                    shape = *inner;
                }
                if let Shape::Object(inner) = shape {
                    walk(inner, found);
                }
            }
        }
        let mut found = BTreeMap::new();
        let rows = Kinds::built_in();
        let rows = rows.built_in_rows().map(|row| row.schema);
        schema::kinds().chain(schema::common()).chain(rows).for_each(|ty| walk(ty, &mut found));
        walk(&meta::LIST_META, &mut found);
        found
    }

    #[test]
    fn every_type_and_every_field_is_described() {
        let descriptions = Descriptions::read();
        let is_text =
            |text: Option<&str>| text.is_some_and(|text| text.len() > 3 && text.ends_with(['.', '`']));
        for ((package, name), ty) in types() {
            assert!(is_text(descriptions.of_type(ty)), "{package} {name}");
            for field in ty.fields.iter().filter(|field| field.name != REST) {
                assert!(
                    is_text(descriptions.of_field(ty, field)),
                    "{package} {name}.{}: {:?}",
                    field.name,
                    descriptions.of_field(ty, field)
                );
            }
        }
    }

    #[test]
    fn every_text_describes_a_type_and_a_field_that_exist() {
        let descriptions = Descriptions::read();
        let types = types();
        for (at, described) in descriptions.types.iter().enumerate() {
            let names: Vec<Name> =
                descriptions.named.iter().filter(|(_, of)| **of == at).map(|(name, _)| *name).collect();
            if names.iter().any(|(package, _)| *package == COMMON) {
                continue;
            }
            let found: Vec<&Type> = names.iter().filter_map(|name| types.get(name).copied()).collect();
            assert!(!found.is_empty(), "{names:?}: no such type");
            if let Some(like) = described.like {
                assert!(types.contains_key(&like), "{names:?}: like {like:?}");
            }
            let mut seen = BTreeSet::new();
            for (field, _) in &described.fields {
                let is_there = |ty: &&Type| ty.fields.iter().any(|known| known.name == *field);
                assert!(found.iter().any(is_there), "{names:?}.{field}: no such field");
                assert!(seen.insert(field), "{names:?}.{field}: described twice");
            }
        }
        let described: usize = TEXTS
            .iter()
            .flat_map(|text| text.lines())
            .filter(|line| !line.is_empty() && !line.starts_with(['#', '[', ' ']))
            .count();
        assert_eq!(described, descriptions.types.len(), "no type is described twice");
    }
}
