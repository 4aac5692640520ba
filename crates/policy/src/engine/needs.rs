//! The kinds of objects that the authorization modes and admission need (BC-20). All others change no decision.

use super::EngineConfig;
use crate::chain::Mode;
use crate::features::{Feature, FeatureGates};
use crate::objects::Kind;

/// The kinds that decisions of a mode depend on, with this configuration.
pub fn of_mode(mode: Mode, config: &EngineConfig) -> Vec<Kind> {
    match mode {
        Mode::Deny => {
            let mut kinds = Vec::new();
            if config.deny.as_ref().is_some_and(|rules| rules.current().need_namespaces()) {
                kinds.push(Kind::Namespace);
            }
            if config.node_scope.is_some() {
                kinds.extend(of_graph(config.gates));
            }
            kinds
        }
        Mode::Node => of_graph(config.gates),
        Mode::Rbac => vec![Kind::Role, Kind::RoleBinding, Kind::ClusterRole, Kind::ClusterRoleBinding],
        Mode::Abac | Mode::AlwaysAllow | Mode::AlwaysDeny | Mode::Webhook => Vec::new(),
    }
}

/// The kinds from which the graph is built of which object belongs to which node.
fn of_graph(gates: FeatureGates) -> Vec<Kind> {
    let mut kinds = vec![Kind::Pod, Kind::PersistentVolume, Kind::VolumeAttachment, Kind::ResourceSlice];
    if gates.is_on(Feature::PodCertificateRequest) {
        kinds.push(Kind::PodCertificateRequest);
    }
    kinds
}

/// The kinds that the escalation check over deny rules looks up (BC-31); none if it is off.
pub fn of_escalation(config: &EngineConfig) -> Vec<Kind> {
    if !config.deny_escalation {
        return Vec::new();
    }
    let of_rules = of_mode(Mode::Deny, config).into_iter().filter(|kind| *kind == Kind::Namespace);
    [Kind::Role, Kind::ClusterRole].into_iter().chain(of_rules).collect()
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
