//! ResourceQuotas over the network: exact with many clients, in force at once, and given back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;

use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::https::Client;
use portcullis_testkit::wait;
use serde_json::{Value, json};

use crate::common::{Setup, Started, ask, done, start_with};
use crate::several_servers::setup;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn start() -> Started {
    let server = start_with(Setup { is_cluster: true, ..Setup::default() });
    await_account(&server);
    server
}

/// Pods need the account of their namespace.
fn await_account(server: &Started) {
    wait::until("the default account is there", || {
        ask(server, "GET", "/api/v1/namespaces/default/serviceaccounts/default", &Value::Null).code == 200
    });
}

fn quota(name: &str, hard: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}})
}

fn pod(name: &str, cpu: &str) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}})
}

fn used(server: &Started, name: &str) -> Value {
    let found = done(server, "GET", &format!("{QUOTAS}/{name}"), &Value::Null, 200);
    found["status"]["used"].clone()
}

#[track_caller]
fn used_becomes(server: &Started, name: &str, expected: &Value) {
    wait::until(&format!("{name} has used {expected}"), || used(server, name) == *expected);
}

fn refused(server: &Started, path: &str, body: &Value) -> String {
    done(server, "POST", path, body, 403)["message"].as_str().unwrap().to_owned()
}

/// Many clients create pods at once, through these servers; the quota has room for 20 of them.
fn fill(servers: &[&Started]) {
    done(servers[0], "POST", QUOTAS, &quota("q", &json!({"pods": "20", "requests.cpu": "3"})), 201);
    let created = AtomicUsize::new(0);
    scope(|scope| {
        for client in 0..8 {
            let server = servers[client % servers.len()];
            let created = &created;
            scope.spawn(move || {
                let admin: Client = server.client(&server.admin());
                // Kubelets and controllers speak protobuf.
                let mut admin = if client % 4 < 2 { admin.in_protobuf() } else { admin };
                for i in 0..6 {
                    let answer = admin.ask("POST", PODS, Some(&pod(&format!("p-{client}-{i}"), "100m"))).unwrap();
                    match answer.code {
                        201 => drop(created.fetch_add(1, Ordering::Relaxed)),
                        403 => {
                            let message = answer.json()["message"].as_str().unwrap().to_owned();
                            let why = "is forbidden: exceeded quota: q, requested: pods=1, used: pods=20, limited: pods=20";
                            assert!(message.ends_with(why), "{message}");
                        }
                        code => panic!("{code}: {}", answer.text()),
                    }
                }
            });
        }
    });
    assert_eq!(created.into_inner(), 20);
    for server in servers {
        used_becomes(server, "q", &json!({"pods": "20", "requests.cpu": "2"}));
        let pods = done(server, "GET", PODS, &Value::Null, 200);
        assert_eq!(pods["items"].as_array().unwrap().len(), 20);
    }
}

#[test]
fn many_clients_fill_a_quota_exactly() {
    fill(&[&start()]);
}

#[test]
fn clients_of_two_servers_fill_a_quota_exactly() {
    let etcd = Etcd::start();
    let one = start_with(setup(&etcd));
    let keys_of = Some(one.dir.clone());
    let other = start_with(Setup { keys_of, ..setup(&etcd) });
    await_account(&one);
    await_account(&other);
    fill(&[&one, &other]);
}

#[test]
fn a_quota_counts_what_was_there_before_and_is_in_force_at_once() {
    let server = start();
    for name in ["a", "b"] {
        done(&server, "POST", PODS, &pod(name, "1"), 201);
    }
    done(&server, "POST", QUOTAS, &quota("q", &json!({"pods": "2"})), 201);
    let message = refused(&server, PODS, &pod("c", "1"));
    let why = "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    assert_eq!(message, why);
    let change = json!({"spec": {"hard": {"pods": "3"}}});
    done(&server, "PATCH", &format!("{QUOTAS}/q"), &change, 200);
    done(&server, "POST", PODS, &pod("c", "1"), 201);
    refused(&server, PODS, &pod("d", "1"));
    let settled = done(&server, "GET", &format!("{QUOTAS}/q"), &Value::Null, 200);
    assert_eq!(settled["status"], json!({"hard": {"pods": "3"}, "used": {"pods": "3"}}));
}

#[test]
fn what_is_deleted_or_has_ended_is_given_back() {
    let server = start();
    done(&server, "POST", QUOTAS, &quota("q", &json!({"count/pods": "9", "pods": "9", "cpu": "9"})), 201);
    for name in ["a", "b", "c"] {
        done(&server, "POST", PODS, &pod(name, "1500m"), 201);
    }
    assert_eq!(used(&server, "q"), json!({"count/pods": "3", "pods": "3", "cpu": "4500m"}));
    let now = json!({"gracePeriodSeconds": 0});
    done(&server, "DELETE", &format!("{PODS}/a"), &now, 200);
    used_becomes(&server, "q", &json!({"count/pods": "2", "pods": "2", "cpu": "3"}));
    done(&server, "PATCH", &format!("{PODS}/b/status"), &json!({"status": {"phase": "Succeeded"}}), 200);
    used_becomes(&server, "q", &json!({"count/pods": "2", "pods": "1", "cpu": "1500m"}));
}

#[test]
fn what_is_not_stored_is_not_counted() {
    let server = start();
    done(&server, "POST", QUOTAS, &quota("q", &json!({"pods": "2"})), 201);
    done(&server, "POST", PODS, &pod("a", "1"), 201);
    done(&server, "POST", PODS, &pod("a", "1"), 409);
    done(&server, "POST", PODS, &pod("A?", "1"), 422);
    done(&server, "POST", &format!("{PODS}?dryRun=All"), &pod("b", "1"), 201);
    assert_eq!(used(&server, "q"), json!({"pods": "1"}));
    done(&server, "POST", PODS, &pod("b", "1"), 201);
    done(&server, "POST", &format!("{PODS}?dryRun=All"), &pod("c", "1"), 403);
}

#[test]
fn updates_take_and_give_back_the_difference() {
    let server = start();
    done(&server, "POST", QUOTAS, &quota("q", &json!({"services.nodeports": "1", "services": "9"})), 201);
    let service = |name: &str| {
        let spec = json!({"selector": {"a": "b"}, "ports": [{"port": 80}]});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let change = |name: &str, kind: &str, code: u16| {
        done(&server, "PATCH", &format!("{SERVICES}/{name}"), &json!({"spec": {"type": kind}}), code)
    };
    done(&server, "POST", SERVICES, &service("a"), 201);
    done(&server, "POST", SERVICES, &service("b"), 201);
    change("a", "NodePort", 200);
    let why = "services \"b\" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: \
               services.nodeports=1, limited: services.nodeports=1";
    assert_eq!(change("b", "NodePort", 403)["message"], why);
    change("a", "ClusterIP", 200);
    // The third one is `kubernetes`.
    assert_eq!(used(&server, "q"), json!({"services.nodeports": "0", "services": "3"}));
    change("b", "NodePort", 200);
}

#[test]
fn what_the_server_makes_itself_is_counted() {
    let server = start();
    done(&server, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "team"}}), 201);
    let quotas = "/api/v1/namespaces/team/resourcequotas";
    done(
        &server,
        "POST",
        quotas,
        &quota("q", &json!({"configmaps": "1", "count/serviceaccounts": "9"})),
        201,
    );
    wait::until("the certificates and the account are counted", || {
        let found = done(&server, "GET", &format!("{quotas}/q"), &Value::Null, 200);
        found["status"]["used"] == json!({"configmaps": "1", "count/serviceaccounts": "1"})
    });
    refused(&server, "/api/v1/namespaces/team/configmaps", &json!({"metadata": {"name": "mine"}}));
}

#[test]
fn custom_objects_are_counted() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const TOYS: &str = "/apis/example.com/v1/namespaces/default/toys";
    let server = start();
    done(&server, "POST", QUOTAS, &quota("q", &json!({"count/toys.example.com": "1"})), 201);
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({"metadata": {"name": "toys.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "toys", "kind": "Toy"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    done(&server, "POST", DEFINITIONS, &definition, 201);
    wait::until("toys are served", || ask(&server, "GET", TOYS, &Value::Null).code == 200);
    let toy = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": name}});
    done(&server, "POST", TOYS, &toy("a"), 201);
    refused(&server, TOYS, &toy("b"));
}

#[test]
fn quotas_are_bounded() {
    let server = start();
    let many = |count: usize| -> Value {
        let hard: serde_json::Map<String, Value> =
            (0..count).map(|i| (format!("count/kind-{i}.example.com"), json!("1"))).collect();
        hard.into()
    };
    done(&server, "POST", QUOTAS, &quota("q", &many(501)), 422);
    done(&server, "POST", QUOTAS, &quota("q", &json!({"gold": "1"})), 422);
    let expression = |values: usize| json!({"scopeName": "PriorityClass", "operator": "In", "values": vec!["high"; values]});
    for extra in [
        json!({"scopes": vec!["Terminating"; 8]}),
        json!({"scopeSelector": {"matchExpressions": vec![expression(1); 101]}}),
        json!({"scopeSelector": {"matchExpressions": [expression(501)]}}),
    ] {
        let mut wide = quota("q", &json!({"pods": "1"}));
        wide["spec"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let refused = done(&server, "POST", QUOTAS, &wide, 422);
        assert!(refused["message"].as_str().unwrap().contains("Too many"), "{refused}");
    }
    for i in 0..50 {
        // So much that they are applied on a thread of its own.
        let mut hard = many(20);
        hard["configmaps"] = json!("10");
        done(&server, "POST", QUOTAS, &quota(&format!("q{i}"), &hard), 201);
    }
    let message = refused(&server, QUOTAS, &quota("q", &many(1)));
    assert!(message.contains("the namespace has 50 quotas"), "{message}");
    let before = wait::until_some("what was there before is counted", || {
        used(&server, "q49")["configmaps"].as_str()?.parse::<usize>().ok()
    });
    for i in before..10 {
        done(&server, "POST", CONFIG_MAPS, &json!({"metadata": {"name": format!("c{i}")}}), 201);
    }
    assert_eq!(used(&server, "q49")["configmaps"], "10");
    refused(&server, CONFIG_MAPS, &json!({"metadata": {"name": "more"}}));
}

/// The words are those of kube-apiserver.
#[test]
fn limited_resources_cannot_be_used_without_a_quota() {
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "ResourceQuotaConfiguration",
        "limitedResources": [
            {"resource": "pods", "matchContains": ["requests.cpu"], "matchScopes": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["system-cluster-critical"]},
            ]},
            {"resource": "configmaps", "matchContains": ["count/configmaps"]},
        ],
    });
    let admission = Some(json!([{"name": "ResourceQuota", "configuration": configuration}]));
    let server = start_with(Setup { is_cluster: true, admission, ..Setup::default() });
    await_account(&server);
    let map = |name: &str| json!({"metadata": {"name": name}});
    let why = refused(&server, CONFIG_MAPS, &map("a"));
    assert_eq!(why, "configmaps \"a\" is forbidden: insufficient quota to consume: count/configmaps");
    let why = refused(&server, PODS, &pod("p", "1"));
    assert_eq!(why, "pods \"p\" is forbidden: insufficient quota to consume: requests.cpu");
    // What uses nothing of it needs no quota.
    let frugal =
        json!({"metadata": {"name": "frugal"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    done(&server, "POST", PODS, &frugal, 201);

    done(&server, "POST", QUOTAS, &quota("q", &json!({"requests.cpu": "3", "count/configmaps": "9"})), 201);
    done(&server, "POST", PODS, &pod("p", "1"), 201);
    done(&server, "POST", CONFIG_MAPS, &map("a"), 201);
    let mut critical = pod("critical", "1");
    critical["spec"]["priorityClassName"] = json!("system-cluster-critical");
    let why = refused(&server, PODS, &critical);
    let scopes = "insufficient quota to match these scopes: [{PriorityClass In [system-cluster-critical]}]";
    assert_eq!(why, format!("pods \"critical\" is forbidden: {scopes}"));
    let mut of_class = quota("of-class", &json!({"pods": "1"}));
    of_class["spec"]["scopes"] = json!(["PriorityClass"]);
    done(&server, "POST", QUOTAS, &of_class, 201);
    done(&server, "POST", PODS, &critical, 201);
    critical["metadata"]["name"] = json!("second");
    assert!(refused(&server, PODS, &critical).contains("exceeded quota: of-class"));
    // Without the quotas what is there stays, and can be changed.
    done(&server, "DELETE", &format!("{QUOTAS}/q"), &Value::Null, 200);
    done(&server, "PATCH", &format!("{CONFIG_MAPS}/a"), &json!({"data": {"k": "v"}}), 200);
    assert!(refused(&server, CONFIG_MAPS, &map("b")).contains("insufficient quota"));
}
