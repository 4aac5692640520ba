//! Decisions follow the newest write: the next request after an acknowledgement sees it, whatever else is written.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::scope;

use crate::common::{Setup, Started, start_with};
use portcullis_testkit::https::Client;
use portcullis_testkit::mutate::dice;
use serde_json::{Value, json};

const NAMESPACE: &str = "/api/v1/namespaces/default";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const PAIRS: u64 = 4;
const ROUNDS: u64 = 300;

fn admin(server: &Started) -> Client {
    server.client(&server.admin())
}

/// How a pod may name a secret.
fn pod(name: &str, node: &str, secret: &str, way: u64) -> Value {
    let container = match way {
        0 => json!({"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": secret}}]}),
        1 => json!({"name": "c", "image": "i", "env": [
            {"name": "E", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}]}),
        _ => json!({"name": "c", "image": "i"}),
    };
    let mut spec =
        json!({"nodeName": node, "automountServiceAccountToken": false, "containers": [container]});
    match way {
        2 => spec["volumes"] = json!([{"name": "v", "secret": {"secretName": secret}}]),
        3 => spec["imagePullSecrets"] = json!([{"name": secret}]),
        4 => {
            spec["volumes"] = json!([{"name": "v", "projected": {"sources": [{"secret": {"name": secret}}]}}])
        }
        _ => {}
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

/// Binds pods to a node and takes them away, and asks for the secret each time.
fn come_and_go(server: &Started, pair: u64) {
    let (own, other) = (format!("n{pair}"), format!("n{}", (pair + 1) % PAIRS));
    let mut admin = admin(server);
    let (mut node, mut neighbour) = (server.kubelet(&own), server.kubelet(&other));
    let secret = format!("s{pair}");
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}});
    admin.must(201, "POST", &format!("{NAMESPACE}/secrets"), Some(&body));
    let path = format!("{NAMESPACE}/secrets/{secret}");
    for round in 0..ROUNDS {
        let dice = dice(pair << 32 | round);
        let name = format!("p{pair}-{}", dice % 5);
        let is_bound_later = dice.is_multiple_of(3);
        let mut pod = pod(&name, &own, &secret, dice / 15 % 5);
        if is_bound_later {
            pod["spec"].as_object_mut().unwrap().remove("nodeName");
        }
        admin.must(201, "POST", &format!("{NAMESPACE}/pods"), Some(&pod));
        if is_bound_later {
            node.must(403, "GET", &path, None);
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": own}});
            admin.must(201, "POST", &format!("{NAMESPACE}/pods/{name}/binding"), Some(&binding));
        }
        node.must(200, "GET", &path, None);
        neighbour.must(403, "GET", &path, None);
        admin.must(200, "DELETE", &format!("{NAMESPACE}/pods/{name}?gracePeriodSeconds=0"), None);
        node.must(403, "GET", &path, None);
    }
}

/// Grants a right and takes it back, and uses it each time.
fn grant_and_revoke(server: &Started, number: u64) {
    let user = format!("user-{number}");
    let mut admin = admin(server);
    let mut jane = server.client(&server.user(&user, &[]));
    let path = format!("{NAMESPACE}/configmaps?limit=1");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": user},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]});
    admin.must(201, "POST", &format!("{RBAC}/roles"), Some(&role));
    for _ in 0..ROUNDS {
        jane.must(403, "GET", &path, None);
        admin.must(201, "POST", &format!("{RBAC}/rolebindings"), Some(&binding));
        jane.must(200, "GET", &path, None);
        admin.must(200, "DELETE", &format!("{RBAC}/rolebindings/{user}"), None);
    }
}

/// Writes other things as fast as it can.
fn disturb(server: &Started, number: u64, is_over: &AtomicBool) -> usize {
    let mut admin = admin(server);
    let name = format!("noise-{number}");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    admin.must(201, "POST", &format!("{NAMESPACE}/configmaps"), Some(&map));
    let mut writes = 0;
    while !is_over.load(Ordering::Relaxed) {
        let change = json!({"data": {"n": writes.to_string()}});
        admin.must(200, "PATCH", &format!("{NAMESPACE}/configmaps/{name}"), Some(&change));
        let made = pod(&name, "n0", &name, 0);
        admin.must(201, "POST", &format!("{NAMESPACE}/pods"), Some(&made));
        admin.must(200, "DELETE", &format!("{NAMESPACE}/pods/{name}?gracePeriodSeconds=0"), None);
        writes += 3;
    }
    writes
}

#[test]
fn the_very_next_request_is_decided_by_what_was_just_written() {
    let server = &start_with(Setup { is_cluster: true, ..Setup::default() });
    let is_over = &AtomicBool::new(false);
    let noise = &AtomicUsize::new(0);
    scope(|scope| {
        for number in 0..2 {
            scope.spawn(move || noise.fetch_add(disturb(server, number, is_over), Ordering::Relaxed));
        }
        let pairs = (0..PAIRS).map(|pair| scope.spawn(move || come_and_go(server, pair)));
        let mut working: Vec<_> = pairs.collect();
        working.extend((0..2).map(|number| scope.spawn(move || grant_and_revoke(server, number))));
        let outcomes: Vec<_> = working.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(Result::is_ok), "a thread has failed: see above");
    });
    assert!(noise.load(Ordering::Relaxed) > 100, "others wrote meanwhile");
}
