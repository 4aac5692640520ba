//! Which updates of pods are looked at again.

use super::pod::Pod;
use crate::Map;
use crate::fields::Members;

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Whether an update of a pod changes what the standards are about: images, the number of containers, a new ephemeral
/// container, or an old annotation of seccomp. A pod that was admitted under other labels can change its labels and
/// finish otherwise.
pub fn is_significant(pod: &Map, old: &Map) -> bool {
    let (pod, old) = (Pod::of(pod), Pod::of(old));
    let changes = |annotation: &str| pod.annotations.get(annotation) != old.annotations.get(annotation);
    if changes(SECCOMP_POD) {
        return true;
    }
    let differs = |container: &Map, before: &Map| {
        container.text("image") != before.text("image")
            || changes(&format!("{SECCOMP_CONTAINER}{}", container.text("name")))
    };
    let has_changed = |list: &str| {
        let (new, before) = (pod.spec.objects(list), old.spec.objects(list));
        new.len() != before.len() || new.zip(before).any(|(container, before)| differs(container, before))
    };
    // Ephemeral containers are only ever added, at the end.
    ["initContainers", "containers", "ephemeralContainers"].into_iter().any(has_changed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(change: impl FnOnce(&mut Value)) -> Map {
        let mut pod = json!({
            "metadata": {"labels": {"a": "b"}, "annotations": {}},
            "spec": {
                "containers": [{"name": "c", "image": "one"}],
                "ephemeralContainers": [{"name": "debug", "image": "shell"}],
            },
        });
        change(&mut pod);
        pod.as_object().unwrap().clone()
    }

    #[test]
    fn labels_and_tolerations_are_not_significant() {
        let old = pod(|_| ());
        assert!(!is_significant(&old, &old));
        assert!(!is_significant(&pod(|pod| pod["metadata"]["labels"]["a"] = json!("c")), &old));
        assert!(!is_significant(
            &pod(|pod| pod["spec"]["tolerations"] = json!([{"operator": "Exists"}])),
            &old
        ));
    }

    #[test]
    fn images_containers_and_annotations_of_seccomp_are() {
        let old = pod(|_| ());
        let changes: [fn(&mut Value); 4] = [
            |pod| pod["spec"]["containers"][0]["image"] = json!("two"),
            |pod| pod["spec"]["ephemeralContainers"][1] = json!({"name": "more", "image": "shell"}),
            |pod| pod["metadata"]["annotations"][SECCOMP_POD] = json!("unconfined"),
            |pod| {
                let annotation = format!("{SECCOMP_CONTAINER}c");
                pod["metadata"]["annotations"][annotation] = json!("unconfined");
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let new = pod(|pod| {
                if let Some(list) = pod["spec"]["ephemeralContainers"].as_array_mut() {
                    list.push(json!({}));
                    list.truncate(if number == 1 { 2 } else { 1 });
                }
                change(pod);
            });
            assert!(is_significant(&new, &old), "{number}");
        }
    }
}
