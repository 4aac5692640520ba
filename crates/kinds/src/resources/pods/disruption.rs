//! Pods that have to leave their node, or whose node is lost.

use portcullis_apimachinery::time::Instant;

use crate::Map;
use crate::fields::Members;
use crate::resources::pods::status;

/// How long a pod may stay on a node with taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stay {
    /// It leaves at once, because it does not tolerate a taint.
    No,
    /// So many seconds, at least one.
    Seconds(i64),
    /// It tolerates the taints.
    Forever,
}

/// Returns how long a pod may stay on a node with these taints.
pub fn stay<'t>(pod: &Map, taints: impl IntoIterator<Item = &'t Map>) -> Stay {
    let tolerations = pod.object("spec").objects("tolerations");
    let stays = taints.into_iter().map(|taint| {
        let Some(toleration) = tolerations.clone().find(|toleration| tolerates(toleration, taint)) else {
            return Stay::No;
        };
        match toleration.number_if_set("tolerationSeconds") {
            None => Stay::Forever,
            Some(..=0) => Stay::No,
            Some(seconds) => Stay::Seconds(seconds),
        }
    });
    stays.min().unwrap_or(Stay::Forever)
}

/// The operators that compare numbers are not enabled, and tolerate nothing.
fn tolerates(toleration: &Map, taint: &Map) -> bool {
    let is_any_or_same = |member: &str| {
        let wanted = toleration.text(member);
        wanted.is_empty() || wanted == taint.text(member)
    };
    let is_tolerated = match toleration.text("operator") {
        "" | "Equal" => toleration.text("value") == taint.text("value"),
        operator => operator == "Exists",
    };
    is_tolerated && is_any_or_same("effect") && is_any_or_same("key")
}

/// Notes in the status why a pod is about to be deleted. `now` is in seconds since 1970.
pub fn mark_disrupted(pod: &mut Map, reason: &str, message: &str, now: i64) {
    let mut condition = Map::new();
    condition.insert("type".to_owned(), "DisruptionTarget".into());
    condition.insert("status".to_owned(), "True".into());
    condition.insert("reason".to_owned(), reason.into());
    condition.insert("message".to_owned(), message.into());
    status::set_condition(pod, condition, &Instant::of_seconds(now).to_string());
}

/// Notes that a pod has failed, which its kubelet no longer does.
pub fn mark_failed(pod: &mut Map) {
    let generation = pod.metadata().number("generation");
    let Some(status) = pod.object_or_new("status") else { return };
    status.insert("phase".to_owned(), "Failed".into());
    if generation > 0 {
        status.insert("observedGeneration".to_owned(), generation.into());
    }
}

/// Notes that a pod is not ready, because its node is not. Returns false if it was not ready before. `now` is in seconds
/// since 1970.
pub fn mark_unready(pod: &mut Map, now: i64) -> bool {
    let ready =
        pod.object("status").objects("conditions").find(|condition| condition.text("type") == "Ready");
    let Some(mut ready) = ready.filter(|ready| ready.text("status") == "True").cloned() else { return false };
    ready.insert("status".to_owned(), "False".into());
    status::set_condition(pod, ready, &Instant::of_seconds(now).to_string());
    true
}

/// Returns whether the containers of a pod have ended for good.
pub fn has_ended(pod: &Map) -> bool {
    status::is_finished(pod)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn map(json: Value) -> Map {
        json.as_object().unwrap().clone()
    }

    #[test]
    fn the_taint_that_is_tolerated_least_decides() {
        let stays = |tolerations: Value, taints: &[Value]| {
            let taints: Vec<Map> = taints.iter().cloned().map(map).collect();
            stay(&map(json!({"spec": {"tolerations": tolerations}})), &taints)
        };
        let taint = |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoExecute"});
        assert_eq!(stays(json!(null), &[]), Stay::Forever);
        assert_eq!(stays(json!(null), &[taint("a", "")]), Stay::No);
        assert_eq!(stays(json!([{"operator": "Exists"}]), &[taint("a", "x"), taint("b", "")]), Stay::Forever);
        let some = json!([
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "b", "value": "x", "tolerationSeconds": 20},
            {"key": "c", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "d", "operator": "Exists", "tolerationSeconds": -5},
            {"key": "e", "operator": "Gt", "value": "1"},
        ]);
        assert_eq!(stays(some.clone(), &[taint("a", "y")]), Stay::Seconds(300));
        assert_eq!(stays(some.clone(), &[taint("a", "y"), taint("b", "x")]), Stay::Seconds(20));
        for refused in [taint("b", "y"), taint("c", ""), taint("d", ""), taint("e", "2"), taint("f", "")] {
            assert_eq!(stays(some.clone(), &[taint("a", ""), refused.clone()]), Stay::No, "{refused}");
        }
    }

    /// The pod `nowhere` of a recorded session, as kube-controller-manager 1.36 changed it.
    #[test]
    fn a_pod_of_a_lost_node_fails_with_the_condition_of_kubernetes() {
        let mut pod = map(json!({"metadata": {"generation": 1}, "status": {"phase": "Pending"}}));
        mark_failed(&mut pod);
        mark_disrupted(&mut pod, "DeletionByPodGC", "PodGC: node no longer exists", 1_795_330_484);
        let condition = json!({
            "lastProbeTime": null, "lastTransitionTime": "2026-11-22T06:54:44Z",
            "message": "PodGC: node no longer exists", "observedGeneration": 1, "reason": "DeletionByPodGC",
            "status": "True", "type": "DisruptionTarget",
        });
        let expected = json!({"phase": "Failed", "observedGeneration": 1, "conditions": [condition]});
        assert_eq!(pod["status"], expected);
    }

    #[test]
    fn only_a_ready_pod_becomes_unready() {
        let of = |status: &str| map(json!({"status": {"conditions": [{"type": "Ready", "status": status}]}}));
        let mut ready = of("True");
        assert!(mark_unready(&mut ready, 0));
        assert_eq!(ready["status"]["conditions"][0]["status"], "False");
        assert!(!mark_unready(&mut ready, 0) && !mark_unready(&mut map(json!({})), 0));
    }
}
