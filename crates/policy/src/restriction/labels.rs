//! The labels that a node may change on its own Node object (NR-46, NR-47).

/// The label domain reserved for administrators, who use it to keep pods away from nodes.
const RESTRICTED: &str = "node-restriction.kubernetes.io";

/// The label keys under `kubernetes.io` that a kubelet reports (NR-47).
const KUBELET_KEYS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Whether a node may set, change or remove the label of this key on itself (NR-46, NR-48, NC-14, NC-20).
pub fn may_change(key: &str) -> bool {
    let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
    if is_within(namespace, RESTRICTED) {
        return false;
    }
    let is_kubernetes = is_within(namespace, "kubernetes.io") || is_within(namespace, "k8s.io");
    !is_kubernetes || is_kubelet_key(key, namespace)
}

/// Whether a key is one of the eleven that kubelets report of themselves (NR-47).
pub fn is_reported(key: &str) -> bool {
    KUBELET_KEYS.contains(&key)
}

/// NR-47.
fn is_kubelet_key(key: &str, namespace: &str) -> bool {
    KUBELET_KEYS.contains(&key)
        || is_within(namespace, "kubelet.kubernetes.io")
        || is_within(namespace, "node.kubernetes.io")
}

/// Returns whether a name is the domain or a subdomain of it.
fn is_within(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::may_change;

    #[test]
    fn the_vectors_of_nr_48_hold() {
        for key in [
            "foo",
            "mykubernetes.io/x",
            "node-restriction.kubernetes.io",
            "a.node.kubernetes.io/x",
            "node.kubernetes.io/exclude-from-external-load-balancers",
            "node-restriction.kubernetes.io.node.kubernetes.io/y",
        ] {
            assert!(may_change(key), "{key} is permitted");
        }
        for key in [
            "node-role.kubernetes.io/worker",
            "kubernetes.io/role",
            "k8s.io/x",
            "a.k8s.io/x",
            "x.node-restriction.kubernetes.io/y",
            "node.kubernetes.io.node-restriction.kubernetes.io/y",
        ] {
            assert!(!may_change(key), "{key} is forbidden");
        }
    }

    #[test]
    fn exactly_the_eleven_keys_of_nr_47_are_permitted_beside_the_two_domains() {
        for key in super::KUBELET_KEYS {
            assert!(may_change(key), "{key} is permitted");
            assert!(!may_change(&format!("x.{key}")) || key.starts_with("node."), "x.{key} is forbidden");
        }
        assert!(may_change("kubelet.kubernetes.io/x"));
        assert!(may_change("a.kubelet.kubernetes.io/x"));
        assert!(!may_change("akubelet.kubernetes.io/x"));
        assert!(!may_change("kubernetes.io/hostname/x"), "only the first slash ends the namespace");
        assert!(!may_change("kubernetes.io/"));
        assert!(may_change("/kubernetes.io"), "an empty namespace is nobody's");
        assert!(may_change(""));
        assert!(!may_change(".kubernetes.io/x"));
    }
}
