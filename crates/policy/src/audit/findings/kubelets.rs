//! Findings about the settings of kubelets (PC103, PC104, PC135).

use std::collections::BTreeMap;

use super::finding::{Evidence, Instance};
use super::found::{All, Found};
use super::severity::Severity;
use super::standing::Standing;
use crate::audit::Subject;
use crate::audit::state::{KubeletSettings, Release};
use crate::identity::ANONYMOUS;
use crate::objects::rbac::PolicyRule;
use crate::rbac::matching::group_matches;
use crate::request::ResourceRequest;

/// The releases in which kubelets check finer subresources if the gate is on, by default, and in any case (PC135).
const FINE_GRAINED: [Release; 3] = [(1, 32), (1, 33), (1, 36)];
const FINE_GRAINED_GATE: &str = "KubeletFineGrainedAuthz";

/// What is known of the kubelets (AU-14).
#[derive(Clone, Debug, Default)]
pub struct Kubelets {
    /// The settings of each node that has its own.
    pub nodes: BTreeMap<String, KubeletSettings>,
    /// Those in ConfigMaps of `kube-system`, by name: they speak for the other nodes.
    pub config_maps: BTreeMap<String, KubeletSettings>,
}

impl Kubelets {
    /// The settings of a node: its own, else those of the ConfigMap.
    pub(super) fn of(&self, node: &str) -> Option<&KubeletSettings> {
        self.nodes.get(node).or_else(|| self.of_config_map())
    }

    /// The settings of the ConfigMap; the last by name of several.
    pub(super) fn of_config_map(&self) -> Option<&KubeletSettings> {
        self.config_maps.get("kubelet-config").or_else(|| self.config_maps.values().next_back())
    }
}

pub(super) fn find(standing: &Standing<'_>, kubelets: &Kubelets, all: &mut All) {
    let anonymous = if anonymous_reaches_kubelets(standing) { Severity::Critical } else { Severity::Medium };
    let of_nodes = kubelets
        .nodes
        .iter()
        .map(|(node, settings)| (format!("node/{node}"), Instance::Node(node.clone()), settings));
    let of_config_maps = kubelets
        .config_maps
        .iter()
        .map(|(name, settings)| (format!("configmap/kube-system/{name}"), Instance::Cluster, settings));
    for (subject, instance, settings) in of_nodes.chain(of_config_maps) {
        let mut found = |id, severity, pointer: &str, value: String| {
            let evidence = Evidence::field(subject.clone(), pointer, value);
            all.add(Found::of_object(id, severity, subject.clone(), instance.clone(), evidence));
        };
        if settings.always_allow {
            found("PC103", Severity::Critical, "/authorization/mode", "AlwaysAllow".to_owned());
        }
        if settings.anonymous {
            let severity = if settings.always_allow { Severity::Critical } else { anonymous };
            found("PC103", severity, "/authentication/anonymous/enabled", "true".to_owned());
        }
        if settings.read_only_port != 0 {
            found("PC104", Severity::Medium, "/readOnlyPort", settings.read_only_port.to_string());
        }
    }
    find_old(standing, kubelets, all);
}

/// PC135
fn find_old(standing: &Standing<'_>, kubelets: &Kubelets, all: &mut All) {
    for (node, facts) in &standing.state.facts().nodes {
        let Some(release) = facts.kubelet else { continue };
        let gate = kubelets.of(node).and_then(|settings| settings.gate(FINE_GRAINED_GATE));
        let [known, on, fixed] = FINE_GRAINED;
        let is_coarse = match gate {
            Some(true) => release < known,
            Some(false) => release < fixed,
            None => release < on,
        };
        if is_coarse {
            let subject = format!("node/{node}");
            let version = format!("v{}.{}", release.0, release.1);
            let evidence = Evidence::field(subject.clone(), "/status/nodeInfo/kubeletVersion", version);
            all.add(Found::of_object(
                "PC135",
                Severity::Info,
                subject,
                Instance::Node(node.clone()),
                evidence,
            ));
        }
    }
}

/// Whether RBAC gives anonymous callers anything at kubelets.
fn anonymous_reaches_kubelets(standing: &Standing<'_>) -> bool {
    let anonymous = Subject::of_user(ANONYMOUS).identity();
    let rbac = &standing.state.facts().rbac;
    let core = ResourceRequest::default();
    let reaches = |rule: &PolicyRule| {
        let entries = rule
            .resources
            .iter()
            .any(|entry| entry == "*" || entry.starts_with("nodes/") || entry.starts_with("*/"));
        group_matches(rule, &core) && entries && !rule.verbs.is_empty()
    };
    rbac.cluster_role_bindings().any(|binding| {
        Subject::all_of(binding).any(|subject| subject.means(&anonymous.name, &anonymous.groups))
            && rbac.role_of(binding).is_some_and(|role| standing.in_force.rules(role).any(reaches))
    })
}
