//! Servers that share one etcd: a refusal is never older than what another server has acknowledged (ET-34), a right ends
//! everywhere (ET-35), and what others put into etcd is read or left alone (ET-10 to ET-12).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::thread::scope;
use std::time::{Duration, Instant};

use crate::common::{Setup, Started, goes_on_inconsistently, start_with};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portcullis_server::Kinds;
use portcullis_server::api_server::EtcdConfig;
use portcullis_server::controller::selection::Selection;
use portcullis_server::registry::runtime_config::RuntimeConfig;
use portcullis_testkit::etcd::{Etcd, Options};
use portcullis_testkit::https::Client;
use portcullis_testkit::metrics::assert_documented;
use portcullis_testkit::tcp_proxy::TcpProxy;
use portcullis_testkit::{recorded, wait};
use serde_json::{Value, json};

const NAMESPACE: &str = "/api/v1/namespaces/default";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const ROUNDS: u64 = 150;

pub(crate) fn setup(etcd: &Etcd) -> Setup {
    setup_at(etcd.endpoint())
}

/// A server that reaches etcd through a network that a test can cut.
fn setup_behind(network: &TcpProxy) -> Setup {
    setup_at(format!("http://{}", network.address()))
}

fn setup_at(url: String) -> Setup {
    let etcd = EtcdConfig { servers: vec![url], ..EtcdConfig::default() };
    Setup { etcd: Some(etcd), is_cluster: true, ..Setup::default() }
}

/// Two servers over an etcd, with the same keys.
fn two(etcd: &Etcd) -> [Started; 2] {
    let one = start_with(setup(etcd));
    let keys_of = Some(one.dir.clone());
    [start_with(Setup { keys_of, ..setup(etcd) }), one]
}

fn admin(server: &Started) -> Client {
    server.client(&server.admin())
}

fn pod(name: &str, node: &str, secret: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node,
        "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": secret}}]}]}})
}

/// Asks until the answer has this code. Returns how long that took.
fn until_code(client: &mut Client, code: u16, path: &str) -> Duration {
    let started = Instant::now();
    wait::until(&format!("{path} is answered {code}"), || {
        client.ask("GET", path, None).unwrap().code == code
    });
    started.elapsed()
}

fn worst(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let (median, last) = (times[times.len() / 2], times.last().unwrap());
    let most = times[times.len() * 99 / 100];
    println!("{what}: {} times, median {median:?}, p99 {most:?}, longest {last:?}", times.len());
}

#[test]
fn a_node_is_never_refused_what_another_server_has_granted() {
    let etcd = Etcd::start();
    let [one, other] = &two(&etcd);
    let ends = scope(|scope| {
        let pairs =
            [(one, other), (other, one), (one, other)].into_iter().enumerate().map(|(pair, (a, b))| {
                scope.spawn(move || {
                    let (mut admin, mut node) = (admin(a), b.kubelet(&format!("n{pair}")));
                    let secret = format!("s{pair}");
                    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}});
                    admin.must(201, "POST", &format!("{NAMESPACE}/secrets"), Some(&body));
                    let path = format!("{NAMESPACE}/secrets/{secret}");
                    let mut ends = Vec::new();
                    for round in 0..ROUNDS {
                        let name = format!("p{pair}-{}", round % 3);
                        let made = pod(&name, &format!("n{pair}"), &secret);
                        admin.must(201, "POST", &format!("{NAMESPACE}/pods"), Some(&made));
                        node.must(200, "GET", &path, None);
                        // What the node itself does is decided on what the other server has stored, too.
                        let status = json!({"status": {"phase": "Running"}});
                        node.must(200, "PATCH", &format!("{NAMESPACE}/pods/{name}/status"), Some(&status));
                        admin.must(
                            200,
                            "DELETE",
                            &format!("{NAMESPACE}/pods/{name}?gracePeriodSeconds=0"),
                            None,
                        );
                        ends.push(until_code(&mut node, 403, &path));
                    }
                    ends
                })
            });
        pairs.collect::<Vec<_>>().into_iter().flat_map(|pair| pair.join().unwrap()).collect()
    });
    worst("a secret of a removed pod is refused elsewhere after", ends);
}

#[test]
fn a_right_that_is_granted_or_revoked_on_one_server_is_so_on_the_other() {
    let etcd = Etcd::start();
    let [one, other] = &two(&etcd);
    let (mut admin, mut jane) = (admin(one), other.client(&one.user("jane", &[])));
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]});
    admin.must(201, "POST", &format!("{RBAC}/roles"), Some(&role));
    let path = format!("{NAMESPACE}/configmaps?limit=1");
    let mut ends = Vec::new();
    for _ in 0..ROUNDS {
        admin.must(201, "POST", &format!("{RBAC}/rolebindings"), Some(&binding));
        jane.must(200, "GET", &path, None);
        admin.must(200, "DELETE", &format!("{RBAC}/rolebindings/b"), None);
        ends.push(until_code(&mut jane, 403, &path));
    }
    worst("a revoked right is refused elsewhere after", ends);
}

#[test]
fn what_one_server_has_written_the_other_reads_changes_and_deletes() {
    let etcd = Etcd::start();
    let servers = two(&etcd);
    let mut admins = [admin(&servers[0]), admin(&servers[1])];
    for round in 0..ROUNDS {
        let turn = usize::try_from(round % 2).unwrap();
        let (name, other) = (format!("m{round}"), 1 - turn);
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}});
        let path = format!("{NAMESPACE}/configmaps/{name}");
        admins[turn].must(201, "POST", &format!("{NAMESPACE}/configmaps"), Some(&map));
        let read = admins[other].must(200, "GET", &path, None);
        admins[turn].must(200, "PATCH", &path, Some(&json!({"data": {"a": "2"}})));
        // With the resourceVersion that was read before: a conflict, whichever server is asked.
        admins[other].must(409, "PUT", &path, Some(&read));
        let listed = admins[other].must(
            200,
            "GET",
            &format!("{NAMESPACE}/configmaps?fieldSelector=metadata.name={name}"),
            None,
        );
        assert_eq!(listed["items"][0]["data"]["a"], "2");
        admins[other].must(200, "DELETE", &path, None);
        admins[turn].must(404, "GET", &path, None);
        admins[turn].must(404, "DELETE", &path, None);
        // In a namespace that the other server has just made.
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        admins[other].must(201, "POST", "/api/v1/namespaces", Some(&namespace));
        admins[turn].must(201, "POST", &format!("/api/v1/namespaces/{name}/configmaps"), Some(&map));
    }
}

#[test]
fn no_two_services_get_one_address_whichever_servers_are_asked() {
    let etcd = Etcd::start();
    let servers = &two(&etcd);
    let service = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
    };
    scope(|scope| {
        for (number, server) in servers.iter().cycle().take(4).enumerate() {
            scope.spawn(move || {
                let mut admin = admin(server);
                for round in 0..15 {
                    let made = service(&format!("s{number}-{round}"));
                    admin.must(201, "POST", &format!("{NAMESPACE}/services"), Some(&made));
                }
            });
        }
    });
    let listed = admin(&servers[0]).must(200, "GET", "/api/v1/services", None);
    for field in ["/spec/clusterIP", "/spec/ports/0/nodePort"] {
        let all = listed["items"].as_array().unwrap().iter();
        let mut values: Vec<String> = all.filter_map(|item| Some(item.pointer(field)?.to_string())).collect();
        let count = values.len();
        values.sort();
        values.dedup();
        assert!(count >= 60 && values.len() == count, "{field}: {} of {count} are different", values.len());
    }
}

#[test]
fn a_token_of_one_server_is_taken_by_the_other_at_once() {
    let etcd = Etcd::start();
    let [one, other] = &two(&etcd);
    let mut admin = admin(one);
    for round in 0..20 {
        let name = format!("a{round}");
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        admin.must(201, "POST", &format!("{NAMESPACE}/serviceaccounts"), Some(&account));
        let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let path = format!("{NAMESPACE}/serviceaccounts/{name}/token");
        let token = admin.must(201, "POST", &path, Some(&asked))["status"]["token"].clone();
        let header = format!("Authorization: Bearer {}", token.as_str().unwrap());
        assert_eq!(other.get("/api").header(&header).send().code, 200, "round {round}");
        admin.must(200, "DELETE", &format!("{NAMESPACE}/serviceaccounts/{name}"), None);
        wait::until("the token has ended", || other.get("/api").header(&header).send().code == 401);
    }
}

#[test]
fn with_a_silent_etcd_nothing_is_answered_on_memory_and_all_recovers() {
    let etcd = Etcd::start();
    let server = start_with(setup(&etcd));
    let mut admin = admin(&server);
    admin.must(200, "GET", &format!("{NAMESPACE}/configmaps?resourceVersion=0"), None);
    etcd.stop();
    wait::until("memory may be used no longer", || {
        admin.ask("GET", &format!("{NAMESPACE}/configmaps?resourceVersion=0"), None).unwrap().code == 503
    });
    assert_eq!(server.get("/livez").send().code, 200, "a restart would not help");
    for (probe, checks) in [("/readyz", &["etcd", "etcd-readiness"][..]), ("/healthz", &["etcd"])] {
        let answer = server.get(probe).send();
        let failed: Vec<_> = answer.text().lines().filter(|line| line.starts_with("[-]")).collect();
        let wanted: Vec<_> = checks.iter().map(|name| format!("[-]{name} failed: reason withheld")).collect();
        assert_eq!((answer.code, failed), (500, wanted.iter().map(String::as_str).collect()), "{probe}");
    }
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let answer = admin.ask("POST", &format!("{NAMESPACE}/configmaps"), Some(&map)).unwrap();
    let (code, _) = (answer.code, answer.json());
    assert_eq!(code, 503);
    etcd.cont();
    wait::until("etcd is back", || server.get("/readyz").send().code == 200);
    admin.must(201, "POST", &format!("{NAMESPACE}/configmaps"), Some(&map));
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// ET-4: nobody knows whether the write was made. Made again, it would be refused because it was made.
#[test]
fn a_write_whose_answer_is_lost_is_not_made_again() {
    let etcd = Etcd::start();
    let network = TcpProxy::start((Ipv4Addr::LOCALHOST, etcd.port()));
    let server = start_with(setup_behind(&network));
    let mut admin = admin(&server);
    let path = format!("{NAMESPACE}/configmaps");
    admin.must(200, "GET", &path, None);
    network.hold_answers();
    let answer = scope(|scope| {
        let writing = scope.spawn(|| admin.ask("POST", &path, Some(&map("m"))).unwrap());
        wait::until("etcd has made the write", || !etcd.keys("/registry/configmaps/default/m").is_empty());
        network.reset();
        network.heal();
        writing.join().unwrap()
    });
    answer.assert_status(504, "Timeout");
    admin.must(200, "GET", &format!("{path}/m"), None);
}

/// ET-21: that there is no such object is not said on memory that etcd does not confirm.
#[test]
fn a_write_is_not_refused_on_memory_that_etcd_does_not_confirm() {
    let etcd = Etcd::start();
    let network = TcpProxy::start((Ipv4Addr::LOCALHOST, etcd.port()));
    let one = start_with(setup(&etcd));
    let other = start_with(Setup { keys_of: Some(one.dir.clone()), ..setup_behind(&network) });
    let (mut one, mut other) = (admin(&one), admin(&other));
    let path = format!("{NAMESPACE}/configmaps");
    other.must(200, "GET", &path, None);
    network.cut();
    one.must(201, "POST", &path, Some(&map("m")));
    let answer = other.ask("DELETE", &format!("{path}/m"), None).unwrap();
    answer.assert_status(503, "ServiceUnavailable");
    network.heal();
    wait::until("the other server has learned of it", || {
        other.ask("DELETE", &format!("{path}/m"), None).unwrap().code == 200
    });
    one.must(404, "DELETE", &format!("{path}/m"), None);
}

#[test]
fn metrics_tell_the_resources_of_requests_to_etcd_and_the_size_of_its_file() {
    let etcd = Etcd::start();
    let server = start_with(setup(&etcd));
    let mut admin = admin(&server);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    admin.must(201, "POST", &format!("{NAMESPACE}/configmaps"), Some(&map));
    let metric = |admin: &mut Client, start: &str| {
        let text = admin.ask("GET", "/metrics", None).unwrap().text();
        let line = text.lines().find_map(|line| line.strip_prefix(start).map(str::to_owned));
        line.and_then(|rest| rest.trim().parse::<u64>().ok())
    };
    // A question for freshness is about no resource.
    for (operation, group, resource) in
        [("txn", "", "configmaps"), ("txn", "coordination.k8s.io", "leases"), ("get", "", "")]
    {
        for name in ["etcd_requests_total", "etcd_request_duration_seconds_count"] {
            let start = format!(r#"{name}{{operation="{operation}",group="{group}",resource="{resource}"}}"#);
            wait::until(&start, || metric(&mut admin, &start).is_some_and(|count| count > 0));
        }
    }
    assert_documented(&["serve"], &admin.ask("GET", "/metrics", None).unwrap().text());
    let start = r#"apiserver_storage_size_bytes{storage_cluster_id="etcd-0"}"#;
    let size = wait::until_some(start, || metric(&mut admin, start).filter(|size| *size > 0));
    let status = etcd.etcdctl(["endpoint", "status", "--write-out", "json"]).stdout;
    let status: Value = serde_json::from_str(&status).unwrap();
    // The file may have grown since, and does not shrink.
    assert!(size <= status[0]["Status"]["dbSize"].as_u64().unwrap(), "{size}: {status}");
}

/// The names of a list, in order.
fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[test]
fn lists_go_on_at_their_revision_on_a_server_that_was_not_there_until_etcd_is_compacted_et_21_et_23() {
    let etcd = Etcd::start();
    let one = start_with(setup(&etcd));
    let mut first = admin(&one);
    let maps = format!("{NAMESPACE}/configmaps");
    let map = |name: &str, color: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"color": color},
            "metadata": {"name": name, "labels": {"color": color}}})
    };
    for name in ["m0", "m1", "m2", "m3", "m4", "m5"] {
        first.must(201, "POST", &maps, Some(&map(name, "blue")));
    }
    let selected = format!("{maps}?labelSelector=color%3Dblue");
    let page = first.must(200, "GET", &format!("{selected}&limit=2"), None);
    assert_eq!(names(&page), ["m0", "m1"]);
    let at = page["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    // What is changed, added and removed now is in no page of that list.
    first.must(200, "PUT", &format!("{maps}/m2"), Some(&map("m2", "red")));
    first.must(201, "POST", &maps, Some(&map("m2b", "blue")));
    first.must(200, "DELETE", &format!("{maps}/m4"), None);

    // It knows nothing of what was before its start.
    let other = start_with(Setup { keys_of: Some(one.dir.clone()), ..setup(&etcd) });
    let mut second = admin(&other);
    let exact = |query: &str| format!("{maps}?resourceVersion={at}&resourceVersionMatch=Exact{query}");
    for query in ["", "&labelSelector=color%3Dblue", "&fieldSelector=metadata.namespace%3Ddefault"] {
        let list = second.must(200, "GET", &exact(query), None);
        assert_eq!(list["metadata"]["resourceVersion"], at.as_str());
        let blue: Vec<_> = names(&list).into_iter().filter(|name| name.starts_with('m')).collect();
        assert_eq!(blue, ["m0", "m1", "m2", "m3", "m4", "m5"], "{query}");
        assert!(list["items"].as_array().unwrap().iter().all(|item| item["data"]["color"] != "red"));
    }
    let chosen = second.must(200, "GET", &exact("&fieldSelector=metadata.name%3Dm4"), None);
    assert_eq!(names(&chosen), ["m4"]);
    assert_eq!(first.must(200, "GET", &exact(""), None), second.must(200, "GET", &exact(""), None));
    let none = second.must(200, "GET", &exact("&labelSelector=color%3Dred"), None);
    assert!(names(&none).is_empty(), "{none}");
    let next = second.must(200, "GET", &format!("{selected}&limit=3&continue={token}"), None);
    assert_eq!((names(&next), &next["metadata"]["resourceVersion"]), (vec!["m2", "m3", "m4"], &json!(at)));
    let last = next["metadata"]["continue"].as_str().unwrap();
    let last = second.must(200, "GET", &format!("{selected}&limit=3&continue={last}"), None);
    assert_eq!((names(&last), &last["metadata"]["continue"]), (vec!["m5"], &Value::Null));

    let newest = second.must(200, "GET", &maps, None)["metadata"]["resourceVersion"].clone();
    assert_eq!(etcd.etcdctl(["compact", newest.as_str().unwrap()]).code, 0);
    assert_eq!(second.must(410, "GET", &exact(""), None)["reason"], "Expired");
    goes_on_inconsistently(
        &mut second,
        &format!("{selected}&limit=3&continue="),
        &token,
        &["m2b", "m3", "m5"],
    );
    // A client in protobuf gets the same token.
    let path = format!("{selected}&limit=3&continue={token}");
    let [in_json, in_protobuf] = [admin(&other), admin(&other).in_protobuf()]
        .map(|mut client| client.ask("GET", &path, None).unwrap().assert_status(410, "Expired"));
    assert!(in_json["metadata"]["continue"].is_string(), "{in_json}");
    assert_eq!(in_json["metadata"]["continue"], in_protobuf["metadata"]["continue"]);
}

#[test]
fn the_controllers_run_on_the_server_that_is_left() {
    let etcd = Etcd::start();
    let [one, other] = two(&etcd);
    let holder = |server: &Started| {
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/portcullis-controllers";
        admin(server).ask("GET", path, None).unwrap().json()["spec"]["holderIdentity"].clone()
    };
    wait::until("one server leads", || holder(&one).as_str().is_some_and(|holder| !holder.is_empty()));
    let first = holder(&one);
    // The second of the two was started first, and so it leads.
    drop(other);
    wait::until("the other server leads", || holder(&one) != first && holder(&one) != "");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}});
    admin(&one).must(201, "POST", "/api/v1/namespaces", Some(&namespace));
    wait::until("the controllers have made its account", || {
        admin(&one).ask("GET", "/api/v1/namespaces/later/serviceaccounts/default", None).unwrap().code == 200
    });
}

#[test]
fn a_full_etcd_refuses_writes_and_takes_them_again_when_there_is_room() {
    let options = Options { quota_backend_bytes: Some(16 << 20), ..Options::default() };
    let etcd = Etcd::with(&options);
    let server = start_with(Setup { selection: Selection::parse([]).unwrap(), ..setup(&etcd) });
    let mut admin = admin(&server);
    let filled = |number: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{number}")},
            "data": {"a": "x".repeat(500_000)}})
    };
    let path = format!("{NAMESPACE}/configmaps");
    let mut count = 0;
    let (code, refusal) = loop {
        let answer = admin.ask("POST", &path, Some(&filled(count))).unwrap();
        let (code, answer) = (answer.code, answer.json());
        if code != 201 {
            break (code, answer);
        }
        count += 1;
        assert!(count < 100, "the quota does not count");
    };
    assert_eq!(code, 500, "as kube-apiserver: {refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("no room"), "{refusal}");
    admin.must(200, "GET", &format!("{path}/m0"), None);
    for number in 0..count {
        admin.must(200, "DELETE", &format!("{path}/m{number}"), None);
    }
    let run = |arguments: &[&str]| {
        let done = etcd.etcdctl(arguments);
        assert_eq!(done.code, 0, "{}", done.stderr);
        done.stdout
    };
    let status: Value = serde_json::from_str(&run(&["endpoint", "status", "--write-out", "json"])).unwrap();
    run(&["compact", &status[0]["Status"]["header"]["revision"].to_string()]);
    run(&["defrag"]);
    run(&["alarm", "disarm"]);
    wait::until("there is room again", || {
        admin.ask("POST", &path, Some(&filled(1_000))).unwrap().code == 201
    });
}

/// The path of an object of a kind.
fn path_of(kinds: &Kinds, object: &Value) -> Option<String> {
    let text = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("/apiVersion"), text("/kind"));
    let row = kinds.of_document(version, kind)?;
    let root = if version.contains('/') { "apis" } else { "api" };
    let namespace = match text("/metadata/namespace") {
        "" => String::new(),
        namespace => format!("namespaces/{namespace}/"),
    };
    Some(format!("/{root}/{version}/{namespace}{}/{}", row.plural, text("/metadata/name")))
}

/// The records of a kube-apiserver are put into etcd byte for byte, and a server is started over them.
fn serves_the_etcd_of_a_cluster(recording: &str) {
    let etcd = Etcd::start();
    let records = recorded::lines(recording);
    // Of a key that was written several times, the last value.
    let mut values: BTreeMap<&str, &Value> = BTreeMap::new();
    for record in &records {
        values.insert(record["key"].as_str().unwrap(), record);
    }
    for (key, record) in &values {
        etcd.put(key, &BASE64_STANDARD.decode(record["value_b64"].as_str().unwrap()).unwrap());
    }
    let selection = Selection::parse([]).unwrap();
    // Without the default policy and controllers, which would write to it.
    let runtime = RuntimeConfig::parse("api/all=true").unwrap();
    let server = start_with(Setup { selection, runtime, is_cluster: false, ..setup(&etcd) });
    let mut admin = admin(&server);
    let kinds = Kinds::built_in();
    let mut count = 0;
    let mut differences = Vec::new();
    for (key, record) in &values {
        // The server publishes its own authorities there.
        if *key == "/registry/configmaps/kube-system/extension-apiserver-authentication" {
            continue;
        }
        let Some(path) = path_of(&kinds, &record["json"]).filter(|_| !record["json"].is_null()) else {
            continue;
        };
        count += 1;
        let answer = admin.ask("GET", &path, None).unwrap();
        let (code, found) = (answer.code, answer.json());
        let without = |object: &Value| {
            let mut object = object.clone();
            object["metadata"].as_object_mut().map(|metadata| metadata.remove("resourceVersion"));
            object
        };
        if code != 200 || without(&found) != without(&record["json"]) {
            differences.push(format!("{key}: GET {path}: {code}\n  want {}\n  got  {found}", record["json"]));
        }
    }
    assert!(count > 200, "{count}");
    assert!(differences.is_empty(), "{} of {count}:\n{}", differences.len(), differences.join("\n"));
    let keys: Vec<String> = etcd.keys("/registry/");
    for key in values.keys() {
        assert!(keys.iter().any(|there| there == key), "{key} is left alone");
    }
    lists_watches_updates_and_deletes_every_kind(&etcd, &server);
}

/// What is in etcd that no server here serves, with its value.
const FOREIGN: [(&str, &str); 4] = [
    ("/registry/unknown.example.com/things/default/a", "an unknown kind"),
    ("/registry/configmaps/default/damaged", "a damaged value"),
    ("/registryother/configmaps/default/a", "another prefix"),
    ("/elsewhere", "another program"),
];

/// How the path of the definitions of custom kinds ends.
const DEFINITIONS: &str = "/customresourcedefinitions";

/// The objects that may not be deleted, as with kube-apiserver.
const KEPT: [&str; 4] = [
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/kube-public",
    "/api/v1/namespaces/kube-system",
    "/api/v1/namespaces/kube-node-lease",
];

/// Takes each object of an etcd through all that can be done with it.
fn lists_watches_updates_and_deletes_every_kind(etcd: &Etcd, server: &Started) {
    for (key, value) in FOREIGN {
        etcd.put(key, value.as_bytes());
    }
    let mut admin = admin(server);
    let kinds = Kinds::built_in();
    let mut collections: Vec<String> = kinds
        .stored()
        .map(|row| {
            let root = if row.group.is_empty() { "api" } else { "apis" };
            format!("/{root}/{}/{}", row.api_version(), row.plural)
        })
        .collect();
    // The namespaces last, and what they need before them; definitions after what they define.
    collections.sort_by_key(|path| [path.ends_with("/namespaces"), path.ends_with(DEFINITIONS)]);
    let (mut changed, mut differences) = (0, Vec::new());
    let mut watched = BTreeMap::new();
    for path in &collections {
        let list = admin.must(200, "GET", path, None);
        let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let mut wanted = Vec::new();
        for item in list["items"].as_array().unwrap() {
            // The lease of the server's own controllers, which it may renew between any two requests. The recording has none there.
            if path.ends_with("/leases") && item["metadata"]["namespace"] == "kube-system" {
                continue;
            }
            let (kind, api_version) = (&list["kind"], &list["apiVersion"]);
            let mut object = item.clone();
            object["kind"] = json!(kind.as_str().unwrap().strip_suffix("List").unwrap());
            object["apiVersion"] = api_version.clone();
            let of_object = path_of(&kinds, &object).unwrap();
            let uid = item["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let label = json!({"metadata": {"labels": {"touched": "yes"}, "finalizers": null}});
            let updated = admin.ask("PATCH", &of_object, Some(&label)).unwrap();
            if updated.code != 200 || updated.json()["metadata"]["labels"]["touched"] != "yes" {
                differences.push(format!("PATCH {of_object}: {}", updated.text()));
                continue;
            }
            changed += 1;
            if admin.ask("GET", &of_object, None).unwrap().code == 404 {
                // Its last finalizer was all that kept it.
                assert!(item["metadata"]["deletionTimestamp"].is_string(), "{of_object}");
                wanted.push(("DELETED", uid));
                continue;
            }
            wanted.push(("MODIFIED", uid.clone()));
            if KEPT.contains(&of_object.as_str()) {
                continue;
            }
            let deleted = admin.ask("DELETE", &format!("{of_object}?gracePeriodSeconds=0"), None).unwrap();
            if path.ends_with(DEFINITIONS) {
                // The controller of definitions always runs.
                until_code(&mut admin, 404, &of_object);
            }
            let after = admin.ask("GET", &of_object, None).unwrap();
            // A namespace waits for the controller that empties it, and none runs here.
            // The server makes the lease of its controllers again, at any time.
            let is_gone = after.code == 404 || after.json()["metadata"]["uid"] != item["metadata"]["uid"];
            let is_right = match path.ends_with("/namespaces") {
                true => after.json()["status"]["phase"] == "Terminating",
                false => is_gone,
            };
            if deleted.code != 200 || !is_right {
                differences.push(format!("DELETE {of_object}: {} {}", deleted.text(), after.text()));
            }
            if is_gone {
                wanted.push(("DELETED", uid));
            }
        }
        watched.insert(path, (version, wanted));
    }
    assert!(differences.is_empty(), "{}:\n{}", differences.len(), differences.join("\n"));
    assert!(changed > 200, "{changed}");
    // The history holds all of it: a watch from the list on tells each change once, in its order.
    scope(|scope| {
        for (path, (version, wanted)) in &watched {
            scope.spawn(move || {
                let path = format!("{path}?watch=1&resourceVersion={version}&timeoutSeconds=2");
                let events = server.client(&server.admin()).watch(&path).unwrap();
                let events: Vec<Value> = events.map(Result::unwrap).collect();
                let told = events.iter().map(|event| {
                    let uid = event["object"]["metadata"]["uid"].as_str().unwrap_or_default();
                    (event["type"].as_str().unwrap(), uid.to_owned())
                });
                // Not of what the server keeps there itself, such as the lease of its controllers.
                let told = told.filter(|(_, uid)| wanted.iter().any(|(_, of_wanted)| of_wanted == uid));
                let mut told: Vec<_> = told.collect();
                // The first step of a deletion is a change, too.
                told.dedup();
                assert_eq!(told, *wanted, "{path}");
            });
        }
    });
    for (key, value) in FOREIGN {
        let found = etcd.etcdctl(["get", key, "--print-value-only"]);
        assert_eq!((found.stdout.trim_end(), found.code), (value, 0), "{key} is left alone");
    }
}

#[test]
fn the_etcd_of_a_cluster_is_served_as_the_cluster_showed_it_in_protobuf() {
    serves_the_etcd_of_a_cluster("etcd-registry/registry-protobuf.jsonl");
}

#[test]
fn the_etcd_of_a_cluster_is_served_as_the_cluster_showed_it_in_json() {
    serves_the_etcd_of_a_cluster("etcd-registry/registry-json.jsonl");
}

#[test]
fn a_value_that_cannot_be_read_stops_neither_its_kind_nor_the_server() {
    let etcd = Etcd::start();
    etcd.put("/registry/configmaps/default/early", b"garbage");
    let server = start_with(setup(&etcd));
    let mut admin = admin(&server);
    let path = format!("{NAMESPACE}/configmaps");
    let made = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    admin.must(201, "POST", &path, Some(&made("good")));
    etcd.put("/registry/configmaps/default/late", b"k8s\0garbage");
    admin.must(201, "POST", &path, Some(&made("after")));
    let listed = admin.must(200, "GET", &path, None);
    let names: Vec<&str> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    assert!(names.contains(&"good") && names.contains(&"after"), "{names:?}");
    assert!(!names.contains(&"early") && !names.contains(&"late"), "{names:?}");
    for name in ["early", "late"] {
        admin.must(500, "GET", &format!("{path}/{name}"), None);
        admin.must(409, "POST", &path, Some(&made(name)));
        admin.must(500, "DELETE", &format!("{path}/{name}"), None);
    }
    let mut jane = server.client(&server.user("jane", &[]));
    let rules =
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete", "deletecollection"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "deleter"},
        "rules": rules});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "deleter"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deleter"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]});
    admin.must(201, "POST", &format!("{RBAC}/roles"), Some(&role));
    admin.must(201, "POST", &format!("{RBAC}/rolebindings"), Some(&binding));
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let ignore = json!({"kind": "DeleteOptions", "apiVersion": "v1", option: true});
    let both = json!({"kind": "DeleteOptions", "apiVersion": "v1", option: true, "gracePeriodSeconds": 0});
    // The permission to delete does not suffice.
    jane.must(403, "DELETE", &format!("{path}/early"), Some(&ignore));
    admin.must(422, "DELETE", &format!("{path}/early"), Some(&both));
    admin.must(422, "DELETE", &path, Some(&ignore));
    admin.must(422, "DELETE", &format!("{path}/good"), Some(&ignore));
    admin.must(404, "DELETE", &format!("{path}/none"), Some(&ignore));
    assert_eq!(server.get("/readyz").send().code, 200);
    server.wait_for_metric("portcullis_store_undecodable_objects 2");
    let there = etcd.keys("/registry/configmaps/default/");
    assert!(
        there.iter().any(|key| key.ends_with("/early")) && there.iter().any(|key| key.ends_with("/late"))
    );
    // Once in the body, in protobuf, and once in the query.
    server.client(&server.admin()).in_protobuf().must(200, "DELETE", &format!("{path}/early"), Some(&ignore));
    admin.must(200, "DELETE", &format!("{path}/late?{option}=true"), None);
    for name in ["early", "late"] {
        admin.must(404, "GET", &format!("{path}/{name}"), None);
        admin.must(201, "POST", &path, Some(&made(name)));
    }
    server.wait_for_metric("portcullis_store_undecodable_objects 0");
}
