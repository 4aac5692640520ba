//! Words that several parts of the page use.

use portcullis_policy::audit::findings::Severity;
use portcullis_policy::audit::reach::{ClusterAdmin, VertexType};

use super::escape::{name, text};

/// The kinds of objects as people read them, by the word in subjects (AU-30).
const KINDS: [(&str, &str); 22] = [
    ("node", "Node"),
    ("pod", "Pod"),
    ("serviceaccount", "ServiceAccount"),
    ("user", "User"),
    ("group", "Group"),
    ("admin", "Cluster admin"),
    ("secret", "Secret"),
    ("configmap", "ConfigMap"),
    ("persistentvolumeclaim", "PersistentVolumeClaim"),
    ("persistentvolume", "PersistentVolume"),
    ("resourceclaim", "ResourceClaim"),
    ("clusterrole", "ClusterRole"),
    ("clusterrolebinding", "ClusterRoleBinding"),
    ("role", "Role"),
    ("rolebinding", "RoleBinding"),
    ("deployment", "Deployment"),
    ("daemonset", "DaemonSet"),
    ("statefulset", "StatefulSet"),
    ("replicaset", "ReplicaSet"),
    ("job", "Job"),
    ("cronjob", "CronJob"),
    ("certificatesigningrequest", "CertificateSigningRequest"),
];

/// What is at the end of a path to admin.
pub(super) const EVERYTHING: &str = "everything";

/// The kind of an object by its word.
pub(super) fn kind(word: &str) -> &str {
    KINDS.iter().find(|(known, _)| *known == word).map_or(word, |(_, kind)| kind)
}

/// The kind of a vertex.
pub(super) fn kind_of(vertex: VertexType) -> &'static str {
    kind(vertex.as_str())
}

/// The kind and the name of an object `TYPE/NAMESPACE/NAME`.
pub(super) fn object(subject: &str) -> (&str, &str) {
    match subject.split_once('/') {
        Some((word, name)) => (kind(word), name),
        None if subject == "admin" => (kind(subject), EVERYTHING),
        None => ("", subject),
    }
}

/// An object, with its kind.
pub(super) fn object_html(subject: &str) -> String {
    let (kind, of) = object(subject);
    format!("<span class=k>{}</span> {}", text(kind), name(of))
}

/// A severity.
pub(super) fn severity(severity: Severity) -> String {
    let word = severity.as_str();
    let title = match severity {
        Severity::Critical => "Critical",
        Severity::High => "High",
        Severity::Medium => "Medium",
        Severity::Low => "Low",
        Severity::Info => "Info",
    };
    format!("<b class=\"sev {word}\">{title}</b>")
}

/// Whether something leads to admin, as a word.
pub(super) fn admin_word(admin: ClusterAdmin) -> &'static str {
    match admin {
        ClusterAdmin::Yes => "Yes",
        ClusterAdmin::Conditional => "Conditional",
        ClusterAdmin::No => "No",
    }
}

/// The same as a mark.
pub(super) fn admin(admin: ClusterAdmin) -> String {
    format!("<b class=\"adm {}\">{}</b>", admin.as_str(), admin_word(admin))
}
