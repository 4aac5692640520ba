//! `kubectl apply --server-side`.

use serde_json::{Value, json};

use crate::kubectl::support::Served;

const MANIFEST: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: theme, namespace: shop}
data: {colour: red, size: large}
";

fn shop() -> Served {
    let served = Served::start(&[]);
    served.ok("create namespace shop");
    served.scratch.write("m.yaml", MANIFEST);
    served
}

/// The managers of the theme, with how they manage and which keys.
fn managers(served: &Served) -> Vec<(String, String, Value)> {
    let theme = served.json("get configmap theme -n shop --show-managed-fields");
    let entries = theme["metadata"]["managedFields"].as_array().unwrap().clone();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    entries
        .iter()
        .map(|entry| (text(entry, "manager"), text(entry, "operation"), entry["fieldsV1"]["f:data"].clone()))
        .collect()
}

fn theme(served: &Served) -> Value {
    served.json("get configmap theme -n shop")["data"].clone()
}

#[test]
fn what_is_applied_is_managed_and_what_others_manage_is_a_conflict() {
    let served = shop();
    let apply = "apply --server-side -f m.yaml";
    assert_eq!(served.ok(apply), "configmap/theme serverside-applied");
    let both = json!({"f:colour": {}, "f:size": {}});
    assert_eq!(managers(&served), [("kubectl".to_owned(), "Apply".to_owned(), both)]);
    let shown = served.json("get configmap theme -n shop");
    assert!(shown["metadata"].get("managedFields").is_none(), "{shown}");

    served.ok("patch configmap theme -n shop --field-manager=painter -p '{\"data\":{\"colour\":\"blue\"}}'");
    let refused = served.fails(apply);
    let conflict = "Apply failed with 1 conflict: conflict with \"painter\" using v1: .data.colour";
    assert!(refused.contains(conflict), "{refused}");
    assert!(refused.contains("--force-conflicts"), "{refused}");
    assert_eq!(theme(&served), json!({"colour": "blue", "size": "large"}));

    let differs = served.kubectl("diff --server-side --force-conflicts -f m.yaml");
    assert_eq!(differs.code, 1, "{differs:?}");
    assert!(differs.stdout.contains("-  colour: blue\n+  colour: red\n"), "{differs:?}");

    assert_eq!(served.ok(&format!("{apply} --force-conflicts")), "configmap/theme serverside-applied");
    assert_eq!(theme(&served), json!({"colour": "red", "size": "large"}));
    let only = managers(&served);
    assert_eq!(only.len(), 1, "{only:?}");

    served.scratch.write("m.yaml", MANIFEST.replace(", size: large", ""));
    assert_eq!(served.ok(apply), "configmap/theme serverside-applied");
    assert_eq!(theme(&served), json!({"colour": "red"}));
}

#[test]
fn what_was_applied_by_the_client_is_taken_over() {
    let served = shop();
    assert_eq!(served.ok("apply -f m.yaml"), "configmap/theme created");
    let by_client = managers(&served);
    assert_eq!(by_client[0].0, "kubectl-client-side-apply", "{by_client:?}");

    served.scratch.write("m.yaml", MANIFEST.replace("colour: red, size: large", "colour: blue"));
    assert_eq!(served.ok("apply --server-side -f m.yaml"), "configmap/theme serverside-applied");
    assert_eq!(theme(&served), json!({"colour": "blue"}));
    let last = served.ok("apply view-last-applied configmap theme -n shop -o json");
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["data"], json!({"colour": "blue"}));
}

#[test]
fn a_scale_is_managed_apart() {
    let served = shop();
    served.ok("create deployment web -n shop --image=registry.example/web:1 --replicas=1");
    served.ok("scale deployment web -n shop --replicas=3");
    let web = served.json("get deployment web -n shop --show-managed-fields");
    let entries = web["metadata"]["managedFields"].as_array().unwrap();
    let scale: Vec<&Value> = entries.iter().filter(|entry| entry["subresource"] == "scale").collect();
    let [scale] = scale.as_slice() else { panic!("{entries:?}") };
    assert_eq!(scale["apiVersion"], "apps/v1");
    assert_eq!(scale["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    let others = entries.iter().filter(|entry| entry["subresource"] != "scale");
    for entry in others {
        assert!(entry["fieldsV1"]["f:spec"].get("f:replicas").is_none(), "{entry}");
    }
}
