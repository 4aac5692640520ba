//! Feature gates that change a decision, with their Kubernetes 1.36 defaults (NA-106, NR-102 to NR-105, RB-92).
//!
//! Gates that affect no decision are accepted without effect. A name that Kubernetes does not know is an error, so that
//! a typo is noticed.

use std::fmt;

mod others;

use others::Other;

/// A feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Feature {
    /// NodeRestriction does not check certificate requests (NR-105).
    AllowInsecureKubeletCertificateSigningRequests,
    /// Nodes may read only their own Node, and list only objects selected for themselves (NA-106).
    AuthorizeNodeWithSelectors,
    /// Authorizers see the selectors of requests (NA-106).
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
    /// Not in Kubernetes: nodes read only the Endpoints that one of their pods mounts. See `docs/compatibility.md`.
    PortcullisNodeEndpointsRestriction,
    /// Not in Kubernetes: nodes write only events that name themselves as the source. See `docs/compatibility.md`.
    PortcullisNodeEventSourceRestriction,
    /// A node may write the allocated resources in the status of a claim (NR-50, NR-104).
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

/// The maturity stage of a gate. A flag cannot change `Locked` gates.
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

impl Gate {
    /// The stage in a release.
    fn stage_in(&self, release: Release) -> Stage {
        match self.feature {
            // KA-74
            Feature::KubeletFineGrainedAuthz if release < Release(33) => Stage::Alpha,
            Feature::KubeletFineGrainedAuthz if release < Release::NEWEST => Stage::Beta,
            _ => self.stage,
        }
    }
}

/// The emulated minor release of Kubernetes, 1.31 to 1.36.
///
/// The only difference is that `KubeletFineGrainedAuthz` is not locked before 1.36 (KA-74). The defaults are those of 1.36,
/// because those of older releases allow more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(u8);

impl Release {
    const NEWEST: Self = Self(36);
    const OLDEST: Self = Self(31);
}

impl Default for Release {
    fn default() -> Self {
        Self::NEWEST
    }
}

impl std::str::FromStr for Release {
    type Err = FeatureGateError;

    /// Parses the value of `--emulated-version`: `1.35` or `kube=1.35`.
    fn from_str(text: &str) -> Result<Self, FeatureGateError> {
        let version = text.strip_prefix("kube=").unwrap_or(text);
        let minor =
            version.strip_prefix("1.").filter(|minor| minor.len() == 2).and_then(|minor| minor.parse().ok());
        let release = minor.map(Self).filter(|release| (Self::OLDEST..=Self::NEWEST).contains(release));
        release.ok_or_else(|| FeatureGateError::Release(text.to_owned()))
    }
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
    DRADeviceTaintRules Beta false,
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

/// An error in the value of `--feature-gates`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureGateError {
    /// The value is neither `true` nor `false`.
    #[error("invalid value of {0}={1}: expected true or false")]
    InvalidValue(String, String),
    /// The gate is locked to its default.
    #[error("cannot set feature gate {0} to {1}, feature is locked to {2}")]
    Locked(String, bool, bool),
    /// An entry has no `=`.
    #[error("missing bool value for {0}: write {0}=true or {0}=false")]
    MissingValue(String),
    /// The gate turns off a protection that is always on here.
    #[error("feature gate {0} cannot be turned off here: what it protects from is always refused")]
    Protects(String),
    /// A release that cannot be emulated.
    #[error("{0:?} cannot be emulated: use 1.31 to 1.36")]
    Release(String),
    /// The gate is unknown.
    #[error("unrecognized feature gate: {0} (with an effect here: {known})", known = FeatureGates::names().collect::<Vec<_>>().join(", "))]
    Unknown(String),
}

/// The enabled features.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FeatureGates {
    on: u64,
    release: Release,
}

impl Default for FeatureGates {
    /// The gates of an unconfigured 1.36 control plane.
    fn default() -> Self {
        let none = Self { on: 0, release: Release::default() };
        GATES.iter().fold(none, |gates, g| gates.with(g.feature, g.default))
    }
}

impl FeatureGates {
    /// Returns the gates with one of them set. This also sets locked gates, which only tests and version emulation do.
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

    /// All gates: the name, the stage as metric `kubernetes_feature_enabled` reports it (KA-75), and whether the gate
    /// is on.
    pub fn all(self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        GATES
            .iter()
            .map(move |gate| (gate.name, gate.stage_in(self.release).label(), self.is_on(gate.feature)))
    }

    /// Parses the value of `--feature-gates`: `Name=true,Other=false`. `AllAlpha` and `AllBeta` set every gate of that
    /// stage that is not listed itself, regardless of the order, as in Kubernetes.
    ///
    /// # Errors
    /// An unknown gate, a value that is not a boolean, or a locked gate set to another value than its default.
    pub fn parse(text: &str) -> Result<Self, FeatureGateError> {
        Self::parse_in(text, Release::default())
    }

    /// Like [`FeatureGates::parse`], for an emulated release.
    ///
    /// # Errors
    /// As [`FeatureGates::parse`].
    pub fn parse_in(text: &str, release: Release) -> Result<Self, FeatureGateError> {
        let mut gates = Self { release, ..Self::default() };
        let mut named = 0_u64;
        let mut stages = Vec::new();
        for entry in entries(text) {
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
                    let Some(gate) = GATES.iter().find(|g| g.name == name) else {
                        check_other(name, on)?;
                        continue;
                    };
                    if gate.stage_in(release) == Stage::Locked && gate.default != on {
                        return Err(FeatureGateError::Locked(gate.name.to_owned(), on, gate.default));
                    }
                    gates = gates.with(gate.feature, on);
                    named |= 1 << (gate.feature as u8);
                }
            }
        }
        for (stage, on) in stages {
            for gate in
                GATES.iter().filter(|g| g.stage_in(release) == stage && named & (1 << (g.feature as u8)) == 0)
            {
                gates = gates.with(gate.feature, on);
            }
        }
        Ok(gates)
    }

    /// The gates in a valid value of `--feature-gates` that change nothing here.
    pub fn without_effect(text: &str) -> impl Iterator<Item = &str> {
        let names = entries(text).map(|entry| entry.split_once('=').map_or(entry, |(name, _)| name.trim()));
        names.filter(|name| others::find(name).is_some())
    }

    /// Returns whether a feature is on.
    pub fn is_on(self, feature: Feature) -> bool {
        self.on & (1 << (feature as u8)) != 0
    }

    /// The names of all known gates, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        GATES.iter().map(|g| g.name)
    }
}

/// The entries of a value of `--feature-gates`. They may name the component, as in `kube:Name=true`.
fn entries(text: &str) -> impl Iterator<Item = &str> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(|entry| entry.strip_prefix("kube:").unwrap_or(entry))
}

/// Checks the setting of a gate that changes nothing here.
fn check_other(name: &str, on: bool) -> Result<(), FeatureGateError> {
    match others::find(name) {
        None => Err(FeatureGateError::Unknown(name.to_owned())),
        Some(Other::Locked) if !on => Err(FeatureGateError::Locked(name.to_owned(), on, true)),
        Some(Other::Protects) if !on => Err(FeatureGateError::Protects(name.to_owned())),
        Some(_) => Ok(()),
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
    fn a_gate_is_locked_from_the_release_on_in_which_it_is_ka_74() {
        let off = "KubeletFineGrainedAuthz=false";
        assert!(FeatureGates::parse(off).is_err());
        for (text, works) in
            [("1.36", false), ("kube=1.36", false), ("1.35", true), ("kube=1.33", true), ("1.31", true)]
        {
            let gates = FeatureGates::parse_in(off, text.parse().unwrap());
            assert_eq!(gates.is_ok(), works, "{text}");
            let default = FeatureGates::parse_in("", text.parse().unwrap()).unwrap();
            let found = default.all().find(|(name, _, _)| *name == "KubeletFineGrainedAuthz");
            let stage = match (works, text) {
                (false, _) => "",
                (true, "1.31") => "ALPHA",
                (true, _) => "BETA",
            };
            assert_eq!(found, Some(("KubeletFineGrainedAuthz", stage, true)), "{text}");
        }
        for text in ["1.30", "1.37", "1.3", "2.35", "", "kube=", "1.035", "1.+5"] {
            assert!(text.parse::<Release>().is_err(), "{text}");
        }
    }

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
            Err(FeatureGateError::Locked("AuthorizeWithSelectors".to_owned(), false, true))
        );
    }

    #[test]
    fn gates_without_effect_are_accepted_and_told_but_protections_stay_on() {
        let text = "kube:WatchList=true,kube:PodCertificateRequest=true,NodeSwap=true";
        assert!(FeatureGates::parse(text).unwrap().is_on(Feature::PodCertificateRequest));
        assert_eq!(FeatureGates::without_effect(text).collect::<Vec<_>>(), ["WatchList", "NodeSwap"]);
        for (text, is_protection) in [("NodeSwap=false", false), ("ConstrainedImpersonation=false", true)] {
            let error = FeatureGates::parse(text).unwrap_err();
            assert_eq!(matches!(error, FeatureGateError::Protects(_)), is_protection, "{error}");
            assert_eq!(matches!(error, FeatureGateError::Locked(..)), !is_protection, "{error}");
        }
        assert!(matches!(FeatureGates::parse("other:WatchList=true"), Err(FeatureGateError::Unknown(_))));
        for name in FeatureGates::names() {
            assert_eq!(others::find(name), None, "{name} has an effect");
        }
    }
}
