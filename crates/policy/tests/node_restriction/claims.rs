//! Claims: W17 and NR-49 to NR-52.

use portcullis_policy::features::Feature;
use portcullis_policy::restriction::Operation::{Create, Delete, Update};
use serde_json::{Value, json};

use crate::node_restriction::support::{World, update, write};

fn claim(path: &str, value: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {}, "annotations": {}},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "v",
            "selector": {"matchLabels": {"a": "b"}},
            "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    if let Some((parent, key)) = path.rsplit_once('/') {
        object.pointer_mut(parent).unwrap()[key] = value;
    }
    object
}

fn update_claim(path: &str, value: Value) -> u16 {
    let write =
        update("persistentvolumeclaims/status", "ns", "c", &claim(path, value), &claim("", json!(null)));
    World::of(&[]).code(&write)
}

#[test]
fn a_node_reports_how_a_resize_went_w17_nr_50() {
    for (path, value) in [
        ("/status/capacity", json!({"storage": "2Gi"})),
        ("/status/capacity", json!(null)),
        ("/status/conditions", json!([{"type": "Resizing", "status": "True"}])),
        ("/status/allocatedResources", json!({"storage": "2Gi"})),
        ("/status/allocatedResourceStatuses", json!({"storage": "NodeResizePending"})),
        ("/metadata/resourceVersion", json!("2")),
        ("/metadata/managedFields", json!([{"manager": "kubelet"}])),
    ] {
        assert_eq!(update_claim(path, value.clone()), 200, "{path} {value}");
    }
    for (path, value) in [
        ("/status/phase", json!("Lost")),
        ("/status/accessModes", json!(["ReadWriteMany"])),
        ("/status/currentVolumeAttributesClassName", json!("gold")),
        ("/status/modifyVolumeStatus", json!({"status": "Pending"})),
        ("/status/modifyVolumeStatus", json!({})),
        ("/status", json!(null)),
        ("/spec/accessModes", json!(["ReadWriteMany"])),
        ("/spec/volumeName", json!("w")),
        ("/spec/volumeMode", json!("Block")),
        ("/spec/storageClassName", json!("")),
        ("/spec/resources", json!({"requests": {"storage": "2Gi"}})),
        ("/spec/resources", json!({"limits": {"storage": "0"}, "requests": {"storage": "1Gi"}})),
        ("/spec/selector", json!({"matchLabels": {"a": "c"}})),
        ("/spec/selector", json!(null)),
        ("/spec/dataSource", json!({"kind": "VolumeSnapshot", "name": "s"})),
        ("/spec/dataSourceRef", json!({"kind": "VolumeSnapshot", "name": "s", "namespace": "x"})),
        ("/spec/volumeAttributesClassName", json!("gold")),
        ("/metadata/labels", json!({"a": "b"})),
        ("/metadata/annotations", json!({"a": "b"})),
        ("/metadata/finalizers", json!(["f"])),
        ("/metadata/ownerReferences", json!([{"kind": "Pod", "name": "p"}])),
        ("/metadata/uid", json!("v")),
        ("/metadata/generation", json!(1)),
        ("/metadata/creationTimestamp", json!("2026-01-01T00:00:01Z")),
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:01Z")),
        ("/metadata/deletionGracePeriodSeconds", json!(0)),
    ] {
        assert_eq!(update_claim(path, value.clone()), 403, "{path} {value}");
    }
}

#[test]
fn claims_are_compared_by_meaning_nr_51() {
    for (path, value) in [
        ("/spec/resources", json!({"requests": {"storage": "1024Mi"}})),
        ("/spec/resources", json!({"limits": {}, "requests": {"storage": "1073741824"}})),
        ("/spec/volumeMode", json!("Filesystem")),
        ("/metadata/creationTimestamp", json!("2026-01-01T05:30:00+05:30")),
        ("/metadata/labels", json!(null)),
        ("/metadata/finalizers", json!([])),
        ("/metadata/deletionTimestamp", json!(null)),
        ("/metadata/generateName", json!("")),
        ("/spec/selector", json!({"matchLabels": {"a": "b"}, "matchExpressions": []})),
        ("/spec/somethingUnknown", json!({"a": 1})),
    ] {
        assert_eq!(update_claim(path, value.clone()), 200, "{path} {value}");
    }
    for value in [json!("many"), json!(""), json!(true)] {
        assert_eq!(update_claim("/spec/resources", json!({"requests": {"storage": value}})), 403, "{value}");
    }
}

#[test]
fn without_its_gate_allocated_resources_are_not_the_nodes_nr_50_nr_104() {
    let mut world = World::of(&[]);
    world.gates = world.gates.with(Feature::RecoverVolumeExpansionFailure, false);
    for (path, value) in [
        ("/status/allocatedResources", json!({"storage": "2Gi"})),
        ("/status/allocatedResourceStatuses", json!({"storage": "NodeResizePending"})),
    ] {
        let (new, old) = (claim(path, value), claim("", json!(null)));
        assert_eq!(world.code(&update("persistentvolumeclaims/status", "ns", "c", &new, &old)), 403);
    }
}

#[test]
fn a_node_writes_nothing_but_the_status_of_claims_w17_nr_49_nr_52() {
    let object = claim("", json!(null));
    for resource in ["persistentvolumeclaims", "persistentvolumeclaims/other"] {
        for operation in [Create, Update, Delete] {
            assert_eq!(
                World::of(&[]).code(&write(operation, resource, "ns", "c").with(&object).over(&object)),
                403
            );
        }
    }
    for operation in [Create, Delete] {
        let write = write(operation, "persistentvolumeclaims/status", "ns", "c").with(&object).over(&object);
        assert_eq!(World::of(&[]).code(&write), 403);
    }
}
