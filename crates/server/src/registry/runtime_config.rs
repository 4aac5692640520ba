//! Which API versions are served beside the current ones (`--runtime-config`).

use kinds::resource::Resource;

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

/// An invalid `--runtime-config`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeConfigError {
    /// Not an API version that can be enabled or disabled.
    #[error(
        "--runtime-config: {0} is not an API version that can be switched on or off here (known: {known})",
        known = SWITCHES.join(", ")
    )]
    Unknown(String),
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
        for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
            let (name, value) = entry.split_once('=').unwrap_or((entry, "true"));
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
                _ => return Err(RuntimeConfigError::Unknown(name.to_owned())),
            }
        }
        Ok(config)
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
