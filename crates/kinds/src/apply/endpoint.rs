//! The endpoint of a write: the version and the subresource of a kind, and the fields that can be set there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::Map;
use crate::resource::Keeps;

use super::compare::Comparison;
use super::managers::{Manager, Managers, Operation};
use super::schema::{Schema, Structure};
use super::set::FieldSet;

/// The versions of a kind, each named as in `apiVersion`.
pub trait Versions {
    /// The type of schemas.
    type Schema: Schema;

    /// The schema of the objects of a version. Nothing if the kind has no such version.
    fn schema(&self, version: &str) -> Option<Self::Schema>;

    /// An object of one version as one of another. Nothing if the kind has no such version.
    fn convert<'o>(&self, object: Cow<'o, Map>, from: &str, to: &str) -> Option<Cow<'o, Map>>;
}

/// The metadata that nobody owns: the name of the object, and what only the server writes.
static NOT_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_names(&[
        "apiVersion",
        "kind",
        "metadata",
        "metadata.creationTimestamp",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.name",
        "metadata.namespace",
        "metadata.resourceVersion",
        "metadata.selfLink",
        "metadata.uid",
    ])
});

/// `metadata.managedFields`, which nobody owns. The new object may not have it while it is compared.
static MANAGED_FIELDS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_names(&["metadata.managedFields"]));

/// The endpoint of a write.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'e, V> {
    /// The versions of the kind.
    pub versions: &'e V,
    /// The version of the documents.
    pub version: &'e str,
    /// The subresource; empty for the object itself.
    pub subresource: &'e str,
    /// The fields that can be set here.
    pub keeps: Keeps,
    /// The time, as objects hold it.
    pub now: &'e str,
}

impl<'e, V: Versions> Endpoint<'e, V> {
    pub(super) fn manager(&self, name: &str, operation: Operation) -> Manager {
        Manager::new(name, operation, self.version, self.subresource)
    }

    /// Drops from a set what this endpoint resets.
    pub(super) fn keep(&self, set: &mut FieldSet) {
        match self.keeps {
            Keeps::Except([]) => {}
            _ if set.is_empty() => {}
            Keeps::Except(paths) => set.subtract_deep(&FieldSet::of_names(paths)),
            Keeps::Only(paths) => set.keep_only(paths),
        }
    }

    /// Drops from a set what the writer cannot own.
    pub(super) fn owned(&self, mut set: FieldSet) -> FieldSet {
        self.keep(&mut set);
        set.subtract(&NOT_OWNED);
        set
    }

    /// Compares two states of an object, given in this endpoint's version.
    pub(super) fn comparisons<'o>(&self, old: &'o Map, new: &'o Map) -> Option<Comparisons<'e, 'o, V>> {
        let first = self.compared(self.versions.schema(self.version)?, old, new);
        let (version, found) = (self.version.to_owned(), BTreeMap::new());
        Some(Comparisons { endpoint: Endpoint { ..*self }, old, new, first, version, found })
    }

    fn compared(&self, schema: V::Schema, old: &Map, new: &Map) -> Comparison {
        let mut comparison = Comparison::of(schema, old, new);
        comparison.each(|set| {
            set.subtract_deep(&MANAGED_FIELDS);
            self.keep(set);
        });
        comparison
    }
}

/// The comparison of two states of an object in each version that a manager uses.
pub(super) struct Comparisons<'e, 'o, V> {
    endpoint: Endpoint<'e, V>,
    old: &'o Map,
    new: &'o Map,
    /// In the version of the endpoint.
    pub(super) first: Comparison,
    version: String,
    found: BTreeMap<String, Option<Comparison>>,
}

impl<V: Versions> Comparisons<'_, '_, V> {
    /// The comparison in a version; nothing if there is no such version.
    pub(super) fn of(&mut self, version: &str) -> Option<&Comparison> {
        if version == self.version {
            return Some(&self.first);
        }
        let (endpoint, old, new) = (&self.endpoint, self.old, self.new);
        let compare = || {
            let schema = endpoint.versions.schema(version)?;
            let convert = |object: &Map| {
                let object = endpoint.versions.convert(Cow::Owned(object.clone()), endpoint.version, version);
                object.map(Cow::into_owned)
            };
            Some(endpoint.compared(schema, &convert(old)?, &convert(new)?))
        };
        if !self.found.contains_key(version) {
            self.found.insert(version.to_owned(), compare());
        }
        self.found.get(version)?.as_ref()
    }
}

/// Adapts the entries to the schema as it is today: managers of a version that is gone are dropped, and one that owned
/// parts of what has one owner now owns all of it.
pub(super) fn reconcile<V: Versions>(versions: &V, managers: &mut Managers) {
    managers.entries.retain(|_, managed| match versions.schema(&managed.api_version) {
        Some(schema) => {
            reconcile_set(schema, &mut managed.fields);
            true
        }
        None => false,
    });
}

fn reconcile_set<S: Schema>(schema: S, set: &mut FieldSet) {
    match schema.structure() {
        Structure::AtomicList | Structure::AtomicMap => {
            if set.has_below() {
                *set = FieldSet::member();
            }
        }
        Structure::Map => set.each_below(|step| {
            let name = super::step::name(step)?;
            schema.field(name).or_else(|| schema.inner())
        }),
        Structure::Set | Structure::KeyedList => set.each_below(|_| schema.inner()),
        Structure::Scalar(_) | Structure::AnyAtomic | Structure::Deduced => {}
    }
}

impl FieldSet {
    fn each_below<S: Schema>(&mut self, schema: impl Fn(&str) -> Option<S>) {
        for (step, child) in self.children_mut() {
            if let Some(inner) = schema(step) {
                reconcile_set(inner, child);
            }
        }
    }
}
