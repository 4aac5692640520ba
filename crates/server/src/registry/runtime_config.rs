//! Which API versions are served beside the current ones (`--runtime-config`).

use kinds::resource::Resource;
use kinds::resources::ALL;

/// API versions that are disabled by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// `authorization.k8s.io/v1beta1`, which Kubernetes no longer serves (WH-121).
    pub authorization_v1beta1: bool,
    /// `certificates.k8s.io/v1beta1`, with certificates of pods: beta, and off by default in Kubernetes.
    pub certificates_v1beta1: bool,
    /// `rbac.authorization.k8s.io/v1alpha1`, which Kubernetes served from 1.3 to 1.21 (RB-120).
    pub rbac_v1alpha1: bool,
    /// `rbac.authorization.k8s.io/v1beta1`, which Kubernetes served from 1.6 to 1.21 (RB-120).
    pub rbac_v1beta1: bool,
}

/// The API versions that can be enabled.
const SWITCHES: [&str; 4] = [
    "authorization.k8s.io/v1beta1",
    "certificates.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "rbac.authorization.k8s.io/v1beta1",
];

/// The API versions of Kubernetes 1.36.
const VERSIONS: &str = "
    v1
    admissionregistration.k8s.io/v1 admissionregistration.k8s.io/v1alpha1 admissionregistration.k8s.io/v1beta1
    apiextensions.k8s.io/v1 apiregistration.k8s.io/v1 apps/v1
    authentication.k8s.io/v1 authentication.k8s.io/v1alpha1 authentication.k8s.io/v1beta1
    authorization.k8s.io/v1 autoscaling/v1 autoscaling/v2 batch/v1
    certificates.k8s.io/v1 certificates.k8s.io/v1alpha1 certificates.k8s.io/v1beta1
    coordination.k8s.io/v1 coordination.k8s.io/v1alpha2 coordination.k8s.io/v1beta1
    discovery.k8s.io/v1 events.k8s.io/v1 flowcontrol.apiserver.k8s.io/v1 internal.apiserver.k8s.io/v1alpha1
    networking.k8s.io/v1 networking.k8s.io/v1beta1 node.k8s.io/v1 policy/v1 rbac.authorization.k8s.io/v1
    resource.k8s.io/v1 resource.k8s.io/v1alpha3 resource.k8s.io/v1beta1 resource.k8s.io/v1beta2
    scheduling.k8s.io/v1 scheduling.k8s.io/v1alpha2 storage.k8s.io/v1 storage.k8s.io/v1alpha1
    storage.k8s.io/v1beta1 storagemigration.k8s.io/v1beta1
";

/// Sets of versions of Kubernetes 1.36.
const SETS: [&str; 4] = ["api/all", "api/ga", "api/beta", "api/alpha"];

/// The meaning of a known name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// A version that can be served or not.
    Switch,
    /// A version, or a set with versions, that is always served.
    Always,
    /// A version, or a set of versions, that is never served.
    Never,
}

/// Returns what a name stands for; none for an unknown one.
fn named(name: &str) -> Option<Named> {
    if SWITCHES.contains(&name) {
        return Some(Named::Switch);
    }
    if SETS.contains(&name) {
        return Some(match name {
            "api/all" | "api/ga" => Named::Always,
            "api/beta" => Named::Switch,
            _ => Named::Never,
        });
    }
    // kube-apiserver accepts both spellings of the core group.
    let name = name.strip_prefix("api/").unwrap_or(name);
    let is_known = VERSIONS.split_ascii_whitespace().any(|version| version == name);
    let reviews = ["authentication.k8s.io/v1", "authorization.k8s.io/v1"];
    let is_served = || ALL.iter().any(|row| row.version_of.is_none() && row.api_version() == name);
    is_known.then(|| if reviews.contains(&name) || is_served() { Named::Always } else { Named::Never })
}

/// An invalid `--runtime-config`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeConfigError {
    /// Not an API version of Kubernetes 1.36, nor an older one that can be enabled here.
    #[error(
        "--runtime-config: {0} is not an API version of Kubernetes 1.36, nor one that can be switched on here: {known}",
        known = SWITCHES.join(", ")
    )]
    Unknown(String),
    /// An API version that is always served.
    #[error("--runtime-config: {0} is always served and cannot be switched off here")]
    Always(String),
    /// Neither `true` nor `false`.
    #[error("--runtime-config: {0}={1}: expected true or false")]
    Value(String, String),
}

impl RuntimeConfig {
    /// Parses the value of `--runtime-config`: `group/version=true`, several separated by commas. A name alone means
    /// `true`, as in kube-apiserver.
    ///
    /// # Errors
    /// See [`RuntimeConfigError`].
    pub fn parse(text: &str) -> Result<Self, RuntimeConfigError> {
        let mut config = Self::default();
        // A setting of a version takes precedence over one of a set, in any order.
        let set = entries(text).filter(|(name, _)| matches!(*name, "api/all" | "api/beta")).last();
        config.certificates_v1beta1 = set.is_some_and(|(_, value)| value != "false");
        for (name, value) in entries(text) {
            let on = match value {
                "true" | "" => true,
                "false" => false,
                _ => return Err(RuntimeConfigError::Value(name.to_owned(), value.to_owned())),
            };
            match name {
                "authorization.k8s.io/v1beta1" => config.authorization_v1beta1 = on,
                "certificates.k8s.io/v1beta1" => config.certificates_v1beta1 = on,
                "rbac.authorization.k8s.io/v1alpha1" => config.rbac_v1alpha1 = on,
                "rbac.authorization.k8s.io/v1beta1" => config.rbac_v1beta1 = on,
                _ => match named(name) {
                    None => return Err(RuntimeConfigError::Unknown(name.to_owned())),
                    Some(Named::Always) if !on => return Err(RuntimeConfigError::Always(name.to_owned())),
                    Some(_) => {}
                },
            }
        }
        Ok(config)
    }

    /// The names in a valid `--runtime-config` that are asked for and are not served.
    pub fn without_effect(text: &str) -> impl Iterator<Item = &str> {
        let asked = entries(text).filter(|(_, value)| *value != "false").map(|(name, _)| name);
        asked.filter(|name| named(name) == Some(Named::Never))
    }

    /// Whether this version of a kind is served: those that cannot be disabled always are.
    pub fn serves(&self, resource: &Resource) -> bool {
        match resource.api_version().as_ref() {
            "certificates.k8s.io/v1beta1" => self.certificates_v1beta1,
            "rbac.authorization.k8s.io/v1alpha1" => self.rbac_v1alpha1,
            "rbac.authorization.k8s.io/v1beta1" => self.rbac_v1beta1,
            _ => true,
        }
    }
}

/// The entries of a `--runtime-config`: names and values.
fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(|entry| entry.split_once('=').unwrap_or((entry, "true")))
}

#[cfg(test)]
mod tests {
    use kinds::Kinds;

    use super::*;

    #[test]
    fn old_versions_are_off_until_switched_on() {
        assert!(!RuntimeConfig::parse("").unwrap().authorization_v1beta1);
        assert!(RuntimeConfig::parse("authorization.k8s.io/v1beta1").unwrap().authorization_v1beta1);
        assert!(RuntimeConfig::parse("authorization.k8s.io/v1beta1=true").unwrap().authorization_v1beta1);
        assert!(!RuntimeConfig::parse("authorization.k8s.io/v1beta1=false").unwrap().authorization_v1beta1);
        assert!(RuntimeConfig::parse("authorization.k8s.io/v1beta1=maybe").is_err());
        assert!(RuntimeConfig::parse("batch/v2alpha1=true").is_err());
        let all = RuntimeConfig::parse(&SWITCHES.join(",")).unwrap();
        assert!(
            all.authorization_v1beta1 && all.certificates_v1beta1 && all.rbac_v1alpha1 && all.rbac_v1beta1
        );
    }

    #[test]
    fn certificates_of_pods_are_served_if_enabled() {
        let serves = |text: &str| {
            let config = RuntimeConfig::parse(text).unwrap();
            let served = Kinds::built_in().only(|row| config.serves(row));
            served.find("certificates.k8s.io", "v1beta1", "podcertificaterequests").is_some()
        };
        assert!(!serves("") && serves("certificates.k8s.io/v1beta1"));
    }

    #[test]
    fn versions_of_kubernetes_are_known_and_what_is_not_served_is_told() {
        let text = "api/all=true,api/beta=true,v1=true,api/v1,apps/v1=true,storage.k8s.io/v1beta1=true,api/alpha=false";
        let beta = RuntimeConfig { certificates_v1beta1: true, ..RuntimeConfig::default() };
        assert_eq!(RuntimeConfig::parse(text), Ok(beta));
        let but = |text: &str| RuntimeConfig::parse(text).unwrap().certificates_v1beta1;
        assert!(!but("certificates.k8s.io/v1beta1=false,api/all=true") && !but("api/beta=false"));
        let without_effect: Vec<_> =
            RuntimeConfig::without_effect(text).filter(|name| *name != "apps/v1").collect();
        assert_eq!(without_effect, ["storage.k8s.io/v1beta1"]);
        for name in ["api/all", "api/ga", "v1", "rbac.authorization.k8s.io/v1", "authentication.k8s.io/v1"] {
            let off = format!("{name}=false");
            assert_eq!(RuntimeConfig::parse(&off), Err(RuntimeConfigError::Always(name.to_owned())));
        }
        for row in ALL.iter().filter(|row| row.version_of.is_none() && row.group.ends_with(".k8s.io")) {
            let version = row.api_version();
            let is_own = ["machine.openshift.io", "cluster.x-k8s.io"].contains(&row.group);
            let kind = if version == "certificates.k8s.io/v1beta1" { Named::Switch } else { Named::Always };
            assert_eq!(named(&version), (!is_own).then_some(kind), "{version}");
        }
    }

    #[test]
    fn only_what_is_on_is_served() {
        let versions = |text: &str| -> Vec<&str> {
            let config = RuntimeConfig::parse(text).unwrap();
            let served = Kinds::built_in().only(|row| config.serves(row));
            served.rows().filter(|kind| kind.plural == "roles").map(|kind| kind.version).collect()
        };
        assert_eq!(versions(""), ["v1"]);
        assert_eq!(versions("rbac.authorization.k8s.io/v1alpha1"), ["v1", "v1alpha1"]);
        assert_eq!(versions("rbac.authorization.k8s.io/v1beta1=true"), ["v1", "v1beta1"]);
    }
}
