//! The PersistentVolumeClaims that a pod holds on to (AP-57).

use crate::Map;
use crate::fields::Members;

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsedClaim<'p> {
    /// A volume names it.
    Named(&'p str),
    /// It was made for an ephemeral volume, if it is the pod's own.
    Ephemeral {
        /// The name of the claim.
        name: String,
        /// The uid of the pod.
        pod: &'p str,
    },
}

/// The claims that a pod uses from the time when it is bound to a node, also when it has ended. One that its kubelet is
/// done with does not use those that were made for it, which are deleted with it.
pub fn used_claims(pod: &Map) -> impl Iterator<Item = UsedClaim<'_>> {
    let (metadata, spec) = (pod.metadata(), pod.object("spec"));
    let is_shut_down =
        metadata.has("deletionTimestamp") && metadata.number_if_set("deletionGracePeriodSeconds") == Some(0);
    let is_bound = !spec.text("nodeName").is_empty();
    let volumes = is_bound.then(|| spec.objects("volumes")).into_iter().flatten();
    volumes.filter_map(move |volume| {
        if let Some(source) = volume.object_if_set("persistentVolumeClaim") {
            return Some(UsedClaim::Named(source.text("claimName")));
        }
        let is_own = volume.has("ephemeral") && !is_shut_down;
        is_own.then(|| UsedClaim::Ephemeral {
            name: format!("{}-{}", metadata.text("name"), volume.text("name")),
            pod: metadata.text("uid"),
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bound_pod_uses_what_its_volumes_name_and_what_was_made_for_them() {
        let mut pod = json!({
            "metadata": {"name": "web", "uid": "u"},
            "spec": {"nodeName": "n", "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "b", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "c", "emptyDir": {}},
            ]},
            "status": {"phase": "Succeeded"},
        });
        let used = |pod: &serde_json::Value| {
            let used: Vec<String> = used_claims(pod.as_object().unwrap())
                .map(|claim| match claim {
                    UsedClaim::Named(name) => name.to_owned(),
                    UsedClaim::Ephemeral { name, pod } => format!("{name} of {pod}"),
                })
                .collect();
            used.join(", ")
        };
        assert_eq!(used(&pod), "data, web-b of u");
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        assert_eq!(used(&pod), "data, web-b of u");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        assert_eq!(used(&pod), "data");
        pod["spec"]["nodeName"] = json!("");
        assert_eq!(used(&pod), "");
    }
}
