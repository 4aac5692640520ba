//! Pods: W1 to W12 and the corners of NR-11 to NR-34.

use portcullis_policy::User;
use portcullis_policy::restriction::Operation::{Connect, Create, Delete, Update};
use serde_json::{Value, json};

use crate::node_restriction::support::{World, create, delete, node, update, write};

fn world() -> World {
    World::of(&[
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0", "uid": "u0"}}),
        pod("own", "n0"),
        pod("other", "n1"),
        pod("unbound", ""),
    ])
}

fn pod(name: &str, node_name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ns", "uid": "p"},
        "spec": {"nodeName": node_name}})
}

/// A mirror pod as a kubelet makes it (MP-33), with one part changed.
fn mirror(path: &str, value: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "m", "namespace": "ns", "annotations": {"kubernetes.io/config.mirror": "h"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n0", "uid": "u0", "controller": true}]},
        "spec": {"nodeName": "n0", "containers": [{"name": "c"}]}});
    if let Some((parent, key)) = path.rsplit_once('/') {
        pod.pointer_mut(parent).unwrap()[key] = value;
    }
    pod
}

fn create_code(pod: &Value) -> u16 {
    world().code(&create("pods", "ns", "m", pod))
}

const OWNER: &str = "/metadata/ownerReferences/0";

#[test]
fn a_node_creates_its_mirror_pods_w1() {
    assert_eq!(create_code(&mirror("", json!(null))), 200);
    assert_eq!(
        create_code(&mirror("/metadata/annotations", json!({"kubernetes.io/config.mirror": ""}))),
        200
    );
    assert_eq!(
        create_code(&mirror("/metadata/annotations", json!({"kubernetes.io/config.mirror": null}))),
        200
    );
}

#[test]
fn only_mirror_pods_bound_to_itself_nr_15_nr_16() {
    assert_eq!(create_code(&mirror("/metadata/annotations", json!(null))), 403);
    assert_eq!(create_code(&mirror("/metadata/annotations", json!({"kubernetes.io/config.hash": "h"}))), 403);
    assert_eq!(create_code(&mirror("/spec/nodeName", json!("n1"))), 403);
    assert_eq!(create_code(&mirror("/spec/nodeName", json!(null))), 403);
}

#[test]
fn the_owner_is_exactly_the_node_w2_w3_w5_nr_17_to_nr_20() {
    for (key, value) in [
        ("controller", json!(null)),
        ("controller", json!(false)),
        ("blockOwnerDeletion", json!(true)),
        ("uid", json!("wrong")),
        ("uid", json!(null)),
        ("name", json!("n1")),
        ("kind", json!("Pod")),
        ("apiVersion", json!("v2")),
        ("apiVersion", json!("")),
    ] {
        let pod = mirror(&format!("{OWNER}/{key}"), value);
        assert_eq!(create_code(&pod), 403, "{pod}");
    }
    assert_eq!(create_code(&mirror(&format!("{OWNER}/blockOwnerDeletion"), json!(false))), 200);
    assert_eq!(create_code(&mirror("/metadata/ownerReferences", json!([]))), 403);
    assert_eq!(create_code(&mirror("/metadata/ownerReferences", json!(null))), 403);
}

#[test]
fn a_mirror_pod_needs_its_node_to_be_known_w4() {
    let write = create("pods", "ns", "m", &mirror("", json!(null)));
    let rejection = World::of(&[]).admit_with(&crate::node_restriction::support::Silent, &write).unwrap_err();
    assert_eq!((rejection.code, rejection.reason), (404, "NotFound"));
    let details = rejection.details.unwrap();
    assert_eq!((&*details.group, &*details.kind, &*details.name), ("", "node", "n0"));
}

#[test]
fn owner_references_are_counted_not_compared_w6_nr_24() {
    let owner = mirror("", json!(null))["metadata"]["ownerReferences"][0].clone();
    assert_eq!(create_code(&mirror("/metadata/ownerReferences", json!([owner, owner]))), 403);
}

#[test]
fn a_mirror_pod_refers_to_no_object_w7_nr_25() {
    for (path, value) in [
        ("/spec/resourceClaims", json!([{"name": "c"}])),
        ("/spec/serviceAccountName", json!("default")),
        ("/spec/serviceAccount", json!("default")),
        ("/spec/imagePullSecrets", json!([{"name": "s"}])),
        ("/spec/initContainers", json!([{"env": [{"valueFrom": {"secretKeyRef": {"name": "s"}}}]}])),
        ("/spec/containers", json!([{"envFrom": [{"configMapRef": {"name": "c"}}]}])),
        ("/spec/ephemeralContainers", json!([{"envFrom": [{"secretRef": {"name": "s"}}]}])),
    ] {
        assert_eq!(create_code(&mirror(path, value.clone())), 403, "{path} {value}");
    }
    for source in [
        json!({"azureFile": {"shareName": "s"}}),
        json!({"cephfs": {"secretRef": {"name": "s"}}}),
        json!({"configMap": {}}),
        json!({"csi": {"driver": "d"}}),
        json!({"ephemeral": {}}),
        json!({"glusterfs": {"endpoints": "e"}}),
        json!({"persistentVolumeClaim": {"claimName": "c"}}),
        json!({"projected": {"sources": [{"clusterTrustBundle": {"path": "p"}}]}}),
        json!({"projected": {"sources": [{"configMap": {}}]}}),
        json!({"projected": {"sources": [{"downwardAPI": {}}, {}]}}),
        json!({"projected": {"sources": [{"podCertificate": {}}]}}),
        json!({"projected": {"sources": [{"secret": {}}]}}),
        json!({"projected": {"sources": [{"serviceAccountToken": {"path": "p"}}]}}),
        json!({"projected": {"sources": [{"somethingNew": {}}]}}),
        json!({"projected": {"sources": [null]}}),
        json!({"secret": {}}),
        json!({"hostPath": {"path": "/"}, "secret": {}}),
    ] {
        let pod = mirror("/spec/volumes", json!([{"name": "ok", "emptyDir": {}}, source]));
        assert_eq!(create_code(&pod), 403, "{source}");
    }
}

#[test]
fn a_mirror_pod_mounts_what_is_no_object_w8_nr_25_nr_26() {
    for source in [
        "awsElasticBlockStore",
        "azureDisk",
        "cephfs",
        "cinder",
        "downwardAPI",
        "emptyDir",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "hostPath",
        "image",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    ] {
        let pod = mirror("/spec/volumes", json!([{"name": "v", source: {}}]));
        assert_eq!(create_code(&pod), 200, "{source}");
    }
    for (path, value) in [
        ("/spec/volumes", json!([{"name": "defaulted to emptyDir"}])),
        ("/spec/volumes", json!([{"projected": {}}])),
        ("/spec/volumes", json!([{"projected": {"sources": []}}])),
        ("/spec/volumes", json!([{"projected": {"sources": [{"downwardAPI": {}}]}}])),
        ("/spec/volumes", json!([{"secret": null, "hostPath": {}}])),
        ("/spec/imagePullSecrets", json!([{"name": ""}])),
        ("/spec/containers", json!([{"envFrom": [{"configMapRef": {"name": ""}}]}])),
        ("/spec/containers", json!([{"env": [{"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}])),
        (
            "/spec/containers",
            json!([{"env": [{"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}]),
        ),
        ("/spec/runtimeClassName", json!("r")),
        ("/spec/priorityClassName", json!("p")),
        ("/spec/resourceClaims", json!([])),
    ] {
        assert_eq!(create_code(&mirror(path, value.clone())), 200, "{path} {value}");
    }
}

#[test]
fn a_node_deletes_pods_bound_to_it_w9_nr_13() {
    let world = world();
    for (name, code) in [("own", 200), ("other", 403), ("unbound", 403), ("absent", 404), ("", 404)] {
        assert_eq!(world.code(&delete("pods", "ns", name)), code, "{name}");
    }
    assert_eq!(world.code(&delete("pods", "elsewhere", "own")), 404);
}

#[test]
fn a_node_changes_no_pod_and_no_other_subresource_w28_nr_11_nr_12() {
    let (world, own) = (world(), pod("own", "n0"));
    assert_eq!(world.code(&update("pods", "ns", "own", &own, &own)), 403);
    for subresource in ["binding", "ephemeralcontainers", "resize", "exec", "log"] {
        for operation in [Create, Update, Delete] {
            let write = write(operation, &format!("pods/{subresource}"), "ns", "own").with(&own).over(&own);
            assert_eq!(world.code(&write), 403, "{operation:?} {subresource}");
        }
        assert_eq!(world.code(&write(Connect, &format!("pods/{subresource}"), "ns", "own")), 200, "NR-1");
    }
    for operation in [Create, Delete] {
        assert_eq!(world.code(&write(operation, "pods/status", "ns", "own").with(&own).over(&own)), 403);
    }
    for operation in [Update, Delete] {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction"});
        assert_eq!(world.code(&write(operation, "pods/eviction", "ns", "own").with(&eviction)), 403);
    }
}

fn status_code(object: &Value, old: &Value) -> u16 {
    world().code(&update("pods/status", "ns", "own", object, old))
}

fn labelled(labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own", "labels": labels},
        "spec": {"nodeName": "n0"}})
}

#[test]
fn a_status_update_changes_no_label_w10_nr_28() {
    let ab = labelled(json!({"a": "1", "b": "2"}));
    assert_eq!(status_code(&ab, &ab), 200);
    assert_eq!(status_code(&labelled(json!({"b": "2", "a": "1"})), &ab), 200);
    assert_eq!(status_code(&labelled(json!(null)), &labelled(json!({}))), 200);
    for labels in
        [json!({"a": "1", "b": "2", "c": ""}), json!({"a": "1"}), json!({"a": "1", "b": ""}), json!(null)]
    {
        assert_eq!(status_code(&labelled(labels.clone()), &ab), 403, "{labels}");
    }
}

#[test]
fn the_stored_pod_says_where_a_pod_is_nr_27() {
    assert_eq!(status_code(&pod("own", "n1"), &pod("own", "n0")), 200);
    assert_eq!(status_code(&pod("own", "n0"), &pod("own", "n1")), 403);
    assert_eq!(status_code(&pod("own", "n0"), &pod("own", "")), 403);
}

fn with_status(status: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own"}, "spec": {"nodeName": "n0"},
        "status": status})
}

#[test]
fn a_status_update_changes_no_claim_status_w11_nr_29_nr_30() {
    let status = |status| with_status(status);
    let claims = |claims: Value| with_status(json!({"resourceClaimStatuses": claims}));
    let extended = |extended: Value| with_status(json!({"extendedResourceClaimStatus": extended}));
    let a = json!({"name": "a", "resourceClaimName": "x"});
    let b = json!({"name": "b"});
    assert_eq!(status_code(&claims(json!([a, b])), &claims(json!([a, b]))), 200);
    assert_eq!(status_code(&claims(json!([])), &status(json!(null))), 200);
    for (new, old) in [
        (json!([a]), json!([])),
        (json!([]), json!([a])),
        (json!([a, b]), json!([b, a])),
        (json!([b]), json!([{"name": "b", "resourceClaimName": ""}])),
        (json!([{"name": "a", "resourceClaimName": "y"}]), json!([a])),
    ] {
        assert_eq!(status_code(&claims(new.clone()), &claims(old.clone())), 403, "{old} to {new}");
    }
    let mapping =
        |container: &str| json!({"containerName": container, "resourceName": "r", "requestName": "q"});
    let claim = |name: &str, mappings: Value| json!({"resourceClaimName": name, "requestMappings": mappings});
    let stored = claim("x", json!([mapping("c"), mapping("d")]));
    assert_eq!(status_code(&extended(stored.clone()), &extended(stored.clone())), 200);
    for (new, old) in [
        (stored.clone(), json!(null)),
        (json!(null), stored.clone()),
        (json!({}), json!(null)),
        (claim("y", json!([mapping("c"), mapping("d")])), stored.clone()),
        (claim("x", json!([mapping("d"), mapping("c")])), stored.clone()),
        (claim("x", json!([mapping("c")])), stored.clone()),
    ] {
        assert_eq!(status_code(&extended(new.clone()), &extended(old.clone())), 403, "{old} to {new}");
    }
}

#[test]
fn the_rest_of_a_pods_status_is_free_nr_31() {
    let new = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "own", "annotations": {"a": "b"}, "finalizers": ["f"]},
        "spec": {"nodeName": "n0"},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "nominatedNodeName": "n2",
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeAllocatableResourceClaimStatuses": [{"name": "x"}]}});
    assert_eq!(status_code(&new, &pod("own", "n0")), 200);
}

#[test]
fn a_node_evicts_pods_bound_to_it_w12_nr_32_to_nr_34() {
    let world = world();
    let eviction =
        |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    for (path_name, body_name, code) in [
        ("", "own", 200),
        ("own", "other", 200),
        ("other", "own", 403),
        ("unbound", "", 403),
        ("", "", 403),
        ("absent", "own", 404),
        ("", "absent", 404),
    ] {
        let write = create("pods/eviction", "ns", path_name, &eviction(body_name));
        assert_eq!(world.code(&write), code, "{path_name:?} {body_name:?}");
    }
    let beta = json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "own"}});
    assert_eq!(world.code(&create("pods/eviction", "ns", "own", &beta)), 200);
    for body in [pod("own", "n0"), json!({"apiVersion": "v1", "kind": "Eviction"}), json!(null)] {
        assert_eq!(world.code(&create("pods/eviction", "ns", "own", &body)), 403, "{body}");
    }
}

#[test]
fn who_is_no_node_is_not_restricted_w27_nr_2() {
    let world = world();
    let foreign = json!("not a pod");
    for user in [
        User::new("kubelet", ["system:nodes"]),
        User::new("system:node:n0", ["system:authenticated"]),
        User::new("admin", ["system:masters"]),
        User::default(),
    ] {
        assert_eq!(world.code(&create("pods", "ns", "m", &foreign).by(user.clone())), 200);
        assert_eq!(world.code(&write(Update, "nodes", "", "n1").by(user)), 200);
    }
}

#[test]
fn a_node_without_name_writes_nothing_w26_nr_3() {
    let world = world();
    for resource in [
        "subjectaccessreviews.authorization.k8s.io",
        "tokenreviews.authentication.k8s.io",
        "events",
        "configmaps",
        "pods",
        "nodes",
        "resourceslices.resource.k8s.io",
    ] {
        for operation in [Create, Update, Delete] {
            assert_eq!(world.code(&write(operation, resource, "", "").by(node(""))), 403, "{resource}");
        }
        assert_eq!(world.code(&write(Connect, resource, "", "").by(node(""))), 200);
    }
}
