//! A server with a store and all controllers: writes take effect at once, default objects exist, and controllers keep

//! running.

use std::fs;
use std::sync::Arc;

use crate::common::{Answer, Setup, Started, engine_config, scratch, start_with};
use portcullis_policy::chain::Mode;
use portcullis_policy::engine::EngineConfig;
use portcullis_policy::{Attributes, ResourceRequest, User};
use portcullis_server::api_server::Storage;
use portcullis_server::registry::cluster::Cluster;
use portcullis_server::{ApiServer, Config, Metrics};
use portcullis_store::embedded::Options;
use portcullis_store::{Expect, List, Store as _, Value as Stored, Write};
use portcullis_testkit::https::Client;
use portcullis_testkit::wait;
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A server with a cluster, and its administrator.
struct Served(Started);

fn cluster() -> Served {
    Served(start_with(Setup { is_cluster: true, ..Setup::default() }))
}

impl Served {
    fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let content = match method {
            "PATCH" => "Content-Type: application/merge-patch+json",
            _ => "Content-Type: application/json",
        };
        let request = self.0.request(method, path).by(&self.0.admin()).header(content);
        match body {
            Some(body) => request.body(body.to_string()).send(),
            None => request.send(),
        }
    }

    fn create(&self, path: &str, body: Value) {
        let answer = self.ask("POST", path, Some(body));
        assert_eq!(answer.code, 201, "{}", answer.text());
    }

    fn read(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, None);
        assert_eq!(answer.code, 200, "{path}: {}", answer.text());
        answer.json()
    }

    /// Waits for what a controller does.
    fn until(&self, path: &str, holds: impl Fn(&Answer) -> bool) {
        wait::until_ok(path, || {
            let answer = self.ask("GET", path, None);
            if holds(&answer) { Ok(()) } else { Err(answer.text().to_owned()) }
        });
    }
}

fn pod(name: &str, node: &str, secret: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "nodeName": node,
        "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": secret}}]}],
    }})
}

#[test]
fn a_secret_opens_with_the_pod_that_is_bound_and_closes_with_the_one_that_goes() {
    let server = cluster();
    let (mut node, mut other) = (server.0.kubelet("n0"), server.0.kubelet("n1"));
    let get = |by: &mut Client, path: &str| by.ask("GET", path, None).unwrap().code;
    let secrets = "/api/v1/namespaces/default/secrets";
    let pods = "/api/v1/namespaces/default/pods";
    for round in 0..10 {
        let name = format!("s{round}");
        let secret = format!("{secrets}/{name}");
        server.create(secrets, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}));
        assert_eq!(get(&mut node, &secret), 403);
        server.create(pods, pod(&name, "n0", &name));
        assert_eq!((get(&mut node, &secret), get(&mut other, &secret)), (200, 403));
        let gone = server.ask("DELETE", &format!("{pods}/{name}?gracePeriodSeconds=0"), None);
        assert_eq!(gone.code, 200, "{}", gone.text());
        assert_eq!(get(&mut node, &secret), 403);
    }
}

/// A store and its engine, asked without a network between.
struct Direct {
    runtime: tokio::runtime::Runtime,
    cluster: Cluster,
    metrics: Metrics,
}

impl Direct {
    fn open(config: &EngineConfig, path: Option<&std::path::Path>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let metrics = Metrics::default();
        let cluster = runtime.block_on(async {
            match path {
                Some(path) => Cluster::open(Options::file(path), config, &metrics.store).await,
                None => Cluster::open(Options::memory(), config, &metrics.store).await,
            }
        });
        Self { runtime, cluster: cluster.unwrap(), metrics }
    }

    fn put(&self, key: &str, value: &[u8]) {
        let value = Some(Stored { bytes: value.to_vec().into(), revision_at: None, relies_on: None });
        self.commit(Write { key: key.into(), expect: Expect::Anything, value });
    }

    fn remove(&self, key: &str) {
        self.commit(Write { key: key.into(), expect: Expect::Anything, value: None });
    }

    fn commit(&self, write: Write) {
        self.runtime.block_on(self.cluster.backend.commit(vec![write])).unwrap();
    }

    fn find(&self, key: &str) -> Option<Value> {
        let entry = self.runtime.block_on(self.cluster.backend.get(key)).unwrap()?;
        Some(serde_json::from_slice(&entry.value).unwrap())
    }

    fn keys(&self, prefix: &str) -> Vec<String> {
        let list = List { prefix: prefix.into(), ..List::default() };
        let listing = self.runtime.block_on(self.cluster.backend.list(&list)).unwrap();
        listing.entries.iter().map(|entry| entry.key.to_string()).collect()
    }

    fn may(&self, user: &User, verb: &str, resource: &str, name: &str) -> bool {
        let namespace = "default";
        let request =
            ResourceRequest { namespace, version: "v1", resource, name, ..ResourceRequest::default() };
        let attributes = Attributes { user, verb, path: "", resource: Some(request) };
        self.cluster.engine.authorize(&attributes).is_allow()
    }

    fn refused(&self) -> u64 {
        self.metrics.store.refused_objects.get()
    }
}

fn in_default(mut object: Value) -> Vec<u8> {
    object["metadata"]["namespace"] = "default".into();
    object.to_string().into_bytes()
}

#[test]
fn no_write_is_acknowledged_before_decisions_go_by_it() {
    let direct = Direct::open(&engine_config(), None);
    let node = User::new("system:node:n0", ["system:nodes", "system:authenticated"]);
    for round in 0..300 {
        let name = format!("p{}", round % 7);
        let key = format!("/core/pods/default/{name}");
        direct.put(&key, &in_default(pod(&name, "n0", "s")));
        assert!(direct.may(&node, "get", "secrets", "s"));
        direct.remove(&key);
        assert!(!direct.may(&node, "get", "secrets", "s"));
    }
}

fn binding(role: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]})
}

#[test]
fn what_cannot_be_read_is_counted_and_grants_nothing_not_even_what_it_granted_before() {
    let dir = scratch();
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("objects");
    let jane = User::new("jane", ["system:authenticated"]);
    let node = User::new("system:node:n0", ["system:nodes", "system:authenticated"]);
    let key = "/rbac.authorization.k8s.io/rolebindings/default/b";
    let pod_key = "/core/pods/default/p";
    {
        let direct = Direct::open(&engine_config(), Some(&path));
        assert_eq!(direct.refused(), 0);
        direct.put(key, binding("view").to_string().as_bytes());
        direct.put(pod_key, &in_default(pod("p", "n0", "s")));
        assert!(direct.may(&jane, "get", "pods", "p") && direct.may(&node, "get", "secrets", "s"));
        direct.put(key, b"{\"metadata\":{\"name\":\"b\"},\"subjects\":7}");
        direct.put(pod_key, b"\xff");
        assert!(!direct.may(&jane, "get", "pods", "p") && !direct.may(&node, "get", "secrets", "s"));
        assert_eq!(direct.refused(), 2);
    }
    let direct = Direct::open(&engine_config(), Some(&path));
    assert_eq!(direct.refused(), 2, "a start goes on without them");
    assert!(!direct.may(&jane, "get", "pods", "p"));
    direct.put(key, binding("view").to_string().as_bytes());
    assert!(direct.may(&jane, "get", "pods", "p"));
    drop(direct);
    let direct = Direct::open(&engine_config(), Some(&path));
    assert!(direct.may(&jane, "get", "pods", "p"), "what is stored counts from the start");
    drop(direct);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_default_policy_is_made_good_at_each_start_as_far_as_its_annotation_allows() {
    let dir = scratch();
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("objects");
    let role = |name: &str| format!("/rbac.authorization.k8s.io/clusterroles/{name}");
    let first = {
        let direct = Direct::open(&engine_config(), Some(&path));
        let binding = direct.find("/rbac.authorization.k8s.io/clusterrolebindings/system:node").unwrap();
        assert_eq!(binding.get("subjects"), None, "RB-96: nobody is bound");
        let rules = direct.find(&role("admin")).unwrap()["rules"].as_array().unwrap().len();
        assert!(rules > 5, "RB-79: aggregated before anything is served");

        // RB-102
        direct.remove(&role("system:basic-user"));
        // RB-103: what is missing is added, what was added stays.
        let mut discovery = direct.find(&role("system:discovery")).unwrap();
        discovery["rules"] = json!([{"verbs": ["get"], "nonResourceURLs": ["/mine"]}]);
        direct.put(&role("system:discovery"), discovery.to_string().as_bytes());
        // RB-106
        let mut monitoring = direct.find(&role("system:monitoring")).unwrap();
        monitoring["rules"] = json!([]);
        monitoring["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = "false".into();
        direct.put(&role("system:monitoring"), monitoring.to_string().as_bytes());
        direct.keys("/")
    };
    let direct = Direct::open(&engine_config(), Some(&path));
    assert_eq!(direct.keys("/"), first_with(&first, &role("system:basic-user")));
    let discovery = direct.find(&role("system:discovery")).unwrap();
    let urls: Vec<&Value> =
        discovery["rules"].as_array().unwrap().iter().map(|r| &r["nonResourceURLs"][0]).collect();
    assert!(urls.contains(&&json!("/mine")) && urls.contains(&&json!("/healthz")), "{urls:?}");
    assert_eq!(direct.find(&role("system:monitoring")).unwrap()["rules"], json!([]));
    let before = direct.cluster.backend.revision();
    drop(direct);
    let direct = Direct::open(&engine_config(), Some(&path));
    assert_eq!(direct.cluster.backend.revision(), before, "a start that finds everything writes nothing");
    drop(direct);
    fs::remove_dir_all(&dir).unwrap();
}

fn first_with(keys: &[String], key: &str) -> Vec<String> {
    let mut keys = keys.to_vec();
    keys.push(key.to_owned());
    keys.sort();
    keys
}

#[test]
fn the_policy_is_written_without_mode_rbac_too_rb_3() {
    let config = EngineConfig { modes: vec![Mode::Node], ..engine_config() };
    let direct = Direct::open(&config, None);
    let with_rbac = Direct::open(&engine_config(), None);
    let policy = |direct: &Direct| direct.keys("/rbac.authorization.k8s.io/");
    assert!(!policy(&direct).is_empty());
    assert_eq!(policy(&direct), policy(&with_rbac));
    let config = EngineConfig { default_policy: false, ..config };
    assert_eq!(policy(&Direct::open(&config, None)), Vec::<String>::new());
    assert_eq!(direct.keys("/core/namespaces/").len(), 4);
}

#[test]
fn every_namespace_has_a_service_account_and_the_serving_authority() {
    let server = cluster();
    let authority = fs::read_to_string(server.0.dir.join("ca.crt")).unwrap();
    let map = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt");
    let account = |namespace: &str| format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert_eq!(server.read(&map(namespace))["data"], json!({"ca.crt": authority}));
        server.read(&account(namespace));
    }
    server.create(
        "/api/v1/namespaces",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
    );
    server.until(&account("shop"), |answer| answer.code == 200);
    server.until(&map("shop"), |answer| answer.code == 200);
    // A deleted object comes back.
    assert_eq!(server.ask("DELETE", &account("shop"), None).code, 200);
    server.until(&account("shop"), |answer| answer.code == 200);
    assert_eq!(server.ask("DELETE", &map("shop"), None).code, 200);
    server.until(&map("shop"), |answer| answer.code == 200);
    let change = json!({"data": {"ca.crt": "another", "more": "x"}});
    assert_eq!(server.ask("PATCH", &map("shop"), Some(change)).code, 200);
    server.until(&map("shop"), |answer| answer.json()["data"] == json!({"ca.crt": authority}));
}

#[test]
fn a_namespace_goes_when_the_last_finalizer_in_it_has() {
    let server = cluster();
    let namespace = "/api/v1/namespaces/going";
    server.create(
        "/api/v1/namespaces",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}}),
    );
    server.until(&format!("{namespace}/serviceaccounts/default"), |answer| answer.code == 200);
    let held = json!({"name": "held", "finalizers": ["example.com/hold"]});
    let object = |metadata: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    server.create(&format!("{namespace}/configmaps"), object(&held));
    server.create(&format!("{namespace}/configmaps"), object(&json!({"name": "free"})));
    server.create(&format!("{namespace}/pods"), pod("p", "n0", "s"));
    assert_eq!(server.ask("DELETE", namespace, None).code, 200);
    let status = |answer: &Answer, kind: &str| {
        let answer = answer.json();
        let conditions = answer["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == kind);
        found.map(|condition| (condition["status"].clone(), condition["message"].to_string()))
    };
    // Pods go first: this one waits for its kubelet, and everything else for it.
    server.until(namespace, |answer| {
        status(answer, "NamespaceContentRemaining")
            .is_some_and(|(_, message)| message.contains("pods. has 1"))
    });
    server.read(&format!("{namespace}/configmaps/free"));
    let pod = format!("{namespace}/pods/p?gracePeriodSeconds=0");
    assert_eq!(server.ask("DELETE", &pod, None).code, 200);
    server.until(&format!("{namespace}/configmaps/free"), |answer| answer.code == 404);
    server.until(namespace, |answer| {
        status(answer, "NamespaceFinalizersRemaining")
            .is_some_and(|(is_so, message)| is_so == "True" && message.contains("example.com/hold in 1"))
    });
    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(server.ask("PATCH", &format!("{namespace}/configmaps/held"), Some(release)).code, 200);
    server.until(namespace, |answer| answer.code == 404);
    let left = server.0.app.backend();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let all = runtime.block_on(left.list(&List { prefix: "/".into(), ..List::default() })).unwrap();
    assert!(!all.entries.iter().any(|entry| entry.key.contains("/going")), "nothing of it is left");
}

#[test]
fn an_aggregated_role_loses_what_was_aggregated_and_keeps_what_was_written() {
    let server = cluster();
    let roles = format!("{RBAC}/clusterroles");
    let role = |name: &str, more: Value| {
        let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name}});
        role.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        role
    };
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let selects = json!({"clusterRoleSelectors": [{"matchLabels": {"to": "sum"}}]});
    let feeder = json!({"metadata": {"name": "part", "labels": {"to": "sum"}}, "rules": rules});
    server.create(&roles, role("sum", json!({"aggregationRule": selects})));
    server.create(&roles, role("part", feeder));
    let sum = format!("{roles}/sum");
    server.until(&sum, |answer| answer.json()["rules"] == rules);
    assert_eq!(server.ask("DELETE", &format!("{roles}/part"), None).code, 200);
    server.until(&sum, |answer| answer.json()["rules"].is_null());
    let own = json!({"rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["nodes"]}]});
    assert_eq!(server.ask("PATCH", &sum, Some(own.clone())).code, 200);
    // Another aggregated role shows that the controller has been by.
    server.create(
        &roles,
        role("other", json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}})),
    );
    server.create(
        &roles,
        role("fed", json!({"metadata": {"name": "fed", "labels": {"a": "b"}}, "rules": rules})),
    );
    server.until(&format!("{roles}/other"), |answer| answer.json()["rules"] == rules);
    assert_eq!(server.read(&sum)["rules"], own["rules"]);
}

#[test]
fn reviews_and_requests_go_by_what_was_written_last() {
    let server = cluster();
    let jane = server.0.user("jane", &[]);
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": "jane", "resourceAttributes": {"namespace": "default", "verb": "list", "resource": "pods"}}});
    let may = || {
        let answer =
            server.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", Some(review.clone()));
        let reviewed = answer.json()["status"]["allowed"].as_bool().unwrap();
        let served = server.0.get("/api/v1/namespaces/default/pods").by(&jane).send().code == 200;
        assert_eq!(reviewed, served);
        served
    };
    for _ in 0..3 {
        assert!(!may());
        server.create(&bindings, binding("view"));
        assert!(may());
        assert_eq!(server.ask("DELETE", &format!("{bindings}/b"), None).code, 200);
    }
}

#[test]
fn controllers_end_when_they_are_told_to() {
    let dir = scratch();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let backend = runtime.block_on(async {
        let config =
            Config { data_dir: dir.clone(), storage: Storage::Memory, secure_port: 0, ..Config::default() };
        let server = ApiServer::new(config).await.unwrap();
        let backend = Arc::clone(server.backend());
        server.serve(std::future::ready(())).await;
        backend
    });
    wait::until("nobody holds the store any more but this test", || Arc::strong_count(&backend) == 1);
    std::fs::remove_dir_all(dir).unwrap();
}
