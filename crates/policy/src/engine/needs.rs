//! The kinds of objects that the authorization modes and admission need (BC-20). All others change no decision.

use crate::chain::Mode;
use crate::features::{Feature, FeatureGates};
use crate::objects::Kind;

/// The kinds that decisions of a mode depend on.
pub fn of_mode(mode: Mode, gates: FeatureGates) -> Vec<Kind> {
    match mode {
        Mode::Node => {
            let mut kinds =
                vec![Kind::Pod, Kind::PersistentVolume, Kind::VolumeAttachment, Kind::ResourceSlice];
            if gates.is_on(Feature::PodCertificateRequest) {
                kinds.push(Kind::PodCertificateRequest);
            }
            kinds
        }
        Mode::Rbac => vec![Kind::Role, Kind::RoleBinding, Kind::ClusterRole, Kind::ClusterRoleBinding],
        Mode::Abac | Mode::AlwaysAllow | Mode::AlwaysDeny | Mode::Deny | Mode::Webhook => Vec::new(),
    }
}

/// The kinds that NodeRestriction looks up (NR-8).
pub fn of_admission(gates: FeatureGates) -> Vec<Kind> {
    let mut kinds = vec![Kind::Pod, Kind::Node];
    if gates.is_on(Feature::PodCertificateRequest) {
        kinds.push(Kind::ServiceAccount);
    }
    if gates.is_on(Feature::ServiceAccountNodeAudienceRestriction) {
        kinds.extend([Kind::PersistentVolumeClaim, Kind::PersistentVolume, Kind::CsiDriver]);
    }
    kinds
}
