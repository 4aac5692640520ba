//! Where the kinds lie in etcd, and the two names of each key: that of the store and that of etcd (ET-10).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kinds::custom::CustomKinds;
use kinds::resource::Resource;
use kinds::resources::core::events::CORE_EVENTS;
use kinds::resources::definitions::DEFINITIONS;
use kinds::{Kinds, may_be_defined};

use super::custom::CustomKey;
use super::form::Forms;
use crate::registry::cluster::aggregation::AGGREGATED;
use crate::registry::context::ALLOCATED;
use crate::registry::server_addresses::MASTER_LEASES;
use crate::registry::{server_addresses, storage};

/// The groups whose keys do not contain the group: those that kube-apiserver serves itself. All other groups are
/// those of custom resources, of API services and of custom resource definitions, whose keys contain it.
const WITHOUT_GROUP: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// The kinds whose keys have another name than their resource: group, plural, and the name.
const RENAMED: &[(&str, &str, &str)] = &[
    ("", "endpoints", "services/endpoints"),
    ("", "nodes", "minions"),
    ("", "replicationcontrollers", "controllers"),
    ("", "services", "services/specs"),
    ("networking.k8s.io", "ingresses", "ingress"),
];

/// Two kinds would lie under the same keys in etcd.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kinds {0} and {1} would lie under the same keys in etcd: {2}/; serve only one of them")]
pub struct SharedPlace(String, String, String);

/// Where the objects of a kind lie, or records that are no API objects.
#[derive(Debug)]
pub(super) struct Place {
    /// The start of paths in etcd, without the last slash: `services/specs`.
    path: String,
    /// The start of keys of the store, without the slashes around: `core/services`.
    prefix: String,
    /// Whether a namespace follows before the name.
    is_namespaced: bool,
    /// The group and the plural name by which an encryption configuration knows it.
    pub(super) resource: (&'static str, &'static str),
    /// The forms of the objects; none for records.
    pub(super) forms: Option<Forms>,
}

impl Place {
    fn of(row: &'static Resource, kinds: &Kinds) -> Self {
        let (group, plural) = (row.group, row.plural);
        let renamed = RENAMED.iter().find(|(of, name, _)| (*of, *name) == (group, plural));
        let path = match renamed {
            Some((_, _, path)) => (*path).to_owned(),
            None if WITHOUT_GROUP.contains(&group) => plural.to_owned(),
            None => format!("{group}/{plural}"),
        };
        Self {
            path,
            prefix: format!("{}/{plural}", storage::group(row)),
            is_namespaced: row.is_namespaced,
            resource: (group, plural),
            forms: Some(Forms::of(row, kinds)),
        }
    }

    /// Records of the server, such as those of aggregated roles.
    fn of_records(resource: (&'static str, &'static str)) -> Self {
        let (group, plural) = resource;
        let path = format!("{group}/{plural}");
        Self { prefix: path.clone(), path, is_namespaced: false, resource, forms: None }
    }

    /// The addresses of API servers, which kube-apiserver keeps under the same keys.
    fn of_addresses() -> Self {
        let (group, plural) = MASTER_LEASES;
        // The name by which kube-apiserver looks up their encryption.
        let resource = ("", "apiServerIPInfo");
        let (path, prefix) = (plural.to_owned(), format!("{group}/{plural}"));
        Self { path, prefix, is_namespaced: false, resource, forms: None }
    }

    /// Whether `rest` has the parts of a key of this kind: a name, and a namespace before it if the kind has one.
    fn holds(&self, rest: &str) -> bool {
        let (namespace, name) = match self.is_namespaced {
            true => rest.split_once('/').unwrap_or_default(),
            false => ("-", rest),
        };
        !namespace.is_empty() && !name.is_empty() && !name.contains('/')
    }

    /// How long what lies here lives after its last write; none for as long as nobody deletes it. Events live as long as
    /// `event_ttl`.
    pub(super) fn lifetime(&self, event_ttl: Duration) -> Option<Duration> {
        match &self.forms {
            Some(forms) => (*forms.row() == CORE_EVENTS && !event_ttl.is_zero()).then_some(event_ttl),
            None => (self.path == MASTER_LEASES.1).then_some(server_addresses::LIFETIME),
        }
    }
}

/// All places, by both names.
#[derive(Debug)]
pub(super) struct Places {
    by_path: HashMap<String, Arc<Place>>,
    by_prefix: HashMap<String, Arc<Place>>,
    /// Custom kinds, if their definitions are served. Everything else that can be a custom object is read as one: its path is its
    /// key.
    custom: Option<Arc<CustomKinds>>,
    /// The kinds that can have a definition and are served without one, too: group and plural name.
    defined_anyway: Vec<(&'static str, &'static str)>,
}

/// What a key names.
#[derive(Debug)]
pub(super) enum Found<'p, 'k> {
    /// Something in a place, with the namespace and the name in the key, as they stand there.
    In(&'p Place, &'k str),
    /// What can be a custom object.
    Custom(CustomKey<'k>),
}

impl Places {
    /// The places of these kinds.
    ///
    /// # Errors
    /// Two kinds have the same place. The kinds of this program alone never do.
    pub(super) fn of(kinds: &Kinds) -> Result<Self, SharedPlace> {
        let has_definitions = kinds.built_in_stored().any(|row| *row == DEFINITIONS);
        let custom = has_definitions.then(|| Arc::clone(kinds.custom()));
        let mut places =
            Self { by_path: HashMap::new(), by_prefix: HashMap::new(), custom, defined_anyway: Vec::new() };
        for records in [AGGREGATED, ALLOCATED] {
            places.add(Place::of_records(records))?;
        }
        places.add(Place::of_addresses())?;
        for row in kinds.built_in_stored().map(Resource::storage) {
            if has_definitions && may_be_defined(row) {
                // A definition can say that its objects have other fields.
                places.defined_anyway.push((row.group, row.plural));
                continue;
            }
            let place = Place::of(row, kinds);
            // Events of both groups are stored as those of the core group.
            if !places.by_prefix.contains_key(&place.prefix) {
                places.add(place)?;
            }
        }
        for place in places.by_path.values() {
            let (first, _) = place.path.split_once('/').unwrap_or_default();
            if let Some(other) = places.by_path.get(first) {
                return Err(SharedPlace(other.prefix.clone(), place.prefix.clone(), place.path.clone()));
            }
        }
        Ok(places)
    }

    fn add(&mut self, place: Place) -> Result<(), SharedPlace> {
        if let Some(other) = self.by_path.get(&place.path) {
            return Err(SharedPlace(other.prefix.clone(), place.prefix, place.path));
        }
        let place = Arc::new(place);
        self.by_path.insert(place.path.clone(), Arc::clone(&place));
        self.by_prefix.insert(place.prefix.clone(), place);
        Ok(())
    }

    /// What a key of the store names.
    pub(super) fn of_key<'k>(&self, key: &'k str) -> Option<Found<'_, 'k>> {
        let key = key.strip_prefix('/')?;
        let (prefix, rest) = split(key, 2)?;
        match self.by_prefix.get(prefix) {
            Some(place) => place.holds(rest).then_some(Found::In(place, rest)),
            None => self.custom_key(key).map(Found::Custom),
        }
    }

    /// As [`Places::of_key`], for a path in etcd.
    fn of_path<'p>(&self, path: &'p str) -> Option<Found<'_, 'p>> {
        let at = |parts| split(path, parts).and_then(|(start, rest)| Some((self.by_path.get(start)?, rest)));
        match at(1).or_else(|| at(2)) {
            Some((place, rest)) => place.holds(rest).then_some(Found::In(place, rest)),
            None => self.custom_key(path).map(Found::Custom),
        }
    }

    /// What can be the key of a custom object. Nothing that lies elsewhere in etcd is read as an object of a kind of this program:
    /// it would have another path than that of this key.
    fn custom_key<'k>(&self, key: &'k str) -> Option<CustomKey<'k>> {
        let found = CustomKey::of(key).filter(|_| self.custom.is_some())?;
        self.is_custom(&found).then_some(found)
    }

    fn is_custom(&self, key: &CustomKey<'_>) -> bool {
        let start = format!("{}/{}", key.group, key.plural);
        !self.by_path.contains_key(&start) && !self.by_prefix.contains_key(&start)
    }

    /// The start of keys that can be those of a custom kind; ends with a slash, without one in front.
    fn custom_prefix<'k>(&self, prefix: &'k str) -> Option<&'k str> {
        let start = CustomKey::start(prefix).filter(|_| self.custom.is_some())?;
        (self.is_custom(&start) && prefix.ends_with('/')).then_some(prefix)
    }

    /// The row in which the objects of a custom kind are stored; none if nobody defines it.
    pub(super) fn custom_row(&self, key: &CustomKey<'_>) -> Option<&'static Resource> {
        self.custom.as_ref()?.stored_in(key.group, key.plural)
    }

    /// Whether somebody sees what lies under a key of the store, if it can be read.
    pub(super) fn is_served(&self, key: &str) -> bool {
        match self.of_key(key) {
            Some(Found::In(..)) => true,
            Some(Found::Custom(key)) => {
                self.custom_row(&key).is_some() || self.defined_anyway.contains(&(key.group, key.plural))
            }
            None => false,
        }
    }

    /// The path below which the keys with a prefix such as `/core/pods/` lie.
    pub(super) fn folder<'p>(&'p self, prefix: &'p str) -> Option<&'p str> {
        let prefix = prefix.strip_prefix('/')?;
        let start = prefix.strip_suffix('/')?;
        match self.by_prefix.get(start) {
            Some(place) => Some(&place.path),
            None => self.custom_prefix(prefix).map(|_| start),
        }
    }

    /// The path in etcd of a key of the store.
    pub(super) fn path(&self, key: &str) -> Option<String> {
        match self.of_key(key)? {
            Found::In(place, rest) => Some(format!("{}/{rest}", place.path)),
            Found::Custom(_) => key.strip_prefix('/').map(str::to_owned),
        }
    }

    /// The resource of a key of the store, or of a prefix of keys; empty if there is none.
    pub(super) fn resource(&self, key: &str) -> (&'static str, &'static str) {
        let Some(key) = key.strip_prefix('/') else { return Default::default() };
        let kind = split(key, 2).map(|(kind, _)| kind);
        if let Some(place) = kind.and_then(|kind| self.by_prefix.get(kind)) {
            return place.resource;
        }
        let Some(start) = CustomKey::start(key) else { return Default::default() };
        let own = (start.group, start.plural);
        let anyway = self.defined_anyway.iter().find(|anyway| **anyway == own).copied();
        let row = || self.custom_row(&start).map(|row| (row.group, row.plural));
        anyway.or_else(row).unwrap_or_default()
    }

    /// The start of the paths in etcd of the keys of a kind, or of one namespace of it. Ends with a slash.
    pub(super) fn prefix(&self, prefix: &str) -> Option<String> {
        let prefix = prefix.strip_prefix('/')?;
        let (kind, rest) = split(prefix, 2)?;
        match self.by_prefix.get(kind) {
            Some(place) => (rest.is_empty() || rest.ends_with('/')).then(|| format!("{}/{rest}", place.path)),
            None => self.custom_prefix(prefix).map(str::to_owned),
        }
    }

    /// The key of the store of a path in etcd.
    pub(super) fn key(&self, path: &str) -> Option<Box<str>> {
        Some(match self.of_path(path)? {
            Found::In(place, rest) => format!("/{}/{rest}", place.prefix).into(),
            Found::Custom(_) => format!("/{path}").into(),
        })
    }
}

/// Splits a key after this many parts.
fn split(key: &str, parts: usize) -> Option<(&str, &str)> {
    let (slash, _) = key.match_indices('/').nth(parts.checked_sub(1)?)?;
    let (start, rest) = key.split_at_checked(slash)?;
    Some((start, rest.strip_prefix('/')?))
}
