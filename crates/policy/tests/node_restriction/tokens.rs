//! Tokens: W18 to W21 and NR-54 to NR-75.

use portcullis_policy::features::Feature;
use portcullis_policy::restriction::Operation::{Create, Delete, Update};
use serde_json::{Value, json};

use crate::node_restriction::support::{Grant, World, Write, create, write};

/// Pods on n0: `plain` without volumes, `vault` with a projected token, `disk` with a claim that leads to a driver
/// of audience `csi`, `broken` with a missing claim before the same, `legacy` with an in-tree volume.
fn tokens_world() -> World {
    let pod = |name: &str, volumes: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ns", "uid": name},
            "spec": {"nodeName": "n0", "serviceAccountName": "sa", "volumes": volumes}})
    };
    let bound = json!({"name": "b", "persistentVolumeClaim": {"claimName": "bound"}});
    let missing = json!({"name": "m", "persistentVolumeClaim": {"claimName": "missing"}});
    let volume = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec});
    let claim = |name: &str, volume: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "ns"}, "spec": {"volumeName": volume}})
    };
    let driver = |name: &str, audience: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name},
            "spec": {"tokenRequests": [{"audience": "first"}, {"audience": audience}]}})
    };
    let mut elsewhere = pod("elsewhere", json!([]));
    elsewhere["spec"]["nodeName"] = json!("n1");
    World::of(&[
        pod("plain", json!([])),
        pod(
            "vault",
            json!([{"projected": {"sources": [{"configMap": {}}, {"serviceAccountToken": {"audience": "vault"}}]}}]),
        ),
        pod("api", json!([{"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}])),
        pod("disk", json!([bound])),
        pod("broken", json!([missing, bound])),
        pod("unbound", json!([{"persistentVolumeClaim": {"claimName": "unbound"}}])),
        pod("scratch", json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}])),
        pod("no-template", json!([{"name": "v", "ephemeral": {}}])),
        pod("inline", json!([{"csi": {"driver": "csi.example"}}])),
        pod("no-driver", json!([{"csi": {"driver": "gone.example"}}])),
        pod("nfs", json!([{"persistentVolumeClaim": {"claimName": "nfs"}}, {"nfs": {}}])),
        pod("migrated", json!([{"persistentVolumeClaim": {"claimName": "migrated"}}])),
        pod("aws", json!([{"awsElasticBlockStore": {}}])),
        pod("gce", json!([{"gcePersistentDisk": {}}])),
        pod("cinder", json!([{"cinder": {}}])),
        pod("azure-disk", json!([{"azureDisk": {}}])),
        pod("azure-file", json!([{"azureFile": {}}])),
        pod("vsphere", json!([{"vsphereVolume": {}}])),
        pod("portworx", json!([{"portworxVolume": {}}])),
        elsewhere,
        claim("bound", "pv"),
        claim("scratch-v", "pv"),
        claim("nfs", "pv-nfs"),
        claim("migrated", "pv-gce"),
        claim("unbound", ""),
        volume("pv", json!({"csi": {"driver": "csi.example"}})),
        volume("pv-nfs", json!({"nfs": {}})),
        volume("pv-gce", json!({"gcePersistentDisk": {}})),
        driver("csi.example", "csi"),
        driver("ebs.csi.aws.com", "a0"),
        driver("pd.csi.storage.gke.io", "a1"),
        driver("cinder.csi.openstack.org", "a2"),
        driver("disk.csi.azure.com", "a3"),
        driver("file.csi.azure.com", "a4"),
        driver("csi.vsphere.vmware.com", "a5"),
        driver("pxd.portworx.com", "a6"),
    ])
}

fn token_request(pod: &str, audiences: Value) -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": audiences,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod}}})
}

fn token(pod: &str, audiences: Value) -> Write {
    create("serviceaccounts/token", "ns", "sa", &token_request(pod, audiences))
}

#[test]
fn a_token_is_bound_to_a_pod_of_the_node_w18_nr_55_to_nr_60() {
    let world = tokens_world();
    let code = |reference: Value| {
        let mut body = token_request("vault", json!(["vault"]));
        body["spec"]["boundObjectRef"] = reference;
        world.code(&create("serviceaccounts/token", "ns", "sa", &body))
    };
    let reference = |kind: &str, version: &str, name: &str, uid: &str| {
        code(json!({"kind": kind, "apiVersion": version, "name": name, "uid": uid}))
    };
    assert_eq!(reference("Pod", "v1", "vault", "vault"), 200);
    assert_eq!(code(json!(null)), 403);
    assert_eq!(reference("Node", "v1", "n0", "n0"), 403);
    assert_eq!(reference("Secret", "v1", "vault", "vault"), 403);
    assert_eq!(reference("pod", "v1", "vault", "vault"), 403);
    assert_eq!(reference("Pod", "", "vault", "vault"), 403);
    assert_eq!(reference("Pod", "v1", "", "vault"), 403);
    assert_eq!(reference("Pod", "v1", "vault", ""), 403);
    assert_eq!(reference("Pod", "v1", "vault", "stale"), 403);
    assert_eq!(reference("Pod", "v1", "gone", "gone"), 404);
    assert_eq!(reference("Pod", "v1", "gone", ""), 403, "NR-57 before NR-58");
    assert_eq!(reference("Pod", "v1", "elsewhere", "elsewhere"), 403);
    assert_eq!(
        world.code(&create(
            "serviceaccounts/token",
            "other",
            "sa",
            &token_request("vault", json!(["vault"]))
        )),
        404
    );
}

#[test]
fn only_the_creation_of_tokens_is_examined_nr_54() {
    let world = tokens_world();
    for (operation, resource) in [
        (Update, "serviceaccounts/token"),
        (Delete, "serviceaccounts/token"),
        (Create, "serviceaccounts"),
        (Update, "serviceaccounts"),
        (Delete, "serviceaccounts"),
        (Create, "serviceaccounts/other"),
    ] {
        assert_eq!(world.code(&write(operation, resource, "ns", "sa")), 200, "{operation:?} {resource}");
    }
}

#[test]
fn a_token_is_for_an_audience_of_the_pod_w18_w19_w20_nr_65_to_nr_71() {
    let world = tokens_world();
    for (pod, audiences, code) in [
        ("vault", json!(["vault"]), 200),
        ("vault", json!(["other"]), 403),
        ("vault", json!(["vault", "vault"]), 403),
        ("vault", json!([]), 403),
        ("vault", json!(null), 403),
        ("plain", json!([]), 403),
        ("api", json!([]), 200),
        ("api", json!([""]), 200),
        ("api", json!(["vault"]), 403),
        ("disk", json!(["csi"]), 200),
        ("disk", json!(["first"]), 200),
        ("disk", json!([]), 403),
        ("scratch", json!(["csi"]), 200),
        ("no-template", json!(["csi"]), 403),
        ("inline", json!(["csi"]), 200),
        ("nfs", json!(["csi"]), 403),
        ("migrated", json!(["a1"]), 200),
        ("aws", json!(["a0"]), 200),
        ("gce", json!(["a1"]), 200),
        ("cinder", json!(["a2"]), 200),
        ("azure-disk", json!(["a3"]), 200),
        ("azure-file", json!(["a4"]), 200),
        ("vsphere", json!(["a5"]), 200),
        ("portworx", json!(["a6"]), 200),
        ("portworx", json!(["a5"]), 403),
    ] {
        assert_eq!(world.code(&token(pod, audiences.clone())), code, "{pod} {audiences}");
    }
}

#[test]
fn what_cannot_be_looked_up_is_refused_whatever_is_granted_w21_nr_72() {
    let world = tokens_world();
    let grant = Grant { namespace: "ns", audience: "extra", account: "sa" };
    let code = |pod, audience| {
        world.admit_with(&grant, &token(pod, json!([audience]))).map_or_else(|r| r.code, |()| 200)
    };
    assert_eq!(code("broken", "csi"), 200, "a later volume uses it");
    assert_eq!(code("broken", "extra"), 403);
    assert_eq!(code("unbound", "extra"), 403);
    assert_eq!(code("no-driver", "extra"), 403);
    assert_eq!(code("disk", "extra"), 200);
    assert_eq!(code("nfs", "extra"), 200, "no driver is no error");
    assert_eq!(code("no-template", "extra"), 200, "no driver is no error");
}

#[test]
fn the_authorizer_chain_can_grant_an_audience_nr_73_nr_74() {
    let world = tokens_world();
    for audience in ["extra", "https://a.example/b:c", ""] {
        let grant = Grant { namespace: "ns", audience, account: "sa" };
        let code = |write| world.admit_with(&grant, &write).map_or_else(|r| r.code, |()| 200);
        assert_eq!(code(token("plain", json!([audience]))), 200, "{audience}");
        assert_eq!(code(token("plain", json!(["other"]))), 403);
        let mut other_account = token("plain", json!([audience]));
        other_account.name = "sb".to_owned();
        assert_eq!(code(other_account), 403);
    }
    let empty = Grant { namespace: "ns", audience: "", account: "sa" };
    assert!(
        world.admit_with(&empty, &token("plain", json!([]))).is_ok(),
        "no audience is the empty one, NR-65"
    );
}

#[test]
fn without_its_gate_audiences_are_not_looked_at_nr_75_nr_102() {
    let mut world = tokens_world();
    world.gates = world.gates.with(Feature::ServiceAccountNodeAudienceRestriction, false);
    for audiences in [json!([]), json!(["x"]), json!(["x", "y"])] {
        assert_eq!(world.code(&token("broken", audiences)), 200);
    }
    assert_eq!(world.code(&token("elsewhere", json!([]))), 403);
}
