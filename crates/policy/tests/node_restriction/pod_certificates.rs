//! Pod certificate requests: W25 and NR-76 to NR-89.

use portcullis_policy::features::Feature;
use portcullis_policy::restriction::Operation::{Delete, Update};
use serde_json::{Value, json};

use crate::node_restriction::support::{Silent, World, create, write};

const RESOURCE: &str = "podcertificaterequests.certificates.k8s.io";

fn world() -> World {
    let pod = |name: &str, node: &str, annotations: Value| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "ns", "uid": "pu", "annotations": annotations},
            "spec": {"nodeName": node, "serviceAccountName": if name == "orphan" { "gone" } else { "sa" }}})
    };
    let mut world = World::of(&[
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0", "uid": "nu"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa", "namespace": "ns", "uid": "su"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sb", "namespace": "ns", "uid": "su"}}),
        pod("p", "n0", json!(null)),
        pod("away", "n1", json!(null)),
        pod("mirror", "n0", json!({"kubernetes.io/config.mirror": ""})),
        pod("orphan", "n0", json!(null)),
    ]);
    world.gates = world.gates.with(Feature::PodCertificateRequest, true);
    world
}

/// A right request with some fields changed.
fn body(changes: Value) -> Value {
    let mut spec = json!({"nodeName": "n0", "nodeUID": "nu", "podName": "p", "podUID": "pu",
        "serviceAccountName": "sa", "serviceAccountUID": "su"});
    for (key, value) in changes.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest", "spec": spec})
}

#[test]
fn a_request_says_of_node_pod_and_account_what_is_so_w25_nr_80_to_nr_89() {
    let world = world();
    for (changes, code) in [
        (json!({}), 200),
        (json!({"nodeName": "n1"}), 403),
        (json!({"nodeUID": "x"}), 500),
        (json!({"podName": "gone"}), 500),
        (json!({"podUID": "x"}), 500),
        (json!({"podName": "away"}), 403),
        (json!({"podName": "mirror"}), 403),
        (json!({"serviceAccountName": "sb"}), 403),
        (json!({"podName": "orphan", "serviceAccountName": "gone"}), 500),
        (json!({"serviceAccountUID": "x"}), 500),
        // The first failure wins.
        (json!({"nodeName": "n1", "nodeUID": "x"}), 403),
        (json!({"podName": "away", "podUID": "x"}), 500),
    ] {
        assert_eq!(world.code(&create(RESOURCE, "ns", "", &body(changes.clone()))), code, "{changes}");
    }
    assert_eq!(world.code(&create(RESOURCE, "other", "", &body(json!({})))), 500, "no such pod there");
    let mut nowhere = World::of(&[]);
    nowhere.gates = world.gates;
    assert_eq!(nowhere.code(&create(RESOURCE, "ns", "", &body(json!({})))), 500, "no such node, NR-81");
}

#[test]
fn what_may_be_late_is_no_status_object_nr_6() {
    let write = create(RESOURCE, "ns", "", &body(json!({"podUID": "x"})));
    let rejection = world().admit_with(&Silent, &write).unwrap_err();
    assert_eq!((rejection.code, rejection.reason, rejection.details), (500, "", None));
}

#[test]
fn only_creation_and_only_with_the_gate_nr_76_to_nr_79() {
    let right = body(json!({}));
    let mut off = world();
    off.gates = off.gates.with(Feature::PodCertificateRequest, false);
    assert_eq!(off.code(&create(RESOURCE, "ns", "", &right)), 403);
    for operation in [Update, Delete] {
        let write = write(operation, RESOURCE, "ns", "r").with(&right).over(&right);
        assert_eq!(world().code(&write), 403);
        assert_eq!(off.code(&write), 403);
    }
    assert_eq!(world().code(&create(&format!("{RESOURCE}/status"), "ns", "r", &right)), 403);
    let alpha = json!({"apiVersion": "certificates.k8s.io/v1alpha1", "kind": "PodCertificateRequest", "spec": right["spec"]});
    assert_eq!(world().code(&create(RESOURCE, "ns", "", &alpha)), 200);
    let other = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "spec": right["spec"]});
    assert_eq!(world().code(&create(RESOURCE, "ns", "", &other)), 403);
}
