//! Leases, CSINodes and ResourceSlices: W22, W23, W29 and NR-90 to NR-95.

use portcullis_policy::restriction::Operation::{Delete, Update};
use serde_json::{Value, json};

use crate::node_restriction::support::{World, create, delete, update, write};

#[test]
fn a_node_writes_only_its_own_lease_w22_nr_90_nr_91() {
    let lease = |name: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
    let resource = "leases.coordination.k8s.io";
    let code = |write| World::of(&[]).code(&write);
    assert_eq!(code(create(resource, "kube-node-lease", "n0", &lease("n0"))), 200);
    assert_eq!(code(create(resource, "kube-node-lease", "n1", &lease("n1"))), 403);
    assert_eq!(code(create(resource, "kube-node-lease", "n0", &lease("n1"))), 403);
    assert_eq!(code(create(resource, "kube-node-lease", "n1", &lease("n0"))), 200, "the body counts");
    assert_eq!(code(create(resource, "kube-node-lease", "", &lease("n0"))), 200, "W29");
    assert_eq!(code(create(resource, "default", "n0", &lease("n0"))), 403);
    assert_eq!(code(create(resource, "", "n0", &lease("n0"))), 403);
    for operation in [Update, Delete] {
        for (namespace, name, expected) in [
            ("kube-node-lease", "n0", 200),
            ("kube-node-lease", "n1", 403),
            ("kube-node-lease", "", 403),
            ("kube-system", "n0", 403),
        ] {
            assert_eq!(code(write(operation, resource, namespace, name)), expected, "{namespace} {name}");
            let subresource = format!("{resource}/status");
            assert_eq!(code(write(operation, &subresource, namespace, name)), expected);
        }
    }
}

#[test]
fn a_node_writes_only_its_own_csi_node_nr_92() {
    let object = |name: &str| json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}});
    let resource = "csinodes.storage.k8s.io";
    assert_eq!(World::of(&[]).code(&create(resource, "", "", &object("n0"))), 200);
    assert_eq!(World::of(&[]).code(&create(resource, "", "n0", &object("n1"))), 403);
    assert_eq!(World::of(&[]).code(&create(resource, "", "n0", &json!({"metadata": "none"}))), 403);
    for operation in [Update, Delete] {
        assert_eq!(World::of(&[]).code(&write(operation, resource, "", "n0")), 200);
        assert_eq!(World::of(&[]).code(&write(operation, resource, "", "n1")), 403);
        assert_eq!(World::of(&[]).code(&write(operation, resource, "", "")), 403);
    }
}

#[test]
fn a_node_publishes_only_its_own_devices_w23_nr_93_to_nr_95() {
    let slice =
        |spec: Value| json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": spec});
    let resource = "resourceslices.resource.k8s.io";
    for (spec, code) in [
        (json!({"nodeName": "n0"}), 200),
        (json!({"nodeName": "n1"}), 403),
        (json!({"allNodes": true}), 403),
        (json!({"nodeSelector": {}}), 403),
        (json!({"perDeviceNodeSelection": true}), 403),
        (json!({"nodeName": ""}), 403),
        (json!({"nodeName": null}), 403),
        (json!(null), 403),
    ] {
        let slice = slice(spec);
        assert_eq!(World::of(&[]).code(&create(resource, "", "s", &slice)), code, "{slice}");
        assert_eq!(World::of(&[]).code(&delete(resource, "", "").over(&slice)), code, "{slice}");
        assert_eq!(World::of(&[]).code(&update(resource, "", "s", &slice, &slice)), 200, "{slice}");
    }
    assert_eq!(World::of(&[]).code(&delete(resource, "", "s")), 403, "no stored object");
    let beta =
        json!({"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceSlice", "spec": {"nodeName": "n0"}});
    assert_eq!(World::of(&[]).code(&create(resource, "", "s", &beta)), 200);
}
