//! Watches over HTTPS while several clients write: every watch sees every change once and in order, however it began,

//! whatever it selects, and however often its connection was cut.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::{ScopedJoinHandle, scope};
use std::time::Duration;

use crate::common::{Setup, Started, goes_on_inconsistently, start_with};
use portcullis_server::http::limits::Limits;
use portcullis_store::{Revision, Store as _};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::mutate::dice;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
/// The name of the last pod: when it runs, all is over.
const END: &str = "end";
const WRITERS: u64 = 4;
const WRITES: u64 = 220;
/// A selector, and what it means. Each selects the last pod once that runs.
struct Selector {
    query: &'static str,
    selects: fn(&Value) -> bool,
}

fn tier(pod: &Value) -> &str {
    pod["metadata"]["labels"]["tier"].as_str().unwrap_or_default()
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap()
}

const SELECTORS: &[Selector] = &[
    Selector { query: "", selects: |_| true },
    Selector { query: "&labelSelector=tier%3Da", selects: |pod| tier(pod) == "a" },
    Selector { query: "&labelSelector=tier%21%3Db", selects: |pod| tier(pod) != "b" },
    Selector {
        query: "&labelSelector=tier+in+%28a%2Cc%29%2C%21hold",
        selects: |pod| ["a", "c"].contains(&tier(pod)) && pod["metadata"]["labels"]["hold"].is_null(),
    },
    Selector { query: "&fieldSelector=status.phase%3DRunning", selects: |pod| phase(pod) == "Running" },
    Selector { query: "&fieldSelector=status.phase%21%3DPending", selects: |pod| phase(pod) != "Pending" },
    Selector { query: "&fieldSelector=spec.nodeName%3Dn1", selects: |pod| pod["spec"]["nodeName"] == "n1" },
    Selector {
        query: "&labelSelector=tier%3Da&fieldSelector=status.phase%3DRunning",
        selects: |pod| tier(pod) == "a" && phase(pod) == "Running",
    },
];

/// A change as a watch tells it.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    kind: String,
    revision: u64,
    object: Value,
}

impl Seen {
    fn of(event: &Value) -> Self {
        let object = event["object"].clone();
        let kind = event["type"].as_str().unwrap().to_owned();
        assert_ne!(kind, "ERROR", "{object}");
        Self { kind, revision: revision(&object), object }
    }

    fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn is_end(&self) -> bool {
        self.name() == END && phase(&self.object) == "Running"
    }
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn at(object: &Value, revision: u64) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = revision.to_string().into();
    object
}

/// A server and its administrator.
struct Served(Started);

impl Served {
    fn client(&self) -> Client {
        Client::new(self.0.address, &Identity::admin(&self.0.dir))
    }

    /// What comes after a revision, up to the end.
    fn watched(&self, query: &str, after: u64) -> Vec<Seen> {
        let path = format!("{PODS}?watch=1&resourceVersion={after}{query}");
        let mut seen = Vec::new();
        for event in self.client().watch(&path).unwrap() {
            seen.push(Seen::of(&event.unwrap()));
            if seen.last().is_some_and(Seen::is_end) {
                return seen;
            }
        }
        panic!("the watch of {query:?} ended by itself");
    }

    /// The same, with the connection cut again and again.
    fn resumed(&self, query: &str, mut after: u64, seed: u64) -> Vec<Seen> {
        let mut seen = Vec::new();
        for attempt in 0.. {
            let path = format!("{PODS}?watch=1&resourceVersion={after}{query}");
            let most = dice(seed << 32 | attempt) as usize % 25;
            for event in self.client().watch(&path).unwrap().take(most) {
                seen.push(Seen::of(&event.unwrap()));
                if seen.last().is_some_and(Seen::is_end) {
                    return seen;
                }
            }
            after = seen.last().map_or(after, |seen| seen.revision);
        }
        seen
    }

    /// A list and what comes after it: its revision, its objects, the changes.
    fn listed(&self, query: &str) -> (u64, Vec<Value>, Vec<Seen>) {
        let list = self.client().must(200, "GET", &format!("{PODS}?limit=0{query}"), None);
        let items = list["items"].as_array().unwrap().iter().map(|item| {
            let mut item = item.clone();
            item["kind"] = "Pod".into();
            item["apiVersion"] = "v1".into();
            item
        });
        (revision(&list), items.collect(), self.watched(query, revision(&list)))
    }

    /// The same by one watch that begins with what is there (AP-84).
    fn streamed(&self, query: &str) -> (u64, Vec<Value>, Vec<Seen>) {
        let path = format!(
            "{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true{query}"
        );
        let (mut items, mut began, mut seen) = (Vec::new(), None, Vec::new());
        for event in self.client().watch(&path).unwrap() {
            let event = Seen::of(&event.unwrap());
            match (event.kind.as_str(), began) {
                ("BOOKMARK", None) => {
                    assert_eq!(event.object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
                    began = Some(event.revision);
                }
                ("BOOKMARK", Some(_)) => {}
                (kind, None) => {
                    assert_eq!(kind, "ADDED");
                    items.push(event.object);
                }
                (_, Some(_)) => seen.push(event),
            }
            if seen.last().is_some_and(Seen::is_end) {
                return (began.unwrap(), items, seen);
            }
        }
        panic!("the watch of {query:?} ended by itself");
    }

    /// Creates, changes and deletes pods of its own, and returns for each name what it was told, in order: the objects,
    /// and nothing where one was deleted.
    fn write(&self, writer: u64) -> BTreeMap<String, Vec<Option<Value>>> {
        let mut client = self.client();
        let mut kubelets = ["n1", "n2"].map(|node| (node, self.0.kubelet(node)));
        let mut told: BTreeMap<String, Vec<Option<Value>>> = BTreeMap::new();
        for write in 0..WRITES {
            let dice = dice(writer << 32 | write);
            let name = format!("p{writer}-{}", dice % 7);
            let path = format!("{PODS}/{name}");
            let story = told.entry(name.clone()).or_default();
            let tier = ["a", "b", "c"][dice as usize / 7 % 3];
            let hold = if dice.is_multiple_of(2) { json!("x") } else { Value::Null };
            let answer = match story.last() {
                None | Some(None) => {
                    let pod = pod(&name, tier, ["n1", "n2"][dice as usize / 21 % 2]);
                    Some(client.must(201, "POST", PODS, Some(&pod)))
                }
                Some(Some(pod)) => match dice / 42 % 4 {
                    0 => {
                        client.must(200, "DELETE", &format!("{path}?gracePeriodSeconds=0"), None);
                        None
                    }
                    1 => {
                        let phase = ["Pending", "Running", "Failed"][dice as usize / 168 % 3];
                        let status = json!({"status": {"phase": phase}});
                        let of_pod = |kubelet: &&mut (&str, Client)| pod["spec"]["nodeName"] == kubelet.0;
                        let (_, kubelet) = kubelets.iter_mut().find(of_pod).unwrap();
                        kubelet.must(200, "PATCH", &format!("{path}/status"), Some(&status));
                        Some(client.must(200, "GET", &path, None))
                    }
                    _ => {
                        let labels = json!({"metadata": {"labels": {"tier": tier, "hold": hold}}});
                        Some(client.must(200, "PATCH", &path, Some(&labels)))
                    }
                },
            };
            story.push(answer);
        }
        told
    }

    /// The last change that all watches wait for.
    fn end(&self) -> Vec<Option<Value>> {
        let mut client = self.client();
        let made = client.must(201, "POST", PODS, Some(&pod(END, "a", "n1")));
        let status = json!({"status": {"phase": "Running"}});
        self.0.kubelet("n1").must(200, "PATCH", &format!("{PODS}/{END}/status"), Some(&status));
        let runs = client.must(200, "GET", &format!("{PODS}/{END}"), None);
        vec![Some(made), Some(runs)]
    }
}

fn pod(name: &str, tier: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"tier": tier}}, "spec": {
        "nodeName": node,
        "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "i"}],
    }})
}

/// What a watch with a selector must see of all changes: an object that comes to be selected is added, one that ceases
/// to be is deleted (AP-82).
fn selected(truth: &[Seen], selects: fn(&Value) -> bool) -> Vec<Seen> {
    let mut last: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut expected = Vec::new();
    for seen in truth {
        let before = match seen.kind.as_str() {
            "DELETED" => last.remove(seen.name()),
            _ => last.insert(seen.name(), &seen.object),
        };
        let was = before.is_some_and(selects);
        let is = seen.kind != "DELETED" && selects(&seen.object);
        let (kind, object) = match (was, is) {
            (false, false) => continue,
            (false, true) => ("ADDED", seen.object.clone()),
            (true, true) => ("MODIFIED", seen.object.clone()),
            (true, false) => ("DELETED", at(before.unwrap(), seen.revision)),
        };
        expected.push(Seen { kind: kind.to_owned(), revision: seen.revision, object });
    }
    expected
}

/// The objects that are selected as of a revision, by name.
fn state(truth: &[Seen], revision: u64, selects: fn(&Value) -> bool) -> Vec<Value> {
    let mut objects = BTreeMap::new();
    for seen in truth.iter().filter(|seen| seen.revision <= revision) {
        match seen.kind.as_str() {
            "DELETED" => objects.remove(seen.name()),
            _ => objects.insert(seen.name().to_owned(), seen.object.clone()),
        };
    }
    objects.into_values().filter(selects).collect()
}

/// Whether what a watch without a selector saw is what the writers were told, each change once.
fn check_truth(truth: &[Seen], told: &BTreeMap<String, Vec<Option<Value>>>) {
    assert!(truth.windows(2).all(|pair| pair[0].revision < pair[1].revision), "revisions grow");
    let mut stories: BTreeMap<String, Vec<Option<Value>>> = BTreeMap::new();
    let mut there: BTreeMap<&str, &Value> = BTreeMap::new();
    for seen in truth {
        let story = stories.entry(seen.name().to_owned()).or_default();
        let before = there.remove(seen.name());
        let kind = match (before, seen.kind.as_str()) {
            (Some(before), "DELETED") => {
                assert_eq!(seen.object, at(before, seen.revision), "what is gone, as of its removal");
                story.push(None);
                continue;
            }
            (None, _) => "ADDED",
            (Some(_), _) => "MODIFIED",
        };
        assert_eq!(seen.kind, kind, "{}", seen.object);
        there.insert(seen.name(), &seen.object);
        // A pod that is to be removed at once is marked first; the writer is told of the removal alone.
        if seen.object["metadata"]["deletionTimestamp"].is_null() {
            story.push(Some(seen.object.clone()));
        }
    }
    // A write that changes nothing is told to the writer, and is no change (AP-45).
    let mut due = told.clone();
    due.values_mut().for_each(|story| story.dedup());
    assert!(stories.keys().eq(due.keys()));
    for (name, story) in stories {
        assert!(story == due[&name], "{name}: {story:#?} instead of {:#?}", due[&name]);
    }
}

type Began = (u64, Vec<Value>, Vec<Seen>);

#[test]
fn every_watch_sees_every_change_once_and_in_order() {
    let server = &Served(start_with(Setup { is_cluster: true, ..Setup::default() }));
    let start = revision(&server.client().must(200, "GET", PODS, None));
    scope(|scope| {
        let whole: Vec<_> = (0..16).map(|_| scope.spawn(move || server.watched("", start))).collect();
        let of_each = SELECTORS.iter().enumerate().map(|(seed, selector)| {
            let query = selector.query;
            let watched = scope.spawn(move || server.watched(query, start));
            let resumed = scope.spawn(move || server.resumed(query, start, seed as u64));
            (selector, [watched, resumed])
        });
        let of_each: Vec<_> = of_each.collect();
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || server.write(writer))).collect();
        // These begin while it goes on.
        let began = |_| {
            SELECTORS.iter().map(|selector| {
                let query = selector.query;
                let listed = scope.spawn(move || server.listed(query));
                let streamed: ScopedJoinHandle<'_, Began> = scope.spawn(move || server.streamed(query));
                std::thread::sleep(std::time::Duration::from_millis(7));
                (selector, [listed, streamed])
            })
        };
        let began: Vec<_> = (0..3).flat_map(began).collect();

        let mut told: BTreeMap<_, _> =
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        told.insert(END.to_owned(), server.end());
        let mut whole = whole.into_iter().map(|watch| watch.join().unwrap());
        let truth = whole.next().unwrap();
        check_truth(&truth, &told);
        for other in whole {
            assert!(other == truth, "not all saw the same");
        }
        for (selector, watches) in of_each {
            let expected = selected(&truth, selector.selects);
            for watch in watches {
                assert_eq!(watch.join().unwrap(), expected, "{}", selector.query);
            }
        }
        let mut beginnings = BTreeSet::new();
        for (selector, watches) in began {
            for watch in watches {
                let (revision, objects, seen) = watch.join().unwrap();
                beginnings.insert(revision);
                let mut expected = selected(&truth, selector.selects);
                expected.retain(|seen| seen.revision > revision);
                assert_eq!(objects, state(&truth, revision, selector.selects), "{}", selector.query);
                assert_eq!(seen, expected, "{}", selector.query);
            }
        }
        assert!(beginnings.len() > 3, "they began at different times: {beginnings:?}");
    });
}

#[test]
fn bookmarks_tell_how_far_a_watch_has_come_to_those_who_ask() {
    let limits = Limits { bookmarks: Duration::from_millis(20), ..Limits::default() };
    let server = Served(start_with(Setup { is_cluster: true, limits, ..Setup::default() }));
    let start = revision(&server.client().must(200, "GET", PODS, None));
    let path = format!("{PODS}?watch=1&resourceVersion={start}");
    let mut asking = server.client().watch(&format!("{path}&allowWatchBookmarks=true")).unwrap();
    let unasked = server.client().watch(&path).unwrap();
    let mut next = || asking.next().unwrap().unwrap();
    let begin = next();
    assert_eq!(begin["type"], "BOOKMARK");
    assert!(revision(&begin["object"]) >= start);
    // What another kind's changes bring the store to is told, too, although no change is seen.
    let made = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "elsewhere"}});
    let elsewhere =
        revision(&server.client().must(201, "POST", "/api/v1/namespaces/default/configmaps", Some(&made)));
    let mut newest = 0;
    while newest < elsewhere {
        let event = next();
        assert_eq!(event["type"], "BOOKMARK");
        let object = &event["object"];
        assert!(revision(object) >= newest, "bookmarks never go back");
        newest = revision(object);
        assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("Pod"), &json!("v1")));
        assert_eq!(object["metadata"]["annotations"], Value::Null);
        assert_eq!(object["metadata"]["name"], Value::Null);
    }
    server.end();
    for event in unasked.map(Result::unwrap) {
        assert_ne!(event["type"], "BOOKMARK", "nobody asked for one");
        if Seen::of(&event).is_end() {
            break;
        }
    }
}

/// Events are encoded once for all who send them in one form. Who sends another form, or has lost sight of the object, is told what it
/// asked for: each event is compared with what the writer was answered.
#[test]
fn each_of_many_watches_gets_each_event_in_its_own_form_ap_80_ap_90() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    const TABLE: &str = "Accept: application/json;as=Table;g=meta.k8s.io;v=v1";
    const METADATA: &str = "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let server = Served(start_with(Setup { is_cluster: true, ..Setup::default() }));
    let mut writer = server.client();
    let start = revision(&writer.must(200, "GET", MAPS, None));
    let path = format!("{MAPS}?watch=1&resourceVersion={start}&labelSelector=");
    let open = |form: &str, selector: &str| {
        let client = server.client();
        let client = match form {
            "protobuf" => client.in_protobuf(),
            "table" => client.header(TABLE),
            "metadata" => client.header(METADATA),
            _ => client,
        };
        client.watch(&format!("{path}{selector}")).unwrap()
    };
    let mut watches = Vec::new();
    for form in ["json", "protobuf", "table", "metadata"] {
        for selector in ["tier", "tier", "tier%3Da", "tier%3Da"] {
            watches.push((form, selector, open(form, selector)));
        }
    }
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "labels": {"tier": "a"}}});
    let object = format!("{MAPS}/m");
    let made = writer.must(201, "POST", MAPS, Some(&map));
    let mut changed = made.clone();
    changed["data"] = json!({"n": "1"});
    let changed = writer.must(200, "PUT", &object, Some(&changed));
    let mut moved = changed.clone();
    moved["metadata"]["labels"]["tier"] = "b".into();
    let moved = writer.must(200, "PUT", &object, Some(&moved));
    writer.must(200, "DELETE", &object, None);
    for (form, selector, events) in &mut watches {
        let mut next = || events.next().unwrap().unwrap();
        let mut is_first = true;
        let mut check = |kind: &str, expected: &Value| {
            let event = next();
            assert_eq!(event["type"], kind, "{form} {selector}");
            let seen = &event["object"];
            match *form {
                "table" => {
                    assert_eq!(seen["kind"], "Table");
                    assert_eq!(seen["columnDefinitions"].is_array(), is_first, "only the first has columns");
                    assert_eq!(seen["rows"][0]["cells"][0], "m");
                    assert_eq!(seen["rows"][0]["object"]["metadata"], expected["metadata"]);
                }
                "metadata" => {
                    assert_eq!(seen["kind"], "PartialObjectMetadata");
                    assert_eq!(seen["metadata"], expected["metadata"]);
                }
                "protobuf" => {
                    let mut expected = expected.clone();
                    // Kubernetes writes this number in protobuf also when it is zero.
                    expected["metadata"]["generation"] = 0.into();
                    assert_eq!(*seen, expected, "{selector}");
                }
                _ => assert_eq!(seen, expected, "{selector}"),
            }
            is_first = false;
        };
        check("ADDED", &made);
        check("MODIFIED", &changed);
        match *selector {
            // In its last state, as of the change by which it left.
            "tier%3Da" => check("DELETED", &at(&changed, revision(&moved))),
            _ => {
                check("MODIFIED", &moved);
                let event = next();
                assert_eq!(event["type"], "DELETED", "{form}");
                let seen = &event["object"];
                let row = if *form == "table" { &seen["rows"][0]["object"] } else { seen };
                assert_eq!(row["metadata"]["labels"]["tier"], "b");
                assert!(revision(row) > revision(&moved), "as of its removal");
            }
        }
    }
}

#[test]
fn a_watch_from_a_revision_that_is_forgotten_gets_one_error_event_ap_81() {
    let server = Served(start_with(Setup { is_cluster: true, ..Setup::default() }));
    let mut client = server.client();
    let start = revision(&client.must(200, "GET", PODS, None));
    server.end();
    let newest = revision(&client.must(200, "GET", PODS, None));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(server.0.app.backend().compact(Revision(newest))).unwrap();
    for query in [
        "",
        "&allowWatchBookmarks=true",
        "&labelSelector=a",
        "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
    ] {
        let path = format!("{PODS}?watch=1&resourceVersion={start}{query}");
        let events: Vec<Value> = server.client().watch(&path).unwrap().map(Result::unwrap).collect();
        let [event] = events.as_slice() else { panic!("{path}: {events:?}") };
        let status = &event["object"];
        assert_eq!(event["type"], "ERROR");
        assert_eq!((&status["kind"], &status["apiVersion"]), (&json!("Status"), &json!("v1")));
        assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
        assert!(status["message"].as_str().unwrap().starts_with("too old resource version: "), "{status}");
    }
    // From the revision itself it goes on, and a list of the forgotten state is refused at once.
    server.0.app.stop();
    let events = server.client().watch(&format!("{PODS}?watch=1&resourceVersion={newest}")).unwrap();
    assert_eq!(events.count(), 0);
    let exact = format!("{PODS}?resourceVersion={start}&resourceVersionMatch=Exact");
    assert_eq!(client.must(410, "GET", &exact, None)["reason"], "Expired");
}

#[test]
fn a_list_whose_revision_is_forgotten_can_go_on_at_the_newest_ap_71() {
    let server = Served(start_with(Setup { is_cluster: true, ..Setup::default() }));
    let mut client = server.client();
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let role = |name: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}});
    for name in ["a", "b", "c"] {
        client.must(201, "POST", roles, Some(&role(name)));
    }
    let page = client.must(200, "GET", &format!("{roles}?limit=1"), None);
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    client.must(201, "POST", roles, Some(&role("b2")));
    let newest = revision(&client.must(200, "GET", roles, None));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(server.0.app.backend().compact(Revision(newest))).unwrap();
    goes_on_inconsistently(&mut client, &format!("{roles}?limit=3&continue="), &token, &["b", "b2", "c"]);
}
