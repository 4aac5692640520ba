//! What the audit knows of a pod or of a pod template.

use super::risk::{self, Risk, WritablePath};
use super::views::{NodeSelectorTerm, PodView, SpecView, Toleration};
use crate::objects::meta::{Metadata, OwnerReference};
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
    /// The kind and name of its controller, or empty: without one it is not created again when it is evicted.
    pub controller: Owner,
    /// The secrets that it names, sorted.
    pub secrets: Vec<String>,
    /// Whether it uses a persistent volume claim.
    pub has_claim: bool,
    /// What it may do on its node.
    pub access: Access,
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
    /// Its controller, or empty: the Deployment of a ReplicaSet, the CronJob of a Job.
    pub controller: Owner,
    /// What the pods may do on their node.
    pub access: Access,
    /// Whether every node may label itself so that the pods come to it: there are required labels, and a kubelet may set all of
    /// them (NR-46).
    pub follows_node_labels: bool,
    /// The taints that the pods tolerate.
    pub tolerations: Tolerations,
}

/// The controller of an object; empty without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The kind, as Kubernetes spells it.
    pub kind: String,
    /// The name.
    pub name: String,
}

/// What a pod may do on its node, and how it gets there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// What lets its code leave its containers, or watch the node, by container.
    pub risks: Vec<Risk>,
    /// The paths of the node that it writes.
    pub writable: Vec<WritablePath>,
    /// The key of a label that places it on a node and that a kubelet may give to any node, without one beside it that kubelets
    /// may not give (PC124).
    pub placed_by: Option<String>,
}

impl Access {
    fn of(spec: &SpecView<'_>) -> Self {
        let (risks, writable) = risk::of_spec(spec);
        Self { risks, writable, placed_by: placed_by(spec) }
    }

    /// How code in the containers can leave them, the first way by container (AU-63).
    pub fn way_out(&self) -> Option<&Risk> {
        self.risks.iter().find(|risk| risk.is_way_out())
    }
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

impl PodFacts {
    pub(super) fn of(pod: &Pod<'_>, view: &PodView<'_>) -> Self {
        let mut has_claim = false;
        pod.each_claim(|_| has_claim = true);
        Self {
            namespace: pod.metadata.namespace.to_string(),
            name: pod.metadata.name.to_string(),
            node: pod.spec.node_name.to_string(),
            account: pod.service_account().to_owned(),
            is_mirror: pod.is_mirror(),
            controller: Owner::of(&pod.metadata),
            // Of a mirror pod nothing but its node counts (MP-25).
            secrets: if pod.is_mirror() { Vec::new() } else { secrets(pod) },
            has_claim,
            access: Access::of(&view.spec),
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

impl Owner {
    pub(super) fn of(metadata: &Metadata<'_>) -> Self {
        let mut controllers = metadata.owner_references.iter().filter(|owner| owner.controller == Some(true));
        let of =
            |owner: &OwnerReference<'_>| Self { kind: owner.kind.to_string(), name: owner.name.to_string() };
        controllers.next().map(of).unwrap_or_default()
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.kind.is_empty()
    }
}

impl Template {
    pub(super) fn new(
        (kind, namespace, name): (&'static str, &str, &str),
        is_idle: bool,
        controller: Owner,
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
            controller,
            access: Access::of(&view.spec),
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

/// The keys of each alternative of the required placement: of the nodeSelector and one term. A term by the name of the node cannot
/// be met by labels, and an empty term matches no node.
fn alternatives<'s>(spec: &'s SpecView<'_>) -> Vec<Vec<&'s str>> {
    let selector: Vec<&str> = spec.node_selector.0.iter().map(|(key, _)| &**key).collect();
    let Some(required) = &spec.affinity.node_affinity.required else { return vec![selector] };
    let by_labels =
        |term: &&NodeSelectorTerm<'_>| term.match_fields.is_empty() && !term.match_expressions.is_empty();
    let keys = |term: &'s NodeSelectorTerm<'_>| {
        selector.iter().copied().chain(term.match_expressions.iter().map(|r| &*r.key)).collect()
    };
    required.node_selector_terms.iter().filter(by_labels).map(keys).collect()
}

/// Whether in some alternative of the required placement there are keys, and a kubelet may set all of them (E25).
fn follows_node_labels(spec: &SpecView<'_>) -> bool {
    alternatives(spec).iter().any(|keys| !keys.is_empty() && keys.iter().all(|key| labels::may_change(key)))
}

/// The first key, by bytes, that a kubelet may choose freely, in an alternative where it may set every key (PC124).
fn placed_by(spec: &SpecView<'_>) -> Option<String> {
    let alternatives = alternatives(spec);
    let open = alternatives.iter().filter(|keys| keys.iter().all(|key| labels::may_change(key)));
    let chosen = open.flatten().filter(|key| !labels::is_reported(key)).min();
    chosen.map(|key| (*key).to_owned())
}
