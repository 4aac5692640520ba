//! Pods, with every field through which a pod refers to another object.

use serde::Deserialize;

use super::decode::{List, Present, Text, or_default};
use super::meta::{LocalReference, MIRROR_ANNOTATION, Metadata};

/// A pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Pod<'a> {
    /// The metadata.
    #[serde(borrow, deserialize_with = "or_default")]
    pub metadata: Metadata<'a>,
    /// What should run.
    #[serde(borrow, deserialize_with = "or_default")]
    pub spec: PodSpec<'a>,
    /// What was observed.
    #[serde(borrow, deserialize_with = "or_default")]
    pub status: PodStatus<'a>,
}

/// What a pod should be.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec<'a> {
    /// The node that the pod is bound to, or empty.
    #[serde(borrow)]
    pub node_name: Text<'a>,
    /// The service account, or empty.
    #[serde(borrow)]
    pub service_account_name: Text<'a>,
    /// The older name of the same field; see [`Pod::service_account`].
    #[serde(borrow, rename = "serviceAccount")]
    pub deprecated_service_account: Text<'a>,
    /// Secrets for pulling images.
    #[serde(borrow)]
    pub image_pull_secrets: List<LocalReference<'a>>,
    /// Containers that run first.
    #[serde(borrow)]
    pub init_containers: List<Container<'a>>,
    /// The containers.
    #[serde(borrow)]
    pub containers: List<Container<'a>>,
    /// Containers added for debugging.
    #[serde(borrow)]
    pub ephemeral_containers: List<Container<'a>>,
    /// The volumes.
    #[serde(borrow)]
    pub volumes: List<Volume<'a>>,
    /// The devices asked for.
    #[serde(borrow)]
    pub resource_claims: List<PodResourceClaim<'a>>,
}

/// A container: only where its environment comes from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Container<'a> {
    /// Single variables.
    #[serde(borrow)]
    pub env: List<EnvVar<'a>>,
    /// Whole objects turned into variables.
    #[serde(borrow)]
    pub env_from: List<EnvFrom<'a>>,
}

/// One environment variable.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct EnvVar<'a> {
    /// Where the value comes from, unless it is literal.
    #[serde(borrow)]
    pub value_from: Option<EnvVarSource<'a>>,
}

/// Where an environment variable comes from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct EnvVarSource<'a> {
    /// A key of a config map.
    #[serde(borrow)]
    pub config_map_key_ref: Option<LocalReference<'a>>,
    /// A key of a secret.
    #[serde(borrow)]
    pub secret_key_ref: Option<LocalReference<'a>>,
}

/// An object whose entries become environment variables.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct EnvFrom<'a> {
    /// A config map.
    #[serde(borrow)]
    pub config_map_ref: Option<LocalReference<'a>>,
    /// A secret.
    #[serde(borrow)]
    pub secret_ref: Option<LocalReference<'a>>,
}

/// A volume and its source. The API allows one source; the decoder takes all that are given.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume<'a> {
    /// The volume's name within the pod.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// An AWS disk.
    pub aws_elastic_block_store: Option<Present>,
    /// An Azure disk.
    pub azure_disk: Option<Present>,
    /// An Azure file share.
    #[serde(borrow)]
    pub azure_file: Option<SecretNameSource<'a>>,
    /// A Ceph file system.
    #[serde(borrow)]
    pub cephfs: Option<SecretRefSource<'a>>,
    /// An OpenStack disk.
    #[serde(borrow)]
    pub cinder: Option<SecretRefSource<'a>>,
    /// A config map.
    #[serde(borrow)]
    pub config_map: Option<LocalReference<'a>>,
    /// An inline CSI volume.
    #[serde(borrow)]
    pub csi: Option<CsiVolume<'a>>,
    /// Fields of the pod itself.
    #[serde(rename = "downwardAPI")]
    pub downward_api: Option<Present>,
    /// Scratch space.
    pub empty_dir: Option<Present>,
    /// A claim made for this pod.
    pub ephemeral: Option<EphemeralVolume>,
    /// A Fibre Channel disk.
    pub fc: Option<Present>,
    /// A volume by an external script.
    #[serde(borrow)]
    pub flex_volume: Option<SecretRefSource<'a>>,
    /// A Flocker volume.
    pub flocker: Option<Present>,
    /// A Google disk.
    pub gce_persistent_disk: Option<Present>,
    /// A git checkout.
    pub git_repo: Option<Present>,
    /// A Gluster file system.
    #[serde(borrow)]
    pub glusterfs: Option<GlusterfsVolume<'a>>,
    /// A path of the node.
    pub host_path: Option<Present>,
    /// A container image.
    pub image: Option<Present>,
    /// An iSCSI disk.
    #[serde(borrow)]
    pub iscsi: Option<SecretRefSource<'a>>,
    /// An NFS share.
    pub nfs: Option<Present>,
    /// A claim.
    #[serde(borrow)]
    pub persistent_volume_claim: Option<ClaimSource<'a>>,
    /// A Photon disk.
    pub photon_persistent_disk: Option<Present>,
    /// A Portworx volume.
    pub portworx_volume: Option<Present>,
    /// Several sources in one directory.
    #[serde(borrow)]
    pub projected: Option<ProjectedVolume<'a>>,
    /// A Quobyte volume.
    pub quobyte: Option<Present>,
    /// A Ceph block device.
    #[serde(borrow)]
    pub rbd: Option<SecretRefSource<'a>>,
    /// A ScaleIO volume.
    #[serde(borrow, rename = "scaleIO")]
    pub scale_io: Option<SecretRefSource<'a>>,
    /// A secret.
    #[serde(borrow)]
    pub secret: Option<SecretNameSource<'a>>,
    /// A StorageOS volume.
    #[serde(borrow)]
    pub storageos: Option<SecretRefSource<'a>>,
    /// A vSphere disk.
    pub vsphere_volume: Option<Present>,
}

/// A volume source that names a secret by `secretName`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct SecretNameSource<'a> {
    /// The secret's name.
    #[serde(borrow)]
    pub secret_name: Text<'a>,
}

/// A volume source that names a secret by `secretRef`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct SecretRefSource<'a> {
    /// The secret.
    #[serde(borrow)]
    pub secret_ref: Option<LocalReference<'a>>,
}

/// An inline CSI volume.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiVolume<'a> {
    /// The driver's name.
    #[serde(borrow)]
    pub driver: Text<'a>,
    /// The secret handed to the driver on the node.
    #[serde(borrow)]
    pub node_publish_secret_ref: Option<LocalReference<'a>>,
}

/// A claim made for one pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct EphemeralVolume {
    /// What the claim will be.
    pub volume_claim_template: Option<Present>,
}

/// A Gluster file system.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct GlusterfsVolume<'a> {
    /// The Endpoints object that lists the servers.
    #[serde(borrow)]
    pub endpoints: Text<'a>,
}

/// A volume by claim.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimSource<'a> {
    /// The claim's name.
    #[serde(borrow)]
    pub claim_name: Text<'a>,
}

/// Several sources in one directory.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ProjectedVolume<'a> {
    /// The sources.
    #[serde(borrow)]
    pub sources: List<ProjectedSource<'a>>,
}

/// One source of a projected volume.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ProjectedSource<'a> {
    /// A trust bundle.
    pub cluster_trust_bundle: Option<Present>,
    /// A config map.
    #[serde(borrow)]
    pub config_map: Option<LocalReference<'a>>,
    /// Fields of the pod itself.
    #[serde(rename = "downwardAPI")]
    pub downward_api: Option<Present>,
    /// A certificate for the pod.
    pub pod_certificate: Option<Present>,
    /// A secret.
    #[serde(borrow)]
    pub secret: Option<LocalReference<'a>>,
    /// A token of the pod's service account.
    #[serde(borrow)]
    pub service_account_token: Option<TokenProjection<'a>>,
}

/// A projected service account token.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct TokenProjection<'a> {
    /// Whom the token is for; empty means the API server.
    #[serde(borrow)]
    pub audience: Text<'a>,
}

/// A device claim of a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct PodResourceClaim<'a> {
    /// The claim's name within the pod.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// The ResourceClaim, when it exists already.
    #[serde(borrow)]
    pub resource_claim_name: Option<Text<'a>>,
    /// The template to make the ResourceClaim from.
    #[serde(borrow)]
    pub resource_claim_template_name: Option<Text<'a>>,
}

/// What was observed of a pod: only the claims made for it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus<'a> {
    /// Which ResourceClaim was made for which claim of the pod.
    #[serde(borrow)]
    pub resource_claim_statuses: List<PodResourceClaimStatus<'a>>,
    /// The ResourceClaim made for extended resources.
    #[serde(borrow)]
    pub extended_resource_claim_status: Option<ExtendedResourceClaimStatus<'a>>,
}

/// The ResourceClaim made for one claim of a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct PodResourceClaimStatus<'a> {
    /// The claim's name within the pod.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// The ResourceClaim, when one was needed.
    #[serde(borrow)]
    pub resource_claim_name: Option<Text<'a>>,
}

/// The ResourceClaim made for the extended resources of a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtendedResourceClaimStatus<'a> {
    /// The ResourceClaim.
    #[serde(borrow)]
    pub resource_claim_name: Text<'a>,
    /// Which container uses which request.
    #[serde(borrow)]
    pub request_mappings: List<RequestMapping<'a>>,
}

/// Which container uses which request of an extended resource claim.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct RequestMapping<'a> {
    /// The container.
    #[serde(borrow)]
    pub container_name: Text<'a>,
    /// The extended resource.
    #[serde(borrow)]
    pub resource_name: Text<'a>,
    /// The request in the claim.
    #[serde(borrow)]
    pub request_name: Text<'a>,
}

impl<'a> Pod<'a> {
    /// Whether this is the API's picture of a static pod (MP-1).
    pub fn is_mirror(&self) -> bool {
        self.metadata.annotations.contains(MIRROR_ANNOTATION)
    }

    /// The service account: the deprecated field counts when the other is empty, as decoding folds it in (NR-25 a).
    pub fn service_account(&self) -> &str {
        if self.spec.service_account_name.is_empty() {
            &self.spec.deprecated_service_account
        } else {
            &self.spec.service_account_name
        }
    }

    /// Every container: init, main, then ephemeral.
    pub fn containers(&self) -> impl Iterator<Item = &Container<'a>> {
        let spec = &self.spec;
        spec.init_containers.iter().chain(&spec.containers).chain(&spec.ephemeral_containers)
    }

    /// Visits the name of every secret referred to, repetitions included, empty names left out (NA-59).
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

    /// Visits the name of every config map referred to, repetitions included, empty names left out (NA-60).
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

    /// Visits the name of every claim that a volume of the pod uses, the derived names of ephemeral volumes
    /// included (NA-61).
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

    /// The name of the claim made for an ephemeral volume of this pod (NA-61).
    pub fn ephemeral_claim_name(&self, volume: &Volume<'_>) -> String {
        format!("{}-{}", &*self.metadata.name, &*volume.name)
    }

    /// Visits the name of every Endpoints object that a volume of the pod names.
    pub fn each_endpoints<'p>(&'p self, mut visit: impl FnMut(&'p str)) {
        for volume in self.spec.volumes.iter().filter_map(|v| v.glusterfs.as_ref()) {
            visit(&volume.endpoints);
        }
    }

    /// Visits the name of every ResourceClaim of the pod, whether named, made from a template, or made for extended
    /// resources (NA-62).
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
