//! `managedFields` are the same whether a patch reads them, because a policy is shown them, or leaves them as text.

#![cfg(feature = "cel")]

use serde_json::{Value, json};

use crate::common::{Setup, Started, done, start_with};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Starts a server with a policy that is shown the object of this name and no other, and wants to see who manages it.
fn start_with_policy_for(name: &str) -> Started {
    let server = start_with(Setup { is_cluster: true, ..Setup::default() });
    let rule = json!({"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["configmaps"], "resourceNames": [name]});
    let is_shown = "has(object.metadata.managedFields) && has(oldObject.metadata.managedFields)";
    let spec =
        json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": is_shown}]});
    done(&server, "POST", POLICIES, &json!({"metadata": {"name": "p"}, "spec": spec}), 201);
    let spec = json!({"policyName": "p", "validationActions": ["Deny"]});
    done(&server, "POST", BINDINGS, &json!({"metadata": {"name": "b"}, "spec": spec}), 201);
    server
}

/// An object without the fields that are different in every object.
fn shared(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for own in ["name", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"] {
        metadata.remove(own);
    }
    let managers = metadata.get_mut("managedFields").unwrap().as_array_mut().unwrap();
    for manager in &mut *managers {
        assert!(manager["time"].is_string(), "{manager}");
        manager.as_object_mut().unwrap().remove("time");
    }
    // They are in the order of their times, too.
    managers.sort_by_key(|manager| [&manager["operation"], &manager["manager"]].map(Value::to_string));
    object
}

#[test]
fn patches_record_the_same_with_and_without_a_policy() {
    let server = start_with_policy_for("shown");
    let patches = [
        ("a", json!({"data": {"own": "1"}})),
        ("a", json!({"data": {"own": "2"}})),
        ("b", json!({"data": {"other": "1"}})),
        ("b", json!({"data": {"other": "2"}})),
        // Of a field that another owns.
        ("b", json!({"data": {"own": "3"}})),
        ("b", json!({"metadata": {"labels": {"l": "x"}, "finalizers": ["example.com/f"]}})),
        ("c", json!({"metadata": {"labels": {"l": "x"}}})),
        ("c", json!({"metadata": {"labels": {"l": null}}})),
        ("c", json!({"data": {"own": "4"}})),
        ("a", json!({"metadata": {"annotations": {"text": "managedFields \\ $patch"}}})),
        ("a", json!({"data": {"own": "5"}})),
    ];
    for name in ["shown", "free"] {
        let path = format!("{CONFIG_MAPS}?fieldManager=creator");
        done(&server, "POST", &path, &json!({"metadata": {"name": name}, "data": {"first": "1"}}), 201);
    }
    for (manager, patch) in &patches {
        for query in ["&dryRun=All", ""] {
            let [shown, free] = ["shown", "free"].map(|name| {
                let path = format!("{CONFIG_MAPS}/{name}?fieldManager={manager}{query}");
                let answer = done(&server, "PATCH", &path, patch, 200);
                if query.is_empty() {
                    let stored = done(&server, "GET", &format!("{CONFIG_MAPS}/{name}"), &Value::Null, 200);
                    assert_eq!(answer, stored, "{patch}");
                }
                answer
            });
            assert_eq!(shared(shown), shared(free), "{patch}");
        }
    }
}

#[test]
fn the_last_state_of_a_removed_object_says_who_managed_it() {
    let server = start_with_policy_for("shown");
    let states = ["shown", "free"].map(|name| {
        let object = json!({"metadata": {"name": name, "finalizers": ["example.com/f"]}, "data": {"k": "1"}});
        done(&server, "POST", CONFIG_MAPS, &object, 201);
        let path = format!("{CONFIG_MAPS}/{name}");
        done(&server, "DELETE", &path, &Value::Null, 200);
        let last = done(&server, "PATCH", &path, &json!({"metadata": {"finalizers": null}}), 200);
        done(&server, "GET", &path, &Value::Null, 404);
        shared(last)
    });
    assert_eq!(states[0], states[1]);
    assert_eq!(
        states[0]["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:data": {".": {}, "f:k": {}}})
    );
}

#[test]
fn a_patch_that_changes_nothing_leaves_times_as_they_are() {
    let server = start_with(Setup { is_cluster: true, ..Setup::default() });
    let path = format!("{CONFIG_MAPS}/a?fieldManager=m");
    let made = done(
        &server,
        "POST",
        &format!("{CONFIG_MAPS}?fieldManager=m"),
        &json!({"metadata": {"name": "a"}, "data": {"k": "1"}}),
        201,
    );
    let same = done(&server, "PATCH", &path, &json!({"data": {"k": "1"}}), 200);
    assert_eq!(made, same);
    let changed = done(&server, "PATCH", &path, &json!({"data": {"k": "2"}}), 200);
    assert_ne!(changed["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(
        changed["metadata"]["managedFields"][0]["fieldsV1"],
        made["metadata"]["managedFields"][0]["fieldsV1"]
    );
}
