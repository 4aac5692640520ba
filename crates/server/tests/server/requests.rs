//! Details of requests on which clients of Kubernetes rely: its own tests and client libraries send them.

use std::thread;

use crate::common::{Setup, Started, start_with};
use portcullis_testkit::https::{Client, Identity};
use serde_json::{Value, json};

const DEFAULT: &str = "/api/v1/namespaces/default";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn cluster() -> (Started, Client) {
    let server = start_with(Setup { is_cluster: true, ..Setup::default() });
    let client = Client::new(server.address, &Identity::admin(&server.dir));
    (server, client)
}

fn map(name: &str, text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}})
}

#[test]
fn unquoted_keys_of_yaml_are_resolved_as_in_yaml_1_1() {
    let (server, mut client) = cluster();
    let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, \
                data: {y: a, off: b, \"no\": c, 1: d, 010: e, 1.5: f, plain: g}}";
    let post = |yaml: &str| {
        let request = server.request("POST", MAPS).by(&server.admin());
        request.header("Content-Type: application/yaml").body(yaml).send()
    };
    let made = post(yaml);
    assert_eq!(made.code, 201, "{}", made.text());
    let data = client.must(200, "GET", &format!("{MAPS}/m"), None)["data"].take();
    let expected =
        json!({"true": "a", "false": "b", "no": "c", "1": "d", "8": "e", "1.5": "f", "plain": "g"});
    assert_eq!(data, expected);
    assert_eq!(post("{apiVersion: v1, kind: ConfigMap, metadata: {name: n}, data: {[a]: b}}").code, 400);
}

#[test]
fn a_dry_run_shows_an_object_without_a_revision() {
    let (_server, mut client) = cluster();
    let made = client.must(201, "POST", &format!("{MAPS}?dryRun=All"), Some(&map("m", "a")));
    assert_eq!(made["metadata"].get("resourceVersion"), None);
    assert_eq!(made["metadata"]["name"], "m");
    assert!(made["metadata"]["uid"].is_string());
    let stored = client.must(201, "POST", MAPS, Some(&map("m", "a")));
    let changed = client.must(200, "PUT", &format!("{MAPS}/m?dryRun=All"), Some(&map("m", "b")));
    assert_eq!(changed["metadata"]["resourceVersion"], stored["metadata"]["resourceVersion"]);
}

#[test]
fn a_watch_from_a_revision_in_the_future_waits_for_it() {
    let (server, mut client) = cluster();
    let made = client.must(201, "POST", MAPS, Some(&map("a", "")));
    let revision: u64 = made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let identity = Identity::admin(&server.dir);
    let path = format!("{MAPS}?watch=true&timeoutSeconds=20&resourceVersion={}", revision + 2);
    let mut watch = Client::new(server.address, &identity).watch(&path).unwrap();
    for name in ["b", "c", "d"] {
        client.must(201, "POST", MAPS, Some(&map(name, "")));
    }
    let first = watch.next().unwrap().unwrap();
    assert_eq!((&first["type"], &first["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("d")));
}

#[test]
fn a_watch_from_a_revision_that_is_never_reached_ends_so_that_the_client_lists_again() {
    let (server, mut client) = cluster();
    client.must(201, "POST", MAPS, Some(&map("a", "")));
    let path = format!("{MAPS}?watch=true&resourceVersion=999999999");
    let watch = Client::new(server.address, &Identity::admin(&server.dir)).watch(&path).unwrap();
    let events: Vec<Value> = watch.map(Result::unwrap).collect();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((&events[0]["type"], &events[0]["object"]["code"]), (&json!("ERROR"), &json!(410)));
}

#[test]
fn a_watch_that_begins_with_all_ends_them_with_a_bookmark_if_bookmarks_are_wanted() {
    let (server, mut client) = cluster();
    client.must(201, "POST", MAPS, Some(&map("a", "")));
    let identity = Identity::admin(&server.dir);
    for (query, has_bookmark) in [
        ("allowWatchBookmarks=true", true),
        ("allowWatchBookmarks=true&resourceVersion=0", true),
        ("allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", true),
        ("allowWatchBookmarks=false", false),
        ("resourceVersion=0", false),
    ] {
        let path = format!("{MAPS}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Da&{query}");
        let events = Client::new(server.address, &identity).watch(&path).unwrap();
        let events: Vec<Value> = events.map(Result::unwrap).collect();
        assert_eq!(events[0]["type"], "ADDED", "{query}");
        let bookmark = events.get(1).map(|event| event["object"]["metadata"].clone());
        assert_eq!(bookmark.is_some(), has_bookmark, "{query}: {events:?}");
        if let Some(metadata) = bookmark {
            assert_eq!(metadata["annotations"], json!({"k8s.io/initial-events-end": "true"}), "{query}");
            assert_eq!(metadata.get("creationTimestamp"), None, "{query}");
        }
    }
}

#[test]
fn an_export_is_refused_where_it_once_was_possible() {
    let (_server, mut client) = cluster();
    client.must(201, "POST", MAPS, Some(&map("m", "")));
    for (query, code) in [("export=true", 400), ("export=1", 400), ("export=false", 200), ("export=0", 200)] {
        client.must(code, "GET", &format!("{MAPS}/m?{query}"), None);
    }
}

#[test]
fn an_object_larger_than_a_request_of_etcd_is_refused_and_changes_nothing() {
    let (_server, mut client) = cluster();
    // Not in a ConfigMap, which has a limit of its own.
    let node = |name: &str, length: usize| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "spec": {"providerID": "x".repeat(length)}})
    };
    let limit = 3 << 19;
    let refused = client.must(413, "POST", "/api/v1/nodes", Some(&node("large", limit)));
    assert_eq!(refused["reason"], "RequestEntityTooLarge");
    client.must(404, "GET", "/api/v1/nodes/large", None);
    client.must(201, "POST", "/api/v1/nodes", Some(&node("fits", limit - 2_000)));
    let patch = json!({"metadata": {"annotations": {"a": "x".repeat(10_000)}}});
    client.must(413, "PATCH", "/api/v1/nodes/fits", Some(&patch));
    // An object that is large only because JSON escapes it is stored.
    let quotes = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "quotes"},
        "spec": {"providerID": "\"".repeat(limit * 2 / 3)}});
    client.must(201, "POST", "/api/v1/nodes", Some(&quotes));
}

#[test]
fn a_uid_of_an_object_that_is_gone_is_not_found_by_put_and_a_conflict_by_apply() {
    let (server, mut client) = cluster();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l", "uid": "11111111-2222-3333-4444-555555555555"}});
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    client.must(404, "PUT", path, Some(&lease));
    client.must(
        404,
        "PUT",
        &format!("{MAPS}/none"),
        Some(&{
            let mut map = map("none", "");
            map["metadata"]["uid"] = json!("x");
            map
        }),
    );
    let apply = |path: &str, body: &Value| {
        let request = server.request("PATCH", &format!("{path}?fieldManager=test")).by(&server.admin());
        request.header("Content-Type: application/apply-patch+yaml").body(body.to_string()).send()
    };
    assert_eq!(apply(path, &lease).code, 409);
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
    assert_eq!(apply(&format!("{MAPS}/of-path"), &nameless).code, 400);
}

#[test]
fn only_objects_their_status_and_their_scale_are_shown_as_tables() {
    let (server, mut client) = cluster();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    client.must(201, "POST", &format!("{DEFAULT}/pods"), Some(&pod));
    for (path, code) in [
        (format!("{DEFAULT}/pods/p"), 200),
        (format!("{DEFAULT}/pods/p/status"), 200),
        (format!("{DEFAULT}/pods/p/ephemeralcontainers"), 406),
        (format!("{DEFAULT}/pods/p/resize"), 406),
    ] {
        let table = "Accept: application/json;as=Table;g=meta.k8s.io;v=v1";
        let answer = server.get(&path).by(&server.admin()).header(table).send();
        assert_eq!(answer.code, code, "{path}");
        let either = format!("{table},application/json");
        let answer = server.get(&path).by(&server.admin()).header(&either).send();
        assert_eq!(answer.code, 200, "{path}");
        assert_eq!(answer.json()["kind"], if code == 200 { "Table" } else { "Pod" }, "{path}");
    }
}

#[test]
fn more_slashes_behind_a_version_are_passed_over() {
    let (_server, mut client) = cluster();
    for (path, code) in [("/api/v1//", 200), ("/apis/coordination.k8s.io/v1//", 200), ("/api//", 200)] {
        let list = client.must(code, "GET", path, None);
        assert!(["APIResourceList", "APIVersions"].contains(&list["kind"].as_str().unwrap()), "{path}");
    }
    assert_eq!(client.ask("GET", "/apis//", None).unwrap().code, 404);
}

#[test]
fn a_client_may_ask_for_an_answer_in_less_time_and_must_say_it_as_a_duration() {
    let (server, mut client) = cluster();
    for query in ["timeout=10s", "timeout=0s", "timeout=", "timeout=1h", "timeoutSeconds=x&timeout=1s"] {
        client.must(200, "GET", &format!("{DEFAULT}?{query}"), None);
    }
    for query in ["timeout=10", "timeout=soon"] {
        assert_eq!(client.must(400, "GET", &format!("{DEFAULT}?{query}"), None)["reason"], "BadRequest");
    }
    // A list at a revision that never comes waits as long as it may.
    let made = client.must(201, "POST", MAPS, Some(&map("m", "")));
    let revision: u64 = made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let late = format!("{MAPS}?resourceVersion={}&timeout=200ms", revision + 1_000_000);
    let identity = Identity::admin(&server.dir);
    let address = server.address;
    let waiting = thread::spawn(move || Client::new(address, &identity).must(504, "GET", &late, None));
    let refused = waiting.join().unwrap();
    assert_eq!((refused["reason"].as_str(), refused["details"]["causes"].is_null()), (Some("Timeout"), true));
}

#[test]
fn an_eviction_asks_the_budget_of_the_pod_and_is_taken_from_it() {
    let (server, mut client) = cluster();
    let mut kubelet = server.kubelet("n1");
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let running = |ready: &str| json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    for (name, ready) in [("a", "True"), ("b", "True"), ("c", "True"), ("sick", "False")] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}});
        client.must(201, "POST", &format!("{DEFAULT}/pods"), Some(&pod));
        kubelet.must(200, "PATCH", &format!("{DEFAULT}/pods/{name}/status"), Some(&running(ready)));
    }
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    client.must(201, "POST", budgets, Some(&budget));
    let evict = |client: &mut Client, code: u16, name: &str, query: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        client.must(code, "POST", &format!("{DEFAULT}/pods/{name}/eviction{query}"), Some(&eviction))
    };
    // No controller has looked at the budget yet.
    let refused = evict(&mut client, 429, "a", "");
    assert_eq!(refused["reason"], "TooManyRequests");
    assert_eq!(refused["details"]["causes"][0]["reason"], "DisruptionBudget");
    assert_eq!(refused["details"]["retryAfterSeconds"], 10);
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2,
        "desiredHealthy": 1, "expectedPods": 4, "conditions": [{"type": "DisruptionAllowed", "status": "True",
        "reason": "SufficientPods", "message": "", "lastTransitionTime": "2026-11-22T00:00:00Z"}]}});
    client.must(200, "PATCH", &format!("{budgets}/web/status"), Some(&status));
    evict(&mut client, 201, "a", "?dryRun=All");
    evict(&mut client, 201, "a", "");
    let status = client.must(200, "GET", &format!("{budgets}/web"), None)["status"].take();
    assert_eq!(status["disruptionsAllowed"], 0);
    assert!(status["disruptedPods"]["a"].is_string(), "{status}");
    assert_eq!(status["conditions"][0]["reason"], "InsufficientPods");
    let refused = evict(&mut client, 429, "b", "");
    let why = "The disruption budget web needs 1 healthy pods and has 2 currently";
    assert_eq!(refused["details"]["causes"][0]["message"], why);
    client.must(200, "GET", &format!("{DEFAULT}/pods/b"), None);
    // More pods are healthy than must be, so one that is not may go.
    evict(&mut client, 201, "sick", "");
    // Evicting a pod that does not run is no disruption.
    let failed = json!({"status": {"phase": "Failed"}});
    kubelet.must(200, "PATCH", &format!("{DEFAULT}/pods/b/status"), Some(&failed));
    evict(&mut client, 201, "b", "");
    let second = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all"},
        "spec": {"selector": {}}});
    client.must(201, "POST", budgets, Some(&second));
    evict(&mut client, 500, "c", "");
    client.must(200, "DELETE", &format!("{budgets}/all"), None);
    client.must(200, "DELETE", &format!("{budgets}/web"), None);
    evict(&mut client, 201, "c", "");
}
