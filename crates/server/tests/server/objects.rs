//! Objects over HTTP: what the recordings do not show, because it takes several requests at one time, or drops out of

//! their comparison.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Answer, Setup, Started, start, start_with};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_testkit::tool;
use portcullis_testkit::wait;
use serde_json::{Value, json};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn by_admin(server: &Started, method: &str, path: &str, body: &Value) -> Answer {
    let mut request = server.request(method, path).by(&server.admin());
    if !body.is_null() {
        let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        request = request.header(&format!("Content-Type: {media_type}")).body(body.to_string());
    }
    request.send()
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"n": name}}, "data": {"k": "v"}})
}

fn make(server: &Started, name: &str) -> Value {
    let answer = by_admin(server, "POST", MAPS, &map(name));
    assert_eq!(answer.code, 201, "{}", answer.text());
    answer.json()
}

fn get(server: &Started, path: &str) -> Value {
    let answer = by_admin(server, "GET", path, &Value::Null);
    assert_eq!(answer.code, 200, "{}", answer.text());
    answer.json()
}

#[test]
fn the_server_sets_identity_and_revision_ap_30_ap_45() {
    let server = start();
    let made = make(&server, "a");
    let meta = &made["metadata"];
    let uid = meta["uid"].as_str().unwrap();
    assert_eq!((uid.len(), uid.matches('-').count()), (36, 4));
    assert!(meta["creationTimestamp"].as_str().unwrap().ends_with('Z'));
    let version =
        |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(get(&server, &format!("{MAPS}/a")), made);
    let same = by_admin(&server, "PATCH", &format!("{MAPS}/a"), &json!({"data": {"k": "v"}})).json();
    assert_eq!(version(&same), version(&made), "a write that changes nothing");
    let changed = by_admin(&server, "PATCH", &format!("{MAPS}/a"), &json!({"data": {"k": "w"}})).json();
    assert!(version(&changed) > version(&made));
    assert_eq!(changed["metadata"]["uid"], *uid);

    let mut stale = made.clone();
    stale["data"]["k"] = json!("x");
    by_admin(&server, "PUT", &format!("{MAPS}/a"), &stale).assert_status(409, "Conflict");
    stale["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(by_admin(&server, "PUT", &format!("{MAPS}/a"), &stale).json()["data"]["k"], "x");
    let gone = by_admin(&server, "DELETE", &format!("{MAPS}/a"), &Value::Null);
    assert_eq!(
        (gone.json()["status"].clone(), gone.json()["details"]["uid"].clone()),
        (json!("Success"), json!(uid))
    );
    assert_ne!(make(&server, "a")["metadata"]["uid"], *uid);
}

#[test]
fn pages_show_one_revision_and_every_object_once_ap_71() {
    let server = start();
    let names: Vec<String> = (0..7).map(|i| format!("m{i}")).collect();
    for name in &names {
        make(&server, name);
    }
    let (mut seen, mut token, mut remaining, mut revisions) =
        (Vec::new(), String::new(), vec![], BTreeSet::new());
    loop {
        let page = get(&server, &format!("{MAPS}?limit=3&continue={token}"));
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|o| o["metadata"]["name"].as_str().unwrap().to_owned()),
        );
        remaining.push(page["metadata"]["remainingItemCount"].as_u64());
        revisions.insert(page["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
        match page["metadata"]["continue"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
        // Changes in between are not seen.
        by_admin(&server, "DELETE", &format!("{MAPS}/m6"), &Value::Null);
        by_admin(&server, "POST", MAPS, &map("m9"));
    }
    assert_eq!(seen, names);
    assert_eq!(remaining, [Some(4), Some(1), None]);
    assert_eq!(revisions.len(), 1);
    // With a selector nobody knows how many are left.
    let page = get(&server, &format!("{MAPS}?limit=1&labelSelector=n"));
    assert!(page["metadata"]["continue"].is_string() && page["metadata"]["remainingItemCount"].is_null());
}

#[test]
fn a_forged_token_shows_nothing_outside_the_list() {
    use base64::Engine as _;
    let server = start();
    make(&server, "mine");
    by_admin(&server, "POST", "/api/v1/namespaces/kube-system/configmaps", &map("theirs"));
    for after in ["../kube-system/", "", "/core/configmaps/kube-system/", "\u{0}"] {
        let token = base64::engine::general_purpose::URL_SAFE_NO_PAD
            .encode(json!({"rv": 6, "after": after}).to_string());
        let answer = by_admin(&server, "GET", &format!("{MAPS}?continue={token}"), &Value::Null);
        assert!(!answer.text().contains("theirs"), "{after}: {}", answer.text());
    }
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let server = start();
    make(&server, "shared");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for i in 0..5 {
                    let patch = json!({"data": {(format!("w{writer}-{i}")): "x"}});
                    assert_eq!(by_admin(server, "PATCH", &format!("{MAPS}/shared"), &patch).code, 200);
                }
            });
        }
    });
    assert_eq!(get(&server, &format!("{MAPS}/shared"))["data"].as_object().unwrap().len(), 1 + 4 * 5);
}

/// curl, reading a watch line by line.
struct Watching {
    curl: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Watching {
    fn start(server: &Started, path: &str) -> Self {
        let admin = server.admin();
        let mut curl = tool::command("curl")
            .args(["-sS", "-N", "--max-time", "30", "--cacert"])
            .arg(server.dir.join("ca.crt"))
            .arg("--cert")
            .arg(&admin.certificate)
            .arg("--key")
            .arg(&admin.key)
            .arg(format!("https://localhost:{}{path}", server.address.port()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(curl.stdout.take().unwrap());
        Self { curl, lines }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    fn rest(mut self) -> String {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        assert!(self.curl.wait().unwrap().success());
        rest
    }
}

#[test]
fn a_watch_tells_changes_as_they_happen_and_ends_with_the_server_ap_81_ap_82() {
    let mut server = start();
    make(&server, "before");
    let mut watch = Watching::start(&server, &format!("{MAPS}?watch=1&labelSelector=n"));
    let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
    assert_eq!(kind(&watch.next()), "ADDED");
    let made = make(&server, "a");
    let event = watch.next();
    assert_eq!((kind(&event), &event["object"]), ("ADDED".to_owned(), &made));
    by_admin(&server, "PATCH", &format!("{MAPS}/a"), &json!({"data": {"k": "w"}}));
    assert_eq!(kind(&watch.next()), "MODIFIED");
    // Out of the selection, which is the end of it for this watch.
    let out = by_admin(&server, "PATCH", &format!("{MAPS}/a"), &json!({"metadata": {"labels": null}})).json();
    let event = watch.next();
    assert_eq!(kind(&event), "DELETED");
    assert_eq!(event["object"]["metadata"]["resourceVersion"], out["metadata"]["resourceVersion"]);
    assert_eq!(event["object"]["metadata"]["labels"]["n"], "a", "as it was last seen");
    by_admin(&server, "DELETE", &format!("{MAPS}/before"), &Value::Null);
    assert_eq!(kind(&watch.next()), "DELETED");
    server.stop();
    assert_eq!(watch.rest(), "");
}

#[test]
fn a_watch_from_a_revision_misses_nothing_and_ends_in_time_ap_81_ap_83() {
    let server = start();
    let first = make(&server, "a");
    make(&server, "b");
    by_admin(&server, "DELETE", &format!("{MAPS}/a"), &Value::Null);
    let from = first["metadata"]["resourceVersion"].as_str().unwrap();
    let started = Instant::now();
    let watch = Watching::start(&server, &format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={from}"));
    let rest = watch.rest();
    assert!(started.elapsed() >= Duration::from_millis(900));
    let events: Vec<Value> = rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<(&str, &str)> = events
        .iter()
        .map(|e| (e["type"].as_str().unwrap(), e["object"]["metadata"]["name"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("ADDED", "b"), ("DELETED", "a")]);
}

#[test]
fn a_client_that_goes_away_ends_its_watch() {
    let server = start();
    make(&server, "a");
    let mut watch = Watching::start(&server, &format!("{MAPS}?watch=1"));
    watch.next();
    let open = || server.app.metrics().connections.open.get();
    assert_eq!(open(), 1);
    watch.curl.kill().unwrap();
    watch.curl.wait().unwrap();
    wait::until("no connection is open", || open() == 0);
}

#[test]
fn answers_come_in_yaml_and_large_ones_compressed_ap_17() {
    let server = start();
    make(&server, "a");
    let yaml = server.get(&format!("{MAPS}/a")).by(&server.admin()).header("Accept: application/yaml").send();
    assert_eq!(yaml.media_type(), "application/yaml");
    assert!(yaml.text().contains("kind: ConfigMap\n"), "{}", yaml.text());
    let missing =
        server.get(&format!("{MAPS}/zz")).by(&server.admin()).header("Accept: application/yaml").send();
    assert_eq!((missing.code, missing.media_type()), (404, "application/yaml"));
    assert!(missing.text().contains("reason: NotFound\n"));
    // The object that curl sends back in YAML is the same.
    let put = server
        .request("PUT", &format!("{MAPS}/a"))
        .by(&server.admin())
        .header("Content-Type: application/yaml");
    let again = put.body(yaml.body.clone()).send();
    assert_eq!(again.json(), get(&server, &format!("{MAPS}/a")));

    let large = json!({"metadata": {"name": "large"}, "data": {"k": "x".repeat(200_000)}});
    assert_eq!(by_admin(&server, "POST", MAPS, &large).code, 201);
    let packed =
        server.get(&format!("{MAPS}/large")).by(&server.admin()).header("Accept-Encoding: gzip").send();
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.body.len() < 20_000);
    let unpacked = server.get(&format!("{MAPS}/large")).by(&server.admin()).word("--compressed").send();
    assert_eq!(unpacked.json()["data"]["k"].as_str().unwrap().len(), 200_000);
}

#[test]
fn what_is_dropped_is_told_in_warnings_ap_14() {
    let server = start();
    let body = r#"{"metadata":{"name":"w"},"zz":1,"data":{"a":"1"},"data":{"a":"2"}}"#;
    let answer = server.post(MAPS, body).by(&server.admin()).send();
    assert_eq!(answer.code, 201);
    for warning in [r#"299 - "unknown field \"zz\"""#, r#"299 - "duplicate field \"data\"""#] {
        assert!(answer.head.contains(warning), "{warning}: {}", answer.head);
    }
}

#[test]
fn who_may_only_update_does_not_create_by_it() {
    let rules = |verbs: &str| {
        format!(
            r#"{{"kind":"List","apiVersion":"v1","items":[
            {{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{{"name":"r"}},"rules":[{{"verbs":{verbs},"apiGroups":["coordination.k8s.io"],"resources":["leases"]}}]}},
            {{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{{"name":"r"}},"roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"}},"subjects":[{{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"ann"}}]}}]}}"#
        )
    };
    let put = |verbs: &str| {
        let server = start_with(Setup { state: Some(rules(verbs)), ..Setup::default() });
        let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
        let request = server.request("PUT", path).by(&server.user("ann", &[]));
        request.header("Content-Type: application/json").body(r#"{"metadata":{"name":"l"}}"#).send()
    };
    let status = put(r#"["update"]"#).assert_status(403, "Forbidden");
    assert!(status["message"].as_str().unwrap().contains(r#"cannot create resource "leases""#), "{status}");
    assert_eq!(put(r#"["update","create"]"#).code, 201);
}

#[test]
fn a_node_is_bound_by_node_restriction() {
    let state = Some(r#"{"kind":"List","apiVersion":"v1","items":[]}"#.to_owned());
    let server = start_with(Setup { state, ..Setup::default() });
    let mut node = server.kubelet("n1");
    let mut create = |name: &str| {
        let body = json!({"metadata": {"name": name}});
        node.ask("POST", "/api/v1/nodes", Some(&body)).unwrap()
    };
    assert_eq!(create("n1").code, 201);
    let status = create("n2").assert_status(403, "Forbidden");
    let details = &status["details"];
    assert_eq!((&details["kind"], &details["name"]), (&json!("nodes"), &json!("n2")), "{details}");
    assert!(details["causes"].as_array().is_none_or(Vec::is_empty), "{details}");
}

#[test]
fn dry_runs_store_nothing_and_answer_like_the_real_thing_ap_15() {
    let server = start();
    let before = portcullis_store::Store::revision(&**server.app.backend());
    let answer = by_admin(&server, "POST", &format!("{MAPS}?dryRun=All"), &map("a"));
    assert_eq!((answer.code, answer.json()["data"]["k"].clone()), (201, json!("v")));
    by_admin(&server, "PATCH", &format!("{MAPS}/a?dryRun=All"), &json!({})).assert_status(404, "NotFound");
    assert_eq!(portcullis_store::Store::revision(&**server.app.backend()), before);
}

/// What a kubelet and a controller manager sent with a DELETE, byte for byte: no options, an immediate deletion of the pod
/// with this UID, and a foreground deletion.
mod recorded_options {
    pub(super) const NONE: &str = "azhzAAoTCgJ2MRINRGVsZXRlT3B0aW9ucxIAGgAiAA==";
    pub(super) const AT_ONCE: &str = "azhzAAoTCgJ2MRINRGVsZXRlT3B0aW9ucxIqCAASJgokOTkyNzZjMTAtMDRlZi00NGUyLTgwOWMtMzgw\
                                      NjczZjkzMjkwGgAiAA==";
    pub(super) const UID_OF_AT_ONCE: &str = "99276c10-04ef-44e2-809c-380673f93290";
    pub(super) const SLICES: &str = "azhzAAojChJyZXNvdXJjZS5rOHMuaW8vdjESDURlbGV0ZU9wdGlvbnMSABoAIgA=";
}

fn recorded(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

fn delete(server: &Started, path: &str, media_type: &str, body: Vec<u8>) -> Answer {
    let request = server.request("DELETE", path).by(&server.admin());
    request.header(&format!("Content-Type: {media_type}")).body(body).send()
}

#[test]
fn options_of_a_delete_are_read_in_protobuf_ap_51() {
    let server = start();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "node-1",
        "containers": [{"name": "c", "image": "i"}]}});
    let pods = "/api/v1/namespaces/default/pods";
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    by_admin(&server, "POST", accounts, &json!({"metadata": {"name": "default"}}));
    let made = by_admin(&server, "POST", pods, &pod);
    assert_eq!(made.code, 201, "{}", made.text());
    let uid = made.json()["metadata"]["uid"].as_str().unwrap().to_owned();

    let other = recorded(recorded_options::AT_ONCE);
    let path = format!("{pods}/p");
    delete(&server, &path, PROTOBUF, other.clone()).assert_status(409, "Conflict");
    let marked = delete(&server, &path, PROTOBUF, recorded(recorded_options::NONE));
    assert_eq!(marked.code, 200, "{}", marked.text());
    assert_eq!(get(&server, &path)["metadata"]["deletionGracePeriodSeconds"], 30);

    // The same bytes with the UID of this pod, which has the same length.
    let place =
        other.windows(uid.len()).position(|w| w == recorded_options::UID_OF_AT_ONCE.as_bytes()).unwrap();
    let mut this = other;
    this[place..place + uid.len()].copy_from_slice(uid.as_bytes());
    assert_eq!(delete(&server, &path, PROTOBUF, this).code, 200);
    by_admin(&server, "GET", &path, &Value::Null).assert_status(404, "NotFound");
}

#[test]
fn options_of_a_collection_are_read_in_every_form_ap_51_ap_56() {
    let server = start();
    let slices = "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dnode1";
    assert_eq!(delete(&server, slices, PROTOBUF, recorded(recorded_options::SLICES)).code, 200);
    let forms = [
        (PROTOBUF, recorded(recorded_options::NONE)),
        ("application/yaml", b"propagationPolicy: Background\n".to_vec()),
        ("application/json", br#"{"propagationPolicy":"Background"}"#.to_vec()),
    ];
    for (media_type, body) in forms {
        make(&server, "a");
        let answer = delete(&server, &format!("{MAPS}?labelSelector=n%3Da"), media_type, body);
        assert_eq!(answer.code, 200, "{media_type}: {}", answer.text());
        by_admin(&server, "GET", &format!("{MAPS}/a"), &Value::Null).assert_status(404, "NotFound");
    }
    // Damaged options delete nothing.
    make(&server, "a");
    let path = format!("{MAPS}/a");
    for damaged in [&b"k8s\0\x0a\xff"[..], b"no protobuf", b"k8s\0\x12\x02\x08"] {
        delete(&server, &path, PROTOBUF, damaged.to_vec()).assert_status(400, "BadRequest");
    }
    delete(&server, &path, "application/cbor", b"x".to_vec()).assert_status(415, "UnsupportedMediaType");
    get(&server, &path);
}
