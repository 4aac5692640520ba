//! Answers in protobuf: the same objects as in JSON, read by a codec that does not know our schemas.

use crate::common::{Setup, Started, start_with};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::protobuf::{self, MEDIA_TYPE};
use portcullis_testkit::recorded::without;
use portcullis_testkit::wait;
use serde_json::{Value, json};

const DEFAULT: &str = "/api/v1/namespaces/default";

fn cluster() -> (Started, Client, Client) {
    let server = start_with(Setup { is_cluster: true, ..Setup::default() });
    let identity = Identity::admin(&server.dir);
    let json = Client::new(server.address, &identity);
    let protobuf = Client::new(server.address, &identity).in_protobuf();
    (server, json, protobuf)
}

/// A document without what is zero: JSON leaves some of it out, and protobuf writes all of it.
fn without_zeroes(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), without_zeroes(value)));
            members.filter(|(_, value)| !is_zero(value)).collect()
        }
        Value::Array(items) => items.iter().map(without_zeroes).collect(),
        other => other.clone(),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is_true) => !is_true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// Asks for the same in JSON and in protobuf.
#[track_caller]
fn assert_same(json: &mut Client, protobuf: &mut Client, path: &str) -> Value {
    // Controllers may write in between: only answers around which nothing has changed are compared.
    let (code, expected, found) = wait::until_some(&format!("{path} stays as it is"), || {
        let before = json.ask("GET", path, None).unwrap();
        let found = protobuf.ask("GET", path, None).unwrap();
        let after = json.ask("GET", path, None).unwrap();
        let expected = after.json();
        (before.json() == expected).then_some((after.code, expected, found))
    });
    assert_eq!(found.code, code, "{path}");
    assert_eq!(found.media_type, MEDIA_TYPE, "{path}");
    let mut shown = expected.clone();
    // Items of lists have neither kind nor version in either form.
    if let Some(items) = shown["items"].as_array_mut() {
        for item in items {
            item.as_object_mut().unwrap().retain(|name, _| name != "kind" && name != "apiVersion");
        }
    }
    assert_eq!(without_zeroes(&found.json()), without_zeroes(&shown), "{path}");
    expected
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {
            "nodeName": "n0",
            "containers": [{
                "name": "c", "image": "i", "ports": [{"containerPort": 80}],
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
                "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 3},
                "readinessProbe": {"tcpSocket": {"port": 80}},
            }],
            "volumes": [{"name": "v", "configMap": {"name": "m", "optional": true}}, {"name": "e", "emptyDir": {}}],
        },
    })
}

#[test]
fn objects_lists_and_errors_are_the_same_in_protobuf_and_in_json() {
    let (_server, mut json, mut protobuf) = cluster();
    json.must(201, "POST", &format!("{DEFAULT}/pods"), Some(&pod("made-in-json")));
    let made = protobuf.must(201, "POST", &format!("{DEFAULT}/pods"), Some(&pod("made-in-protobuf")));
    assert_eq!(made["spec"]["containers"][0]["env"][0]["valueFrom"]["secretKeyRef"]["name"], "s");
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "AAH/"}});
    protobuf.must(201, "POST", &format!("{DEFAULT}/secrets"), Some(&secret));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"},
        "status": {"capacity": {"cpu": "4"}, "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}});
    protobuf.must(201, "POST", "/api/v1/nodes", Some(&node));
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n0"},
        "spec": {"holderIdentity": "n0", "leaseDurationSeconds": 40, "renewTime": "2026-11-22T03:04:05.678901Z"}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let made = protobuf.must(201, "POST", leases, Some(&lease));
    assert_eq!(made["spec"]["renewTime"], "2026-11-22T03:04:05.678901Z");

    for path in [
        &format!("{DEFAULT}/pods/made-in-json"),
        &format!("{DEFAULT}/pods/made-in-protobuf"),
        &format!("{DEFAULT}/pods"),
        &format!("{DEFAULT}/pods?limit=1"),
        &format!("{DEFAULT}/pods/none"),
        &format!("{DEFAULT}/secrets/s"),
        &format!("{leases}/n0"),
        &"/api/v1/nodes/n0".to_owned(),
        &"/api/v1/namespaces".to_owned(),
        &"/api/v1/configmaps".to_owned(),
        &"/api/v1/nodes?fieldSelector=nonsense%3Da".to_owned(),
        &"/api/v1/nodes?limit=x".to_owned(),
    ] {
        assert_same(&mut json, &mut protobuf, path);
    }
    let [mut one, mut other] = ["made-in-json", "made-in-protobuf"]
        .map(|name| json.must(200, "GET", &format!("{DEFAULT}/pods/{name}"), None));
    // `time` is that of managedFields: a second may end between the two.
    let varies = ["name", "uid", "resourceVersion", "creationTimestamp", "time"];
    [one, other] = [one, other].map(|pod| without(&pod, &varies));
    assert_eq!(one, other, "the same pod is stored");
}

#[test]
fn changes_and_deletions_are_answered_in_protobuf() {
    let (_server, mut json, mut protobuf) = cluster();
    let path = format!("{DEFAULT}/pods/p");
    protobuf.must(201, "POST", &format!("{DEFAULT}/pods"), Some(&pod("p")));
    let patched = protobuf.ask("PATCH", &path, Some(&json!({"metadata": {"labels": {"b": "c"}}}))).unwrap();
    assert_eq!((patched.code, patched.media_type.as_str()), (200, MEDIA_TYPE));
    assert_eq!(patched.json()["metadata"]["labels"], json!({"app": "a", "b": "c"}));
    let mut put = json.must(200, "GET", &path, None);
    put["metadata"]["labels"] = json!({"d": "e"});
    let updated = protobuf.must(200, "PUT", &path, Some(&put));
    assert_eq!(updated["metadata"]["labels"], json!({"d": "e"}));
    let first = protobuf.ask("DELETE", &path, Some(&json!({"gracePeriodSeconds": 30}))).unwrap();
    assert_eq!((first.code, first.media_type.as_str()), (200, MEDIA_TYPE));
    assert_eq!(first.json()["metadata"]["deletionGracePeriodSeconds"], 30);
    let uid = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "another"}});
    assert_eq!(protobuf.must(409, "DELETE", &path, Some(&uid))["reason"], "Conflict");
    let last = protobuf.must(200, "DELETE", &path, Some(&json!({"gracePeriodSeconds": 0})));
    assert_eq!(last["kind"], "Pod");
    json.must(404, "GET", &path, None);
    protobuf.must(201, "POST", &format!("{DEFAULT}/pods"), Some(&pod("q")));
    let gone =
        protobuf.must(200, "DELETE", &format!("{DEFAULT}/pods"), Some(&json!({"gracePeriodSeconds": 0})));
    assert_eq!((gone["kind"].as_str(), gone["items"].as_array().map(Vec::len)), (Some("PodList"), Some(1)));
}

#[test]
fn reviews_and_token_requests_are_answered_in_protobuf() {
    let (_server, mut json, mut protobuf) = cluster();
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": "jane", "groups": ["g"], "extra": {"k": ["a", "b"]},
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}});
    let answer =
        protobuf.must(201, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", Some(&review));
    assert_eq!(answer["spec"], review["spec"]);
    assert_eq!(answer["status"]["allowed"], false);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    json.must(201, "POST", &format!("{DEFAULT}/serviceaccounts"), Some(&account));
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": ["kubelet"], "expirationSeconds": 600}});
    let issued =
        protobuf.must(201, "POST", &format!("{DEFAULT}/serviceaccounts/robot/token"), Some(&request));
    let token = issued["status"]["token"].as_str().unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": ["kubelet"]}});
    let answer = protobuf.must(201, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", Some(&review));
    assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:default:robot");
    assert_eq!(answer["status"]["authenticated"], true);
}

#[test]
fn watches_tell_the_same_in_protobuf_and_in_json() {
    let (server, mut json, _) = cluster();
    json.must(201, "POST", &format!("{DEFAULT}/pods"), Some(&pod("a")));
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&\
                 timeoutSeconds=2";
    let path = format!("{DEFAULT}/pods?{query}");
    let identity = Identity::admin(&server.dir);
    let events = |client: Client| client.watch(&path).unwrap();
    let watches = [
        events(Client::new(server.address, &identity)),
        events(Client::new(server.address, &identity).in_protobuf()),
    ];
    json.must(201, "POST", &format!("{DEFAULT}/pods"), Some(&pod("b")));
    json.must(200, "DELETE", &format!("{DEFAULT}/pods/a"), Some(&json!({"gracePeriodSeconds": 0})));
    let [expected, found] = watches.map(|watch| {
        let events: Vec<Value> = watch.map(|event| without_zeroes(&event.unwrap())).collect();
        events
    });
    let kinds: Vec<&str> = expected.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert!(kinds.starts_with(&["ADDED", "BOOKMARK", "ADDED"]), "{kinds:?}");
    assert_eq!(found, expected);

    let invalid = format!("{DEFAULT}/pods?watch=true&resourceVersion=x&timeoutSeconds=1");
    let refused = Client::new(server.address, &identity).in_protobuf().ask("GET", &invalid, None).unwrap();
    assert_eq!((refused.code, refused.media_type.as_str()), (500, MEDIA_TYPE));
    assert_eq!(refused.json()["kind"], "Status");
}

#[test]
fn a_long_list_in_pieces_of_protobuf_is_the_list_in_json() {
    let (_server, mut json, mut protobuf) = cluster();
    for number in 0..300_usize {
        let filling: String =
            (0..5_000_usize).map(|at| char::from(b'a' + (at * number % 23) as u8)).collect();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m-{number}")},
            "data": {"filling": filling, "text": "\u{e4}\"\\\n"}});
        protobuf.must(201, "POST", &format!("{DEFAULT}/configmaps"), Some(&map));
    }
    let list = assert_same(&mut json, &mut protobuf, &format!("{DEFAULT}/configmaps"));
    assert!(list.to_string().len() > 1 << 20, "the list is long");
}

#[test]
fn who_accepts_only_protobuf_gets_it_or_nothing_and_machines_have_no_protobuf_form() {
    let (server, _, _) = cluster();
    let get = |path: &str, accept: &str| {
        server.get(path).by(&server.admin()).header(&format!("Accept: {accept}")).send()
    };
    let metadata = format!("{MEDIA_TYPE};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let partial = get("/api/v1/namespaces/default", &metadata);
    assert_eq!((partial.code, partial.media_type()), (200, MEDIA_TYPE));
    let partial = protobuf::decode(&partial.body);
    assert_eq!(partial["kind"], "PartialObjectMetadata");
    assert_eq!(partial["metadata"]["name"], "default");
    let list = get("/api/v1/namespaces", &metadata.replace("Metadata;", "MetadataList;"));
    assert_eq!((list.code, list.media_type()), (200, MEDIA_TYPE));
    for path in
        ["/api", "/apis", "/api/v1", "/apis/rbac.authorization.k8s.io", "/apis/coordination.k8s.io/v1"]
    {
        let answer = get(path, MEDIA_TYPE);
        assert_eq!((answer.code, answer.media_type()), (200, MEDIA_TYPE), "{path}");
    }
    let table = get("/api/v1/namespaces", &format!("{MEDIA_TYPE};as=Table;g=meta.k8s.io;v=v1"));
    assert_eq!(table.code, 406);
    // Its server writes JSON and nothing else.
    for accept in [MEDIA_TYPE, "application/yaml", "text/html"] {
        assert_eq!(get("/version", accept).code, 406, "{accept}");
    }
    assert_eq!(get("/version", &format!("{MEDIA_TYPE}, */*")).media_type(), "application/json");

    let machines = "/apis/machine.openshift.io/v1beta1/machines";
    assert_eq!(get(machines, MEDIA_TYPE).code, 406);
    let json = get(machines, &format!("{MEDIA_TYPE},application/json"));
    assert_eq!((json.code, json.media_type()), (200, "application/json"));
    let partial = get(machines, &metadata.replace("Metadata;", "MetadataList;"));
    assert_eq!((partial.code, partial.media_type()), (200, MEDIA_TYPE));
}
