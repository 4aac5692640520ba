//! Who gets filtered lists, in which forms, and what they never show (BC-40, BC-41).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use portcullis_server::api::filter_lists::FilterLists;
use portcullis_testkit::https::{Client, Events};
use portcullis_testkit::protobuf;
use portcullis_testkit::tool::{self, Finished};
use serde_json::{Value, json};

use crate::common::{Setup, Started, goes_on_inconsistently, start_with};
use crate::filtered_lists::{
    HEADER, RBAC, admin, grant, in_namespace, node, object, pod, prepare, rule, setup, start,
};

const SECRETS: &str = "/api/v1/secrets";
const MAPS: &str = "/api/v1/configmaps";

fn jane(server: &Started) -> Client {
    server.client(&server.user("jane", &[])).header(HEADER)
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let text = |field: &str| item["metadata"][field].as_str().unwrap();
            format!("{}/{}", text("namespace"), text("name"))
        })
        .collect()
}

fn make(admin: &mut Client, namespace: &str, kind: &str, name: &str, value: &str) {
    admin.must(201, "POST", &in_namespace(namespace, kind), Some(&object(kind, name, value)));
}

fn change(admin: &mut Client, namespace: &str, kind: &str, name: &str, value: &str) {
    let path = format!("{}/{name}", in_namespace(namespace, kind));
    admin.must(200, "PATCH", &path, Some(&object(kind, name, value)));
}

/// The next event that is no bookmark: its type, the name, and the value of a ConfigMap.
fn next(events: &mut Events) -> (String, String, String) {
    loop {
        let event = events.next().expect("the watch goes on").unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, object) = (text(&event["type"]), &event["object"]);
        if kind != "BOOKMARK" {
            return (kind, text(&object["metadata"]["name"]), text(&object["data"]["k"]));
        }
    }
}

fn told(kind: &str, name: &str, value: &str) -> (String, String, String) {
    (kind.to_owned(), name.to_owned(), value.to_owned())
}

#[test]
fn without_the_flag_nothing_changes_bc_40() {
    let server = start_with(Setup { is_cluster: true, ..Setup::default() });
    let identity = server.user("jane", &["filtered"]);
    for path in [SECRETS, "/api/v1/secrets?watch=true"] {
        let [plain, asked] = [None, Some("Portcullis-Filter: true")].map(|header| {
            let client = server.client(&identity);
            let mut client = match header {
                Some(header) => client.header(header),
                None => client,
            };
            client.must(403, "GET", path, None)
        });
        assert_eq!(plain, asked);
    }
    server.client(&identity).header("Portcullis-Filter: perhaps").must(403, "GET", SECRETS, None);
}

#[test]
fn lists_and_watches_of_a_part_are_the_same_in_protobuf_and_in_json_bc_40() {
    let server = start();
    prepare(&server);
    let mut admin = admin(&server);
    for name in ["o0", "o1"] {
        make(&mut admin, "a", "secrets", name, "1");
    }
    grant(&mut admin, Some("a"), "reads", "jane", json!([rule("secrets", &["o0", "o2"])]));
    let list = jane(&server).must(200, "GET", SECRETS, None);
    assert_eq!(names(&list), ["a/o0"]);
    let in_protobuf = jane(&server).in_protobuf().ask("GET", SECRETS, None).unwrap();
    assert_eq!((in_protobuf.code, in_protobuf.media_type.as_str()), (200, protobuf::MEDIA_TYPE));
    assert_eq!(names(&in_protobuf.json()), ["a/o0"]);
    // Of each: an object from the beginning, a new one, a change of rights, and what is deleted.
    let path = format!("{SECRETS}?watch=true&timeoutSeconds=60");
    let mut watches = [jane(&server), jane(&server).in_protobuf()].map(|client| client.watch(&path).unwrap());
    for watch in &mut watches {
        assert_eq!(next(watch), told("ADDED", "o0", "MQ=="));
    }
    make(&mut admin, "a", "secrets", "o2", "1");
    make(&mut admin, "a", "secrets", "o3", "1");
    for watch in &mut watches {
        assert_eq!(next(watch), told("ADDED", "o2", "MQ=="));
    }
    let role = format!("{RBAC}/namespaces/a/roles/reads");
    admin.must(200, "PATCH", &role, Some(&json!({"rules": [rule("secrets", &["o2", "o3"])]})));
    let mut both = watches.iter_mut().map(|watch| {
        let mut events = [next(watch), next(watch)];
        events.sort();
        events
    });
    let expected = [told("ADDED", "o3", "MQ=="), told("DELETED", "o0", "MQ==")];
    assert!(both.all(|events| events == expected));
    drop(both);
    admin.must(200, "DELETE", &format!("{}/o3", in_namespace("a", "secrets")), None);
    for watch in &mut watches {
        assert_eq!(next(watch), told("DELETED", "o3", "MQ=="));
    }
}

#[test]
fn whoever_asks_gets_what_it_may_get_and_nobody_else_does_bc_40() {
    let server = start();
    prepare(&server);
    let identity = server.user("jane", &[]);
    let refusal = server.client(&identity).must(403, "GET", SECRETS, None);
    assert_eq!(
        refusal["message"],
        "secrets is forbidden: User \"jane\" cannot list resource \"secrets\" in API group \"\" at the cluster scope"
    );
    // Who may get nothing sees an empty list, as of a revision.
    let list = jane(&server).must(200, "GET", SECRETS, None);
    assert_eq!(list["items"], json!([]));
    assert!(list["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    for (header, code) in [("true", 200), ("false", 403), ("yes", 400), ("", 400)] {
        let header = format!("Portcullis-Filter: {header}");
        server.client(&identity).header(&header).must(code, "GET", SECRETS, None);
        let member = server.user("joe", &["filtered"]);
        server.client(&member).header(&header).must(code, "GET", SECRETS, None);
    }
    let member = server.user("joe", &["filtered"]);
    server.client(&member).must(200, "GET", SECRETS, None);
    // An anonymous caller is nobody in particular.
    let stranger = portcullis_testkit::https::Identity::anonymous(&server.dir.join("ca.crt"));
    Client::new(server.address, &stranger).header(HEADER).must(403, "GET", SECRETS, None);
    // Only lists and watches of objects have parts.
    jane(&server).must(403, "DELETE", &in_namespace("a", "secrets"), None);
    jane(&server).must(403, "GET", &in_namespace("a", "secrets/s"), None);
    jane(&server).must(403, "GET", "/metrics", None);
    // The administrator's list is whole, and does not say otherwise.
    let whole = server.get(SECRETS).by(&server.admin()).header(HEADER).send();
    assert_eq!((whole.code, whole.head.contains("portcullis-filter")), (200, false));
    let part = server.get(SECRETS).by(&identity).header(HEADER).send();
    assert_eq!((part.code, part.head.contains("portcullis-filter: true")), (200, true));
}

#[test]
fn where_a_webhook_decides_there_are_no_parts_bc_40() {
    let server = start_with(Setup { is_cluster: false, ..setup() });
    // The webhook allows her to get these.
    let path = in_namespace("default", "pods");
    server.client(&server.user("jane", &[])).must(404, "GET", &format!("{path}/p"), None);
    jane(&server).must(403, "GET", &path, None);
}

#[test]
fn a_part_has_every_form_of_a_list_bc_40() {
    let server = start();
    prepare(&server);
    let mut admin = admin(&server);
    for (namespace, name) in [("a", "m"), ("a", "n"), ("b", "m"), ("b", "o")] {
        make(&mut admin, namespace, "configmaps", name, "1");
    }
    grant(&mut admin, Some("a"), "by-name", "jane", json!([rule("configmaps", &["m"])]));
    grant(&mut admin, Some("b"), "all", "jane", json!([rule("configmaps", &[])]));
    let due = ["a/m", "b/kube-root-ca.crt", "b/m", "b/o"];
    assert_eq!(names(&jane(&server).must(200, "GET", MAPS, None)), due);
    let found = jane(&server).must(200, "GET", &in_namespace("a", "configmaps"), None);
    assert_eq!(names(&found), ["a/m"]);
    let named = format!("{MAPS}?fieldSelector=metadata.name%3Dm");
    assert_eq!(names(&jane(&server).must(200, "GET", &named, None)), ["a/m", "b/m"]);
    let hidden = format!("{}?fieldSelector=metadata.name%3Dn", in_namespace("a", "configmaps"));
    assert_eq!(names(&jane(&server).must(200, "GET", &hidden, None)), [""; 0]);
    let meta = "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let found = jane(&server).header(meta).must(200, "GET", MAPS, None);
    assert_eq!((names(&found), &found["items"][0]["data"]), (due.map(String::from).to_vec(), &Value::Null));
    let table = "Accept: application/json;as=Table;g=meta.k8s.io;v=v1";
    let found = jane(&server).header(table).must(200, "GET", MAPS, None);
    let cells = found["rows"].as_array().unwrap().iter().map(|row| row["cells"][0].as_str().unwrap());
    assert_eq!(cells.collect::<Vec<_>>(), ["m", "kube-root-ca.crt", "m", "o"]);
    // A Namespace is an object in itself: the right to it is given in it.
    grant(&mut admin, Some("b"), "namespace", "jane", json!([rule("namespaces", &[])]));
    let found = jane(&server).must(200, "GET", "/api/v1/namespaces", None);
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    assert_eq!(found["items"][0]["metadata"]["name"], "b");
    grant(&mut admin, None, "nodes", "jane", json!([rule("nodes", &["n1"])]));
    let found = jane(&server).must(200, "GET", "/api/v1/nodes", None);
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    assert_eq!(found["items"][0]["metadata"]["name"], "n1");
}

#[test]
fn pages_tell_nothing_of_what_they_leave_out_bc_40() {
    let server = start();
    prepare(&server);
    let mut admin = admin(&server);
    for name in ["a0", "hidden", "m", "n0", "z-hidden"] {
        make(&mut admin, "a", "configmaps", name, "1");
    }
    grant(&mut admin, Some("a"), "some", "jane", json!([rule("configmaps", &["a0", "m", "n0"])]));
    let (mut token, mut found, mut pages) = (String::new(), Vec::new(), 0);
    loop {
        let page = jane(&server).must(200, "GET", &format!("{MAPS}?limit=1&continue={token}"), None);
        pages += 1;
        assert!(page["metadata"]["remainingItemCount"].is_null());
        found.extend(names(&page));
        let Some(next) = page["metadata"]["continue"].as_str() else { break };
        next.clone_into(&mut token);
        let decoded = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(&token).unwrap()).unwrap();
        assert!(decoded.contains(found.last().unwrap()), "{decoded}");
    }
    // No empty page says that there is more.
    assert_eq!((found, pages), (["a/a0", "a/m", "a/n0"].map(String::from).to_vec(), 3));
    // The place in the list is no right to what is there.
    let of_admin = admin.must(200, "GET", &format!("{MAPS}?limit=2"), None);
    let token = of_admin["metadata"]["continue"].as_str().unwrap();
    let rest = jane(&server).must(200, "GET", &format!("{MAPS}?continue={token}"), None);
    assert!(names(&rest).iter().all(|name| ["a/a0", "a/m", "a/n0"].contains(&name.as_str())), "{rest}");
}

#[test]
fn nobody_sees_a_state_from_before_it_was_granted_bc_40() {
    let server = start();
    prepare(&server);
    let mut admin = admin(&server);
    for name in ["m", "n"] {
        make(&mut admin, "a", "configmaps", name, "public");
    }
    make(&mut admin, "b", "configmaps", "secret", "leak");
    grant(&mut admin, Some("a"), "all", "jane", json!([rule("configmaps", &["m", "n"])]));
    let page = jane(&server).must(200, "GET", &format!("{MAPS}?limit=1"), None);
    let revision = page["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    let exact = format!("{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact");
    assert_eq!(names(&jane(&server).must(200, "GET", &exact, None)), ["a/m", "a/n"]);

    change(&mut admin, "b", "configmaps", "secret", "clean");
    grant(&mut admin, Some("b"), "all", "jane", json!([rule("configmaps", &["secret"])]));
    // The old page would have the old state.
    let expired = jane(&server).must(410, "GET", &exact, None);
    assert_eq!(expired["reason"], "Expired");
    let list = format!("{MAPS}?limit=9&continue=");
    goes_on_inconsistently(&mut jane(&server), &list, &token, &["n", "secret"]);
    let found = jane(&server).must(200, "GET", MAPS, None);
    assert_eq!(names(&found), ["a/m", "a/n", "b/secret"]);
    assert_eq!(found["items"][2]["data"]["k"], "clean");
    // And so would a watch from there.
    let mut events = jane(&server).watch(&format!("{MAPS}?watch=true&resourceVersion={revision}")).unwrap();
    let event = events.next().unwrap().unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
    assert!(events.next().is_none());
}

#[test]
fn a_watch_follows_rights_both_ways_and_never_shows_what_came_after_bc_40() {
    let server = start();
    prepare(&server);
    let mut admin = admin(&server);
    make(&mut admin, "a", "configmaps", "m", "1");
    make(&mut admin, "b", "configmaps", "n", "kept");
    grant(&mut admin, Some("a"), "one", "jane", json!([rule("configmaps", &["m"])]));
    grant(&mut admin, Some("b"), "two", "jane", json!([rule("configmaps", &["n"])]));
    let mut events = jane(&server).watch(&format!("{MAPS}?watch=true&timeoutSeconds=60")).unwrap();
    let first = [next(&mut events), next(&mut events)];
    assert!(
        first.contains(&told("ADDED", "m", "1")) && first.contains(&told("ADDED", "n", "kept")),
        "{first:?}"
    );

    let role = format!("{RBAC}/namespaces/a/roles/one");
    let of = |names: &[&str]| json!({"metadata": {"name": "one"}, "rules": [rule("configmaps", names)]});
    for round in 0..20 {
        let (old, leak, clean) = (format!("{round}-old"), format!("{round}-leak"), format!("{round}-clean"));
        change(&mut admin, "a", "configmaps", "m", &old);
        assert_eq!(next(&mut events), told("MODIFIED", "m", &old));
        // All at once: the client hears of it later.
        admin.must(200, "PUT", &role, Some(&of(&["other"])));
        change(&mut admin, "a", "configmaps", "m", &leak);
        change(&mut admin, "a", "configmaps", "m", &clean);
        if round % 2 == 0 {
            assert_eq!(next(&mut events), told("DELETED", "m", &old));
        }
        admin.must(200, "PUT", &role, Some(&of(&["m"])));
        let (kind, name, value) = next(&mut events);
        match kind.as_str() {
            // The end of the right was never noticed.
            "MODIFIED" if round % 2 == 1 => assert_eq!((name.as_str(), value), ("m", clean)),
            "DELETED" if round % 2 == 1 => {
                assert_eq!((name.as_str(), value), ("m", old));
                assert_eq!(next(&mut events), told("ADDED", "m", &clean));
            }
            kind => assert_eq!((kind, name.as_str(), value), ("ADDED", "m", clean)),
        }
    }
    // What is not concerned was told once.
    change(&mut admin, "b", "configmaps", "n", "end");
    assert_eq!(next(&mut events), told("MODIFIED", "n", "end"));
}

/// The client waits for the bookmark before it trusts what it has, so it has to come also if rights change before it was sent.
#[test]
fn rights_that_change_during_the_initial_events_do_not_hide_their_end_bc_40() {
    let server = start();
    prepare(&server);
    let mut admin = admin(&server);
    // More than the buffers of a connection hold.
    let value = "x".repeat(512 << 10);
    let many: Vec<String> = (0..40).map(|number| format!("m{number:02}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    many.iter().for_each(|name| make(&mut admin, "a", "configmaps", name, &value));
    make(&mut admin, "b", "configmaps", "n", "1");
    grant(&mut admin, Some("a"), "one", "jane", json!([rule("configmaps", &many)]));
    let query =
        "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut events = jane(&server).watch(&format!("{MAPS}?{query}&timeoutSeconds=60")).unwrap();
    // The server has begun to send, and goes on when the client reads.
    let mut found = vec![events.next().unwrap().unwrap()];
    grant(&mut admin, Some("b"), "two", "jane", json!([rule("configmaps", &["n"])]));
    while found.last().is_some_and(|event| event["type"] != "BOOKMARK") {
        found.push(events.next().expect("the watch goes on").unwrap());
    }
    let end = found.pop().unwrap();
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{end}");
    assert!(found.iter().all(|event| event["type"] == "ADDED"));
    let mut names: Vec<&str> =
        found.iter().filter_map(|event| event["object"]["metadata"]["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, [many.as_slice(), &["n"]].concat());
    // What follows are changes.
    change(&mut admin, "b", "configmaps", "n", "2");
    assert_eq!(next(&mut events), told("MODIFIED", "n", "2"));
}

#[test]
fn a_node_is_woken_by_its_own_secrets_only_bc_41() {
    let server = start();
    prepare(&server);
    let mut admin = admin(&server);
    for name in ["mine", "other"] {
        make(&mut admin, "a", "secrets", name, "1");
    }
    let body = pod("p", "n0", "mine", "map");
    let mut events =
        node(&server, "n0").header(HEADER).watch(&format!("{SECRETS}?watch=true&timeoutSeconds=60")).unwrap();
    let scans = || {
        let metrics = server.app.metrics().render().unwrap();
        let line =
            metrics.lines().find_map(|line| line.strip_prefix("portcullis_filtered_watch_scans_total "));
        line.unwrap().parse::<u64>().unwrap()
    };
    admin.must(201, "POST", &in_namespace("a", "pods"), Some(&body));
    assert_eq!(next(&mut events).1, "mine");
    let before = scans();
    for round in 0..30 {
        change(&mut admin, "a", "secrets", "other", &round.to_string());
        make(&mut admin, "b", "secrets", &format!("s{round}"), "1");
        let status = json!({"status": {"phase": if round % 2 == 0 { "Running" } else { "Pending" }}});
        node(&server, "n0").must(200, "PATCH", &in_namespace("a", "pods/p/status"), Some(&status));
    }
    change(&mut admin, "a", "secrets", "mine", "2");
    let (kind, name, _) = next(&mut events);
    assert_eq!((kind.as_str(), name.as_str()), ("MODIFIED", "mine"));
    assert!(scans() <= before + 2, "once for its own secret");
    // The list is the same.
    let list = node(&server, "n0").header(HEADER).must(200, "GET", SECRETS, None);
    assert_eq!(names(&list), ["a/mine"]);
    admin.must(200, "DELETE", &format!("{}?gracePeriodSeconds=0", in_namespace("a", "pods/p")), None);
    let (kind, name, _) = next(&mut events);
    assert_eq!((kind.as_str(), name.as_str()), ("DELETED", "mine"));
}

#[test]
fn a_watch_of_a_part_ends_with_the_credentials_bc_40() {
    let server = start();
    prepare(&server);
    let mut admin = admin(&server);
    let account = in_namespace("a", "serviceaccounts");
    admin.must(201, "POST", &account, Some(&json!({"metadata": {"name": "robot"}})));
    let token = admin.must(201, "POST", &format!("{account}/robot/token"), Some(&json!({"spec": {}})));
    let token = token["status"]["token"].as_str().unwrap();
    let identity = portcullis_testkit::https::Identity::with_token(&server.dir.join("ca.crt"), token);
    let events =
        Client::new(server.address, &identity).header(HEADER).watch(&format!("{MAPS}?watch=true")).unwrap();
    admin.must(200, "DELETE", &format!("{account}/robot"), None);
    assert_eq!(events.count(), 0, "it ends");
}

#[test]
fn kubectl_shows_the_part_to_members_of_the_group_bc_40() {
    let server = start();
    prepare(&server);
    let mut admin = admin(&server);
    for (namespace, name) in [("a", "mine"), ("a", "other"), ("b", "mine")] {
        make(&mut admin, namespace, "secrets", name, "1");
    }
    grant(&mut admin, Some("a"), "one", "kim", json!([rule("secrets", &["mine"])]));
    let kubectl = |groups: &[&str]| {
        let identity = server.user("kim", groups);
        let mut command = tool::command("kubectl");
        command.arg("--server").arg(format!("https://localhost:{}", server.address.port()));
        command.arg("--certificate-authority").arg(server.dir.join("ca.crt"));
        command.arg("--client-certificate").arg(&identity.certificate);
        command.arg("--client-key").arg(&identity.key);
        command.arg("--kubeconfig").arg("/dev/null");
        command.arg("--cache-dir").arg(server.dir.join("cache"));
        let words = [
            "get",
            "secrets",
            "-A",
            "--no-headers",
            "-o",
            "custom-columns=:.metadata.namespace,:.metadata.name",
        ];
        Finished::of(command.args(words))
    };
    let shown = kubectl(&["filtered"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert_eq!(shown.stdout.split_whitespace().collect::<Vec<_>>(), ["a", "mine"]);
    let refused = kubectl(&[]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("(Forbidden)"), "{}", refused.stderr);
}

#[test]
fn the_audit_log_tells_that_a_list_was_filtered_bc_40() {
    const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Metadata
";
    let server = start_with(Setup { audit: Some(POLICY), ..setup() });
    jane(&server).must(200, "GET", SECRETS, None);
    server.client(&server.admin()).header(HEADER).must(200, "GET", SECRETS, None);
    let found = server.audited();
    let events =
        found.iter().filter(|event| event["requestURI"] == SECRETS && event["stage"] == "ResponseComplete");
    let annotations: Vec<_> = events.map(|event| &event["annotations"]).collect();
    let [part, whole] = annotations[..] else { panic!("{annotations:?}") };
    assert_eq!(part["portcullis.dev/filtered"], "true");
    assert_eq!(part["authorization.k8s.io/decision"], "forbid");
    assert_eq!(whole["portcullis.dev/filtered"], Value::Null);
}

#[test]
fn a_long_collection_is_looked_through_completely_bc_40() {
    let server = start();
    prepare(&server);
    let mut admin = admin(&server);
    // More than are decided about at once.
    for number in 0..400 {
        make(&mut admin, "b", "configmaps", &format!("m{number:03}"), "1");
    }
    grant(&mut admin, None, "ends", "jane", json!([rule("configmaps", &["m000", "m399"])]));
    assert_eq!(names(&jane(&server).must(200, "GET", MAPS, None)), ["b/m000", "b/m399"]);
    let page = jane(&server).must(200, "GET", &format!("{MAPS}?limit=1"), None);
    assert_eq!(names(&page), ["b/m000"]);
    let mut events = jane(&server).watch(&format!("{MAPS}?watch=true")).unwrap();
    assert_eq!([next(&mut events).1, next(&mut events).1], ["m000", "m399"]);
}

#[test]
fn the_flag_alone_is_for_those_who_ask_bc_40() {
    let lists = FilterLists::on(Vec::new());
    assert!(lists.is_on() && !FilterLists::default().is_on());
    let server = start_with(Setup { filter_lists: lists, ..setup() });
    let member = server.user("jane", &["filtered"]);
    server.client(&member).must(403, "GET", SECRETS, None);
    server.client(&member).header(HEADER).must(200, "GET", SECRETS, None);
}
