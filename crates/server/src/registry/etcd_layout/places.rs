//! Where the kinds lie in etcd, and the two names of each key: that of the store and that of etcd (ET-10).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kinds::Kinds;
use kinds::resource::Resource;
use kinds::resources::core::events::CORE_EVENTS;

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
}

impl Places {
    /// The places of these kinds.
    ///
    /// # Errors
    /// Two kinds have the same place. The kinds of this program alone never do.
    pub(super) fn of(kinds: &Kinds) -> Result<Self, SharedPlace> {
        let mut places = Self { by_path: HashMap::new(), by_prefix: HashMap::new() };
        for records in [AGGREGATED, ALLOCATED] {
            places.add(Place::of_records(records))?;
        }
        places.add(Place::of_addresses())?;
        for row in kinds.built_in_stored().map(Resource::storage) {
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

    /// The place of a key of the store, and the namespace and the name in the key, as they stand there.
    pub(super) fn of_key<'k>(&self, key: &'k str) -> Option<(&Place, &'k str)> {
        let key = key.strip_prefix('/')?;
        let (prefix, rest) = split(key, 2)?;
        found(self.by_prefix.get(prefix)?, rest)
    }

    /// The path below which the keys with a prefix such as `/core/pods/` lie.
    pub(super) fn folder(&self, prefix: &str) -> Option<&str> {
        let place = self.by_prefix.get(prefix.strip_prefix('/')?.strip_suffix('/')?)?;
        Some(&place.path)
    }

    /// As [`Places::of_key`], for a path in etcd.
    fn of_path<'p>(&self, path: &'p str) -> Option<(&Place, &'p str)> {
        let at = |parts| split(path, parts).and_then(|(start, rest)| Some((self.by_path.get(start)?, rest)));
        let (place, rest) = at(1).or_else(|| at(2))?;
        found(place, rest)
    }

    /// The path in etcd of a key of the store.
    pub(super) fn path(&self, key: &str) -> Option<String> {
        let (place, rest) = self.of_key(key)?;
        Some(format!("{}/{rest}", place.path))
    }

    /// The resource of a key of the store, or of a prefix of keys; empty if there is none.
    pub(super) fn resource(&self, key: &str) -> (&'static str, &'static str) {
        let kind = key.strip_prefix('/').and_then(|key| split(key, 2)).map(|(kind, _)| kind);
        kind.and_then(|kind| self.by_prefix.get(kind)).map(|place| place.resource).unwrap_or_default()
    }

    /// The start of the paths in etcd of the keys of a kind, or of one namespace of it. Ends with a slash.
    pub(super) fn prefix(&self, prefix: &str) -> Option<String> {
        let (kind, rest) = split(prefix.strip_prefix('/')?, 2)?;
        let place = self.by_prefix.get(kind)?;
        (rest.is_empty() || rest.ends_with('/')).then(|| format!("{}/{rest}", place.path))
    }

    /// The key of the store of a path in etcd.
    pub(super) fn key(&self, path: &str) -> Option<Box<str>> {
        let (place, rest) = self.of_path(path)?;
        Some(format!("/{}/{rest}", place.prefix).into())
    }
}

fn found<'p, 'k>(place: &'p Place, rest: &'k str) -> Option<(&'p Place, &'k str)> {
    place.holds(rest).then_some((place, rest))
}

/// Splits a key after this many parts.
fn split(key: &str, parts: usize) -> Option<(&str, &str)> {
    let (slash, _) = key.match_indices('/').nth(parts.checked_sub(1)?)?;
    let (start, rest) = key.split_at_checked(slash)?;
    Some((start, rest.strip_prefix('/')?))
}
