//! The flags of `serve` for the trust in bootstrap credentials.

use clap::Args;
use portcullis_apimachinery::names::{is_dns_label, is_dns_subdomain};
use portcullis_server::registry::bootstrap_authorities::{ACCOUNT, ACCOUNT_NAMESPACE, Settings};

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Bootstrap credentials")]
pub struct BootstrapFlags {
    /// A ConfigMap, as NAMESPACE/NAME, with bootstrap authorities in ca-bundle.crt. They authenticate only
    /// --bootstrap-account, and only as long as the ConfigMap contains them. Repeatable; "none" for none. By default
    /// kubelet-bootstrap-kubeconfig in openshift-config and in openshift-config-managed
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = config_map)]
    bootstrap_ca_configmap: Vec<Option<Place>>,

    /// The service account that bootstraps nodes
    #[arg(long, value_name = "NAMESPACE/NAME", default_value_t = Place::account(), value_parser = place)]
    bootstrap_account: Place,
}

impl BootstrapFlags {
    /// Converts the flags to settings.
    pub fn settings(&self) -> Settings {
        let account = (self.bootstrap_account.namespace.clone(), self.bootstrap_account.name.clone());
        if self.bootstrap_ca_configmap.is_empty() {
            return Settings { account, ..Settings::default() };
        }
        let named = self.bootstrap_ca_configmap.iter().flatten();
        let config_maps = named.map(|place| (place.namespace.clone(), place.name.clone())).collect();
        Settings { config_maps, account }
    }
}

/// A namespace and a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Place {
    /// Returns the default account that bootstraps nodes (NB-30).
    pub fn account() -> Self {
        Self { namespace: ACCOUNT_NAMESPACE.to_owned(), name: ACCOUNT.to_owned() }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Parses `NAMESPACE/NAME`.
///
/// # Errors
/// The text has another form.
pub fn place(text: &str) -> Result<Place, String> {
    match text.split_once('/') {
        Some((namespace, name)) if is_dns_label(namespace) && is_dns_subdomain(name) => {
            Ok(Place { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("write NAMESPACE/NAME, as openshift-config/kubelet-bootstrap-kubeconfig".to_owned()),
    }
}

fn config_map(text: &str) -> Result<Option<Place>, String> {
    if text == "none" { Ok(None) } else { place(text).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_namespace_and_a_name() {
        assert_eq!(place("a/b.c").unwrap(), Place { namespace: "a".into(), name: "b.c".into() });
        for bad in ["", "a", "a/", "/b", "a/b/c", "A/b", "a.b/c", "a/-b", "a /b", "a/b\n", "a/b..c", "a/b-.c"]
        {
            assert!(place(bad).is_err(), "{bad:?}");
        }
        assert_eq!(config_map("none"), Ok(None));
        assert!(config_map("").is_err());
    }
}
