//! Watches end when the right to them ends: of nodes, and of every kind of credential.

use std::time::{Duration, Instant, SystemTime};

use portcullis_testkit::https::{Client, Events, Identity};
use serde_json::{Value, json};

use crate::node_cves::Cluster;

const DEFAULT: &str = "/api/v1/namespaces/default";

/// How soon a watch must have ended. A slow machine may take longer to notice, so only the median counts.
const SOON: Duration = Duration::from_millis(100);

fn watch(client: Client, path: &str) -> Events {
    client.watch(&format!("{path}&watch=true&timeoutSeconds=600")).unwrap()
}

/// Asserts that a watch ends as a whole, without another event. Returns how long it took.
#[track_caller]
fn assert_ends(mut watch: Events, since: Instant) -> Duration {
    match watch.next() {
        None => since.elapsed(),
        Some(event) => panic!("the watch goes on: {event:?}"),
    }
}

fn secret(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "stringData": {"password": value}})
}

/// A watch of a secret by the kubelet of node n0, past the state at its start.
fn watch_of_node(cluster: &Cluster, name: &str) -> Events {
    let path = format!("{DEFAULT}/secrets?fieldSelector=metadata.name%3D{name}");
    let mut events = watch(cluster.server.client(&cluster.n0), &path);
    assert_eq!(events.next().unwrap().unwrap()["type"], "ADDED");
    events
}

#[test]
fn a_node_sees_no_secret_after_its_pod_has_gone() {
    let cluster = Cluster::start();
    let mut times = Vec::new();
    for round in 0..5 {
        let (pod, name) = (format!("p{round}"), format!("s{round}"));
        cluster.make(&format!("{DEFAULT}/secrets"), &secret(&name, "old"));
        let body = json!({"metadata": {"name": pod}, "spec": {
            "nodeName": "n0",
            "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": name}}]}});
        cluster.make(&format!("{DEFAULT}/pods"), &body);
        let lost = watch_of_node(&cluster, &name);
        let mut kept = watch_of_node(&cluster, "of-n0");
        let since = Instant::now();
        let gone = format!("{DEFAULT}/pods/{pod}?gracePeriodSeconds=0");
        assert_eq!(cluster.by_admin("DELETE", &gone, &Value::Null).code, 200);
        let secret_path = format!("{DEFAULT}/secrets/{name}");
        let change = json!({"stringData": {"password": "new"}});
        let changed = cluster
            .server
            .client(&cluster.server.admin())
            .header("Content-Type: application/merge-patch+json");
        let mut changed = changed;
        changed.must(200, "PATCH", &secret_path, Some(&change));
        times.push(assert_ends(lost, since));
        // The other pod is still there.
        let annotation = json!({"metadata": {"annotations": {"round": round.to_string()}}});
        changed.must(200, "PATCH", &format!("{DEFAULT}/secrets/of-n0"), Some(&annotation));
        assert_eq!(kept.next().unwrap().unwrap()["type"], "MODIFIED");
    }
    times.sort();
    assert!(times[2] < SOON, "{times:?}");
}

/// A token of a service account, bound to an object or to none.
fn token(cluster: &Cluster, account: &str, bound: Option<(&str, &str)>) -> String {
    let reference = bound.map(|(kind, name)| json!({"apiVersion": "v1", "kind": kind, "name": name}));
    let spec = match reference {
        Some(reference) => json!({"boundObjectRef": reference}),
        None => json!({}),
    };
    let path = format!("{DEFAULT}/serviceaccounts/{account}/token");
    cluster.make(&path, &json!({"spec": spec}))["status"]["token"].as_str().unwrap().to_owned()
}

fn holder(cluster: &Cluster, token: &str) -> Client {
    Client::new(cluster.server.address, &Identity::with_token(&cluster.server.dir.join("ca.crt"), token))
}

#[test]
fn a_watch_ends_with_the_object_that_its_token_is_bound_to() {
    let cluster = Cluster::start();
    let pods = json!([{"verbs": ["watch", "list"], "apiGroups": [""], "resources": ["configmaps"]}]);
    for account in ["a", "b", "c"] {
        cluster.make(&format!("{DEFAULT}/serviceaccounts"), &json!({"metadata": {"name": account}}));
        let subject = json!({"kind": "ServiceAccount", "namespace": "default", "name": account});
        cluster.grant(account, &subject, &pods);
    }
    cluster.make(&format!("{DEFAULT}/secrets"), &secret("bound", ""));
    let pod = json!({"metadata": {"name": "bound"}, "spec": {"serviceAccountName": "a",
        "containers": [{"name": "c", "image": "i"}]}});
    cluster.make(&format!("{DEFAULT}/pods"), &pod);
    let watched = format!("{DEFAULT}/configmaps?resourceVersion=0&fieldSelector=metadata.name%3Dnone");
    for (account, bound, deleted) in [
        ("a", Some(("Pod", "bound")), "pods/bound?gracePeriodSeconds=0"),
        ("a", Some(("Secret", "bound")), "secrets/bound"),
        ("b", None, "serviceaccounts/b"),
    ] {
        let events = watch(holder(&cluster, &token(&cluster, account, bound)), &watched);
        let mut other = watch(holder(&cluster, &token(&cluster, "c", None)), &watched);
        let since = Instant::now();
        let gone = cluster.by_admin("DELETE", &format!("{DEFAULT}/{deleted}"), &Value::Null);
        assert_eq!(gone.code, 200, "{}", gone.text());
        assert_ends(events, since);
        cluster.make(&format!("{DEFAULT}/configmaps"), &json!({"metadata": {"name": "none"}}));
        assert_eq!(other.next().unwrap().unwrap()["type"], "ADDED", "others go on");
        cluster.by_admin("DELETE", &format!("{DEFAULT}/configmaps/none"), &Value::Null);
    }
}

#[test]
fn a_watch_ends_with_the_binding_that_allows_it() {
    let cluster = Cluster::start();
    let rules = json!([{"verbs": ["watch", "list"], "apiGroups": [""], "resources": ["configmaps"]}]);
    cluster.grant(
        "watches",
        &json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}),
        &rules,
    );
    let jane = cluster.server.user("jane", &[]);
    let path = "/api/v1/configmaps?fieldSelector=metadata.name%3Dnone";
    let events = watch(cluster.server.client(&jane), path);
    let mut root = watch(cluster.server.client(&cluster.server.admin()), path);
    let since = Instant::now();
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(cluster.by_admin("DELETE", &format!("{bindings}/watches"), &Value::Null).code, 200);
    assert_ends(events, since);
    cluster.make(&format!("{DEFAULT}/configmaps"), &json!({"metadata": {"name": "none"}}));
    assert_eq!(root.next().unwrap().unwrap()["type"], "ADDED", "others go on");
}

#[test]
fn a_watch_ends_when_the_certificate_expires() {
    let cluster = Cluster::start();
    // It was valid for an hour, almost an hour ago.
    let old = SystemTime::now() - Duration::from_secs(3597);
    let server = &cluster.server;
    let usage = portcullis_pki::ca::Usage::Client;
    let identity = server.issued(server.authority(), "root", &["system:masters"], usage, old);
    let events = watch(server.client(&identity), "/api/v1/configmaps?fieldSelector=metadata.name%3Dnone");
    assert_ends(events, Instant::now());
}

#[test]
fn a_watch_ends_with_the_right_to_impersonate_who_watches() {
    let cluster = Cluster::start();
    let user = |name: &str| json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name});
    let watches = json!([{"verbs": ["watch", "list"], "apiGroups": [""], "resources": ["configmaps"]}]);
    let acts = json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"],
        "resourceNames": ["jane"]}]);
    let path = "/api/v1/configmaps?fieldSelector=metadata.name%3Dnone";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let john = cluster.server.user("john", &[]);
    for lost in ["acts", "watches"] {
        cluster.grant("watches", &user("jane"), &watches);
        cluster.grant("acts", &user("john"), &acts);
        let client = cluster.server.client(&john).header("Impersonate-User: jane");
        let events = watch(client, path);
        let since = Instant::now();
        assert_eq!(cluster.by_admin("DELETE", &format!("{bindings}/{lost}"), &Value::Null).code, 200);
        assert_ends(events, since);
        for (kind, name) in [("clusterroles", "acts"), ("clusterroles", "watches")] {
            let path = format!("/apis/rbac.authorization.k8s.io/v1/{kind}/{name}");
            assert_eq!(cluster.by_admin("DELETE", &path, &Value::Null).code, 200);
        }
        for name in ["acts", "watches"].iter().filter(|name| **name != lost) {
            assert_eq!(cluster.by_admin("DELETE", &format!("{bindings}/{name}"), &Value::Null).code, 200);
        }
    }
}
