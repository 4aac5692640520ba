//! Feature gates that change a decision, with their Kubernetes 1.36 defaults (NA-106, NR-102 to NR-105, RB-92).
//!
//! Gates that no decision reads are not here: naming one is an error, so that a typing mistake is noticed.

use std::fmt;

/// A feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Feature {
    /// NodeRestriction does not look at certificate requests (NR-105).
    AllowInsecureKubeletCertificateSigningRequests,
    /// Field selectors narrow what nodes may list (NA-106).
    AuthorizeNodeWithSelectors,
    /// Requests carry their selectors to authorizers (NA-106).
    AuthorizeWithSelectors,
    /// Nodes read cluster trust bundles (NA-106, RB-92).
    ClusterTrustBundle,
    /// `/flagz` is in the default policy (RB-92).
    ComponentFlagz,
    /// `/statusz` is in the default policy (RB-92).
    ComponentStatusz,
    /// Device taint rules in the default policy (RB-92).
    DRADeviceTaintRules,
    /// Device taints in the default policy (RB-92).
    DRADeviceTaints,
    /// Extended resources by resource claims (NA-106, RB-92).
    DRAExtendedResource,
    /// Fine-grained checks of resource claim status (RB-92, NR-110).
    DRAResourceClaimGranularStatusAuthorization,
    /// Resource pool status in the default policy (RB-92).
    DRAResourcePoolStatus,
    /// Resource claims of workloads in the default policy (RB-92).
    DRAWorkloadResourceClaims,
    /// Resource claims and slices (NA-106).
    DynamicResourceAllocation,
    /// Workloads and pod groups in the default policy (RB-92).
    GenericWorkload,
    /// Fine-grained kubelet authorization (KA-74).
    KubeletFineGrainedAuthz,
    /// Nodes read the service accounts of their pods (NA-84).
    KubeletServiceAccountTokenForCredentialProviders,
    /// Service CIDRs in the default policy (RB-92).
    MultiCIDRServiceAllocator,
    /// Pod certificate requests (NA-103a, NR-76).
    PodCertificateRequest,
    /// Ours: nodes read only the Endpoints that a pod of theirs mounts. See `docs/compatibility.md`.
    PortcullisNodeEndpointsRestriction,
    /// Ours: nodes write only events whose source is themselves. See `docs/compatibility.md`.
    PortcullisNodeEventSourceRestriction,
    /// A node may not write the allocated resources of a claim back (NR-50, NR-104).
    RecoverVolumeExpansionFailure,
    /// SELinux change policy controller in the default policy (RB-92).
    SELinuxChangePolicy,
    /// Nodes get tokens only for audiences that their pods use (NR-102).
    ServiceAccountNodeAudienceRestriction,
    /// Storage version garbage collection in the default policy (RB-92).
    StorageVersionAPI,
    /// Storage version migration in the default policy (RB-92).
    StorageVersionMigrator,
    /// Volume attributes classes in the default policy (RB-92).
    VolumeAttributesClass,
    /// Workloads of jobs in the default policy (RB-92).
    WorkloadWithJob,
}

/// How far a gate has come. `Locked` gates cannot be switched from a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Alpha,
    Beta,
    Deprecated,
    Locked,
}

impl Stage {
    /// KA-75
    fn label(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Deprecated => "DEPRECATED",
            Self::Locked => "",
        }
    }
}

struct Gate {
    feature: Feature,
    name: &'static str,
    stage: Stage,
    default: bool,
}

macro_rules! gates {
    ($($feature:ident $stage:ident $default:literal),* $(,)?) => {
        &[$(Gate { feature: Feature::$feature, name: stringify!($feature), stage: Stage::$stage, default: $default }),*]
    };
}

const GATES: &[Gate] = gates![
    AllowInsecureKubeletCertificateSigningRequests Deprecated false,
    AuthorizeNodeWithSelectors Locked true,
    AuthorizeWithSelectors Locked true,
    ClusterTrustBundle Beta false,
    ComponentFlagz Beta true,
    ComponentStatusz Beta true,
    DRADeviceTaintRules Alpha false,
    DRADeviceTaints Beta true,
    DRAExtendedResource Beta true,
    DRAResourceClaimGranularStatusAuthorization Beta true,
    DRAResourcePoolStatus Alpha false,
    DRAWorkloadResourceClaims Alpha false,
    DynamicResourceAllocation Locked true,
    GenericWorkload Alpha false,
    KubeletFineGrainedAuthz Locked true,
    KubeletServiceAccountTokenForCredentialProviders Beta true,
    MultiCIDRServiceAllocator Locked true,
    PodCertificateRequest Beta false,
    PortcullisNodeEndpointsRestriction Alpha false,
    PortcullisNodeEventSourceRestriction Alpha false,
    RecoverVolumeExpansionFailure Locked true,
    SELinuxChangePolicy Locked true,
    ServiceAccountNodeAudienceRestriction Beta true,
    StorageVersionAPI Alpha false,
    StorageVersionMigrator Beta false,
    VolumeAttributesClass Locked true,
    WorkloadWithJob Alpha false,
];

/// A `--feature-gates` value that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureGateError {
    /// The value is neither `true` nor `false`.
    #[error("invalid value of {0}={1}: expected true or false")]
    InvalidValue(String, String),
    /// The gate is locked to its default.
    #[error("cannot set feature gate {0} to {1}, feature is locked to {2}")]
    Locked(&'static str, bool, bool),
    /// An entry has no `=`.
    #[error("missing bool value for {0}: write {0}=true or {0}=false")]
    MissingValue(String),
    /// No decision depends on a gate of this name.
    #[error("unrecognized feature gate: {0} (known: {known})", known = FeatureGates::names().collect::<Vec<_>>().join(", "))]
    Unknown(String),
}

/// Which features are on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FeatureGates {
    on: u64,
}

impl Default for FeatureGates {
    /// The gates of an unconfigured 1.36 control plane.
    fn default() -> Self {
        GATES.iter().fold(Self { on: 0 }, |gates, g| gates.with(g.feature, g.default))
    }
}

impl FeatureGates {
    /// The same gates with one of them set. Also sets locked gates: only tests and version emulation do that.
    #[must_use]
    pub fn with(mut self, feature: Feature, on: bool) -> Self {
        let bit = 1_u64 << (feature as u8);
        if on {
            self.on |= bit
        } else {
            self.on &= !bit
        }
        self
    }

    /// Every gate: its name, its stage as `kubernetes_feature_enabled` tells it (KA-75), and whether it is on.
    pub fn all(self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        GATES.iter().map(move |gate| (gate.name, gate.stage.label(), self.is_on(gate.feature)))
    }

    /// Reads the value of `--feature-gates`: `Name=true,Other=false`. `AllAlpha` and `AllBeta` set every gate of
    /// that stage that is not named itself, wherever they stand in the list, as in Kubernetes.
    ///
    /// # Errors
    /// An unknown gate, a value that is not a boolean, or a locked gate set to what it is not.
    pub fn parse(text: &str) -> Result<Self, FeatureGateError> {
        let mut gates = Self::default();
        let mut named = 0_u64;
        let mut stages = Vec::new();
        for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
            let (name, value) =
                entry.split_once('=').ok_or_else(|| FeatureGateError::MissingValue(entry.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            let on = match value {
                "true" | "True" | "TRUE" | "t" | "T" | "1" => true,
                "false" | "False" | "FALSE" | "f" | "F" | "0" => false,
                _ => return Err(FeatureGateError::InvalidValue(name.to_owned(), value.to_owned())),
            };
            match name {
                "AllAlpha" => stages.push((Stage::Alpha, on)),
                "AllBeta" => stages.push((Stage::Beta, on)),
                _ => {
                    let gate = GATES
                        .iter()
                        .find(|g| g.name == name)
                        .ok_or_else(|| FeatureGateError::Unknown(name.to_owned()))?;
                    if gate.stage == Stage::Locked && gate.default != on {
                        return Err(FeatureGateError::Locked(gate.name, on, gate.default));
                    }
                    gates = gates.with(gate.feature, on);
                    named |= 1 << (gate.feature as u8);
                }
            }
        }
        for (stage, on) in stages {
            for gate in GATES.iter().filter(|g| g.stage == stage && named & (1 << (g.feature as u8)) == 0) {
                gates = gates.with(gate.feature, on);
            }
        }
        Ok(gates)
    }

    /// Whether a feature is on.
    pub fn is_on(self, feature: Feature) -> bool {
        self.on & (1 << (feature as u8)) != 0
    }

    /// The names of all gates known here, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        GATES.iter().map(|g| g.name)
    }
}

impl fmt::Debug for FeatureGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(GATES.iter().map(|g| (g.name, self.is_on(g.feature)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_1_36_na_106() {
        let gates = FeatureGates::default();
        assert!(gates.is_on(Feature::AuthorizeNodeWithSelectors));
        assert!(gates.is_on(Feature::KubeletServiceAccountTokenForCredentialProviders));
        assert!(!gates.is_on(Feature::PodCertificateRequest));
        assert!(!gates.is_on(Feature::ClusterTrustBundle));
    }

    #[test]
    fn flags_set_gates_and_refuse_what_they_cannot_mean() {
        let gates = FeatureGates::parse("PodCertificateRequest=true, AllBeta=false").unwrap();
        assert!(gates.is_on(Feature::PodCertificateRequest));
        assert!(!gates.is_on(Feature::ServiceAccountNodeAudienceRestriction));
        assert!(gates.is_on(Feature::AuthorizeWithSelectors));
        assert!(matches!(FeatureGates::parse("Nope=true"), Err(FeatureGateError::Unknown(_))));
        assert!(matches!(FeatureGates::parse("ClusterTrustBundle"), Err(FeatureGateError::MissingValue(_))));
        assert!(matches!(
            FeatureGates::parse("ClusterTrustBundle=yes"),
            Err(FeatureGateError::InvalidValue(..))
        ));
        assert_eq!(
            FeatureGates::parse("AuthorizeWithSelectors=false"),
            Err(FeatureGateError::Locked("AuthorizeWithSelectors", false, true))
        );
    }
}
