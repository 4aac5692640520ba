//! Published weaknesses around what a node may do, each tried against the running server. Named after their rows (NC-);

//! those of the kubelet's own listeners are not the API server's.

use crate::common::{Identity, Setup, Started, start_with};
use portcullis_testkit::https::{Answer, Client};
use portcullis_testkit::tool;
use serde_json::{Value, json};

const DEFAULT: &str = "/api/v1/namespaces/default";
const NODES: &str = "/api/v1/nodes";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

/// A cluster of two nodes, each with a pod of its own that mounts a secret of its own, and their two kubelets.
pub(crate) struct Cluster {
    pub(crate) server: Started,
    pub(crate) n0: Identity,
    n1: Identity,
}

fn ask(mut client: Client, method: &str, path: &str, body: &Value) -> Answer {
    client.ask(method, path, Some(body).filter(|body| !body.is_null())).unwrap()
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let server = start_with(Setup { is_cluster: true, ..Setup::default() });
        let node = |name: &str| server.user(&format!("system:node:{name}"), &["system:nodes"]);
        let (n0, n1) = (node("n0"), node("n1"));
        let cluster = Self { server, n0, n1 };
        for name in ["n0", "n1"] {
            cluster.make(NODES, &json!({"metadata": {"name": name}}));
            cluster.make(&format!("{DEFAULT}/secrets"), &json!({"metadata": {"name": format!("of-{name}")}}));
            cluster.make(&format!("{DEFAULT}/pods"), &pod_with_secret(name));
        }
        cluster
    }

    /// Sends what a kubelet sends, in protobuf.
    pub(crate) fn send(&self, who: &Identity, method: &str, path: &str, body: &Value) -> Answer {
        ask(self.server.client(who).in_protobuf(), method, path, body)
    }

    pub(crate) fn code(&self, who: &Identity, method: &str, path: &str, body: &Value) -> u16 {
        self.send(who, method, path, body).code
    }

    pub(crate) fn by_admin(&self, method: &str, path: &str, body: &Value) -> Answer {
        ask(self.server.client(&self.server.admin()), method, path, body)
    }

    #[track_caller]
    pub(crate) fn make(&self, path: &str, body: &Value) -> Value {
        let answer = self.by_admin("POST", path, body);
        assert_eq!(answer.code, 201, "{}", answer.text());
        answer.json()
    }

    /// Gives all nodes a right that the Node authorizer does not, so that only admission stands in the way.
    pub(crate) fn grant_nodes(&self, verbs: &[&str], groups: &[&str], resources: &[&str]) {
        let rules = json!([{"verbs": verbs, "apiGroups": groups, "resources": resources}]);
        let nodes = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes"});
        self.grant("more", &nodes, &rules);
    }

    /// Gives a subject these rights in the whole cluster, by a role and a binding of this name.
    pub(crate) fn grant(&self, name: &str, subject: &Value, rules: &Value) {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        self.make("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role);
        let binding = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [subject]});
        self.make("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding);
    }

    /// A mirror pod of node n0 as its kubelet makes it.
    fn mirror_pod(&self, name: &str) -> Value {
        let uid =
            self.by_admin("GET", &format!("{NODES}/n0"), &Value::Null).json()["metadata"]["uid"].clone();
        json!({
            "metadata": {
                "name": name,
                "annotations": {
                    "kubernetes.io/config.mirror": "abc", "kubernetes.io/config.hash": "abc",
                    "kubernetes.io/config.source": "file",
                },
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "n0", "uid": uid, "controller": true},
                ],
            },
            "spec": {"nodeName": "n0", "hostNetwork": true, "containers": [{"name": "c", "image": "i"}]},
        })
    }
}

fn pod_with_secret(node: &str) -> Value {
    json!({"metadata": {"name": format!("on-{node}")}, "spec": {
        "nodeName": node,
        "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "s", "secret": {"secretName": format!("of-{node}")}}],
    }})
}

fn resource_claim(name: &str) -> Value {
    let request = json!({"name": "r", "exactly": {"deviceClassName": "class"}});
    json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
}

#[test]
fn nc_1_a_mirror_pod_opens_no_resource_claim() {
    let cluster = Cluster::start();
    cluster.make(CLAIMS, &resource_claim("gpu"));
    for reference in ["resourceClaimName", "resourceClaimTemplateName"] {
        let mut pod = cluster.mirror_pod("mirror");
        pod["spec"]["resourceClaims"] = json!([{"name": "gpu", reference: "gpu"}]);
        cluster.send(&cluster.n0, "POST", &format!("{DEFAULT}/pods"), &pod).assert_status(403, "Forbidden");
        cluster.by_admin("POST", &format!("{DEFAULT}/pods"), &pod).assert_status(422, "Invalid");
        assert_eq!(cluster.code(&cluster.n0, "GET", &format!("{CLAIMS}/gpu"), &Value::Null), 403);
    }
    let plain = cluster.mirror_pod("mirror");
    assert_eq!(cluster.code(&cluster.n0, "POST", &format!("{DEFAULT}/pods"), &plain), 201);
}

#[test]
fn nc_2_a_node_changes_no_owner_of_its_node() {
    let cluster = Cluster::start();
    let map = cluster.make(&format!("{DEFAULT}/configmaps"), &json!({"metadata": {"name": "m"}}));
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": map["metadata"]["uid"]});
    let owned = |owners: Value| json!({"metadata": {"ownerReferences": owners}});
    for path in [format!("{NODES}/n0"), format!("{NODES}/n0/status")] {
        let by_node = |body: Value| cluster.code(&cluster.n0, "PATCH", &path, &body);
        assert_eq!(by_node(owned(json!([owner("m")]))), 403, "added");
        assert_eq!((by_node(owned(json!([]))), by_node(owned(Value::Null))), (200, 200), "none stays none");
        let two = owned(json!([owner("m"), owner("o")]));
        assert_eq!(cluster.by_admin("PATCH", &format!("{NODES}/n0"), &two).code, 200);
        assert_eq!(by_node(two), 200, "what is there stays");
        assert_eq!(by_node(owned(json!([owner("o"), owner("m")]))), 403, "in another order");
        assert_eq!(by_node(owned(json!([owner("m"), owner("p")]))), 403, "changed");
        assert_eq!(by_node(owned(json!([owner("m")]))), 403, "one taken away");
        assert_eq!(by_node(owned(Value::Null)), 403, "all taken away");
        assert_eq!(cluster.by_admin("PATCH", &format!("{NODES}/n0"), &owned(Value::Null)).code, 200);
    }
    let n2 = cluster.server.user("system:node:n2", &["system:nodes"]);
    let born = json!({"metadata": {"name": "n2", "ownerReferences": [owner("m")]}});
    assert_eq!(cluster.code(&n2, "POST", NODES, &born), 201);
}

#[test]
fn nc_5_a_change_is_compared_with_what_is_stored() {
    let cluster = Cluster::start();
    let taint = |value: &str| json!([{"key": "k", "value": value, "effect": "NoSchedule"}]);
    let tainted = |value: &str| json!({"spec": {"taints": taint(value)}});
    assert_eq!(cluster.by_admin("PATCH", &format!("{NODES}/n0"), &tainted("a")).code, 200);
    // A whole object, a patch, and the status: the node's own words never stand for what was there before.
    let mut node = cluster.by_admin("GET", &format!("{NODES}/n0"), &Value::Null).json();
    node["spec"]["taints"] = taint("b");
    for path in [format!("{NODES}/n0"), format!("{NODES}/n0/status")] {
        assert_eq!(cluster.code(&cluster.n0, "PUT", &path, &node), 403);
        assert_eq!(cluster.code(&cluster.n0, "PATCH", &path, &tainted("b")), 403);
        assert_eq!(cluster.code(&cluster.n0, "PATCH", &path, &tainted("a")), 200);
    }
    let after = cluster.by_admin("GET", &format!("{NODES}/n0"), &Value::Null).json();
    assert_eq!(after["spec"]["taints"][0]["value"], "a");
}

#[test]
fn nc_6_a_node_leads_the_server_to_no_address_of_its_own() {
    // More in `connections`: here the kubelet of the node says that it is at the server's own address.
    let cluster = Cluster::start();
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": cluster.server.address.port()}}}});
    assert_eq!(cluster.code(&cluster.n0, "PATCH", &format!("{NODES}/n0/status"), &status), 200);
    let pod = format!("{DEFAULT}/pods/on-n0");
    for path in [
        format!("{NODES}/n0/proxy/livez"),
        format!("{NODES}/n0:{}/proxy/livez", cluster.server.address.port()),
        format!("{pod}/proxy/"),
        format!("{pod}/log"),
        format!("{pod}/exec?command=id"),
        format!("{pod}/attach"),
        format!("{pod}/portforward"),
    ] {
        for method in ["GET", "POST"] {
            let code = cluster.by_admin(method, &path, &Value::Null).code;
            assert!(
                code == 400 || (method == "POST" && path.ends_with("/log") && code == 405),
                "{path}: {code}"
            );
            let upgrade = cluster
                .server
                .request(method, &path)
                .by(&cluster.server.admin())
                .word("--http1.1")
                .header("Connection: Upgrade")
                .header("Upgrade: websocket")
                .header("Sec-WebSocket-Version: 13")
                .header("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
                .send();
            assert!(matches!(upgrade.code, 400 | 405), "{method} {path}: {}", upgrade.code);
        }
    }
}

#[test]
fn nc_9_a_node_gives_no_other_node_an_address() {
    let cluster = Cluster::start();
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}});
    assert_eq!(cluster.code(&cluster.n0, "PATCH", &format!("{NODES}/n1/status"), &status), 403);
    assert_eq!(cluster.code(&cluster.n0, "GET", &format!("{NODES}/n0/proxy/metrics"), &Value::Null), 403);
    assert_eq!(cluster.code(&cluster.n1, "PATCH", &format!("{NODES}/n1/status"), &status), 200);
}

#[test]
fn nc_14_nc_20_a_node_takes_no_role_and_no_label_that_draws_workloads() {
    let cluster = Cluster::start();
    let labelled = |key: &str| json!({"metadata": {"labels": {key: "x"}}});
    for key in [
        "node-role.kubernetes.io/control-plane",
        "node-role.kubernetes.io/worker",
        "kubernetes.io/role",
        "k8s.io/x",
        "a.k8s.io/x",
        "node-restriction.kubernetes.io/y",
        "x.node-restriction.kubernetes.io/y",
        "node.kubernetes.io.node-restriction.kubernetes.io/y",
    ] {
        for path in [format!("{NODES}/n0"), format!("{NODES}/n0/status")] {
            assert_eq!(cluster.code(&cluster.n0, "PATCH", &path, &labelled(key)), 403, "{key}");
        }
        let n2 = cluster.server.user("system:node:n2", &["system:nodes"]);
        let mut born = labelled(key);
        born["metadata"]["name"] = json!("n2");
        assert_eq!(cluster.code(&n2, "POST", NODES, &born), 403, "{key}");
    }
    for key in ["foo", "mykubernetes.io/x", "kubernetes.io/hostname", "a.node.kubernetes.io/x"] {
        assert_eq!(cluster.code(&cluster.n0, "PATCH", &format!("{NODES}/n0"), &labelled(key)), 200, "{key}");
    }
}

/// A signing request for a key of its own, in the form that the API takes it.
fn signing_request(subject: &str, signer: &str) -> Value {
    let words = "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout /dev/null -subj";
    let request = tool::run("openssl", words.split(' ').chain([subject]));
    use base64::Engine as _;
    let usage = if signer.ends_with("serving") { "server auth" } else { "client auth" };
    json!({"metadata": {"generateName": "csr-"}, "spec": {
        "request": base64::engine::general_purpose::STANDARD.encode(request),
        "signerName": signer,
        "usages": ["digital signature", usage],
    }})
}

#[test]
fn nc_17_a_node_asks_for_no_certificate_of_another() {
    let cluster = Cluster::start();
    let asks = |name: &str, signer: &str| {
        let body = signing_request(&format!("/O=system:nodes/CN={name}"), &format!("kubernetes.io/{signer}"));
        cluster.code(&cluster.n0, "POST", REQUESTS, &body)
    };
    for signer in ["kubelet-serving", "kube-apiserver-client-kubelet"] {
        assert_eq!(asks("system:node:n0", signer), 201);
        for name in ["system:node:n1", "system:node:N0", "system:node:n0 ", "system:node:", "n0", "foo"] {
            assert_eq!(asks(name, signer), 403, "{signer} for {name:?}");
        }
    }
}

#[test]
fn nc_18_a_node_does_not_delete_itself() {
    let cluster = Cluster::start();
    let delete =
        |who: &Identity, node: &str| cluster.code(who, "DELETE", &format!("{NODES}/{node}"), &Value::Null);
    assert_eq!(delete(&cluster.n0, "n0"), 403);
    // With a grant beside the Node authorizer it may, but never another (NR-35, NR-36).
    cluster.grant_nodes(&["delete"], &[""], &["nodes"]);
    assert_eq!(delete(&cluster.n0, "n1"), 403);
    assert_eq!(delete(&cluster.n0, "n0"), 200);
}

#[test]
fn nc_19_a_node_changes_no_taint() {
    let cluster = Cluster::start();
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    let tainted = |taints: Value| json!({"spec": {"taints": taints}});
    let two = tainted(json!([taint("a"), taint("b")]));
    assert_eq!(cluster.by_admin("PATCH", &format!("{NODES}/n0"), &two).code, 200);
    for path in [format!("{NODES}/n0"), format!("{NODES}/n0/status")] {
        let by_node = |body: &Value| cluster.code(&cluster.n0, "PATCH", &path, body);
        assert_eq!(by_node(&two), 200);
        for taints in [
            json!([taint("a"), taint("b"), taint("c")]),
            json!([taint("a")]),
            json!([taint("b"), taint("a")]),
            json!([]),
            Value::Null,
        ] {
            assert_eq!(by_node(&tainted(taints.clone())), 403, "{path}: {taints}");
        }
    }
}

#[test]
fn nc_21_a_mirror_pod_opens_nothing() {
    let cluster = Cluster::start();
    let secret = format!("{DEFAULT}/secrets/of-n1");
    let mut pod = cluster.mirror_pod("mirror");
    pod["spec"]["volumes"] = json!([{"name": "s", "secret": {"secretName": "of-n1"}}]);
    assert_eq!(cluster.code(&cluster.n0, "POST", &format!("{DEFAULT}/pods"), &pod), 403);
    // Nor does an administrator make one that refers to anything (MP-20).
    let mut pod = pod_with_secret("n0");
    pod["metadata"] = cluster.mirror_pod("mirror")["metadata"].clone();
    pod["spec"]["volumes"][0]["secret"]["secretName"] = json!("of-n1");
    assert_eq!(cluster.by_admin("POST", &format!("{DEFAULT}/pods"), &pod).code, 403);
    assert_eq!(cluster.code(&cluster.n0, "GET", &secret, &Value::Null), 403);
    assert_eq!(cluster.code(&cluster.n1, "GET", &secret, &Value::Null), 200);
    // References that an administrator adds open nothing either (NA-57, MP-25).
    let map = format!("{DEFAULT}/configmaps/m");
    cluster.make(&format!("{DEFAULT}/configmaps"), &json!({"metadata": {"name": "m"}}));
    let volumes = json!([{"name": "m", "configMap": {"name": "m"}}]);
    let mut mirror = cluster.mirror_pod("mirror");
    mirror["spec"]["volumes"] = volumes.clone();
    cluster.make(&format!("{DEFAULT}/pods"), &mirror);
    assert_eq!(cluster.code(&cluster.n0, "GET", &map, &Value::Null), 403);
    let mut plain = pod_with_secret("n0");
    plain["metadata"]["name"] = json!("plain");
    plain["spec"]["volumes"] = volumes;
    cluster.make(&format!("{DEFAULT}/pods"), &plain);
    assert_eq!(cluster.code(&cluster.n0, "GET", &map, &Value::Null), 200, "an ordinary pod does");
}

#[test]
fn nc_22_a_mirror_pod_is_owned_by_its_node_alone() {
    let cluster = Cluster::start();
    let create = |pod: &Value| cluster.code(&cluster.n0, "POST", &format!("{DEFAULT}/pods"), pod);
    let good = cluster.mirror_pod("mirror");
    let owner = good["metadata"]["ownerReferences"][0].clone();
    let with = |member: &str, value: Value| {
        let mut owner = owner.clone();
        owner[member] = value;
        owner
    };
    for owners in [
        json!([]),
        json!([owner, with("uid", json!("another"))]),
        json!([with("name", json!("n1"))]),
        json!([with("kind", json!("ConfigMap"))]),
        json!([with("apiVersion", json!("apps/v1"))]),
        json!([with("uid", json!("2f5b6368-7fa5-4ae8-8d4e-c383bd22b377"))]),
        json!([with("controller", json!(false))]),
        json!([with("blockOwnerDeletion", json!(true))]),
    ] {
        let mut pod = good.clone();
        pod["metadata"]["ownerReferences"] = owners.clone();
        assert_eq!(create(&pod), 403, "{owners}");
    }
    let mut plain = good.clone();
    plain["metadata"].as_object_mut().unwrap().remove("annotations");
    assert_eq!(create(&plain), 403, "no mirror pod");
    let mut elsewhere = good.clone();
    elsewhere["spec"]["nodeName"] = json!("n1");
    assert_eq!(create(&elsewhere), 403, "on another node");
    assert_eq!(create(&good), 201);
}

#[test]
fn nc_23_a_node_sees_only_its_own_pods_and_node() {
    let cluster = Cluster::start();
    let get = |path: &str| cluster.code(&cluster.n0, "GET", path, &Value::Null);
    for (path, code) in [
        ("/api/v1/pods", 403),
        ("/api/v1/namespaces/default/pods", 403),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", 403),
        ("/api/v1/pods?fieldSelector=spec.nodeName!%3Dn1", 403),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn0", 200),
        ("/api/v1/namespaces/default/pods/on-n1", 403),
        ("/api/v1/namespaces/default/pods/on-n0", 200),
        ("/api/v1/nodes", 403),
        ("/api/v1/nodes?fieldSelector=metadata.name%3Dn1", 403),
        ("/api/v1/nodes?fieldSelector=metadata.name%3Dn0", 200),
        ("/api/v1/nodes/n1", 403),
        ("/api/v1/nodes/n0", 200),
        ("/api/v1/secrets", 403),
        ("/api/v1/namespaces/default/secrets", 403),
        ("/api/v1/namespaces/default/secrets/of-n1", 403),
        ("/api/v1/namespaces/default/secrets/of-n0", 200),
    ] {
        assert_eq!(get(path), code, "{path}");
    }
    let listed = cluster
        .send(&cluster.n0, "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn0", &Value::Null)
        .json();
    let names: Vec<&str> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["on-n0"]);
}

#[test]
fn nc_24_a_node_gets_tokens_for_its_own_pods_and_their_audiences_only() {
    let cluster = Cluster::start();
    let mut pod = pod_with_secret("n0");
    pod["metadata"]["name"] = json!("with-token");
    let token = json!({"serviceAccountToken": {"path": "t", "audience": "vault"}});
    pod["spec"]["volumes"] = json!([{"name": "t", "projected": {"sources": [token]}}]);
    let pods = format!("{DEFAULT}/pods");
    let uid = cluster.make(&pods, &pod)["metadata"]["uid"].clone();
    let foreign =
        cluster.by_admin("GET", &format!("{pods}/on-n1"), &Value::Null).json()["metadata"]["uid"].clone();
    let path = format!("{DEFAULT}/serviceaccounts/default/token");
    let ask = |audiences: Value, bound: Value| {
        let mut spec = json!({"audiences": audiences});
        spec["boundObjectRef"] = bound;
        cluster.code(&cluster.n0, "POST", &path, &json!({"spec": spec}))
    };
    let to_pod =
        |name: &str, uid: &Value| json!({"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid});
    let own = to_pod("with-token", &uid);
    assert_eq!(ask(json!(["vault"]), own.clone()), 201);
    for audiences in
        [json!(["bank"]), json!([]), json!(["vault", "bank"]), json!(["https://kubernetes.default.svc"])]
    {
        assert_eq!(ask(audiences.clone(), own.clone()), 403, "{audiences}");
    }
    for bound in [
        Value::Null,
        to_pod("with-token", &foreign),
        to_pod("on-n1", &foreign),
        to_pod("none", &uid),
        json!({"kind": "Node", "apiVersion": "v1", "name": "n0"}),
        json!({"kind": "Secret", "apiVersion": "v1", "name": "of-n0"}),
    ] {
        assert_eq!(ask(json!(["vault"]), bound.clone()) / 100, 4, "{bound}");
    }
    // An administrator may open a further audience (NR-73, NR-74).
    cluster.grant_nodes(&["request-serviceaccounts-token-audience"], &[""], &["bank"]);
    assert_eq!((ask(json!(["bank"]), own.clone()), ask(json!(["shop"]), own)), (201, 403));
}

#[test]
fn nc_29_access_ends_with_the_last_reference() {
    let cluster = Cluster::start();
    let secret = format!("{DEFAULT}/secrets/of-n0");
    let reads = || cluster.code(&cluster.n0, "GET", &secret, &Value::Null);
    let mut second = pod_with_secret("n0");
    second["metadata"]["name"] = json!("second");
    let gone = |name: &str| {
        let path = format!("{DEFAULT}/pods/{name}?gracePeriodSeconds=0");
        assert_eq!(cluster.by_admin("DELETE", &path, &Value::Null).code, 200);
    };
    for _ in 0..3 {
        cluster.make(&format!("{DEFAULT}/pods"), &second);
        assert_eq!(reads(), 200);
        gone("on-n0");
        assert_eq!(reads(), 200, "the second pod still refers to it");
        gone("second");
        assert_eq!(reads(), 403);
        cluster.make(&format!("{DEFAULT}/pods"), &pod_with_secret("n0"));
        assert_eq!(reads(), 200);
    }
}
