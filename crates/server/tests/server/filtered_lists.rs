//! Filtered lists and watches (BC-40, BC-41): what a caller is shown is what it may get by name, at any time, whatever changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::Duration;

use portcullis_server::api::filter_lists::FilterLists;
use portcullis_server::http::limits::Limits;
use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::https::Client;
use portcullis_testkit::mutate::Random;
use portcullis_testkit::wait;
use serde_json::{Value, json};

use crate::common::{Identity, Setup, Started, start_with};
use crate::several_servers;

pub(crate) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
pub(crate) const HEADER: &str = "Portcullis-Filter: true";
const NAMESPACES: [&str; 2] = ["a", "b"];
const NAMES: [&str; 4] = ["o0", "o1", "o2", "o3"];
const KINDS: [&str; 2] = ["secrets", "configmaps"];
const NODES: [&str; 2] = ["n0", "n1"];

pub(crate) fn setup() -> Setup {
    Setup {
        is_cluster: true,
        filter_lists: FilterLists::on(vec!["filtered".to_owned()]),
        limits: Limits {
            bookmarks: Duration::from_millis(300),
            shutdown: Duration::from_secs(1),
            ..Limits::default()
        },
        ..Setup::default()
    }
}

pub(crate) fn start() -> Started {
    start_with(setup())
}

pub(crate) fn admin(server: &Started) -> Client {
    server.client(&server.admin())
}

pub(crate) fn in_namespace(namespace: &str, kind: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{kind}")
}

pub(crate) fn node(server: &Started, name: &str) -> Client {
    server.client(&server.user(&format!("system:node:{name}"), &["system:nodes"]))
}

pub(crate) fn prepare(server: &Started) {
    let mut admin = admin(server);
    for name in NAMESPACES {
        admin.must(201, "POST", "/api/v1/namespaces", Some(&json!({"metadata": {"name": name}})));
        wait::until("the namespace is complete", || {
            let path = in_namespace(name, "serviceaccounts/default");
            admin.ask("GET", &path, None).unwrap().code == 200
        });
    }
    for name in NODES {
        admin.must(201, "POST", "/api/v1/nodes", Some(&json!({"metadata": {"name": name}})));
    }
}

pub(crate) fn object(kind: &str, name: &str, value: &str) -> Value {
    let data = if kind == "secrets" { "stringData" } else { "data" };
    json!({"metadata": {"name": name}, data: {"k": value}})
}

pub(crate) fn pod(name: &str, node: &str, secret: &str, config_map: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "nodeName": node,
        "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": config_map}}]}],
        "volumes": [{"name": "v", "secret": {"secretName": secret}}],
    }})
}

fn subject(kind: &str, name: &str) -> Value {
    json!({"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

pub(crate) fn rule(kind: &str, names: &[&str]) -> Value {
    json!({"verbs": ["get"], "apiGroups": [""], "resources": [kind], "resourceNames": names})
}

/// Grants the rules to a user, in a namespace or in the cluster.
pub(crate) fn grant(admin: &mut Client, namespace: Option<&str>, name: &str, user: &str, rules: Value) {
    let (place, kind, binding) = match namespace {
        Some(namespace) => (format!("{RBAC}/namespaces/{namespace}"), "Role", "rolebindings"),
        None => (RBAC.to_owned(), "ClusterRole", "clusterrolebindings"),
    };
    let roles = format!("{}s", kind.to_lowercase());
    admin.must(
        201,
        "POST",
        &format!("{place}/{roles}"),
        Some(&json!({"metadata": {"name": name}, "rules": rules})),
    );
    let body = json!({"metadata": {"name": name}, "subjects": [subject("User", user)],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}});
    admin.must(201, "POST", &format!("{place}/{binding}"), Some(&body));
}

type Key = (String, String);
type Objects = BTreeMap<Key, Value>;

fn key(object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// The object without what tells when it was read.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    for field in ["kind", "apiVersion"] {
        object.as_object_mut().unwrap().remove(field);
    }
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    object
}

fn items(list: &Value) -> Objects {
    list["items"].as_array().unwrap().iter().map(|item| (key(item), item.clone())).collect()
}

/// Which lists a client follows, and how.
struct View {
    name: &'static str,
    kind: &'static str,
    /// Empty for all.
    namespace: &'static str,
    label: Option<&'static str>,
    /// Lists before it watches; otherwise the watch begins with all objects.
    lists: bool,
}

impl View {
    fn collection(&self) -> String {
        match self.namespace {
            "" => format!("/api/v1/{}", self.kind),
            namespace => in_namespace(namespace, self.kind),
        }
    }

    fn query(&self) -> String {
        self.label.map(|label| format!("labelSelector=l%3D{label}&")).unwrap_or_default()
    }

    /// What a GET of each object answers to this client.
    fn by_get(&self, admin: &mut Client, client: &mut Client) -> Objects {
        let path = format!("{}?{}", self.collection(), self.query());
        let all = items(&admin.must(200, "GET", &path, None));
        let mut seen = Objects::new();
        for (namespace, name) in all.into_keys() {
            let path = format!("{}/{name}", in_namespace(&namespace, self.kind));
            let answer = client.ask("GET", &path, None).unwrap();
            match answer.code {
                200 => _ = seen.insert((namespace, name), content(&answer.json())),
                403 => {}
                code => panic!("{path} is answered {code}"),
            }
        }
        seen
    }
}

const VIEWS: [View; 9] = [
    View { name: "jane", kind: "secrets", namespace: "", label: None, lists: true },
    View { name: "jane", kind: "configmaps", namespace: "a", label: Some("x"), lists: true },
    View { name: "joe", kind: "secrets", namespace: "b", label: None, lists: false },
    View { name: "joe", kind: "configmaps", namespace: "", label: None, lists: true },
    View { name: "n0", kind: "secrets", namespace: "", label: None, lists: true },
    View { name: "n0", kind: "configmaps", namespace: "a", label: None, lists: true },
    View { name: "n1", kind: "secrets", namespace: "", label: None, lists: false },
    View { name: "n1", kind: "configmaps", namespace: "", label: Some("x"), lists: true },
    View { name: "nobody", kind: "secrets", namespace: "", label: None, lists: true },
];

fn identity(server: &Started, name: &str) -> Identity {
    match name {
        "jane" => server.user("jane", &["devs", "filtered"]),
        "joe" | "nobody" => server.user(name, &[]),
        node => server.user(&format!("system:node:{node}"), &["system:nodes"]),
    }
}

/// What a client has received.
#[derive(Default)]
struct Received {
    cache: Objects,
    /// The events since somebody looked last.
    events: Vec<(String, Value)>,
    relists: usize,
    resumes: usize,
}

/// A client that lists and watches as client-go does, and keeps what it received.
struct Follower<'v> {
    view: &'v View,
    client: Box<dyn Fn() -> Client + Send + Sync + 'v>,
    received: Mutex<Received>,
    is_over: &'v AtomicBool,
}

impl Follower<'_> {
    fn run(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let revision = self.view.lists.then(|| self.list());
            self.watch(revision);
        }
    }

    fn list(&self) -> String {
        let mut client = (self.client)();
        let (mut found, mut token) = (Objects::new(), String::new());
        loop {
            let query = self.view.query();
            let path = format!("{}?{query}limit=3&continue={token}", self.view.collection());
            let answer = client.ask("GET", &path, None).unwrap();
            // Rights have changed: between two pages, or again and again.
            if answer.code == 410 || answer.code == 503 {
                (found, token) = (Objects::new(), String::new());
                continue;
            }
            assert_eq!(answer.code, 200, "{path}: {}", answer.text());
            let list = answer.json();
            assert!(list["metadata"]["remainingItemCount"].is_null());
            found.extend(items(&list).into_iter().map(|(key, object)| (key, content(&object))));
            token = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                let mut received = self.received.lock().unwrap();
                received.cache = found;
                received.events.clear();
                received.relists += 1;
                return list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            }
        }
    }

    /// Watches until the client must begin anew. The watches are short, so that they go on after a revision often.
    fn watch(&self, mut revision: Option<String>) {
        let mut is_first = true;
        while !self.is_over.load(Ordering::Relaxed) {
            let start = match &revision {
                Some(revision) => format!("resourceVersion={revision}"),
                None => {
                    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=".to_owned()
                }
            };
            let mut is_initial = revision.is_none();
            let (path, query) = (self.view.collection(), self.view.query());
            let path = format!("{path}?{query}watch=true&allowWatchBookmarks=true&timeoutSeconds=1&{start}");
            let mut initial = Objects::new();
            if !is_first {
                self.received.lock().unwrap().resumes += 1;
            }
            is_first = false;
            let events = match (self.client)().watch(&path) {
                Ok(events) => events,
                Err(error) if error.to_string().ends_with("is answered 503") => continue,
                Err(error) => panic!("{error}"),
            };
            for event in events {
                let event = event.unwrap();
                let (kind, object) = (event["type"].as_str().unwrap(), &event["object"]);
                if kind == "ERROR" {
                    assert_eq!(object["code"], 410, "{event}");
                    return;
                }
                revision = Some(object["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
                let mut received = self.received.lock().unwrap();
                match kind {
                    "BOOKMARK" if is_initial => {
                        assert_eq!(object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
                        received.cache = std::mem::take(&mut initial);
                        received.events.clear();
                        received.relists += 1;
                        is_initial = false;
                    }
                    "BOOKMARK" => {}
                    // Rights can change before the client has everything.
                    "DELETED" if is_initial => {
                        assert_eq!(initial.remove(&key(object)), Some(content(object)), "{event}");
                    }
                    _ if is_initial => {
                        let before = initial.insert(key(object), content(object));
                        assert_eq!(before.is_some(), kind == "MODIFIED", "{event}");
                    }
                    "DELETED" => {
                        let last = received.cache.remove(&key(object));
                        // In the last state that the client was shown.
                        assert_eq!(last, Some(content(object)), "{}: {event}", self.view.name);
                        received.events.push((kind.to_owned(), content(object)));
                    }
                    kind => {
                        let before = received.cache.insert(key(object), content(object));
                        assert_eq!(before.is_some(), kind == "MODIFIED", "{}: {event}", self.view.name);
                        received.events.push((kind.to_owned(), content(object)));
                    }
                }
            }
        }
    }
}

/// Random changes of objects, pods, labels, roles and bindings.
struct Changes {
    client: Client,
    random: Random,
    round: usize,
}

impl Changes {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        *self.random.pick(of)
    }

    /// Deletes what is there, or makes it.
    fn toggle(&mut self, collection: &str, name: &str, body: &Value) {
        if self.client.ask("GET", &format!("{collection}/{name}"), None).unwrap().code == 200 {
            let path = format!("{collection}/{name}?gracePeriodSeconds=0");
            self.client.must(200, "DELETE", &path, None);
        } else {
            self.client.must(201, "POST", collection, Some(body));
        }
    }

    fn change(&mut self) {
        self.round += 1;
        let (namespace, name, kind) = (self.one(&NAMESPACES), self.one(&NAMES), self.one(&KINDS));
        let collection = in_namespace(namespace, kind);
        match self.random.below(12) {
            0 | 1 => {
                let mut body = object(kind, name, &self.round.to_string());
                body["metadata"]["labels"] = json!({"l": self.one(&["x", "y"])});
                self.toggle(&collection, name, &body);
            }
            2..=4 => {
                let mut body = object(kind, name, &self.round.to_string());
                body["metadata"]["labels"] = json!({"l": self.one(&["x", "y"])});
                let path = format!("{collection}/{name}");
                match self.client.ask("GET", &path, None).unwrap().code {
                    200 => self.client.must(200, "PATCH", &path, Some(&body)),
                    _ => self.client.must(201, "POST", &collection, Some(&body)),
                };
            }
            5..=7 => {
                let (node, map) = (self.one(&NODES), self.one(&NAMES));
                let pods = in_namespace(namespace, "pods");
                let pod_name = format!("p-{}", self.one(&["x", "y", "z"]));
                self.toggle(&pods, &pod_name, &pod(&pod_name, node, name, map));
            }
            8 => {
                // What is granted changes, not to whom.
                let names = if self.random.below(2) == 0 { vec![] } else { vec![name] };
                let (roles, is_cluster) = match self.random.below(3) {
                    0 => (format!("{RBAC}/clusterroles"), true),
                    _ => (format!("{RBAC}/namespaces/{namespace}/roles"), false),
                };
                // Not everything at once.
                let names = if is_cluster { vec![name] } else { names };
                let role = json!({"metadata": {"name": "r"}, "rules": [rule(kind, &names)]});
                match self.client.ask("GET", &format!("{roles}/r"), None).unwrap().code {
                    200 => self.client.must(200, "PUT", &format!("{roles}/r"), Some(&role)),
                    _ => self.client.must(201, "POST", &roles, Some(&role)),
                };
            }
            9 | 10 => {
                let who = self.one(&[
                    ("User", "jane"),
                    ("Group", "devs"),
                    ("User", "joe"),
                    ("Group", "system:nodes"),
                ]);
                let of = self.one(&["Role", "Role", "ClusterRole"]);
                let name = format!("b-{}-{}", who.1.replace(':', "-"), of.to_lowercase());
                let body = json!({"metadata": {"name": name}, "subjects": [subject(who.0, who.1)],
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": of, "name": "r"}});
                self.toggle(&format!("{RBAC}/namespaces/{namespace}/rolebindings"), &name, &body);
            }
            _ => {
                let who = self.one(&["jane", "joe", "system:node:n1"]);
                let name = format!("b-{}", who.replace(':', "-"));
                let body = json!({"metadata": {"name": name}, "subjects": [subject("User", who)],
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}});
                self.toggle(&format!("{RBAC}/clusterrolebindings"), &name, &body);
            }
        }
    }
}

/// Makes changes on one server while clients follow on another, or on the same, and compares what they have with what GET
/// answers to them: after each change, and after many at once.
fn compare(changed: &Started, followed: &Started, seed: u64, rounds: usize) {
    prepare(changed);
    let is_over = AtomicBool::new(false);
    let identities: BTreeMap<&str, Identity> =
        VIEWS.iter().map(|view| (view.name, identity(followed, view.name))).collect();
    let followers: Vec<Follower<'_>> = VIEWS
        .iter()
        .map(|view| Follower {
            view,
            client: {
                let identity = &identities[view.name];
                Box::new(move || match view.name {
                    // By the group.
                    "jane" => followed.client(identity),
                    _ => followed.client(identity).header(HEADER),
                })
            },
            received: Mutex::default(),
            is_over: &is_over,
        })
        .collect();
    let mut changes = Changes { client: admin(changed), random: Random::new(seed), round: 0 };
    let mut seen_by_somebody = BTreeSet::new();
    scope(|scope| {
        let running: Vec<_> = followers.iter().map(|follower| scope.spawn(|| follower.run())).collect();
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut admin = admin(followed);
            let mut clients: Vec<Client> =
                followers.iter().map(|follower| followed.client(&identities[follower.view.name])).collect();
            let mut before: Vec<Objects> = vec![Objects::new(); followers.len()];
            for round in 0..rounds {
                let is_one = round % 4 != 3;
                for _ in 0..if is_one { 1 } else { 6 } {
                    changes.change();
                }
                for (at, follower) in followers.iter().enumerate() {
                    let asked = follower.view.by_get(&mut admin, &mut clients[at]);
                    let what = format!("{}'s {} after {round}", follower.view.name, follower.view.kind);
                    wait::until_ok(&what, || {
                        assert!(running.iter().all(|thread| !thread.is_finished()), "a client has given up");
                        let received = follower.received.lock().unwrap();
                        if received.relists > 0 && received.cache == asked {
                            Ok(())
                        } else {
                            Err(format!("has {:#?}\nbut gets {asked:#?}", received.cache))
                        }
                    });
                    let events = std::mem::take(&mut follower.received.lock().unwrap().events);
                    // Between two answers that were compared lies one change: nothing else was told in between.
                    for (kind, object) in events.iter().filter(|_| is_one) {
                        let (was, is) = (before[at].get(&key(object)), asked.get(&key(object)));
                        let told = match kind.as_str() {
                            "DELETED" => (Some(object), None),
                            "ADDED" => (None, Some(object)),
                            _ => (was, Some(object)),
                        };
                        assert_eq!(told, (was, is), "{what}: {kind}");
                    }
                    let keys: BTreeSet<Key> = events.iter().map(|(_, object)| key(object)).collect();
                    assert!(!is_one || keys.len() == events.len(), "{what}: told twice: {events:?}");
                    if !asked.is_empty() {
                        seen_by_somebody.insert((follower.view.name, follower.view.kind));
                    }
                    before[at] = asked;
                }
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = checked {
            std::panic::resume_unwind(panic);
        }
    });
    // All of this was worth something.
    let mut resumes = 0;
    assert_eq!(seen_by_somebody.len(), VIEWS.len() - 1, "{seen_by_somebody:?}");
    for follower in &followers {
        let received = follower.received.lock().unwrap();
        println!(
            "{}'s {}: {} lists, {} resumed watches",
            follower.view.name, follower.view.kind, received.relists, received.resumes
        );
        resumes += received.resumes;
    }
    assert!(resumes > followers.len());
}

#[test]
fn what_clients_have_is_what_get_answers_bc_40_bc_41() {
    let server = start();
    compare(&server, &server, 7, 240);
}

#[test]
fn what_clients_have_is_what_get_answers_on_another_server_bc_40() {
    let etcd = Etcd::start();
    let one = start_with(Setup { filter_lists: setup().filter_lists, ..several_servers::setup(&etcd) });
    let keys_of = Some(one.dir.clone());
    let limits = setup().limits;
    let other = start_with(Setup {
        keys_of,
        limits,
        filter_lists: setup().filter_lists,
        ..several_servers::setup(&etcd)
    });
    compare(&one, &other, 11, 120);
}
