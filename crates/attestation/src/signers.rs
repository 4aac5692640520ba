//! The names of the signers that attestors have (AT-80, AT-81).

use portcullis_pki::evidence::is_provider_name;

const DOMAIN: &str = "cluster.x-k8s.io/";
/// The domain as some texts of the proposal spell it. An API server accepts no domain without a dot.
const HYPHENATED: &str = "cluster-x-k8s-io/";
const CLIENT: &str = "kube-apiserver-client-kubelet-";
const SERVING: &str = "kubelet-serving-";

/// The signer of kubelets' serving certificates, which Kubernetes itself has.
pub const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";

/// What a signer issues certificates for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Kubelets as clients of the API server.
    Client,
    /// Kubelets as servers.
    Serving,
}

/// Returns the name of the signer of an attestor.
pub fn signer(purpose: Purpose, provider: &str) -> String {
    let kind = if purpose == Purpose::Client { CLIENT } else { SERVING };
    format!("{DOMAIN}{kind}{provider}")
}

/// Reads the name of a signer: its purpose, and the provider of the attestor. None if it is not one of an attestor.
pub fn read(name: &str) -> Option<(Purpose, &str)> {
    let path = name.strip_prefix(DOMAIN)?;
    let client = path.strip_prefix(CLIENT).map(|provider| (Purpose::Client, provider));
    let serving = || path.strip_prefix(SERVING).map(|provider| (Purpose::Serving, provider));
    client.or_else(serving).filter(|(_, provider)| is_provider_name(provider))
}

/// Returns the name of a signer with the domain that API servers accept, and whether it had the hyphenated one. For
/// configurations; a request with the hyphenated name cannot exist.
pub fn normalized(name: &str) -> (String, bool) {
    match name.strip_prefix(HYPHENATED) {
        Some(path) => (format!("{DOMAIN}{path}"), true),
        None => (name.to_owned(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_proposal_at_80() {
        for (name, purpose, provider) in [
            ("cluster.x-k8s.io/kube-apiserver-client-kubelet-insecure", Purpose::Client, "insecure"),
            ("cluster.x-k8s.io/kube-apiserver-client-kubelet-tpm", Purpose::Client, "tpm"),
            ("cluster.x-k8s.io/kubelet-serving-tpm", Purpose::Serving, "tpm"),
        ] {
            assert_eq!(signer(purpose, provider), name);
            assert_eq!(read(name), Some((purpose, provider)));
        }
        for other in [
            "cluster.x-k8s.io/kube-apiserver-client-kubelet-",
            "cluster.x-k8s.io/kube-apiserver-client-kubelet",
            "cluster.x-k8s.io/kubelet-serving-TPM",
            "kubernetes.io/kube-apiserver-client-kubelet",
            "cluster-x-k8s-io/kubelet-serving-tpm",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn hyphenated_names_are_normalized_at_81() {
        let dotted = "cluster.x-k8s.io/kubelet-serving-tpm";
        assert_eq!(normalized("cluster-x-k8s-io/kubelet-serving-tpm"), (dotted.to_owned(), true));
        assert_eq!(normalized(dotted), (dotted.to_owned(), false));
    }
}
