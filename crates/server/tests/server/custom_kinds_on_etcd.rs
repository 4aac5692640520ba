//! Custom kinds on servers that share one etcd, and in the etcd of a kube-apiserver (ET-10 to ET-12).

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::https::Client;
use portcullis_testkit::wait;
use serde_json::{Value, json};

use crate::common::{Setup, Started, start_with};
use crate::several_servers::setup;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAME: &str = "crontabs.stable.example.com";
const KIND: &str = "/apis/stable.example.com/v1/namespaces/default/crontabs";
const IN_ETCD: &str = "/registry/stable.example.com/crontabs/";

fn admin(server: &Started) -> Client {
    server.client(&server.admin())
}

/// Two servers over an etcd. The first one runs the controllers.
fn two(etcd: &Etcd) -> [Started; 2] {
    let one = start_with(setup(etcd));
    let keys_of = Some(one.dir.clone());
    let other = start_with(Setup { keys_of, ..setup(etcd) });
    [one, other]
}

/// A definition whose objects have a size of at most `most`.
fn definition(most: i64) -> Value {
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer", "maximum": most}}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": NAME},
        "spec": {"group": "stable.example.com", "scope": "Namespaced",
            "names": {"plural": "crontabs", "kind": "CronTab"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

fn object(name: &str, size: i64) -> Value {
    json!({"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": name},
        "spec": {"size": size}})
}

fn is_established(client: &mut Client, name: &str) -> bool {
    let found = client.must(200, "GET", &format!("{DEFINITIONS}/{name}"), None);
    let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

fn define(client: &mut Client, definition: &Value) {
    client.must(201, "POST", DEFINITIONS, Some(definition));
    let name = definition["metadata"]["name"].as_str().unwrap();
    wait::until("the kind is served", || is_established(client, name));
}

fn value(etcd: &Etcd, key: &str) -> Value {
    serde_json::from_str(&etcd.etcdctl(["get", key, "--print-value-only"]).stdout).unwrap()
}

#[test]
fn what_one_server_defines_the_other_serves_until_it_is_removed() {
    let etcd = Etcd::start();
    let servers = two(&etcd);
    for (by, with) in [(0, 1), (1, 0)] {
        let (mut definer, mut user) = (admin(&servers[by]), admin(&servers[with]));
        definer.must(201, "POST", DEFINITIONS, Some(&definition(10)));
        // Whoever sees that the kind is established can use it: on this server, at once.
        wait::until("the kind is served", || is_established(&mut user, NAME));
        user.must(201, "POST", KIND, Some(&object("a", 10)));
        let seen = definer.must(200, "GET", &format!("{KIND}/a"), None);
        assert_eq!(seen["spec"], json!({"size": 10}));
        definer.must(201, "POST", KIND, Some(&object("b", 1)));
        let listed = user.must(200, "GET", KIND, None);
        assert_eq!(listed["items"].as_array().unwrap().len(), 2);

        // As kube-apiserver keeps them.
        let kept = value(&etcd, &format!("{IN_ETCD}default/a"));
        let due = json!({"kind": "CronTab", "apiVersion": "stable.example.com/v1", "spec": {"size": 10}});
        for (name, value) in due.as_object().unwrap() {
            assert_eq!(kept[name], *value);
        }
        assert_eq!(kept["metadata"].get("resourceVersion"), None);
        let kept = value(&etcd, &format!("/registry/apiextensions.k8s.io/customresourcedefinitions/{NAME}"));
        assert_eq!(kept["kind"], "CustomResourceDefinition");

        user.must(200, "DELETE", &format!("{DEFINITIONS}/{NAME}"), None);
        for client in [&mut definer, &mut user] {
            wait::until("the kind is gone", || client.ask("GET", KIND, None).unwrap().code == 404);
            client.must(404, "GET", &format!("{DEFINITIONS}/{NAME}"), None);
        }
        assert_eq!(etcd.keys(IN_ETCD), [""; 0]);
    }
}

/// The server that stores an object may not have heard of the newest definition: then it must not store it.
#[test]
fn nothing_is_stored_by_a_definition_that_another_server_has_replaced() {
    let etcd = Etcd::start();
    let [one, other] = &two(&etcd);
    let mut definer = admin(one);
    define(&mut definer, &definition(10));
    let is_over = AtomicBool::new(false);
    scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut client = admin(other);
                    let mut made = 0;
                    for number in 0.. {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        let body = object(&format!("w{writer}-{number}"), 5);
                        let code = client.ask("POST", KIND, Some(&body)).unwrap().code;
                        // Invalid, replaced meanwhile, being removed, or gone.
                        assert!([201, 403, 404, 409, 422].contains(&code), "{code}");
                        made += usize::from(code == 201);
                    }
                    made
                })
            })
            .collect();
        let mut strict: Vec<(u64, u64)> = Vec::new();
        let revision = |object: &Value| -> u64 {
            object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
        };
        let mut replace = |most: i64| loop {
            let mut wanted = definition(most);
            let there = definer.must(200, "GET", &format!("{DEFINITIONS}/{NAME}"), None);
            wanted["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
            let answer = definer.ask("PUT", &format!("{DEFINITIONS}/{NAME}"), Some(&wanted)).unwrap();
            if answer.code == 200 {
                break revision(&answer.json());
            }
        };
        for _ in 0..20 {
            let from = replace(3);
            std::thread::sleep(std::time::Duration::from_millis(20));
            let to = replace(10);
            strict.push((from, to));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let stored = definer.must(200, "GET", KIND, None);
        let stored = stored["items"].as_array().unwrap();
        for object in stored {
            let at = revision(object);
            let within = strict.iter().find(|(from, to)| (from..to).contains(&&at));
            assert_eq!(within, None, "{object}");
        }
        // The writers go on while the definition is deleted, and leave nothing behind.
        definer.must(200, "DELETE", &format!("{DEFINITIONS}/{NAME}"), None);
        wait::until("the definition is gone", || {
            definer.ask("GET", &format!("{DEFINITIONS}/{NAME}"), None).unwrap().code == 404
        });
        is_over.store(true, Ordering::Relaxed);
        let made: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        assert!(made > 0 && !stored.is_empty());
    });
    assert_eq!(etcd.keys(IN_ETCD), [""; 0]);
}

/// A definition in the form in which kube-apiserver stores it: v1beta1, with what all versions have in common beside them.
fn stored_definition(group: &str, scope: &str) -> Value {
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R",
            "message": "m"})
    };
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"a": {"type": "string"}, "d": {"type": "string", "default": "x"}}}}});
    json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1",
        "metadata": {"name": format!("things.{group}"), "uid": format!("u-{group}"), "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"group": group, "version": "v2", "names": names, "scope": scope,
            "validation": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "A", "type": "string", "JSONPath": ".spec.a"}],
            "versions": [{"name": "v2", "served": true, "storage": true}, {"name": "v1", "served": true, "storage": false}],
            "conversion": {"strategy": "None"}, "preserveUnknownFields": false},
        "status": {"conditions": [condition("NamesAccepted"), condition("Established")], "acceptedNames": names,
            "storedVersions": ["v1", "v2"]}})
}

fn stored_object(group: &str, version: &str, namespace: &str, name: &str) -> Value {
    let mut object = json!({"apiVersion": format!("{group}/{version}"), "kind": "Thing",
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1, "name": name, "uid": format!("u-{name}")},
        "spec": {"a": name}});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

#[test]
fn the_custom_objects_of_a_kube_apiserver_are_served_and_what_nobody_defines_is_left_alone() {
    let etcd = Etcd::start();
    let put = |key: &str, value: &[u8]| etcd.put(&format!("/registry/{key}"), value);
    let json = |value: Value| format!("{value}\n").into_bytes();
    // The group sorts before that of definitions, so its objects are read before their definition.
    let (group, cluster) = ("aaa.example.com", "bbb.example.com");
    put(&format!("{group}/things/default/new"), &json(stored_object(group, "v2", "default", "new")));
    put(&format!("{group}/things/default/old"), &json(stored_object(group, "v1", "default", "old")));
    put(&format!("{cluster}/things/one"), &json(stored_object(cluster, "v2", "", "one")));
    // The definition was changed last.
    for (group, scope) in [(group, "Namespaced"), (cluster, "Cluster")] {
        let key = format!("apiextensions.k8s.io/customresourcedefinitions/things.{group}");
        put(&key, &json(stored_definition(group, scope)));
    }
    let left_alone = [
        // The scope of an earlier definition.
        (format!("{group}/things/stray"), json(stored_object(group, "v2", "", "stray"))),
        (format!("{cluster}/things/things/stray"), json(stored_object(cluster, "v2", "things", "stray"))),
        // Not what its key says.
        (format!("{group}/things/default/damaged"), b"k8s\0damaged".to_vec()),
        (format!("{group}/things/default/other"), json(stored_object(group, "v2", "default", "another"))),
        (
            format!("{group}/things/default/foreign"),
            json(stored_object("ccc.example.com", "v2", "default", "foreign")),
        ),
        // Nobody defines it.
        (
            "ccc.example.com/things/default/a".to_owned(),
            json(stored_object("ccc.example.com", "v1", "default", "a")),
        ),
        ("ccc.example.com/things/default/damaged".to_owned(), b"k8s\0damaged".to_vec()),
        ("ccc.example.com/more/a/b/c".to_owned(), b"{}".to_vec()),
        // Where no kind of Kubernetes lies.
        (
            "rbac.authorization.k8s.io/clusterroles/admin".to_owned(),
            json(
                json!({"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "admin"}}),
            ),
        ),
    ];
    for (key, value) in &left_alone {
        put(key, value);
    }

    let server = start_with(setup(&etcd));
    let mut admin = admin(&server);
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    for version in ["v1", "v2"] {
        let of_group = format!("/apis/{group}/{version}");
        let list = admin.must(200, "GET", &format!("{of_group}/things"), None);
        assert_eq!(names(&list), ["new", "old"]);
        for item in list["items"].as_array().unwrap() {
            assert_eq!(item["apiVersion"], format!("{group}/{version}"));
            assert_eq!(item["spec"], json!({"a": item["metadata"]["name"], "d": "x"}));
        }
        let list = admin.must(200, "GET", &format!("/apis/{cluster}/{version}/things"), None);
        assert_eq!(names(&list), ["one"]);
        admin.must(404, "GET", &format!("{of_group}/namespaces/things/things/stray"), None);
    }
    let shown = admin.must(200, "GET", &format!("{DEFINITIONS}/things.{group}"), None);
    assert_eq!(shown["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(shown["spec"]["versions"][1]["additionalPrinterColumns"][0]["jsonPath"], ".spec.a");
    // What is damaged counts where somebody defines it.
    admin.must(500, "GET", &format!("/apis/{group}/v2/namespaces/default/things/damaged"), None);
    server.wait_for_metric("portcullis_store_undecodable_objects 3");
    let undefined = "/apis/ccc.example.com/v1/namespaces/default/things/a";
    assert_eq!(admin.ask("GET", undefined, None).unwrap().code, 404);

    // A new version of an object is stored in the version of today.
    let path = format!("/apis/{group}/v1/namespaces/default/things/old");
    admin.must(200, "PATCH", &path, Some(&json!({"spec": {"a": "changed"}})));
    let kept = value(&etcd, &format!("/registry/{group}/things/default/old"));
    assert_eq!((&kept["apiVersion"], &kept["spec"]["a"]), (&json!(format!("{group}/v2")), &json!("changed")));

    // What was there before somebody defines it is served from then on.
    let mut late = stored_definition("ccc.example.com", "Namespaced");
    late["apiVersion"] = json!("apiextensions.k8s.io/v1");
    late["metadata"] = json!({"name": "things.ccc.example.com"});
    late["spec"] = json!({"group": "ccc.example.com", "scope": "Namespaced", "names": late["spec"]["names"],
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": late["spec"]["validation"]["openAPIV3Schema"]}}]});
    define(&mut admin, &late);
    let list = admin.must(200, "GET", "/apis/ccc.example.com/v1/things", None);
    assert_eq!(names(&list), ["a"]);
    server.wait_for_metric("portcullis_store_undecodable_objects 4");

    // A definition goes with its objects, and leaves what it never showed.
    admin.must(200, "DELETE", &format!("{DEFINITIONS}/things.{cluster}"), None);
    wait::until("the definition is gone", || {
        admin.ask("GET", &format!("{DEFINITIONS}/things.{cluster}"), None).unwrap().code == 404
    });
    assert_eq!(etcd.keys(&format!("/registry/{cluster}/things/one")), [""; 0]);
    for (key, value) in &left_alone {
        let found = etcd.etcdctl(["get", &format!("/registry/{key}"), "--print-value-only"]);
        assert_eq!(found.stdout.trim_end().as_bytes(), value.trim_ascii_end(), "{key} is left alone");
    }
}

/// A definition that this server would refuse is not served, and nothing of it is touched.
#[test]
fn a_definition_that_cannot_be_served_keeps_its_objects() {
    let etcd = Etcd::start();
    let group = "aaa.example.com";
    let mut definition = stored_definition(group, "Namespaced");
    definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhookClientConfig": {"url": "https://example.com"},
        "conversionReviewVersions": ["v1"]});
    let at = format!("/registry/apiextensions.k8s.io/customresourcedefinitions/things.{group}");
    etcd.put(&at, definition.to_string().as_bytes());
    let (key, kept) =
        (format!("/registry/{group}/things/default/a"), stored_object(group, "v1", "default", "a"));
    etcd.put(&key, kept.to_string().as_bytes());
    let server = start_with(setup(&etcd));
    let mut admin = admin(&server);
    admin.must(200, "GET", &format!("{DEFINITIONS}/things.{group}"), None);
    assert_eq!(admin.ask("GET", &format!("/apis/{group}/v1/things"), None).unwrap().code, 404);
    // It waits for objects that nobody here can delete.
    admin.must(200, "DELETE", &format!("{DEFINITIONS}/things.{group}"), None);
    wait::until("it is being deleted", || {
        let there = admin.must(200, "GET", &format!("{DEFINITIONS}/things.{group}"), None);
        let conditions = there["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["reason"] == "InstanceDeletionInProgress")
    });
    assert_eq!(value(&etcd, &key), kept);
    assert_eq!(etcd.etcdctl(["del", &key]).code, 0);
    wait::until("the definition is gone", || {
        admin.ask("GET", &format!("{DEFINITIONS}/things.{group}"), None).unwrap().code == 404
    });
}
