//! Nodes: W13 to W16, W29 and NR-35 to NR-45.

use serde_json::{Value, json};

use crate::node_restriction::support::{Silent, World, create, delete, update};

fn node_object(path: &str, value: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n0", "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/os": "linux"}},
        "spec": {"taints": [
            {"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
            {"key": "b", "value": "x", "effect": "NoSchedule"}]}});
    if let Some((parent, key)) = path.rsplit_once('/') {
        object.pointer_mut(parent).unwrap()[key] = value;
    }
    object
}

fn stored_node() -> Value {
    node_object("", json!(null))
}

fn update_node(path: &str, value: Value) -> u16 {
    let object = node_object(path, value);
    let codes = ["nodes", "nodes/status", "nodes/anything"]
        .map(|resource| World::of(&[]).code(&update(resource, "", "n0", &object, &stored_node())));
    assert!(codes.iter().all(|code| *code == codes[0]), "subresources are alike");
    codes[0]
}

#[test]
fn a_node_registers_itself_w13_w14_nr_37_to_nr_39() {
    let bare = |extra: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}, "spec": {}});
        object["metadata"]["labels"] = extra["labels"].clone();
        object["metadata"]["ownerReferences"] = extra["owners"].clone();
        object["spec"]["taints"] = extra["taints"].clone();
        object["spec"]["configSource"] = extra["configSource"].clone();
        World::of(&[]).code(&create("nodes", "", "n0", &object))
    };
    assert_eq!(bare(json!({"taints": [{"key": "a", "effect": "NoExecute"}]})), 200);
    assert_eq!(bare(json!({"owners": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]})), 200);
    assert_eq!(bare(json!({"labels": {"kubernetes.io/hostname": "n0", "example.com/x": ""}})), 200);
    assert_eq!(bare(json!({"labels": {"node-role.kubernetes.io/x": ""}})), 403);
    assert_eq!(bare(json!({"configSource": {}})), 403);
    assert_eq!(
        World::of(&[]).code(&create("nodes", "", "n1", &node_object("/metadata/name", json!("n1")))),
        403
    );
}

#[test]
fn refused_labels_are_named_in_order_nr_38_nr_43() {
    let labels =
        json!({"z.k8s.io/a": "", "kubernetes.io/b": "", "fine": "", "node-restriction.kubernetes.io/c": ""});
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"labels": labels}});
    let bare = json!({"apiVersion": "v1", "kind": "Node"});
    for write in [
        create("nodes", "", "n0", &object),
        update("nodes", "", "n0", &object, &bare),
        update("nodes", "", "n0", &bare, &object),
    ] {
        let message = World::of(&[]).admit_with(&Silent, &write).unwrap_err().message;
        assert!(
            message.ends_with(": kubernetes.io/b, node-restriction.kubernetes.io/c, z.k8s.io/a"),
            "{message}"
        );
    }
}

#[test]
fn only_the_request_name_counts_w29_nr_10_nr_35() {
    let object = node_object("/metadata/labels", json!({}));
    assert_eq!(World::of(&[]).code(&create("nodes", "", "", &object)), 403);
    assert_eq!(World::of(&[]).code(&create("nodes", "", "n0", &node_object("/metadata", json!({})))), 200);
    for name in ["", "n1", "N0"] {
        assert_eq!(World::of(&[]).code(&delete("nodes", "", name)), 403);
        assert_eq!(World::of(&[]).code(&update("nodes", "", name, &stored_node(), &stored_node())), 403);
    }
    assert_eq!(World::of(&[]).code(&delete("nodes", "", "n0")), 200, "NR-36");
}

#[test]
fn a_node_does_not_change_its_owners_w14_nr_42() {
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid});
    let owned = |owners: Value| node_object("/metadata/ownerReferences", owners);
    let code = |new: &Value, old: &Value| World::of(&[]).code(&update("nodes", "", "n0", new, old));
    let one = owned(json!([owner("u")]));
    assert_eq!(code(&one, &one), 200);
    assert_eq!(code(&owned(json!([])), &owned(json!(null))), 200);
    assert_eq!(code(&one, &stored_node()), 403);
    assert_eq!(code(&stored_node(), &one), 403);
    assert_eq!(code(&owned(json!([owner("v")])), &one), 403);
    assert_eq!(code(&owned(json!([owner("u"), owner("v")])), &owned(json!([owner("v"), owner("u")]))), 403);
    let mut controller = owner("u");
    controller["controller"] = json!(false);
    assert_eq!(code(&owned(json!([controller])), &one), 403, "absent differs from false");
}

#[test]
fn a_node_does_not_change_its_taints_w15_nr_41() {
    let a = json!({"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
    let same =
        json!({"key": "a", "value": "", "effect": "NoExecute", "timeAdded": "2026-01-01T01:00:00+01:00"});
    let b = json!({"key": "b", "value": "x", "effect": "NoSchedule"});
    assert_eq!(update_node("/spec/taints", json!([a, b])), 200);
    assert_eq!(update_node("/spec/taints", json!([same, b])), 200);
    for taints in [
        json!(null),
        json!([]),
        json!([a]),
        json!([b, a]),
        json!([a, b, b]),
        json!([a, {"key": "b", "value": "y", "effect": "NoSchedule"}]),
        json!([{"key": "a", "effect": "NoExecute"}, b]),
        json!([{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:01Z"}, b]),
        json!([{"key": "a", "effect": "NoExecute", "timeAdded": "yesterday"}, b]),
    ] {
        assert_eq!(update_node("/spec/taints", taints.clone()), 403, "{taints}");
    }
    let untainted = node_object("/spec", json!(null));
    let emptied = node_object("/spec/taints", json!([]));
    assert_eq!(World::of(&[]).code(&update("nodes/status", "", "n0", &untainted, &emptied)), 200);
    assert_eq!(World::of(&[]).code(&update("nodes/status", "", "n0", &untainted, &stored_node())), 403);
}

#[test]
fn a_node_takes_no_new_config_source_nr_40() {
    let source = |name: &str| json!({"configMap": {"name": name, "namespace": "kube-system"}});
    let object = |source: Value| node_object("/spec/configSource", source);
    let code =
        |new: Value, old: Value| World::of(&[]).code(&update("nodes", "", "n0", &object(new), &object(old)));
    assert_eq!(code(source("a"), source("a")), 200);
    assert_eq!(code(json!(null), source("a")), 200, "clearing");
    assert_eq!(code(source("a"), source("b")), 403);
    assert_eq!(code(source("a"), json!(null)), 403);
    assert_eq!(code(json!({}), json!(null)), 403);
    assert_eq!(code(json!({}), json!({"configMap": null})), 200);
}

#[test]
fn a_node_changes_labels_that_are_its_own_w16_nr_43() {
    let forbidden = "node-role.kubernetes.io/worker";
    assert_eq!(update_node("/metadata/labels", json!({forbidden: "", "kubernetes.io/os": "windows"})), 200);
    assert_eq!(update_node("/metadata/labels", json!({forbidden: ""})), 200);
    assert_eq!(
        update_node("/metadata/labels", json!({forbidden: "", "kubernetes.io/os": "linux", "x": ""})),
        200
    );
    assert_eq!(update_node("/metadata/labels", json!({"kubernetes.io/os": "linux"})), 403);
    assert_eq!(update_node("/metadata/labels", json!({forbidden: "x", "kubernetes.io/os": "linux"})), 403);
    assert_eq!(update_node("/metadata/labels", json!(null)), 403);
}

#[test]
fn the_rest_of_a_node_is_free_nr_45() {
    for (path, value) in [
        ("/spec/unschedulable", json!(true)),
        ("/spec/podCIDRs", json!(["10.0.0.0/24"])),
        ("/spec/providerID", json!("cloud://x")),
        ("/metadata/annotations", json!({"kubernetes.io/x": "y"})),
        ("/metadata/finalizers", json!(["f"])),
        ("/status", json!({"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]})),
    ] {
        assert_eq!(update_node(path, value), 200, "{path}");
    }
}
