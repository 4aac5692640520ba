//! Finds references of a pod to API objects (NR-25). Static pods and their mirror pods must not have any: the kubelet
//! reads them from a file, without any access check.

use std::fmt;

use crate::objects::pod::{Pod, ProjectedSource, Volume};

/// The first reference, or possible reference, of a pod to another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiReference {
    /// Objects of this resource.
    To(&'static str),
    /// A projected source of an unknown kind, which may refer to anything.
    UnknownProjectedSource,
}

impl fmt::Display for ApiReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::To(resource) => f.write_str(resource),
            Self::UnknownProjectedSource => f.write_str("a projected source of unknown kind"),
        }
    }
}

/// The first reference of a pod to objects of the API, in the order of NR-25 (NR-26).
pub fn api_reference(pod: &Pod<'_>) -> Option<ApiReference> {
    if !pod.service_account().is_empty() {
        return Some(ApiReference::To("serviceaccounts"));
    }
    let mut found = false;
    pod.each_secret(|_| found = true);
    if found {
        return Some(ApiReference::To("secrets"));
    }
    pod.each_config_map(|_| found = true);
    if found {
        return Some(ApiReference::To("configmaps"));
    }
    if !pod.spec.resource_claims.is_empty() {
        return Some(ApiReference::To("resourceclaims"));
    }
    pod.spec.volumes.iter().find_map(volume_reference)
}

/// A volume without a source defaults to scratch space, and is accepted. If there are several sources, which the API
/// does not allow, one reference is enough.
fn volume_reference(volume: &Volume<'_>) -> Option<ApiReference> {
    let referring = [
        (volume.azure_file.is_some(), "secrets"),
        (volume.config_map.is_some(), "configmaps"),
        (volume.csi.is_some(), "csidrivers"),
        (volume.ephemeral.is_some(), "persistentvolumeclaims"),
        (volume.glusterfs.is_some(), "endpoints"),
        (volume.persistent_volume_claim.is_some(), "persistentvolumeclaims"),
        (volume.secret.is_some(), "secrets"),
    ];
    if let Some((_, resource)) = referring.into_iter().find(|(present, _)| *present) {
        return Some(ApiReference::To(resource));
    }
    volume.projected.iter().flat_map(|projected| &projected.sources).find_map(projected_reference)
}

fn projected_reference(source: &ProjectedSource<'_>) -> Option<ApiReference> {
    let referring = [
        (source.cluster_trust_bundle.is_some(), "clustertrustbundles"),
        (source.config_map.is_some(), "configmaps"),
        (source.pod_certificate.is_some(), "podcertificaterequests"),
        (source.secret.is_some(), "secrets"),
        (source.service_account_token.is_some(), "serviceaccounts"),
    ];
    if let Some((_, resource)) = referring.into_iter().find(|(present, _)| *present) {
        return Some(ApiReference::To(resource));
    }
    source.downward_api.is_none().then_some(ApiReference::UnknownProjectedSource)
}
