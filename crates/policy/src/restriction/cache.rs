//! The objects that NodeRestriction looks up (NR-8), reduced to the fields that rules read.
//!
//! Large clusters have hundreds of thousands of pods. Repeated names are stored once, and fields that no rule reads are
//! not stored.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::lookup::{Lookup, PodFacts, TokenSource, Uid, VolumeFacts};
use crate::objects::core::{PersistentVolume, PersistentVolumeSpec};
use crate::objects::pod::{Pod, Volume};
use crate::objects::{Kind, Object};

/// A [`Lookup`] that is updated object by object.
#[derive(Debug, Default)]
pub struct ObjectCache {
    names: Names,
    nodes: HashMap<Box<str>, Uid>,
    pods: Namespaced<Arc<PodFacts>>,
    service_accounts: Namespaced<Uid>,
    claims: Namespaced<Arc<str>>,
    volumes: HashMap<Box<str>, VolumeFacts>,
    csi_drivers: HashMap<Box<str>, Arc<[Box<str>]>>,
}

impl ObjectCache {
    /// Applies an object that was created or changed. Kinds that no rule looks up are ignored.
    pub fn apply(&mut self, object: &Object<'_>) {
        let (namespace, name) = object.key();
        match object {
            Object::CsiDriver(driver) => {
                let audiences = driver.spec.token_requests.iter().map(|t| (*t.audience).into()).collect();
                self.csi_drivers.insert(name.into(), audiences);
            }
            Object::Node(node) => {
                self.nodes.insert(name.into(), Uid::from(&*node.metadata.uid));
            }
            Object::PersistentVolume(volume) => {
                let driver = volume_driver(volume).map(|driver| self.names.intern(driver));
                self.volumes.insert(name.into(), VolumeFacts { driver });
            }
            Object::PersistentVolumeClaim(claim) => {
                self.claims.insert(namespace, name, Arc::from(&*claim.spec.volume_name));
            }
            Object::Pod(pod) => {
                let facts = PodFacts {
                    uid: Uid::from(&*pod.metadata.uid),
                    node_name: self.names.intern(&pod.spec.node_name),
                    service_account: self.names.intern(pod.service_account()),
                    is_mirror: pod.is_mirror(),
                    token_sources: token_sources(pod, &mut self.names),
                };
                self.pods.insert(namespace, name, Arc::new(facts));
            }
            Object::ServiceAccount(account) => {
                self.service_accounts.insert(namespace, name, Uid::from(&*account.metadata.uid));
            }
            Object::ClusterRole(_)
            | Object::ClusterRoleBinding(_)
            | Object::Namespace(_)
            | Object::PodCertificateRequest(_)
            | Object::ResourceSlice(_)
            | Object::Role(_)
            | Object::RoleBinding(_)
            | Object::VolumeAttachment(_) => {}
        }
    }

    /// Deletes an object. Unknown objects and kinds that no rule looks up are ignored.
    pub fn delete(&mut self, kind: Kind, namespace: &str, name: &str) {
        match kind {
            Kind::CsiDriver => drop(self.csi_drivers.remove(name)),
            Kind::Node => drop(self.nodes.remove(name)),
            Kind::PersistentVolume => drop(self.volumes.remove(name)),
            Kind::PersistentVolumeClaim => self.claims.remove(namespace, name),
            Kind::Pod => self.pods.remove(namespace, name),
            Kind::ServiceAccount => self.service_accounts.remove(namespace, name),
            Kind::ClusterRole
            | Kind::ClusterRoleBinding
            | Kind::Namespace
            | Kind::PodCertificateRequest
            | Kind::ResourceSlice
            | Kind::Role
            | Kind::RoleBinding
            | Kind::VolumeAttachment => {}
        }
    }
}

impl Lookup for ObjectCache {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<PodFacts>> {
        self.pods.find(namespace, name)
    }

    fn node(&self, name: &str) -> Option<Uid> {
        self.nodes.get(name).cloned()
    }

    fn service_account(&self, namespace: &str, name: &str) -> Option<Uid> {
        self.service_accounts.find(namespace, name)
    }

    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<str>> {
        self.claims.find(namespace, name)
    }

    fn volume(&self, name: &str) -> Option<VolumeFacts> {
        self.volumes.get(name).cloned()
    }

    fn csi_driver(&self, name: &str) -> Option<Arc<[Box<str>]>> {
        self.csi_drivers.get(name).cloned()
    }
}

/// The token sources of a pod's volumes, without duplicates (NR-67, NR-68).
fn token_sources(pod: &Pod<'_>, names: &mut Names) -> Box<[TokenSource]> {
    let mut sources = Vec::new();
    for volume in &pod.spec.volumes {
        let projected = volume.projected.iter().flat_map(|p| &p.sources);
        for token in projected.filter_map(|source| source.service_account_token.as_ref()) {
            sources.push(TokenSource::Audience(names.intern(&token.audience)));
        }
        sources.extend(driver_source(pod, volume, names));
    }
    let mut seen = HashSet::with_capacity(sources.len());
    sources.into_iter().filter(|source| seen.insert(source.clone())).collect()
}

/// The driver through which a volume requests tokens: the first case that applies (NR-68).
fn driver_source(pod: &Pod<'_>, volume: &Volume<'_>, names: &mut Names) -> Option<TokenSource> {
    if volume.ephemeral.as_ref().is_some_and(|e| e.volume_claim_template.is_some()) {
        return Some(TokenSource::Claim(pod.ephemeral_claim_name(volume).into()));
    }
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some(TokenSource::Claim((*claim.claim_name).into()));
    }
    let driver = match &volume.csi {
        Some(csi) => &*csi.driver,
        None => inline_driver(volume)?,
    };
    Some(TokenSource::Driver(names.intern(driver)))
}

/// The driver of a persistent volume (NR-69).
fn volume_driver<'v>(volume: &'v PersistentVolume<'_>) -> Option<&'v str> {
    match &volume.spec.csi {
        Some(csi) => Some(&csi.driver),
        None => persistent_driver(&volume.spec),
    }
}

/// The CSI drivers that replace in-tree volume sources (NR-70), in the order of NR-68.
const MIGRATED: [&str; 7] = [
    "ebs.csi.aws.com",
    "pd.csi.storage.gke.io",
    "cinder.csi.openstack.org",
    "disk.csi.azure.com",
    "file.csi.azure.com",
    "csi.vsphere.vmware.com",
    "pxd.portworx.com",
];

fn migrated(present: [bool; 7]) -> Option<&'static str> {
    present.into_iter().zip(MIGRATED).find_map(|(present, driver)| present.then_some(driver))
}

fn inline_driver(volume: &Volume<'_>) -> Option<&'static str> {
    migrated([
        volume.aws_elastic_block_store.is_some(),
        volume.gce_persistent_disk.is_some(),
        volume.cinder.is_some(),
        volume.azure_disk.is_some(),
        volume.azure_file.is_some(),
        volume.vsphere_volume.is_some(),
        volume.portworx_volume.is_some(),
    ])
}

fn persistent_driver(spec: &PersistentVolumeSpec<'_>) -> Option<&'static str> {
    migrated([
        spec.aws_elastic_block_store.is_some(),
        spec.gce_persistent_disk.is_some(),
        spec.cinder.is_some(),
        spec.azure_disk.is_some(),
        spec.azure_file.is_some(),
        spec.vsphere_volume.is_some(),
        spec.portworx_volume.is_some(),
    ])
}

/// Interned names.
#[derive(Debug, Default)]
struct Names {
    known: HashSet<Arc<str>>,
    sweep_at: usize,
}

impl Names {
    /// Below this number of names, nothing is swept.
    const FEW: usize = 1024;

    fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.known.get(name) {
            return Arc::clone(known);
        }
        // Nodes come and go, so unused names are dropped whenever the set has doubled.
        if self.known.len() >= self.sweep_at.max(Self::FEW) {
            self.known.retain(|name| Arc::strong_count(name) > 1);
            self.sweep_at = self.known.len() * 2;
        }
        let name: Arc<str> = name.into();
        self.known.insert(Arc::clone(&name));
        name
    }
}

/// Values by namespace and name.
#[derive(Debug)]
struct Namespaced<T>(HashMap<Box<str>, HashMap<Box<str>, T>>);

impl<T> Default for Namespaced<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Clone> Namespaced<T> {
    fn find(&self, namespace: &str, name: &str) -> Option<T> {
        self.0.get(namespace)?.get(name).cloned()
    }

    fn insert(&mut self, namespace: &str, name: &str, value: T) {
        if let Some(values) = self.0.get_mut(namespace) {
            values.insert(name.into(), value);
            return;
        }
        self.0.insert(namespace.into(), HashMap::from_iter([(name.into(), value)]));
    }

    fn remove(&mut self, namespace: &str, name: &str) {
        let Some(values) = self.0.get_mut(namespace) else { return };
        values.remove(name);
        if values.is_empty() {
            self.0.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(kind: Kind, namespace: &str, name: &str, version: u8) -> String {
        let namespace = if kind.is_namespaced() { namespace } else { "" };
        format!(
            r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"{version}"}},"spec":{{
                "nodeName":"n{version}","volumeName":"v{version}","csi":{{"driver":"d{version}"}},
                "tokenRequests":[{{"audience":"a{version}"}}],
                "volumes":[{{"name":"x","csi":{{"driver":"d{version}"}}}}]}}}}"#
        )
    }

    /// Everything that a cache returns for the names of these tests.
    fn answers(cache: &ObjectCache) -> String {
        let mut answers = String::new();
        for name in ["a", "b"] {
            answers +=
                &format!("{:?} {:?} {:?}", cache.node(name), cache.volume(name), cache.csi_driver(name));
            for namespace in ["s", "t"] {
                let pod = cache.pod(namespace, name);
                let claim = cache.claim(namespace, name);
                answers += &format!("{pod:?} {claim:?} {:?}", cache.service_account(namespace, name));
            }
        }
        answers
    }

    const KINDS: [Kind; 7] = [
        Kind::CsiDriver,
        Kind::Node,
        Kind::PersistentVolume,
        Kind::PersistentVolumeClaim,
        Kind::Pod,
        Kind::ServiceAccount,
        Kind::VolumeAttachment,
    ];

    proptest! {
        #[test]
        fn a_cache_knows_exactly_what_was_not_deleted_nr_8(
            events in prop::collection::vec(
                (0..KINDS.len(), prop_oneof![Just("s"), Just("t")], prop_oneof![Just("a"), Just("b")],
                 prop::option::weighted(0.7, 0..3_u8)),
                0..40,
            )
        ) {
            let mut cache = ObjectCache::default();
            let mut expected = std::collections::BTreeMap::new();
            for (kind, namespace, name, version) in events {
                let kind = KINDS[kind];
                let namespace = if kind.is_namespaced() { namespace } else { "" };
                match version {
                    Some(version) => {
                        cache.apply(&Object::parse(kind, &object(kind, namespace, name, version)).unwrap());
                        expected.insert((kind, namespace, name), version);
                    }
                    None => {
                        cache.delete(kind, namespace, name);
                        expected.remove(&(kind, namespace, name));
                    }
                }
            }
            let mut rebuilt = ObjectCache::default();
            for ((kind, namespace, name), version) in &expected {
                rebuilt.apply(&Object::parse(*kind, &object(*kind, namespace, name, *version)).unwrap());
                let known = match kind {
                    Kind::Pod => rebuilt.pod(namespace, name).is_some_and(|pod| pod.uid == *version.to_string()),
                    Kind::Node => rebuilt.node(name).is_some_and(|uid| uid == *version.to_string()),
                    _ => true,
                };
                prop_assert!(known);
            }
            prop_assert_eq!(answers(&cache), answers(&rebuilt));
        }
    }

    #[test]
    fn names_of_nodes_that_are_gone_do_not_pile_up() {
        let mut names = Names::default();
        let kept: Vec<_> = (0..500).map(|i| names.intern(&format!("kept-{i}"))).collect();
        for i in 0..100_000 {
            names.intern(&format!("gone-{i}"));
        }
        assert!(names.known.len() <= 2 * Names::FEW, "{}", names.known.len());
        for (i, name) in kept.iter().enumerate() {
            assert!(Arc::ptr_eq(name, &names.intern(&format!("kept-{i}"))));
        }
    }
}
