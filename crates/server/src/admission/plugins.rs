//! Which admission plugins are enabled: all but those that are disabled by name.

use super::chain::PLUGINS;

/// The plugins of kube-apiserver 1.36 that are not implemented here and guard no boundary between users: they fill in
/// defaults, count, or act on objects that are not served. Enabling one has no effect.
const WITHOUT_EFFECT: &[&str] = &[
    "AlwaysAdmit",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "ExtendedResourceToleration",
    "JobValidation",
    "MutatingAdmissionPolicy",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeDeclaredFeatureValidator",
    "PodGroupProtection",
    "PodGroupWorkloadExists",
];

/// The plugins of kube-apiserver that are not implemented here and refuse what is dangerous. Enabling one of them is an
/// error, so that nobody assumes it is in effect.
const MISSING: &[&str] = &[
    "AlwaysDeny",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
];

/// The plugins that are part of how objects are created. They cannot be disabled.
const BUILT_IN: &[&str] = &["StorageObjectInUseProtection", "TaintNodesByCondition"];

/// Whether a plugin is implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It is implemented.
    Here,
    /// It is not implemented, and its name is accepted because it guards no boundary.
    WithoutEffect,
    /// It is not implemented, and its name is refused so that nobody relies on it.
    Missing,
    /// Kubernetes has no plugin of this name.
    Nowhere,
}

/// The enabled admission plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionPlugins {
    /// A bit for each of `PLUGINS`.
    enabled: u32,
}

/// An invalid selection of plugins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// The plugin is unknown.
    #[error("{flag}: unknown plugin {name:?}; there are {}", AdmissionPlugins::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The flag with the name.
        flag: &'static str,
        /// The name.
        name: String,
    },
    /// The plugin exists in Kubernetes but not in Portcullis.
    #[error(
        "--enable-admission-plugins: {0} is not implemented here, and so cannot be relied on: leave it out"
    )]
    Missing(String),
    /// The plugin cannot be disabled.
    #[error(
        "--disable-admission-plugins: {0} is part of how objects are made here and cannot be switched off"
    )]
    BuiltIn(String),
    /// The plugin is both enabled and disabled.
    #[error("{0} is named by both --enable-admission-plugins and --disable-admission-plugins: choose one")]
    Both(String),
}

impl Default for AdmissionPlugins {
    /// All plugins are enabled.
    fn default() -> Self {
        Self { enabled: u32::MAX }
    }
}

impl AdmissionPlugins {
    /// Returns the names of all plugins, in the order in which they are called.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PLUGINS.iter().map(|plugin| plugin.name)
    }

    /// Whether the plugin with this name is implemented.
    pub(super) fn known(name: &str) -> Known {
        if BUILT_IN.contains(&name) || Self::names().any(|known| known == name) {
            return Known::Here;
        }
        match (WITHOUT_EFFECT.contains(&name), MISSING.contains(&name)) {
            (true, _) => Known::WithoutEffect,
            (_, true) => Known::Missing,
            _ => Known::Nowhere,
        }
    }

    /// Returns the plugins with these enabled and those disabled. Every plugin is enabled by default.
    ///
    /// # Errors
    /// A name is unknown, not implemented, built in, or in both lists.
    pub fn switched<'n>(
        enable: impl IntoIterator<Item = &'n str>,
        disable: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, PluginError> {
        let enable: Vec<&str> = enable.into_iter().collect();
        for name in &enable {
            if MISSING.contains(name) {
                return Err(PluginError::Missing((*name).to_owned()));
            }
            if !BUILT_IN.contains(name) && !WITHOUT_EFFECT.contains(name) {
                place("--enable-admission-plugins", name)?;
            }
        }
        let mut enabled = Self::default().enabled;
        for name in disable {
            if enable.contains(&name) {
                return Err(PluginError::Both(name.to_owned()));
            }
            if BUILT_IN.contains(&name) {
                return Err(PluginError::BuiltIn(name.to_owned()));
            }
            // Plugins that are not implemented are disabled anyway.
            if !MISSING.contains(&name) && !WITHOUT_EFFECT.contains(&name) {
                enabled &= !(1 << place("--disable-admission-plugins", name)?);
            }
        }
        Ok(Self { enabled })
    }

    /// Those of the names that are known and have no effect, enabled or not.
    pub fn without_effect<'n>(names: impl IntoIterator<Item = &'n str>) -> impl Iterator<Item = &'n str> {
        names.into_iter().filter(|name| WITHOUT_EFFECT.contains(name) || MISSING.contains(name))
    }

    pub(super) fn has(self, place: usize) -> bool {
        self.enabled & (1 << place) != 0
    }
}

/// Returns the index of the plugin with this name.
fn place(flag: &'static str, name: &str) -> Result<usize, PluginError> {
    AdmissionPlugins::names()
        .position(|known| known == name)
        .ok_or_else(|| PluginError::Unknown { flag, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_on_unless_they_are_switched_off_by_name() {
        assert!(PLUGINS.len() < 32);
        let all = AdmissionPlugins::default();
        assert_eq!(AdmissionPlugins::switched(["NodeRestriction"], ["PodNodeSelector"]), Ok(all));
        assert_eq!(
            AdmissionPlugins::switched(["LimitRanger", "ResourceQuota"], ["DefaultIngressClass"]),
            Ok(all)
        );
        let named = ["NodeRestriction", "DefaultIngressClass", "PodNodeSelector"];
        let without_effect: Vec<_> = AdmissionPlugins::without_effect(named).collect();
        assert_eq!(without_effect, ["DefaultIngressClass", "PodNodeSelector"]);
        let without = AdmissionPlugins::switched([], ["NodeRestriction", "Priority"]).unwrap();
        for (at, name) in AdmissionPlugins::names().enumerate() {
            assert!(all.has(at));
            assert_eq!(without.has(at), !["NodeRestriction", "Priority"].contains(&name), "{name}");
        }
    }

    #[test]
    fn names_that_ask_for_what_is_not_there_are_refused() {
        let switched = |on: &str, off: &str| {
            let list = |names: &str| names.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let (on, off) = (list(on), list(off));
            AdmissionPlugins::switched(on.iter().map(String::as_str), off.iter().map(String::as_str))
        };
        let name = || "NodeRestriction".to_owned();
        assert_eq!(switched("NodeRestriction", "NodeRestriction"), Err(PluginError::Both(name())));
        assert!(matches!(switched("PodNodeSelector", ""), Err(PluginError::Missing(_))));
        assert!(matches!(switched("", "TaintNodesByCondition"), Err(PluginError::BuiltIn(_))));
        for (on, off) in [("noderestriction", ""), ("", "None")] {
            assert!(matches!(switched(on, off), Err(PluginError::Unknown { .. })), "{on} {off}");
        }
    }
}
