//! Pods, with every field through which a pod refers to another object.

use portcullis_apimachinery::well_known::MIRROR_ANNOTATION;
use serde::Deserialize;

use super::decode::{List, Present, Text, or_default};
use super::meta::{LocalReference, Metadata};

/// A pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Pod<'a> {
    /// The metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata<'a>,
    /// The spec.
    #[serde(deserialize_with = "or_default")]
    pub spec: PodSpec<'a>,
    /// The status.
    #[serde(deserialize_with = "or_default")]
    pub status: PodStatus<'a>,
}

/// The spec of a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PodSpec<'a> {
    /// The node that the pod is bound to, or empty.
    pub node_name: Text<'a>,
    /// The service account, or empty.
    pub service_account_name: Text<'a>,
    /// The older name of the same field; see [`Pod::service_account`].
    #[serde(rename = "serviceAccount")]
    pub deprecated_service_account: Text<'a>,
    /// Secrets for pulling images.
    pub image_pull_secrets: List<LocalReference<'a>>,
    /// The init containers.
    pub init_containers: List<Container<'a>>,
    /// The containers.
    pub containers: List<Container<'a>>,
    /// The ephemeral containers.
    pub ephemeral_containers: List<Container<'a>>,
    /// The volumes.
    pub volumes: List<Volume<'a>>,
    /// The pod's resource claims.
    pub resource_claims: List<PodResourceClaim<'a>>,
}

/// A container: only the sources of its environment variables.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Container<'a> {
    /// The environment variables.
    pub env: List<EnvVar<'a>>,
    /// The objects whose entries become environment variables.
    pub env_from: List<EnvFrom<'a>>,
}

/// One environment variable.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct EnvVar<'a> {
    /// The source of the value, unless it is literal.
    pub value_from: Option<EnvVarSource<'a>>,
}

/// The source of an environment variable.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct EnvVarSource<'a> {
    /// A key of a config map.
    pub config_map_key_ref: Option<LocalReference<'a>>,
    /// A key of a secret.
    pub secret_key_ref: Option<LocalReference<'a>>,
}

/// An object whose entries become environment variables.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct EnvFrom<'a> {
    /// A config map.
    pub config_map_ref: Option<LocalReference<'a>>,
    /// A secret.
    pub secret_ref: Option<LocalReference<'a>>,
}

/// A volume and its source. The API allows one source; the decoder accepts any number.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Volume<'a> {
    /// The volume's name within the pod.
    pub name: Text<'a>,
    /// An AWS disk.
    pub aws_elastic_block_store: Option<Present>,
    /// An Azure disk.
    pub azure_disk: Option<Present>,
    /// An Azure file share.
    pub azure_file: Option<SecretNameSource<'a>>,
    /// A Ceph file system.
    pub cephfs: Option<SecretRefSource<'a>>,
    /// An OpenStack disk.
    pub cinder: Option<SecretRefSource<'a>>,
    /// A config map.
    pub config_map: Option<LocalReference<'a>>,
    /// An inline CSI volume.
    pub csi: Option<CsiVolume<'a>>,
    /// Fields of the pod itself.
    #[serde(rename = "downwardAPI")]
    pub downward_api: Option<Present>,
    /// Scratch space.
    pub empty_dir: Option<Present>,
    /// An ephemeral volume with its own claim.
    pub ephemeral: Option<EphemeralVolume>,
    /// A Fibre Channel disk.
    pub fc: Option<Present>,
    /// A FlexVolume.
    pub flex_volume: Option<SecretRefSource<'a>>,
    /// A Flocker volume.
    pub flocker: Option<Present>,
    /// A Google disk.
    pub gce_persistent_disk: Option<Present>,
    /// A git checkout.
    pub git_repo: Option<Present>,
    /// A Gluster file system.
    pub glusterfs: Option<GlusterfsVolume<'a>>,
    /// A path of the node.
    pub host_path: Option<Present>,
    /// A container image.
    pub image: Option<Present>,
    /// An iSCSI disk.
    pub iscsi: Option<SecretRefSource<'a>>,
    /// An NFS share.
    pub nfs: Option<Present>,
    /// A claim.
    pub persistent_volume_claim: Option<ClaimSource<'a>>,
    /// A Photon disk.
    pub photon_persistent_disk: Option<Present>,
    /// A Portworx volume.
    pub portworx_volume: Option<Present>,
    /// Several sources in one directory.
    pub projected: Option<ProjectedVolume<'a>>,
    /// A Quobyte volume.
    pub quobyte: Option<Present>,
    /// A Ceph block device.
    pub rbd: Option<SecretRefSource<'a>>,
    /// A ScaleIO volume.
    #[serde(rename = "scaleIO")]
    pub scale_io: Option<SecretRefSource<'a>>,
    /// A secret.
    pub secret: Option<SecretNameSource<'a>>,
    /// A StorageOS volume.
    pub storageos: Option<SecretRefSource<'a>>,
    /// A vSphere disk.
    pub vsphere_volume: Option<Present>,
}

/// A volume source that names a secret by `secretName`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct SecretNameSource<'a> {
    /// The secret's name.
    pub secret_name: Text<'a>,
}

/// A volume source that names a secret by `secretRef`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct SecretRefSource<'a> {
    /// The secret.
    pub secret_ref: Option<LocalReference<'a>>,
}

/// An inline CSI volume.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct CsiVolume<'a> {
    /// The driver's name.
    pub driver: Text<'a>,
    /// The secret that the driver on the node gets.
    pub node_publish_secret_ref: Option<LocalReference<'a>>,
}

/// An ephemeral volume with its own claim.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct EphemeralVolume {
    /// The template of the claim.
    pub volume_claim_template: Option<Present>,
}

/// A Gluster file system.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct GlusterfsVolume<'a> {
    /// The Endpoints object that lists the servers.
    pub endpoints: Text<'a>,
}

/// A reference to a persistent volume claim.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct ClaimSource<'a> {
    /// The claim's name.
    pub claim_name: Text<'a>,
}

/// Several sources in one directory.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct ProjectedVolume<'a> {
    /// The sources.
    pub sources: List<ProjectedSource<'a>>,
}

/// One source of a projected volume.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct ProjectedSource<'a> {
    /// A trust bundle.
    pub cluster_trust_bundle: Option<Present>,
    /// A config map.
    pub config_map: Option<LocalReference<'a>>,
    /// Fields of the pod itself.
    #[serde(rename = "downwardAPI")]
    pub downward_api: Option<Present>,
    /// A certificate for the pod.
    pub pod_certificate: Option<Present>,
    /// A secret.
    pub secret: Option<LocalReference<'a>>,
    /// A token of the pod's service account.
    pub service_account_token: Option<TokenProjection<'a>>,
}

/// A projected service account token.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct TokenProjection<'a> {
    /// The audience of the token; empty means the API server.
    pub audience: Text<'a>,
}

/// A resource claim of a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PodResourceClaim<'a> {
    /// The claim's name within the pod.
    pub name: Text<'a>,
    /// The name of an existing ResourceClaim.
    pub resource_claim_name: Option<Text<'a>>,
    /// The name of the template of the ResourceClaim.
    pub resource_claim_template_name: Option<Text<'a>>,
}

/// The status of a pod: only the ResourceClaims created for it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PodStatus<'a> {
    /// The ResourceClaims created for the claims of the pod.
    pub resource_claim_statuses: List<PodResourceClaimStatus<'a>>,
    /// The ResourceClaim created for extended resources.
    pub extended_resource_claim_status: Option<ExtendedResourceClaimStatus<'a>>,
}

/// The ResourceClaim created for one claim of a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PodResourceClaimStatus<'a> {
    /// The claim's name within the pod.
    pub name: Text<'a>,
    /// The name of the ResourceClaim, if one was needed.
    pub resource_claim_name: Option<Text<'a>>,
}

/// The ResourceClaim created for the extended resources of a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct ExtendedResourceClaimStatus<'a> {
    /// The ResourceClaim.
    pub resource_claim_name: Text<'a>,
    /// The mapping of containers to requests.
    pub request_mappings: List<RequestMapping<'a>>,
}

/// One mapping of a container to a request in an extended resource claim.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct RequestMapping<'a> {
    /// The container.
    pub container_name: Text<'a>,
    /// The extended resource.
    pub resource_name: Text<'a>,
    /// The request in the claim.
    pub request_name: Text<'a>,
}

impl<'a> Pod<'a> {
    /// Returns whether this is a mirror pod, the API object of a static pod (MP-1).
    pub fn is_mirror(&self) -> bool {
        self.metadata.annotations.contains(MIRROR_ANNOTATION)
    }

    /// The service account. The deprecated field is used if the other is empty (NR-25 a).
    pub fn service_account(&self) -> &str {
        if self.spec.service_account_name.is_empty() {
            &self.spec.deprecated_service_account
        } else {
            &self.spec.service_account_name
        }
    }

    /// All containers: init, main, then ephemeral.
    pub fn containers(&self) -> impl Iterator<Item = &Container<'a>> {
        let spec = &self.spec;
        spec.init_containers.iter().chain(&spec.containers).chain(&spec.ephemeral_containers)
    }

    /// Visits the name of every secret that the pod refers to, with duplicates, without empty names (NA-59).
    pub fn each_secret<'p>(&'p self, mut visit: impl FnMut(&'p str)) {
        let mut named = |name: &'p str| {
            if !name.is_empty() {
                visit(name);
            }
        };
        for secret in &self.spec.image_pull_secrets {
            named(&secret.name);
        }
        for container in self.containers() {
            for source in container.env_from.iter().filter_map(|e| e.secret_ref.as_ref()) {
                named(&source.name);
            }
            for source in container.env.iter().filter_map(|e| e.value_from.as_ref()?.secret_key_ref.as_ref())
            {
                named(&source.name);
            }
        }
        for volume in &self.spec.volumes {
            volume.each_secret(&mut named);
        }
    }

    /// Visits the name of every config map that the pod refers to, with duplicates, without empty names (NA-60).
    pub fn each_config_map<'p>(&'p self, mut visit: impl FnMut(&'p str)) {
        let mut named = |name: &'p str| {
            if !name.is_empty() {
                visit(name);
            }
        };
        for container in self.containers() {
            for source in container.env_from.iter().filter_map(|e| e.config_map_ref.as_ref()) {
                named(&source.name);
            }
            for source in
                container.env.iter().filter_map(|e| e.value_from.as_ref()?.config_map_key_ref.as_ref())
            {
                named(&source.name);
            }
        }
        for volume in &self.spec.volumes {
            if let Some(source) = &volume.config_map {
                named(&source.name);
            }
            for source in
                volume.projected.iter().flat_map(|p| &p.sources).filter_map(|s| s.config_map.as_ref())
            {
                named(&source.name);
            }
        }
    }

    /// Visits the name of every claim that a volume of the pod uses, including the derived names of ephemeral volumes
    /// (NA-61).
    pub fn each_claim(&self, mut visit: impl FnMut(&str)) {
        for volume in &self.spec.volumes {
            if let Some(claim) = volume.persistent_volume_claim.as_ref().filter(|c| !c.claim_name.is_empty())
            {
                visit(&claim.claim_name);
            } else if volume.ephemeral.is_some() {
                visit(&self.ephemeral_claim_name(volume));
            }
        }
    }

    /// The name of the claim of an ephemeral volume of this pod (NA-61).
    pub fn ephemeral_claim_name(&self, volume: &Volume<'_>) -> String {
        format!("{}-{}", &*self.metadata.name, &*volume.name)
    }

    /// Visits the name of every Endpoints object that a volume of the pod refers to.
    pub fn each_endpoints<'p>(&'p self, mut visit: impl FnMut(&'p str)) {
        for volume in self.spec.volumes.iter().filter_map(|v| v.glusterfs.as_ref()) {
            visit(&volume.endpoints);
        }
    }

    /// Visits the name of every ResourceClaim of the pod: named directly, created from a template, or created for
    /// extended resources (NA-62).
    pub fn each_resource_claim<'p>(&'p self, mut visit: impl FnMut(&'p str)) {
        for claim in &self.spec.resource_claims {
            let name = if claim.resource_claim_name.is_some() {
                claim.resource_claim_name.as_deref()
            } else if claim.resource_claim_template_name.is_some() {
                self.status
                    .resource_claim_statuses
                    .iter()
                    .find(|status| status.name == claim.name)
                    .and_then(|status| status.resource_claim_name.as_deref())
            } else {
                None
            };
            if let Some(name) = name.filter(|n| !n.is_empty()) {
                visit(name);
            }
        }
        if let Some(status) =
            self.status.extended_resource_claim_status.as_ref().filter(|s| !s.resource_claim_name.is_empty())
        {
            visit(&status.resource_claim_name);
        }
    }
}

impl<'a> Volume<'a> {
    /// Visits the secrets of the one source that is examined, in the order of NA-59, empty names included.
    fn each_secret<'p>(&'p self, visit: &mut impl FnMut(&'p str)) {
        let of = |source: &'p Option<SecretRefSource<'a>>| source.as_ref().map(|s| s.secret_ref.as_ref());
        if let Some(azure) = &self.azure_file {
            visit(&azure.secret_name);
        } else if let Some(secret) =
            of(&self.cephfs).or_else(|| of(&self.cinder)).or_else(|| of(&self.flex_volume))
        {
            secret.into_iter().for_each(|s| visit(&s.name));
        } else if let Some(projected) = &self.projected {
            projected.sources.iter().filter_map(|s| s.secret.as_ref()).for_each(|s| visit(&s.name));
        } else if let Some(secret) = of(&self.rbd) {
            secret.into_iter().for_each(|s| visit(&s.name));
        } else if let Some(secret) = &self.secret {
            visit(&secret.secret_name);
        } else if let Some(secret) =
            of(&self.scale_io).or_else(|| of(&self.iscsi)).or_else(|| of(&self.storageos))
        {
            secret.into_iter().for_each(|s| visit(&s.name));
        } else if let Some(csi) = &self.csi {
            csi.node_publish_secret_ref.iter().for_each(|s| visit(&s.name));
        }
    }
}
