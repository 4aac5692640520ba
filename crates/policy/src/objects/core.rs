//! Kinds of the core group other than pods.

use serde::Deserialize;

use super::decode::{Present, Text};
use super::meta::{MetadataAndSpec, MetadataOnly, NamespacedReference};

/// A namespace: its identity and its labels.
pub type Namespace<'a> = MetadataOnly<'a>;

/// A node: only its identity. NodeRestriction has its own view of the fields that it compares.
pub type Node<'a> = MetadataOnly<'a>;

/// A service account: only its identity.
pub type ServiceAccount<'a> = MetadataOnly<'a>;

/// A persistent volume claim.
pub type PersistentVolumeClaim<'a> = MetadataAndSpec<'a, PersistentVolumeClaimSpec<'a>>;

/// The spec of a claim.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PersistentVolumeClaimSpec<'a> {
    /// The volume that the claim is bound to, or empty.
    pub volume_name: Text<'a>,
}

/// A persistent volume.
pub type PersistentVolume<'a> = MetadataAndSpec<'a, PersistentVolumeSpec<'a>>;

/// The spec of a persistent volume: its claim, and the sources that matter here.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PersistentVolumeSpec<'a> {
    /// The claim that the volume is (or will be) bound to.
    pub claim_ref: Option<NamespacedReference<'a>>,
    /// An AWS disk.
    pub aws_elastic_block_store: Option<Present>,
    /// An Azure disk.
    pub azure_disk: Option<Present>,
    /// An Azure file share.
    pub azure_file: Option<AzureFileVolume<'a>>,
    /// A Ceph file system.
    pub cephfs: Option<VolumeSecretRef<'a>>,
    /// An OpenStack disk.
    pub cinder: Option<VolumeSecretRef<'a>>,
    /// A CSI volume.
    pub csi: Option<CsiPersistentVolume<'a>>,
    /// A FlexVolume.
    pub flex_volume: Option<VolumeSecretRef<'a>>,
    /// A Google disk.
    pub gce_persistent_disk: Option<Present>,
    /// A Gluster file system.
    pub glusterfs: Option<GlusterfsPersistentVolume<'a>>,
    /// An iSCSI disk.
    pub iscsi: Option<VolumeSecretRef<'a>>,
    /// A Portworx volume.
    pub portworx_volume: Option<Present>,
    /// A Ceph block device.
    pub rbd: Option<VolumeSecretRef<'a>>,
    /// A ScaleIO volume.
    #[serde(rename = "scaleIO")]
    pub scale_io: Option<VolumeSecretRef<'a>>,
    /// A StorageOS volume.
    pub storageos: Option<VolumeSecretRef<'a>>,
    /// A vSphere disk.
    pub vsphere_volume: Option<Present>,
}

/// An Azure file share as a persistent volume.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct AzureFileVolume<'a> {
    /// The secret's name.
    pub secret_name: Text<'a>,
    /// The secret's namespace; the claim's when absent or empty.
    pub secret_namespace: Text<'a>,
}

/// A Gluster file system as a persistent volume.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct GlusterfsPersistentVolume<'a> {
    /// The Endpoints object that lists the servers.
    pub endpoints: Text<'a>,
    /// Its namespace; the claim's when absent or empty.
    pub endpoints_namespace: Text<'a>,
}

/// A persistent volume source that names a secret by `secretRef`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct VolumeSecretRef<'a> {
    /// The secret.
    pub secret_ref: Option<NamespacedReference<'a>>,
}

/// A CSI volume. The two references that only controllers use are left out on purpose (NA-63).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct CsiPersistentVolume<'a> {
    /// The driver's name.
    pub driver: Text<'a>,
    /// The secret used when publishing to a pod.
    pub node_publish_secret_ref: Option<NamespacedReference<'a>>,
    /// The secret used when staging on the node.
    pub node_stage_secret_ref: Option<NamespacedReference<'a>>,
    /// The secret used when expanding on the node.
    pub node_expand_secret_ref: Option<NamespacedReference<'a>>,
}

impl<'a> PersistentVolume<'a> {
    /// Visits namespace and name of every secret that kubelets use for this volume (NA-63). Only one source is
    /// examined; empty names are skipped; without a claim nothing is visited.
    pub fn each_secret<'p>(&'p self, mut visit: impl FnMut(&'p str, &'p str)) {
        let spec = &self.spec;
        let Some(claim) = &spec.claim_ref else { return };
        let claim_namespace: &'p str = &claim.namespace;
        let mut named = |namespace: &'p str, name: &'p str| {
            if !name.is_empty() {
                visit(namespace, name);
            }
        };
        let or_claim = |namespace: &'p str| if namespace.is_empty() { claim_namespace } else { namespace };
        // For each source: its secret, and whether an empty namespace means the claim's.
        type Source<'p, 'a> = (&'p Option<VolumeSecretRef<'a>>, bool);
        let before_csi: [Source<'p, 'a>; 7] = [
            (&spec.cephfs, true),
            (&spec.cinder, false),
            (&spec.flex_volume, true),
            (&spec.rbd, true),
            (&spec.scale_io, true),
            (&spec.iscsi, true),
            (&spec.storageos, false),
        ];
        if let Some(azure) = &spec.azure_file {
            named(or_claim(&azure.secret_namespace), &azure.secret_name);
        } else if let Some((source, default)) =
            before_csi.iter().find_map(|(source, default)| source.as_ref().map(|s| (s, *default)))
        {
            if let Some(secret) = &source.secret_ref {
                let namespace: &'p str = &secret.namespace;
                named(if default { or_claim(namespace) } else { namespace }, &secret.name);
            }
        } else if let Some(csi) = &spec.csi {
            for secret in
                [&csi.node_publish_secret_ref, &csi.node_stage_secret_ref, &csi.node_expand_secret_ref]
                    .into_iter()
                    .flatten()
            {
                named(&secret.namespace, &secret.name);
            }
        }
    }
    /// Visits namespace and name of the Endpoints object that the volume names, if it has a claim.
    pub fn each_endpoints<'p>(&'p self, mut visit: impl FnMut(&'p str, &'p str)) {
        if let (Some(claim), Some(source)) = (&self.spec.claim_ref, &self.spec.glusterfs)
            && !source.endpoints.is_empty()
        {
            let namespace = &source.endpoints_namespace;
            visit(if namespace.is_empty() { &claim.namespace } else { namespace }, &source.endpoints);
        }
    }
}
