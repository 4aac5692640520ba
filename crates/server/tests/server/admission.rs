//! Admission and what comes with a write: what the recordings do not show, because it takes several requests at one

//! time, or settings of the cluster.

use std::collections::BTreeSet;
use std::thread;

use crate::common::{Answer, Setup, Started, start_with};
use serde_json::{Value, json};

const DEFAULT: &str = "/api/v1/namespaces/default";
const STORAGE: &str = "/apis/storage.k8s.io/v1/storageclasses";

fn start() -> Started {
    start_with(Setup { is_cluster: true, ..Setup::default() })
}

fn send(server: &Started, method: &str, path: &str, body: &Value) -> Answer {
    let mut request = server.request(method, path).by(&server.admin());
    if !body.is_null() {
        let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        request = request.header(&format!("Content-Type: {media_type}")).body(body.to_string());
    }
    request.send()
}

fn made(server: &Started, path: &str, body: &Value) -> Value {
    let answer = send(server, "POST", path, body);
    assert_eq!(answer.code, 201, "{}", answer.text());
    answer.json()
}

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}})
}

#[test]
fn services_that_are_made_at_one_time_share_neither_address_nor_port() {
    let server = start();
    let count = 8;
    let services: Vec<Value> = thread::scope(|scope| {
        let server = &server;
        let threads: Vec<_> = (0..count)
            .map(|i| {
                let body = service(&format!("s{i}"));
                scope.spawn(move || made(server, &format!("{DEFAULT}/services"), &body))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let distinct = |pointer: &str| -> usize {
        services
            .iter()
            .map(|service| service.pointer(pointer).unwrap().to_string())
            .collect::<BTreeSet<_>>()
            .len()
    };
    assert_eq!(distinct("/spec/clusterIP"), count);
    assert_eq!(distinct("/spec/ports/0/nodePort"), count);
}

#[test]
fn an_address_that_a_service_has_is_refused_until_the_service_is_gone() {
    let server = start();
    let path = format!("{DEFAULT}/services");
    let address = made(&server, &path, &service("a"))["spec"]["clusterIP"].clone();
    let mut other = service("b");
    other["spec"]["clusterIP"] = address.clone();
    let refusal = send(&server, "POST", &path, &other).assert_status(422, "Invalid");
    assert_eq!(refusal["details"]["causes"][0]["field"], "spec.clusterIPs");
    assert_eq!(send(&server, "DELETE", &format!("{path}/a"), &Value::Null).code, 200);
    assert_eq!(made(&server, &path, &other)["spec"]["clusterIP"], address);
}

#[test]
fn the_endpoints_of_a_service_go_with_it_but_not_in_a_dry_run() {
    let server = start();
    made(&server, &format!("{DEFAULT}/services"), &service("a"));
    made(&server, &format!("{DEFAULT}/endpoints"), &json!({"metadata": {"name": "a"}}));
    made(&server, &format!("{DEFAULT}/endpoints"), &json!({"metadata": {"name": "b"}}));
    let code = |name: &str| send(&server, "GET", &format!("{DEFAULT}/endpoints/{name}"), &Value::Null).code;
    let delete =
        |query: &str| send(&server, "DELETE", &format!("{DEFAULT}/services/a{query}"), &Value::Null).code;
    assert_eq!((delete("?dryRun=All"), code("a")), (200, 200));
    assert_eq!((delete(""), code("a"), code("b")), (200, 404, 200));
}

#[test]
fn claims_get_the_class_that_is_marked_and_grow_where_it_allows_ap_133() {
    let server = start();
    let claims = format!("{DEFAULT}/persistentvolumeclaims");
    assert!(made(&server, &claims, &claim("before"))["spec"].get("storageClassName").is_none());
    let class = |name: &str, grows: bool| {
        json!({"metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "p", "allowVolumeExpansion": grows})
    };
    made(&server, STORAGE, &class("grows", true));
    assert_eq!(made(&server, &claims, &claim("a"))["spec"]["storageClassName"], "grows");
    let grow = || {
        let size = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
        send(&server, "PATCH", &format!("{claims}/a"), &size)
    };
    // Only what is bound can grow.
    grow().assert_status(422, "Invalid");
    let bound = json!({"status": {"phase": "Bound"}});
    assert_eq!(send(&server, "PATCH", &format!("{claims}/a/status"), &bound).code, 200);
    let volume = json!({"spec": {"volumeName": "v"}});
    assert_eq!(send(&server, "PATCH", &format!("{claims}/a"), &volume).code, 200);
    let grown = grow();
    assert_eq!(grown.code, 200, "{}", grown.text());
    let fixed = json!({"allowVolumeExpansion": false});
    assert_eq!(send(&server, "PATCH", &format!("{STORAGE}/grows"), &fixed).code, 200);
    assert_eq!(grow().code, 200, "a size that stays needs no leave");
    let size = json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}});
    send(&server, "PATCH", &format!("{claims}/a"), &size).assert_status(403, "Forbidden");
}

#[test]
fn a_pod_in_a_new_namespace_waits_for_its_account_and_an_unknown_one_is_refused_ap_110() {
    let server = start();
    for i in 0..5 {
        made(&server, "/api/v1/namespaces", &json!({"metadata": {"name": format!("n{i}")}}));
        let made = made(&server, &format!("/api/v1/namespaces/n{i}/pods"), &pod("p"));
        assert_eq!(made["spec"]["serviceAccountName"], "default");
    }
    let mut other = pod("q");
    other["spec"]["serviceAccountName"] = json!("nobody");
    send(&server, "POST", &format!("{DEFAULT}/pods"), &other).assert_status(403, "Forbidden");
}

#[test]
fn a_pod_gets_the_labels_of_where_its_node_is_whichever_way_it_is_bound() {
    let server = start();
    let zone = "topology.kubernetes.io/zone";
    made(&server, "/api/v1/nodes", &json!({"metadata": {"name": "n", "labels": {zone: "z", "other": "o"}}}));
    let pods = format!("{DEFAULT}/pods");
    let mut on_node = pod("a");
    on_node["spec"]["nodeName"] = json!("n");
    let labels = made(&server, &pods, &on_node)["metadata"]["labels"].clone();
    assert_eq!(labels, json!({zone: "z"}));
    made(&server, &pods, &pod("b"));
    let binding = json!({"metadata": {"name": "b"}, "target": {"name": "n"}});
    made(&server, &format!("{pods}/b/binding"), &binding);
    let bound = send(&server, "GET", &format!("{pods}/b"), &Value::Null).json();
    assert_eq!((&bound["metadata"]["labels"], &bound["spec"]["nodeName"]), (&labels, &json!("n")));
}

#[test]
fn one_of_many_that_bind_a_pod_at_one_time_does_ap_120() {
    let server = start();
    let pods = format!("{DEFAULT}/pods");
    made(&server, &pods, &pod("p"));
    let path = format!("{pods}/p/binding");
    let codes: Vec<u16> = thread::scope(|scope| {
        let (server, path) = (&server, &path);
        let threads: Vec<_> = (0..6)
            .map(|i| {
                let body = json!({"metadata": {"name": "p"}, "target": {"name": format!("n{i}")}});
                scope.spawn(move || send(server, "POST", path, &body).code)
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 409).count(), 5, "{codes:?}");
}

/// The cases and the words are those of the test of PodResizeValidator in Kubernetes.
#[test]
fn a_pod_is_resized_to_what_its_node_can_hold() {
    let server = start();
    for system in ["linux", "windows"] {
        let name = format!("{system}-node");
        made(
            &server,
            "/api/v1/nodes",
            &json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/os": system}},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}},
            }),
        );
    }
    for (name, node) in [
        ("on-linux", "linux-node"),
        ("on-windows", "windows-node"),
        ("on-none", "missing-node"),
        ("waiting", ""),
    ] {
        let mut pod = pod(name);
        pod["spec"]["nodeName"] = node.into();
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
        made(&server, &format!("{DEFAULT}/pods"), &pod);
    }
    let few = "Node didn't have enough allocatable resources:";
    for (name, requests, refused) in [
        ("on-linux", json!({"cpu": "2"}), None),
        ("on-linux", json!({"memory": "2Gi"}), None),
        ("on-linux", json!({"cpu": "4", "memory": "8Gi"}), None),
        ("on-linux", json!({"cpu": "10"}), Some(format!("{few} cpu, requested: 10000, allocatable: 4000"))),
        (
            "on-linux",
            json!({"cpu": "10", "memory": "10Gi"}),
            Some(format!(
                "{few} cpu, requested: 10000, allocatable: 4000; memory, requested: 10737418240, allocatable: 8589934592"
            )),
        ),
        (
            "on-windows",
            json!({"cpu": "2"}),
            Some(
                "pod resize is only supported on linux nodes, node \"windows-node\" is \"windows\""
                    .to_owned(),
            ),
        ),
        ("on-windows", json!({"cpu": "1"}), None),
        ("on-none", json!({"cpu": "2"}), Some("node \"missing-node\" not found".to_owned())),
        ("waiting", json!({"cpu": "10"}), None),
    ] {
        let replaced = |(resource, amount): (&String, &Value)| {
            let path = format!("/spec/containers/0/resources/requests/{resource}");
            json!({"op": "replace", "path": path, "value": amount})
        };
        let patch: Value = requests.as_object().unwrap().iter().map(replaced).collect();
        let answer = server
            .request("PATCH", &format!("{DEFAULT}/pods/{name}/resize"))
            .by(&server.admin())
            .header("Content-Type: application/json-patch+json")
            .body(patch.to_string())
            .send();
        match refused {
            None => assert_eq!(answer.code, 200, "{name} {requests}: {}", answer.text()),
            Some(why) => {
                let refusal = answer.assert_status(403, "Forbidden");
                assert_eq!(refusal["message"], format!("pods \"{name}\" is forbidden: {why}"));
            }
        }
    }
}

const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";

fn class(name: &str, expression: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}})
}

/// The expressions are those of the documentation of Kubernetes and of the tests of its compiler of selectors.
#[test]
fn a_selector_of_devices_is_an_expression_about_a_device() {
    let server = start();
    for (i, expression) in [
        "true",
        r#"device.driver == "dra.example.com""#,
        r#"device.driver == "driver.example.com" && device.attributes["driver.example.com"].type == "gpu""#,
        r#"device.attributes["dra.example.com"].name.matches("^.*name$")"#,
        r#"device.attributes["dra.example.com"].family == "a" && device.attributes["other.example.com"]["name"] == "b""#,
        r#""dra.example.com" in device.attributes && has(device.attributes["dra.example.com"].someBool)"#,
        r#"device.capacity["driver.example.com"].memory == quantity("64Gi")"#,
        r#"device.capacity["driver.example.com"].memory.compareTo(quantity("1Mi")) >= 0"#,
        r#"device.attributes["dra.example.com"].version.isGreaterThan(semver("0.0.1"))"#,
        r#"cel.bind(dra, device.attributes["dra.example.com"], dra.oneBool && dra.anotherBool)"#,
        r#"device.attributes["dra.example.com"].?model.orValue("none") == "a""#,
        r#"device.attributes.all(domain, values, size(domain) > 0 && size(values) > 0)"#,
        r#"device.allowMultipleAllocations == true"#,
    ]
    .into_iter()
    .enumerate()
    {
        made(&server, CLASSES, &class(&format!("good-{i}"), expression));
    }
    for (expression, fault) in [
        (r#"device.attributes[true].someBoolean"#, "found no matching overload for '_[_]'"),
        ("attributes.foo == 1", "undeclared reference to 'attributes'"),
        ("device.vendor == \"a\"", "undefined field 'vendor'"),
        ("request.user == \"a\"", "undeclared reference to 'request'"),
        ("device.driver", "must evaluate to bool"),
        ("device.driver ==", "compilation failed"),
    ] {
        let refusal = send(&server, "POST", CLASSES, &class("bad", expression)).assert_status(422, "Invalid");
        let cause = &refusal["details"]["causes"][0];
        assert_eq!(cause["field"], "spec.selectors[0].cel.expression", "{expression}");
        assert!(cause["message"].as_str().unwrap().contains(fault), "{expression}: {cause}");
    }
    let selectors = json!([{"cel": {"expression": "true"}}, {"cel": {"expression": "nobody"}}]);
    let exactly = json!({"deviceClassName": "c", "selectors": selectors});
    let first = json!([{"name": "b", "deviceClassName": "c", "selectors": selectors}]);
    let requests = json!([{"name": "r", "exactly": exactly}, {"name": "s", "firstAvailable": first}]);
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}});
    let path = "/apis/resource.k8s.io/v1/namespaces/default";
    let template = json!({"metadata": {"name": "c"}, "spec": {"spec": claim["spec"]}});
    for (kind, object, spec) in
        [("resourceclaims", claim, "spec"), ("resourceclaimtemplates", template, "spec.spec")]
    {
        let refusal = send(&server, "POST", &format!("{path}/{kind}"), &object).assert_status(422, "Invalid");
        let causes = refusal["details"]["causes"].as_array().unwrap();
        let fields: Vec<&Value> = causes.iter().map(|cause| &cause["field"]).collect();
        let requests = format!("{spec}.devices.requests");
        assert_eq!(
            fields,
            [
                &json!(format!("{requests}[0].exactly.selectors[1].cel.expression")),
                &json!(format!("{requests}[1].firstAvailable[0].selectors[1].cel.expression")),
            ]
        );
    }
}

/// Ten kilobytes are the limit of Kubernetes. Whatever is written there, the answer comes.
#[test]
fn a_selector_of_devices_is_bounded() {
    let server = start();
    let padded = |length: usize| format!("device.driver == \"{}\"", "x".repeat(length - 19));
    made(&server, CLASSES, &class("longest", &padded(10 * 1024)));
    let refusal = send(&server, "POST", CLASSES, &class("bad", &padded(10 * 1024 + 1)));
    let cause = &refusal.assert_status(422, "Invalid")["details"]["causes"][0];
    assert_eq!(cause["reason"], "FieldValueTooLong");
    for deep in
        ["(".repeat(5_000), "!".repeat(10_000), "[".repeat(10_000), "a.".repeat(5_000), "1+".repeat(5_000)]
    {
        send(&server, "POST", CLASSES, &class("bad", &deep)).assert_status(422, "Invalid");
    }
}

#[test]
fn a_pod_without_a_node_has_an_empty_log_and_is_not_connected_to() {
    let server = start();
    made(&server, &format!("{DEFAULT}/pods"), &pod("p"));
    for (method, path) in
        [("GET", "log"), ("POST", "exec"), ("GET", "exec"), ("POST", "portforward"), ("GET", "proxy")]
    {
        let of = |name: &str| send(&server, method, &format!("{DEFAULT}/pods/{name}/{path}"), &Value::Null);
        let code = of("p").code;
        assert!(matches!((path, code), ("log", 204) | (_, 400)), "{path}: {code}");
        of("none").assert_status(404, "NotFound");
    }
}

#[test]
fn owners_that_are_named_twice_count_once() {
    let server = start();
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": name});
    let owners = json!([owner("a"), owner("b"), owner("a")]);
    let body = json!({"metadata": {"name": "m", "ownerReferences": owners}});
    let answer = send(&server, "POST", &format!("{DEFAULT}/configmaps"), &body);
    assert_eq!(answer.code, 201, "{}", answer.text());
    assert!(answer.header("warning").contains("duplicate entries"), "{}", answer.head);
    assert_eq!(answer.json()["metadata"]["ownerReferences"], json!([owner("a"), owner("b")]));
}
