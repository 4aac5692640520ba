//! What the audit knows of a pod or of a pod template.

use super::views::{ContainerView, PodView, SpecView, Toleration};
use crate::objects::pod::Pod;
use crate::restriction::labels;

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node that it is bound to, or empty.
    pub node: String,
    /// Its service account, or empty.
    pub account: String,
    /// Whether it is a mirror pod (MP-1).
    pub is_mirror: bool,
    /// The kind of its controller, or empty: without one it is not created again when it is evicted.
    pub controller: String,
    /// The secrets that it names, sorted.
    pub secrets: Vec<String>,
    /// Whether it uses a persistent volume claim.
    pub has_claim: bool,
    /// How its code can leave the container (AU-63).
    pub escape: Option<String>,
    /// Whether one of its containers runs a part of the control plane that has the keys to everything (E31).
    pub is_control_plane: bool,
    /// Whether it has no uid: it was read from a manifest, to which admission has not added a token yet (AU-69).
    pub is_manifest: bool,
    /// Whether the pod wants a token; if it says nothing, its account does.
    pub automount: Option<bool>,
}

/// The template of the pods of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The kind of the workload, as Kubernetes spells it.
    pub kind: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The name of the workload.
    pub name: String,
    /// The service account; `default` if the template names none.
    pub account: String,
    /// The secrets that the template names, sorted.
    pub secrets: Vec<String>,
    /// Whether the workload wants no pods: scaled to zero, or suspended.
    pub is_idle: bool,
    /// Whether every node may label itself so that the pods come to it: there are required labels, and a kubelet may set all of
    /// them (NR-46).
    pub follows_node_labels: bool,
    /// The taints that the pods tolerate.
    pub tolerations: Tolerations,
}

/// The tolerations of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tolerations(Vec<[String; 4]>);

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeTaint {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The effect.
    pub effect: String,
}

/// The taints that the pods of every DaemonSet tolerate, with their effects.
const DAEMON_TOLERATIONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// The programs of the control plane that hold the keys of its authorities, or the store itself (E31).
const CONTROL_PLANE: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "etcd"];

/// The capabilities with which a container can leave (AU-63).
const CAPABILITIES: [&str; 5] = ["ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "DAC_READ_SEARCH"];

/// Sockets of container runtimes, below `/run` and `/var/run`.
const SOCKETS: [&str; 4] =
    ["docker.sock", "containerd/containerd.sock", "crio/crio.sock", "cri-dockerd.sock"];
/// The SSH keys of root.
const SSH_KEYS: &str = concat!("/root", "/.ssh");
/// Paths with secrets of the node: to read them is enough.
const READABLE: [&str; 5] =
    ["/etc/kubernetes", "/var/lib/kubelet/pki", "/var/lib/kubelet/pods", "/var/lib/etcd", SSH_KEYS];
/// Paths from which the node runs programs, or which configure them.
const WRITABLE: [&str; 11] = [
    "/etc",
    "/root",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/boot",
    "/opt/cni/bin",
    "/var/spool/cron",
    "/proc",
];
/// The directory of the kubelet: risky as a whole, while directories of plugins below it are not.
const KUBELET: &str = "/var/lib/kubelet";

impl PodFacts {
    pub(super) fn of(pod: &Pod<'_>, view: &PodView<'_>) -> Self {
        let mut controllers =
            pod.metadata.owner_references.iter().filter(|owner| owner.controller == Some(true));
        let mut has_claim = false;
        pod.each_claim(|_| has_claim = true);
        Self {
            namespace: pod.metadata.namespace.to_string(),
            name: pod.metadata.name.to_string(),
            node: pod.spec.node_name.to_string(),
            account: pod.service_account().to_owned(),
            is_mirror: pod.is_mirror(),
            controller: controllers.next().map(|owner| owner.kind.to_string()).unwrap_or_default(),
            // Of a mirror pod nothing but its node counts (MP-25).
            secrets: if pod.is_mirror() { Vec::new() } else { secrets(pod) },
            has_claim,
            escape: escape(&view.spec),
            is_control_plane: &*pod.metadata.namespace == "kube-system"
                && view.spec.containers().any(|container| CONTROL_PLANE.contains(&container.program())),
            is_manifest: pod.metadata.uid.is_empty(),
            automount: view.spec.automount_service_account_token,
        }
    }

    /// The service account as which its code runs: admission gives `default` to a pod that names none. Empty for a mirror pod,
    /// which has none.
    pub fn runs_as(&self) -> &str {
        match self.account.as_str() {
            "" if !self.is_mirror => "default",
            account => account,
        }
    }
}

impl Template {
    pub(super) fn new(
        (kind, namespace, name): (&'static str, &str, &str),
        is_idle: bool,
        pod: &Pod<'_>,
        view: &PodView<'_>,
    ) -> Self {
        let account = pod.service_account();
        let mut tolerations = Tolerations::of(&view.spec.tolerations);
        if kind == "DaemonSet" {
            tolerations.add_those_of_daemon_sets(view.spec.host_network);
        }
        Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            account: if account.is_empty() { "default" } else { account }.to_owned(),
            secrets: secrets(pod),
            is_idle,
            follows_node_labels: follows_node_labels(&view.spec),
            tolerations,
        }
    }
}

impl Tolerations {
    fn of(list: &[Toleration<'_>]) -> Self {
        let words = |toleration: &Toleration<'_>| {
            let Toleration { key, operator, value, effect } = toleration;
            [key, operator, value, effect].map(|word| word.to_string())
        };
        Self(list.iter().map(words).collect())
    }

    fn add_those_of_daemon_sets(&mut self, on_host_network: bool) {
        let network = on_host_network.then_some(("node.kubernetes.io/network-unavailable", "NoSchedule"));
        self.0.extend(
            DAEMON_TOLERATIONS
                .into_iter()
                .chain(network)
                .map(|(key, effect)| [key, "Exists", "", effect].map(str::to_owned)),
        );
    }

    /// Whether pods come to a node with this taint. A taint that is only a preference keeps none away.
    pub fn tolerate(&self, taint: &NodeTaint) -> bool {
        !matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            || self.0.iter().any(|[key, operator, value, effect]| {
                (effect.is_empty() || *effect == taint.effect)
                    && match operator.as_str() {
                        "Exists" => key.is_empty() || *key == taint.key,
                        "" | "Equal" => *key == taint.key && *value == taint.value,
                        _ => false,
                    }
            })
    }
}

/// The secrets that a pod names, each once, sorted.
fn secrets(pod: &Pod<'_>) -> Vec<String> {
    let mut names = Vec::new();
    pod.each_secret(|name| names.push(name.to_owned()));
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether in some alternative of the required placement there are keys, and a kubelet may set all of them (E25).
fn follows_node_labels(spec: &SpecView<'_>) -> bool {
    let selector: Vec<&str> = spec.node_selector.0.iter().map(|(key, _)| &**key).collect();
    let follows = |keys: &[&str]| !keys.is_empty() && keys.iter().all(|key| labels::may_change(key));
    let Some(required) = &spec.affinity.node_affinity.required else { return follows(&selector) };
    required.node_selector_terms.iter().any(|term| {
        // A term by the name of the node cannot be met by labels; an empty term matches no node.
        let is_empty = term.match_expressions.is_empty();
        let keys: Vec<&str> =
            selector.iter().copied().chain(term.match_expressions.iter().map(|r| &*r.key)).collect();
        term.match_fields.is_empty() && !is_empty && follows(&keys)
    })
}

/// How code in the containers of a pod can leave them, the first way by container (AU-63).
fn escape(spec: &SpecView<'_>) -> Option<String> {
    spec.containers().find_map(|container| escape_of(container, spec))
}

fn escape_of(container: &ContainerView<'_>, spec: &SpecView<'_>) -> Option<String> {
    let context = &container.security_context;
    if context.privileged {
        return Some("privileged".to_owned());
    }
    let capability = |name: &str| name.strip_prefix("CAP_").unwrap_or(name).to_owned();
    let mut added = context.capabilities.add.iter().map(|name| capability(name));
    let is_way_out =
        |name: &String| CAPABILITIES.contains(&&**name) || (spec.host_pid && name == "SYS_PTRACE");
    if let Some(name) = added.find(is_way_out) {
        return Some(format!("capability {name}"));
    }
    let mounted = |mount: &super::views::Mount<'_>| {
        let volume = spec.volumes.iter().find(|volume| *volume.name == *mount.name)?;
        let path = cleaned(&volume.host_path.as_ref()?.path, &mount.sub_path)?;
        is_risky(&path, mount.read_only).then(|| {
            let how = if mount.read_only { "read-only" } else { "writable" };
            format!("hostPath {path} ({how})")
        })
    };
    container.volume_mounts.iter().find_map(mounted)
}

/// A path of the node with a path below it, without `.`, `..` and double slashes; none if the path is empty.
fn cleaned(path: &str, below: &str) -> Option<String> {
    if path.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    for part in path.split('/').chain(below.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

/// Whether who has this path of the node has the node (AU-63).
fn is_risky(path: &str, is_read_only: bool) -> bool {
    let is_or_above = |other: &str| is_below(other, path);
    let is_socket = ["/run", "/var/run"]
        .iter()
        .any(|folder| SOCKETS.iter().any(|socket| is_or_above(&format!("{folder}/{socket}"))));
    let is_near = |other: &&str| is_below(path, other) || is_or_above(other);
    is_socket
        || READABLE.iter().any(is_near)
        || (!is_read_only && (WRITABLE.iter().any(is_near) || is_or_above(KUBELET)))
}

/// Whether a clean path is another one or lies below it.
fn is_below(path: &str, other: &str) -> bool {
    let other = other.trim_end_matches('/');
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_before_they_are_compared_au_63() {
        for (path, below, clean) in [
            ("/", "", "/"),
            ("/var/log/../lib/kubelet/", "", "/var/lib/kubelet"),
            ("/var", "./lib//kubelet", "/var/lib/kubelet"),
            ("/a", "../../b", "/b"),
        ] {
            assert_eq!(cleaned(path, below).as_deref(), Some(clean));
        }
        assert_eq!(cleaned("", "etc"), None);
    }

    #[test]
    fn paths_are_risky_by_class_au_63() {
        for path in
            ["/", "/run", "/var/run/docker.sock", "/var", "/run/containerd", "/etc/kubernetes/pki", SSH_KEYS]
        {
            assert!(is_risky(path, true), "{path} read-only");
        }
        for path in ["/etc/hosts", "/usr", "/usr/local/bin", "/proc/sys", "/opt", "/var/lib/kubelet"] {
            assert!(is_risky(path, false), "{path} writable");
        }
        for path in ["/etc/hosts", "/usr"] {
            assert!(!is_risky(path, true), "{path} read-only");
        }
        for path in
            ["/etcd-data", "/etcetera", "/var/log", "/var/lib/kubelet/plugins/x", "/run/other", "/data"]
        {
            assert!(!is_risky(path, false), "{path}");
        }
    }
}
