//! Rights that a request turns out to need beyond the one for itself, and nodes without a name.

use serde_json::{Value, json};

use crate::common::Answer;
use crate::node_cves::Cluster;

const DEFAULT: &str = "/api/v1/namespaces/default";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

fn user(name: &str) -> Value {
    json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": resources})
}

#[test]
fn whoever_may_only_get_makes_no_connection_into_a_pod_ka_83_ac_140() {
    let cluster = Cluster::start();
    let connections = ["pods/exec", "pods/attach", "pods/portforward"];
    cluster.grant("reads", &user("reader"), &json!([rule(&["get"], "", &connections)]));
    cluster.grant("runs", &user("runner"), &json!([rule(&["get", "create"], "", &connections)]));
    let (reader, runner) = (cluster.server.user("reader", &[]), cluster.server.user("runner", &[]));
    for name in ["exec?command=id", "attach", "portforward?ports=80"] {
        for pod in ["on-n0", "nowhere"] {
            let path = format!("{DEFAULT}/pods/{pod}/{name}");
            let refusal = cluster.send(&reader, "GET", &path, &Value::Null).assert_status(403, "Forbidden");
            let details = &refusal["details"];
            assert_eq!((&details["kind"], &details["name"]), (&json!("pods"), &json!(pod)), "{path}");
        }
        let code = |method: &str, pod: &str| {
            cluster.code(&runner, method, &format!("{DEFAULT}/pods/{pod}/{name}"), &Value::Null)
        };
        // The node has told no address of its kubelet.
        assert_eq!((code("GET", "on-n0"), code("POST", "on-n0")), (500, 500), "{name}");
        assert_eq!(code("GET", "nowhere"), 404, "{name}");
    }
}

#[test]
fn a_node_without_a_name_posts_no_review_nr_3() {
    let cluster = Cluster::start();
    let reviews = json!([
        rule(&["create"], "authorization.k8s.io", &["*"]),
        rule(&["create"], "authentication.k8s.io", &["*"]),
    ]);
    let nodes = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes"});
    cluster.grant("reviews", &nodes, &reviews);
    let nameless = cluster.server.user("system:node:", &["system:nodes"]);
    let attributes = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let authorization = "/apis/authorization.k8s.io/v1";
    let authentication = "/apis/authentication.k8s.io/v1";
    for (path, body) in [
        (
            format!("{authorization}/selfsubjectaccessreviews"),
            json!({"spec": {"resourceAttributes": attributes}}),
        ),
        (
            format!("{authorization}/subjectaccessreviews"),
            json!({"spec": {"user": "a", "resourceAttributes": attributes}}),
        ),
        (
            format!("{authorization}/namespaces/default/localsubjectaccessreviews"),
            json!({"spec": {"user": "a", "resourceAttributes": attributes}}),
        ),
        (format!("{authorization}/selfsubjectrulesreviews"), json!({"spec": {"namespace": "default"}})),
        (format!("{authentication}/tokenreviews"), json!({"spec": {"token": "t"}})),
        (format!("{authentication}/selfsubjectreviews"), json!({})),
    ] {
        cluster.send(&nameless, "POST", &path, &body).assert_status(403, "Forbidden");
        assert_eq!(cluster.code(&cluster.n0, "POST", &path, &body), 201, "{path}");
    }
}

#[test]
fn a_node_deletes_nothing_by_deleting_a_collection_nr_7_nr_13() {
    let cluster = Cluster::start();
    cluster.grant_nodes(&["list", "deletecollection"], &["", "coordination.k8s.io"], &["pods", "leases"]);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    cluster.make(leases, &json!({"metadata": {"name": "n0"}}));
    // The pod is not found without its name, which is not an error of the collection.
    let pods = format!("{DEFAULT}/pods?fieldSelector=spec.nodeName%3Dn0");
    let answer = cluster.send(&cluster.n0, "DELETE", &pods, &Value::Null);
    assert_eq!(answer.code, 200, "{}", answer.text());
    assert_eq!(answer.json()["items"][0]["metadata"]["name"], "on-n0");
    assert_eq!(cluster.by_admin("GET", &format!("{DEFAULT}/pods/on-n0"), &Value::Null).code, 200);
    // A lease without a name is not its own.
    cluster.send(&cluster.n0, "DELETE", leases, &Value::Null).assert_status(403, "Forbidden");
    assert_eq!(cluster.by_admin("GET", &format!("{leases}/n0"), &Value::Null).code, 200);
}

/// A claim with one device, allocated on node n0.
fn claim(cluster: &Cluster, name: &str) -> String {
    let request = json!({"name": "r", "exactly": {"deviceClassName": "class"}});
    cluster.make(CLAIMS, &json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}));
    let path = format!("{CLAIMS}/{name}/status");
    let answer = cluster.by_admin("PATCH", &path, &json!({"status": {"allocation": allocation("n0")}}));
    assert_eq!(answer.code, 200, "{}", answer.text());
    path
}

fn allocation(node: &str) -> Value {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    json!({
        "devices": {"results": [
            {"request": "r", "driver": "one.example", "pool": "p", "device": "d0"},
            {"request": "r", "driver": "two.example", "pool": "p", "device": "d0"},
        ]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    })
}

fn device(driver: &str, data: i32) -> Value {
    json!({"driver": driver, "pool": "p", "device": "d0", "data": {"is": data}})
}

/// A patch by the account of a driver, with a token of a pod on this node.
fn patch_by_driver(cluster: &Cluster, node: &str, path: &str, status: &Value) -> Answer {
    cluster
        .server
        .request("PATCH", path)
        .by(&cluster.server.admin())
        .header("Impersonate-User: system:serviceaccount:default:driver")
        .header(&format!("Impersonate-Extra-authentication.kubernetes.io%2fnode-name: {node}"))
        .header("Content-Type: application/merge-patch+json")
        .body(json!({"status": status}).to_string())
        .send()
}

fn fields(refusal: &Value) -> Vec<&str> {
    let causes = refusal["details"]["causes"].as_array().unwrap();
    causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect()
}

#[test]
fn a_driver_writes_about_its_own_devices_on_its_own_node_nr_110() {
    let cluster = Cluster::start();
    let of_driver = json!({"verbs": ["associated-node:patch"], "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceclaims/driver"], "resourceNames": ["one.example"]});
    let status = rule(&["patch", "update"], "resource.k8s.io", &["resourceclaims/status"]);
    let account = json!({"kind": "ServiceAccount", "namespace": "default", "name": "driver"});
    cluster.grant("driver", &account, &json!([status, of_driver]));
    let path = claim(&cluster, "gpu");
    let patch = |node: &str, status: Value| patch_by_driver(&cluster, node, &path, &status);
    let answer = patch("n0", json!({"devices": [device("one.example", 1)]}));
    assert_eq!(answer.code, 200, "{}", answer.text());
    // On another node, and of another driver, also by removing an entry.
    for (node, devices) in [
        ("n1", json!([device("one.example", 2)])),
        ("n0", json!([device("one.example", 1), device("two.example", 1)])),
        ("n1", json!(null)),
    ] {
        let refusal = patch(node, json!({"devices": devices})).assert_status(422, "Invalid");
        assert_eq!(fields(&refusal), ["status.devices"], "{refusal}");
        assert_eq!(refusal["details"]["causes"][0]["reason"], "FieldValueForbidden");
    }
    // Neither reserved, nor released, nor allocated by a driver.
    for status in
        [json!({"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}), json!({"allocation": null})]
    {
        let refusal = patch("n0", status).assert_status(422, "Invalid");
        assert_eq!(fields(&refusal), ["status"], "{refusal}");
    }
    let everywhere = rule(&["arbitrary-node:patch"], "resource.k8s.io", &["resourceclaims/driver"]);
    cluster.grant("everywhere", &account, &json!([everywhere]));
    let answer = patch("n1", json!({"devices": [device("two.example", 1)]}));
    assert_eq!(answer.code, 200, "{}", answer.text());
    // The right of whoever allocates is for the whole cluster: one in the namespace is not enough.
    let binds = rule(&["patch"], "resource.k8s.io", &["resourceclaims/binding"]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    cluster.make(&format!("{rbac}/roles"), &json!({"metadata": {"name": "binds"}, "rules": [binds]}));
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "binds"});
    let binding = json!({"metadata": {"name": "binds"}, "roleRef": reference, "subjects": [account]});
    cluster.make(&format!("{rbac}/rolebindings"), &binding);
    let reserved = json!({"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]});
    patch("n0", reserved.clone()).assert_status(422, "Invalid");
    cluster.grant("binds", &account, &json!([binds]));
    let answer = patch("n0", reserved);
    assert_eq!(answer.code, 200, "{}", answer.text());
}

#[test]
fn a_status_gives_admin_access_in_labelled_namespaces_alone_nr_110() {
    let cluster = Cluster::start();
    let request = json!({"name": "r", "exactly": {"deviceClassName": "class"}});
    cluster.make(CLAIMS, &json!({"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [request]}}}));
    let path = format!("{CLAIMS}/gpu/status");
    let mut allocated = allocation("n0");
    allocated["devices"]["results"][1]["adminAccess"] = json!(true);
    let patch = || cluster.by_admin("PATCH", &path, &json!({"status": {"allocation": allocated}}));
    let refusal = patch().assert_status(422, "Invalid");
    assert_eq!(fields(&refusal), ["status.allocation.devices.results[1].adminAccess"]);
    let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    assert_eq!(cluster.by_admin("PATCH", DEFAULT, &label).code, 200);
    let answer = patch();
    assert_eq!(answer.code, 200, "{}", answer.text());
}
