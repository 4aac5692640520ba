//! A node's health: its conditions, and the taints that follow from them. When a kubelet was last heard
//! of is not known here.

use serde_json::{Value, json};

use crate::Map;
use crate::fields::Members;
use crate::resources::core::nodes::NOT_READY;

/// The key of the taint of nodes whose kubelet is not heard of.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The key of the taint with which somebody says that a node is shut down, and its pods may be given up.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The key of the taint of nodes that `kubectl cordon` has closed.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// The conditions that nobody knows when the kubelet is silent, in the order in which they are added.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/// The taints that follow from conditions in this state.
const TAINTED: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// The state of a node's condition `Ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is ready.
    Ready,
    /// Its kubelet says that it is not.
    NotReady,
    /// Nobody knows.
    Unknown,
    /// There is no condition: its kubelet was never heard of.
    Unreported,
}

/// Returns whether a node is ready.
pub fn readiness(node: &Map) -> Readiness {
    match condition(node, "Ready").map(|condition| condition.text("status")) {
        Some("True") => Readiness::Ready,
        Some("False") => Readiness::NotReady,
        Some(_) => Readiness::Unknown,
        None => Readiness::Unreported,
    }
}

/// The time that the kubelet last wrote into the condition `Ready`, by its own clock; empty without one. Only its changes
/// mean something.
pub fn heartbeat(node: &Map) -> &str {
    condition(node, "Ready").map_or("", |condition| condition.text("lastHeartbeatTime"))
}

/// Region and zone of a node, which fail together.
pub fn zone(node: &Map) -> String {
    let labels = node.metadata().object("labels");
    format!("{}/{}", labels.text("topology.kubernetes.io/region"), labels.text("topology.kubernetes.io/zone"))
}

/// Returns whether somebody says that the node is shut down, which is believed unless it is ready.
pub fn is_out_of_service(node: &Map) -> bool {
    let is_said = node.object("spec").objects("taints").any(|taint| taint.text("key") == OUT_OF_SERVICE);
    is_said && readiness(node) != Readiness::Ready
}

/// The taints for which pods have to leave a node.
pub fn evicting_taints(node: &Map) -> impl Iterator<Item = &Map> {
    node.object("spec").objects("taints").filter(|taint| taint.text("effect") == NO_EXECUTE)
}

fn condition<'n>(node: &'n Map, kind: &str) -> Option<&'n Map> {
    node.object("status").objects("conditions").find(|condition| condition.text("type") == kind)
}

/// Notes that nothing is known of a node any more, because its kubelet is silent. `now` is a time as in objects.
pub fn mark_silent(node: &mut Map, now: &str) {
    let created = node.metadata().text("creationTimestamp").to_owned();
    let Some(status) = node.object_or_new("status") else { return };
    for kind in REPORTED {
        let found = status.objects_mut("conditions").find(|condition| condition.text("type") == kind);
        let Some(condition) = found else {
            let condition = json!({
                "type": kind,
                "status": "Unknown",
                "lastHeartbeatTime": created,
                "lastTransitionTime": now,
                "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
            });
            status.push_to("conditions", condition);
            continue;
        };
        if condition.text("status") == "Unknown" {
            continue;
        }
        for (member, value) in [
            ("status", "Unknown"),
            ("lastTransitionTime", now),
            ("reason", "NodeStatusUnknown"),
            ("message", "Kubelet stopped posting node status."),
        ] {
            condition.insert(member.to_owned(), value.into());
        }
    }
}

/// Sets the taints that keep new pods off a node, as its conditions say, and leaves those of others alone. `now` is a time
/// as in objects.
pub fn set_scheduling_taints(node: &mut Map, now: &str) {
    let mut wanted: Vec<&str> = Vec::new();
    for found in node.object("status").objects("conditions") {
        let (kind, state) = (found.text("type"), found.text("status"));
        let tainted = TAINTED.iter().find(|(of, when, _)| *of == kind && *when == state);
        wanted.extend(tainted.map(|(_, _, key)| *key));
    }
    if node.object("spec").is_true("unschedulable") {
        wanted.push(UNSCHEDULABLE);
    }
    let is_known = |key: &str| key == UNSCHEDULABLE || TAINTED.iter().any(|(_, _, known)| *known == key);
    set_taints(node, NO_SCHEDULE, &wanted, is_known, now);
}

/// Sets the taint for which pods have to leave a node that is not ready, to this key or none. `now` is a time as in
/// objects.
pub fn set_evicting_taint(node: &mut Map, key: Option<&'static str>, now: &str) {
    set_taints(node, NO_EXECUTE, key.as_slice(), |key| matches!(key, NOT_READY | UNREACHABLE), now);
}

/// Returns whether a node has the taint for which pods have to leave it, with this key.
pub fn has_evicting_taint(node: &Map, key: &str) -> bool {
    evicting_taints(node).any(|taint| taint.text("key") == key)
}

/// Of the taints with this effect that `is_known`, keeps those with the wanted keys, and adds those that are missing.
fn set_taints(node: &mut Map, effect: &str, wanted: &[&str], is_known: impl Fn(&str) -> bool, now: &str) {
    let Some(spec) = node.object_or_new("spec") else { return };
    if let Some(Value::Array(taints)) = spec.get_mut("taints") {
        taints.retain(|taint| {
            let text = |member: &str| taint.get(member).and_then(Value::as_str).unwrap_or_default();
            let key = text("key");
            text("effect") != effect || !is_known(key) || wanted.contains(&key)
        });
    }
    for key in wanted {
        let is_there = |taint: &Map| taint.text("key") == *key && taint.text("effect") == effect;
        if !spec.objects("taints").any(is_there) {
            spec.push_to("taints", json!({ "key": key, "effect": effect, "timeAdded": now }));
        }
    }
    if spec.list("taints").is_empty() {
        spec.remove("taints");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-22T06:54:14Z";

    fn node(json: Value) -> Map {
        match json {
            Value::Object(node) => node,
            other => panic!("{other}"),
        }
    }

    /// The node `lost` of a recorded session, before and after kube-controller-manager 1.36 wrote it.
    #[test]
    fn a_silent_node_gets_the_conditions_and_taints_that_kube_controller_manager_gives_it() {
        let mut lost = node(json!({
            "metadata": {"name": "lost", "creationTimestamp": "2026-11-22T06:53:52Z"},
            "spec": {},
            "status": {"conditions": [{
                "type": "Ready", "status": "True", "lastHeartbeatTime": null,
                "lastTransitionTime": "2026-11-22T06:53:52Z", "reason": "KubeletReady", "message": "",
            }]},
        }));
        mark_silent(&mut lost, NOW);
        set_scheduling_taints(&mut lost, NOW);
        set_evicting_taint(&mut lost, Some(UNREACHABLE), NOW);
        let never = |kind: &str| {
            json!({
                "type": kind, "status": "Unknown", "lastHeartbeatTime": "2026-11-22T06:53:52Z",
                "lastTransitionTime": NOW, "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
            })
        };
        let ready = json!({
            "type": "Ready", "status": "Unknown", "lastHeartbeatTime": null, "lastTransitionTime": NOW,
            "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status.",
        });
        let expected = [ready, never("MemoryPressure"), never("DiskPressure"), never("PIDPressure")];
        assert_eq!(lost["status"]["conditions"], Value::from(expected.to_vec()));
        let taint = |effect: &str| json!({"effect": effect, "key": UNREACHABLE, "timeAdded": NOW});
        assert_eq!(lost["spec"]["taints"], json!([taint("NoSchedule"), taint("NoExecute")]));
        let before = lost.clone();
        mark_silent(&mut lost, "2026-11-22T07:00:00Z");
        set_scheduling_taints(&mut lost, "2026-11-22T07:00:00Z");
        set_evicting_taint(&mut lost, Some(UNREACHABLE), "2026-11-22T07:00:00Z");
        assert_eq!(lost, before, "nothing is new");
    }

    #[test]
    fn taints_go_with_their_conditions_and_those_of_others_stay() {
        let own = json!({"key": "dedicated", "value": "x", "effect": "NoSchedule"});
        let other = json!({"key": NOT_READY, "effect": "PreferNoSchedule"});
        let mut tainted = node(json!({
            "spec": {"unschedulable": true, "taints": [own, {"key": NOT_READY, "effect": "NoSchedule"}, other]},
            "status": {"conditions": [
                {"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "True"},
                {"type": "MemoryPressure", "status": "False"}, {"type": "NetworkUnavailable", "status": "Unknown"},
            ]},
        }));
        set_scheduling_taints(&mut tainted, NOW);
        set_evicting_taint(&mut tainted, Some(NOT_READY), NOW);
        let keys = |node: &Map| -> Vec<String> {
            let taints = node.object("spec").objects("taints");
            taints.map(|taint| format!("{}:{}", taint.text("key"), taint.text("effect"))).collect()
        };
        let expected = [
            "dedicated:NoSchedule",
            "node.kubernetes.io/not-ready:NoSchedule",
            "node.kubernetes.io/not-ready:PreferNoSchedule",
            "node.kubernetes.io/disk-pressure:NoSchedule",
            "node.kubernetes.io/unschedulable:NoSchedule",
            "node.kubernetes.io/not-ready:NoExecute",
        ];
        assert_eq!(keys(&tainted), expected);
        tainted["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        tainted["spec"]["unschedulable"] = json!(false);
        set_scheduling_taints(&mut tainted, NOW);
        set_evicting_taint(&mut tainted, None, NOW);
        assert_eq!(tainted["spec"]["taints"], json!([own, other]));
    }
}
