//! What a refused request would need: enough of it for a role (AU-125), in bounded memory.

use std::collections::{BTreeMap, BTreeSet};

use super::text::cut;
use crate::request::Attributes;

/// The maximum number of namespaces of a row, and of names in all of them together. With more names a namespace needs all names; with
/// more namespaces the row needs all namespaces.
const KEPT: usize = 16;

/// What the requests of a row need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) what: What,
    pub(super) places: Places,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A resource: the API group, and the resource with its subresource, as rules name it.
    Resource { group: String, resource: String },
    /// A path that is no resource.
    Path(String),
    /// Something that no rule can name: it is longer than a row keeps, or has a `*`, which would be a wildcard in a rule.
    Unnameable,
}

/// Where. A request without a namespace is one for the whole cluster, or for what lies in no namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Places {
    /// In these namespaces.
    Some(BTreeMap<String, Names>),
    /// In so many that they are not counted.
    Everywhere,
}

/// The names of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// These.
    Some(BTreeSet<String>),
    /// So many that they are not counted, or a request without a name.
    All,
}

impl Names {
    fn count(&self) -> usize {
        match self {
            Self::Some(names) => names.len(),
            Self::All => 0,
        }
    }
}

impl Needs {
    /// What one request needs.
    pub(super) fn of(asked: &Attributes<'_>) -> Self {
        let can_name = |texts: &[&str]| texts.iter().all(|text| cut(text) == **text && !text.contains('*'));
        let what = match &asked.resource {
            None if can_name(&[asked.path, asked.verb]) => What::Path(asked.path.to_owned()),
            Some(of) if can_name(&[of.group, of.resource, of.subresource, asked.verb]) => What::Resource {
                group: of.group.to_owned(),
                resource: match of.subresource {
                    "" => of.resource.to_owned(),
                    subresource => format!("{}/{subresource}", of.resource),
                },
            },
            _ => What::Unnameable,
        };
        let mut needs = Self { what, places: Places::Some(BTreeMap::new()) };
        needs.add(asked);
        needs
    }

    /// Adds the place of another request for the same.
    pub(super) fn add(&mut self, asked: &Attributes<'_>) {
        let Places::Some(places) = &mut self.places else { return };
        let (namespace, name) = match &asked.resource {
            Some(resource) => (resource.namespace, resource.name),
            None => ("", ""),
        };
        if !places.contains_key(namespace) && places.len() >= KEPT {
            self.places = Places::Everywhere;
            return;
        }
        let is_full = places.values().map(Names::count).sum::<usize>() >= KEPT;
        let names = places.entry(cut(namespace)).or_insert_with(|| Names::Some(BTreeSet::new()));
        let Names::Some(known) = names else { return };
        if known.contains(name) {
            return;
        }
        if name.is_empty() || cut(name) != name || is_full {
            *names = Names::All;
        } else {
            known.insert(name.to_owned());
        }
    }
}
