//! The checks of the level `baseline`: known ways to more privileges.

use std::collections::BTreeSet;

use portcullis_apimachinery::quote::Quoted;

use super::fields::{Setters, counted, listed, note, quoted_set};
use super::violation::Violation;
use crate::Map;
use crate::fields::Members;
use crate::pod_security::pod::Pod;

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// The capabilities that container runtimes give anyway.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The sysctls that concern the pod alone, with the minor version since which they are allowed.
const SYSCTLS: [(u32, &str); 12] = [
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
];

/// The types of profiles of AppArmor and seccomp that confine a container.
const FILTERING: [&str; 2] = ["RuntimeDefault", "Localhost"];

/// The types of SELinux that confine a container.
const SE_LINUX: [&str; 4] = ["", "container_t", "container_init_t", "container_kvm_t"];

/// No AppArmor profile is switched off, by a field or by an annotation of older clusters.
pub(super) fn app_armor(pod: Pod<'_>) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let setters = Setters::contexts(pod, |context| {
        let Some(profile) = context.object_if_set("appArmorProfile") else { return false };
        let kind = Some(profile.text("type"));
        note(&mut types, kind.filter(|kind| !FILTERING.contains(kind)))
    });
    let mut details = Vec::new();
    if !setters.is_empty() {
        details.push(format!(
            "{} must not set AppArmor profile type to {}",
            setters.named(),
            quoted_set(&types)
        ));
    }
    let is_allowed =
        |value: &str| matches!(value, "" | "runtime/default") || value.strip_prefix("localhost/").is_some();
    let wrong = annotations(pod).filter(|(name, value)| name.starts_with(APP_ARMOR) && !is_allowed(value));
    details.extend(annotated(wrong.collect()));
    let reason =
        if details.len() == 1 { "forbidden AppArmor profile" } else { "forbidden AppArmor profiles" };
    (!details.is_empty()).then(|| Violation { reason, detail: details.join(", ") })
}

/// No capability is added beyond those of container runtimes.
pub(super) fn capabilities(pod: Pod<'_>) -> Option<Violation> {
    let mut added = BTreeSet::new();
    let setters = Setters::containers(pod, |container| {
        let all = container.object("securityContext").object("capabilities").texts("add");
        note(&mut added, all.filter(|capability| !CAPABILITIES.contains(capability)))
    });
    let rest = || format!("must not include {} in securityContext.capabilities.add", quoted_set(&added));
    setters.violation("non-default capabilities", rest)
}

/// The namespaces of the host are not shared.
pub(super) fn host_namespaces(pod: Pod<'_>) -> Option<Violation> {
    let shared = ["hostIPC", "hostNetwork", "hostPID"].into_iter().filter(|name| pod.spec.is_true(name));
    let detail = shared.map(|name| format!("{name}=true")).collect::<Vec<_>>().join(", ");
    (!detail.is_empty()).then_some(Violation { reason: "host namespaces", detail })
}

/// No directory of the host is mounted.
pub(super) fn host_path(pod: Pod<'_>) -> Option<Violation> {
    let volumes = pod.spec.objects("volumes").filter(|volume| volume.has("hostPath"));
    let names: Vec<&str> = volumes.map(|volume| volume.text("name")).collect();
    let detail = || counted("volume", &names);
    (!names.is_empty()).then(|| Violation { reason: "hostPath volumes", detail: detail() })
}

/// No port of the host is used.
pub(super) fn host_ports(pod: Pod<'_>) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let setters = Setters::containers(pod, |container| {
        let all = container.objects("ports").map(|port| port.number("hostPort"));
        note(&mut ports, all.filter(|port| *port != 0))
    });
    let rest = || {
        let verb = if setters.containers.len() == 1 { "uses" } else { "use" };
        let s = if ports.len() == 1 { "" } else { "s" };
        format!("{verb} hostPort{s} {}", listed(ports.iter().map(ToString::to_string)))
    };
    setters.violation("hostPort", rest)
}

/// Probes and lifecycle handlers ask the pod itself: the kubelet, which makes the connection, is in the network of the
/// host.
pub(super) fn probed_hosts(pod: Pod<'_>) -> Option<Violation> {
    let mut hosts = BTreeSet::new();
    let setters = Setters::containers(pod, |container| {
        let lifecycle = container.object("lifecycle");
        let handlers =
            ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| container.object(probe));
        let handlers =
            handlers.into_iter().chain(["postStart", "preStop"].map(|hook| lifecycle.object(hook)));
        let all =
            handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|way| handler.object(way).text("host")));
        note(&mut hosts, all.filter(|host| !host.is_empty()))
    });
    let rest = || {
        let verb = if setters.containers.len() == 1 { "uses" } else { "use" };
        let s = if hosts.len() == 1 { "" } else { "s" };
        format!("{verb} probe or lifecycle host{s} {}", quoted_set(&hosts))
    };
    setters.violation("probe or lifecycle host", rest)
}

/// No container is privileged.
pub(super) fn privileged(pod: Pod<'_>) -> Option<Violation> {
    let is_wrong = |container: &&Map| container.object("securityContext").is_true("privileged");
    let rest = || "must not set securityContext.privileged=true".to_owned();
    Setters::containers(pod, is_wrong).violation("privileged", rest)
}

/// `/proc` is masked as usual.
pub(super) fn proc_mount(pod: Pod<'_>) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let setters = Setters::containers(pod, |container| {
        let context = container.object("securityContext");
        let kind = context.has("procMount").then(|| context.text("procMount"));
        note(&mut types, kind.filter(|kind| *kind != "Default"))
    });
    setters.violation("procMount", || {
        format!("must not set securityContext.procMount to {}", quoted_set(&types))
    })
}

/// As `proc_mount`, unless the pod has users of its own.
pub(super) fn proc_mount_of_host_users(pod: Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { proc_mount(pod) }
}

/// SELinux confines the containers.
pub(super) fn se_linux(pod: Pod<'_>) -> Option<Violation> {
    se_linux_types(pod, &[])
}

/// As `se_linux`, with the type for container engines.
pub(super) fn se_linux_1_31(pod: Pod<'_>) -> Option<Violation> {
    se_linux_types(pod, &["container_engine_t"])
}

fn se_linux_types(pod: Pod<'_>, further: &[&str]) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let (mut has_user, mut has_role) = (false, false);
    let setters = Setters::contexts(pod, |context| {
        let options = context.object("seLinuxOptions");
        let (kind, user, role) = (options.text("type"), options.text("user"), options.text("role"));
        let is_wrong = |kind: &&str| !SE_LINUX.contains(kind) && !further.contains(kind);
        let is_wrong_type = note(&mut types, Some(kind).filter(is_wrong));
        has_user |= !user.is_empty();
        has_role |= !role.is_empty();
        is_wrong_type || !user.is_empty() || !role.is_empty()
    });
    let rest = || {
        let mut parts = Vec::new();
        if !types.is_empty() {
            parts.push(counted("type", &types));
        }
        parts.extend(has_user.then(|| "user may not be set".to_owned()));
        parts.extend(has_role.then(|| "role may not be set".to_owned()));
        format!("set forbidden securityContext.seLinuxOptions: {}", parts.join("; "))
    };
    setters.violation("seLinuxOptions", rest)
}

/// No seccomp profile is switched off by an annotation, as clusters before 1.19 read it.
pub(super) fn seccomp_annotations(pod: Pod<'_>) -> Option<Violation> {
    let is_allowed = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let names: BTreeSet<&str> = pod.containers().map(|container| container.text("name")).collect();
    let is_one = |name: &str| {
        name == SECCOMP_POD || name.strip_prefix(SECCOMP_CONTAINER).is_some_and(|name| names.contains(name))
    };
    let wrong: Vec<_> = annotations(pod).filter(|(name, value)| is_one(name) && !is_allowed(value)).collect();
    let s = if wrong.len() == 1 { "" } else { "s" };
    let detail = annotated(wrong)?;
    Some(Violation { reason: "seccompProfile", detail: format!("forbidden annotation{s} {detail}") })
}

/// No seccomp profile is switched off.
pub(super) fn seccomp(pod: Pod<'_>) -> Option<Violation> {
    let (setters, types) = wrong_seccomp(pod);
    setters.violation("seccompProfile", || {
        format!("must not set securityContext.seccompProfile.type to {}", quoted_set(&types))
    })
}

/// The pod and containers that set a seccomp profile which does not filter system calls.
pub(super) fn wrong_seccomp(pod: Pod<'_>) -> (Setters<'_>, BTreeSet<&str>) {
    let mut types = BTreeSet::new();
    let setters = Setters::contexts(pod, |context| {
        let Some(profile) = context.object_if_set("seccompProfile") else { return false };
        let kind = Some(profile.text("type"));
        note(&mut types, kind.filter(|kind| !FILTERING.contains(kind)))
    });
    (setters, types)
}

pub(super) fn sysctls(pod: Pod<'_>) -> Option<Violation> {
    sysctls_of(pod, 0)
}

pub(super) fn sysctls_1_27(pod: Pod<'_>) -> Option<Violation> {
    sysctls_of(pod, 27)
}

pub(super) fn sysctls_1_29(pod: Pod<'_>) -> Option<Violation> {
    sysctls_of(pod, 29)
}

pub(super) fn sysctls_1_32(pod: Pod<'_>) -> Option<Violation> {
    sysctls_of(pod, 32)
}

/// Only sysctls are set that concern the pod alone.
fn sysctls_of(pod: Pod<'_>, minor: u32) -> Option<Violation> {
    let is_allowed = |name: &str| SYSCTLS.iter().any(|(since, allowed)| *since <= minor && *allowed == name);
    let set = pod.security().objects("sysctls").map(|sysctl| sysctl.text("name"));
    let wrong: Vec<&str> = set.filter(|name| !is_allowed(name)).collect();
    let detail = || listed(wrong.iter().map(|name| (*name).to_owned()));
    (!wrong.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: detail() })
}

/// No container runs as a process of a Windows host.
pub(super) fn host_process(pod: Pod<'_>) -> Option<Violation> {
    let is_wrong = |context: &Map| context.object("windowsOptions").is_true("hostProcess");
    let rest = || "must not set securityContext.windowsOptions.hostProcess=true".to_owned();
    Setters::contexts(pod, is_wrong).violation("hostProcess", rest)
}

fn annotations<'a>(pod: Pod<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
    pod.annotations.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
}

/// `name="value"` of annotations, in order; nothing if there are none.
fn annotated(mut annotations: Vec<(&str, &str)>) -> Option<String> {
    annotations.sort_unstable();
    let shown = annotations.iter().map(|(name, value)| format!("{name}={}", Quoted(value)));
    (!annotations.is_empty()).then(|| listed(shown))
}
