//! What a pod may do on its node: how its code can leave its containers (AU-63), and which directories of the node it writes.

use super::views::{ContainerView, Mount, SpecView};

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

/// A setting of a pod with which its code can leave its container, or watch the processes of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Risk {
    /// Where it is, below the pod's `spec`.
    pub pointer: String,
    /// What it is.
    pub kind: RiskKind,
}

/// The kinds of risks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RiskKind {
    /// A privileged container.
    Privileged,
    /// An added capability, as the container names it.
    Capability(String),
    /// A mounted path of the node.
    HostPath {
        /// The path, cleaned.
        path: String,
        /// Whether the mount is read-only.
        is_read_only: bool,
    },
    /// The processes of the node: no way out by itself.
    HostPid,
}

impl Risk {
    /// Whether code can leave its container by this alone.
    pub fn is_way_out(&self) -> bool {
        self.kind != RiskKind::HostPid
    }

    /// Whether a read-only mount would be enough to end it.
    pub fn ends_when_read_only(&self) -> bool {
        matches!(&self.kind, RiskKind::HostPath { path, is_read_only: false } if !is_risky(path, true))
    }
}

impl std::fmt::Display for Risk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            RiskKind::Privileged => f.write_str("privileged"),
            RiskKind::Capability(name) => write!(f, "capability {name}"),
            RiskKind::HostPath { path, is_read_only } => {
                let how = if *is_read_only { "read-only" } else { "writable" };
                write!(f, "hostPath {path} ({how})")
            }
            RiskKind::HostPid => f.write_str("hostPID"),
        }
    }
}

/// A path of the node that a container mounts writable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritablePath {
    /// Where the mount is, below the pod's `spec`.
    pub pointer: String,
    /// The path, cleaned.
    pub path: String,
}

impl WritablePath {
    /// Whether it is a directory, lies below it, or above it.
    pub fn is_near(&self, directory: &str) -> bool {
        is_below(&self.path, directory) || is_below(directory, &self.path)
    }
}

/// The risks of a pod, and the paths of the node that it writes.
pub(super) fn of_spec(spec: &SpecView<'_>) -> (Vec<Risk>, Vec<WritablePath>) {
    let (mut risks, mut writable) = (Vec::new(), Vec::new());
    if spec.host_pid {
        risks.push(Risk { pointer: "/hostPID".to_owned(), kind: RiskKind::HostPid });
    }
    let lists = [
        ("initContainers", &spec.init_containers),
        ("containers", &spec.containers),
        ("ephemeralContainers", &spec.ephemeral_containers),
    ];
    for (list, containers) in lists {
        for (number, container) in containers.iter().enumerate() {
            let at = || format!("/{list}/{number}");
            of_container(container, spec, &at, &mut risks);
            for (place, mount) in container.volume_mounts.iter().enumerate() {
                let Some(path) = mounted(mount, spec) else { continue };
                let pointer = format!("{}/volumeMounts/{place}", at());
                if is_risky(&path, mount.read_only) {
                    let kind = RiskKind::HostPath { path: path.clone(), is_read_only: mount.read_only };
                    risks.push(Risk { pointer: pointer.clone(), kind });
                }
                if !mount.read_only {
                    writable.push(WritablePath { pointer, path });
                }
            }
        }
    }
    (risks, writable)
}

fn of_container(
    container: &ContainerView<'_>,
    spec: &SpecView<'_>,
    at: &dyn Fn() -> String,
    risks: &mut Vec<Risk>,
) {
    let context = &container.security_context;
    if context.privileged {
        let pointer = format!("{}/securityContext/privileged", at());
        risks.push(Risk { pointer, kind: RiskKind::Privileged });
    }
    for (place, added) in context.capabilities.add.iter().enumerate() {
        let name = added.strip_prefix("CAP_").unwrap_or(added);
        if CAPABILITIES.contains(&name) || (spec.host_pid && name == "SYS_PTRACE") {
            let pointer = format!("{}/securityContext/capabilities/add/{place}", at());
            risks.push(Risk { pointer, kind: RiskKind::Capability(added.to_string()) });
        }
    }
}

/// The path of the node that a mount shows; none if it is no hostPath.
fn mounted(mount: &Mount<'_>, spec: &SpecView<'_>) -> Option<String> {
    let volume = spec.volumes.iter().find(|volume| *volume.name == *mount.name)?;
    cleaned(&volume.host_path.as_ref()?.path, &mount.sub_path)
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
