//! The checks of the level `restricted`: good practice for pods that need nothing special.

use std::collections::BTreeSet;

use super::baseline::wrong_seccomp;
use super::fields::{Setters, counted, note, quoted_list, quoted_set};
use super::violation::Violation;
use crate::Map;
use crate::fields::Members;
use crate::pod_security::pod::Pod;

/// The types of volumes that hold nothing of the host.
const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// No process gets more privileges than its parent.
pub(super) fn escalation(pod: Pod<'_>) -> Option<Violation> {
    let is_wrong = |container: &&Map| {
        container.object("securityContext").flag("allowPrivilegeEscalation") != Some(false)
    };
    let rest = || "must set securityContext.allowPrivilegeEscalation=false".to_owned();
    Setters::containers(pod, is_wrong).violation("allowPrivilegeEscalation != false", rest)
}

pub(super) fn escalation_on_linux(pod: Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { escalation(pod) }
}

/// All capabilities are dropped; only the one for low ports may be added.
pub(super) fn capabilities(pod: Pod<'_>) -> Option<Violation> {
    let mut added = BTreeSet::new();
    let keeping = Setters::containers(pod, |container| {
        let of = container.object("securityContext").object("capabilities");
        of.texts("drop").all(|capability| capability != "ALL")
    });
    let adding = Setters::containers(pod, |container| {
        let of = container.object("securityContext").object("capabilities");
        note(&mut added, of.texts("add").filter(|capability| *capability != "NET_BIND_SERVICE"))
    });
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!(r#"{} must set securityContext.capabilities.drop=["ALL"]"#, keeping.named()));
    }
    if !adding.is_empty() {
        let (named, added) = (adding.named(), quoted_set(&added));
        details.push(format!("{named} must not include {added} in securityContext.capabilities.add"));
    }
    let detail = details.join("; ");
    (!detail.is_empty()).then_some(Violation { reason: "unrestricted capabilities", detail })
}

pub(super) fn capabilities_on_linux(pod: Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { capabilities(pod) }
}

/// Volumes hold nothing of the host, and come through claims where they come from elsewhere.
pub(super) fn volumes(pod: Pod<'_>) -> Option<Violation> {
    let is_wrong = |volume: &&Map| !VOLUMES.iter().any(|kind| volume.has(kind));
    let wrong = pod.spec.objects("volumes").filter(is_wrong);
    let names: Vec<&str> = wrong.clone().map(|volume| volume.text("name")).collect();
    if names.is_empty() {
        return None;
    }
    let members =
        wrong.flat_map(|volume| volume.keys().map(String::as_str).filter(|member| *member != "name"));
    let types: BTreeSet<&str> = members.collect();
    let (verb, s) = if names.len() == 1 { ("uses", "") } else { ("use", "s") };
    let detail =
        format!("{} {verb} restricted volume type{s} {}", counted("volume", &names), quoted_set(&types));
    Some(Violation { reason: "restricted volume types", detail })
}

/// No container runs as root.
pub(super) fn non_root(pod: Pod<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let wrong = Setters::contexts(pod, |context| context.flag("runAsNonRoot") == Some(false));
    let rest = || "must not set securityContext.runAsNonRoot=false".to_owned();
    wrong.violation(REASON, rest).or_else(|| {
        let is_set = pod.security().is_true("runAsNonRoot");
        let without = |container: &&Map| container.object("securityContext").flag("runAsNonRoot").is_none();
        unset(REASON, is_set, &Setters::containers(pod, without), "securityContext.runAsNonRoot=true")
    })
}

pub(super) fn non_root_of_host_users(pod: Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { non_root(pod) }
}

/// No container asks for the user root.
pub(super) fn user(pod: Pod<'_>) -> Option<Violation> {
    let wrong = Setters::contexts(pod, |context| context.number_if_set("runAsUser") == Some(0));
    wrong.violation("runAsUser=0", || "must not set runAsUser=0".to_owned())
}

pub(super) fn user_of_host_users(pod: Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { user(pod) }
}

/// A seccomp profile filters the system calls of every container.
pub(super) fn seccomp(pod: Pod<'_>) -> Option<Violation> {
    const REASON: &str = "seccompProfile";
    let (wrong, types) = wrong_seccomp(pod);
    let rest = || format!("must not set securityContext.seccompProfile.type to {}", quoted_set(&types));
    wrong.violation(REASON, rest).or_else(|| {
        let is_set = pod.security().has("seccompProfile");
        let without = |container: &&Map| !container.object("securityContext").has("seccompProfile");
        let types = quoted_list(["RuntimeDefault", "Localhost"]).replace(", ", " or ");
        let field = format!("securityContext.seccompProfile.type to {types}");
        unset(REASON, is_set, &Setters::containers(pod, without), &field)
    })
}

pub(super) fn seccomp_on_linux(pod: Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { seccomp(pod) }
}

/// The violation of containers that do not set a field which the pod does not set for them.
fn unset(reason: &'static str, is_set: bool, without: &Setters<'_>, field: &str) -> Option<Violation> {
    let detail = || format!("pod or {} must set {field}", without.named());
    (!is_set && !without.is_empty()).then(|| Violation { reason, detail: detail() })
}
