//! Where the kinds that decisions use are found in the API.

use portcullis_policy::objects::Kind;

use crate::call::Resource;

/// Each kind with its group, its versions from the newest to the oldest that is read, its plural, and whether its metadata is
/// enough.
const PLACES: [(Kind, &str, &[&str], &str, bool); 14] = [
    (Kind::ClusterRole, "rbac.authorization.k8s.io", &["v1"], "clusterroles", false),
    (Kind::ClusterRoleBinding, "rbac.authorization.k8s.io", &["v1"], "clusterrolebindings", false),
    (Kind::CsiDriver, "storage.k8s.io", &["v1"], "csidrivers", false),
    (Kind::Namespace, "", &["v1"], "namespaces", true),
    (Kind::Node, "", &["v1"], "nodes", true),
    (Kind::PersistentVolume, "", &["v1"], "persistentvolumes", false),
    (Kind::PersistentVolumeClaim, "", &["v1"], "persistentvolumeclaims", false),
    (Kind::Pod, "", &["v1"], "pods", false),
    (
        Kind::PodCertificateRequest,
        "certificates.k8s.io",
        &["v1", "v1beta1", "v1alpha1"],
        "podcertificaterequests",
        false,
    ),
    (Kind::ResourceSlice, "resource.k8s.io", &["v1", "v1beta2", "v1beta1"], "resourceslices", false),
    (Kind::Role, "rbac.authorization.k8s.io", &["v1"], "roles", false),
    (Kind::RoleBinding, "rbac.authorization.k8s.io", &["v1"], "rolebindings", false),
    (Kind::ServiceAccount, "", &["v1"], "serviceaccounts", true),
    (Kind::VolumeAttachment, "storage.k8s.io", &["v1"], "volumeattachments", false),
];

/// The place of a kind.
pub(crate) struct Place {
    group: &'static str,
    versions: &'static [&'static str],
    plural: &'static str,
    /// Whether decisions use nothing but the metadata (BC-20).
    pub(crate) metadata_only: bool,
}

impl Place {
    pub(crate) fn of(kind: Kind) -> Option<Self> {
        let (_, group, versions, plural, metadata_only) = PLACES.into_iter().find(|place| place.0 == kind)?;
        Some(Self { group, versions, plural, metadata_only })
    }

    /// The resource in a version. Numbers beyond the last version begin with the first one again.
    pub(crate) fn resource(&self, number: usize) -> Resource {
        let version = number.checked_rem(self.versions.len()).and_then(|at| self.versions.get(at));
        Resource::new(self.group, version.unwrap_or(&"v1"), self.plural)
    }

    /// The resource in all versions, the newest first.
    pub(crate) fn resources(&self) -> Vec<Resource> {
        self.versions.iter().map(|version| Resource::new(self.group, version, self.plural)).collect()
    }

    /// Whether all versions were tried after so many failed.
    pub(crate) fn is_absent(&self, failed: usize) -> bool {
        failed >= self.versions.len()
    }
}

/// Whether clusters may lack the API of a kind.
pub(crate) fn is_optional(kind: Kind) -> bool {
    matches!(kind, Kind::PodCertificateRequest | Kind::ResourceSlice)
}

/// The API group and the plural name of a kind.
pub fn resource_of(kind: Kind) -> (&'static str, &'static str) {
    Place::of(kind).map_or(("", ""), |place| (place.group, place.plural))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_place() {
        for (kind, group, versions, plural, _) in PLACES {
            assert_eq!(
                Kind::of(&format!("{group}/{}", versions.first().unwrap()), kind.as_str()),
                Some(kind)
            );
            assert_eq!(resource_of(kind), (group, plural));
        }
    }
}
