//! Objects and their owners: what is collected, what is waited for, and what is left alone (AP-52).

use crate::common::{Setup, Started, start_with};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::wait;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const HOLD: &str = "example.com/hold";

struct Server {
    admin: Client,
    _started: Started,
}

impl Server {
    fn start() -> Self {
        let started = start_with(Setup { is_cluster: true, ..Setup::default() });
        Self { admin: Client::new(started.address, &Identity::admin(&started.dir)), _started: started }
    }

    /// Creates an object without content, and returns it.
    fn create(&mut self, collection: &str, name: &str, owners: &[Value]) -> Value {
        self.create_with(collection, json!({"name": name, "ownerReferences": owners}))
    }

    fn create_with(&mut self, collection: &str, metadata: Value) -> Value {
        self.admin.must(201, "POST", collection, Some(&json!({"metadata": metadata})))
    }

    fn delete(&mut self, path: &str, policy: &str) {
        self.admin.must(200, "DELETE", path, Some(&json!({"propagationPolicy": policy})));
    }

    fn get(&mut self, path: &str) -> Option<Value> {
        let answer = self.admin.ask("GET", path, None).unwrap();
        (answer.code == 200).then(|| answer.json())
    }

    fn gone(&mut self, path: &str) {
        wait::until(&format!("{path} is gone"), || self.get(path).is_none());
    }

    /// Waits until what was done before has been looked at: an object that was certain to be collected is.
    fn settled(&mut self) {
        let path = format!("{CONFIG_MAPS}/probe");
        let absent = json!({"apiVersion": "v1", "kind": "Secret", "name": "none", "uid": "none"});
        for _ in 0..3 {
            self.create(CONFIG_MAPS, "probe", std::slice::from_ref(&absent));
            self.gone(&path);
        }
    }

    fn owners(&mut self, path: &str) -> Vec<String> {
        let object = self.get(path).unwrap_or_else(|| panic!("{path} is gone"));
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        owners.iter().map(|owner| owner["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Lets go of an object that a test has held.
    fn release(&mut self, path: &str) {
        let mut object = self.get(path).unwrap();
        object["metadata"]["finalizers"] = json!([]);
        self.admin.must(200, "PUT", path, Some(&object));
    }
}

fn owner(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": metadata["name"],
        "uid": metadata["uid"]})
}

fn blocking(object: &Value) -> Value {
    let mut owner = owner(object);
    owner["blockOwnerDeletion"] = true.into();
    owner
}

fn at(collection: &str, name: &str) -> String {
    format!("{collection}/{name}")
}

#[test]
fn dependents_and_theirs_are_deleted_after_their_owner() {
    let mut server = Server::start();
    let top = server.create(CONFIG_MAPS, "top", &[]);
    let middle = server.create(SECRETS, "middle", &[owner(&top)]);
    server.create(CONFIG_MAPS, "bottom", &[owner(&middle)]);
    let pod = json!({"metadata": {"name": "p", "ownerReferences": [owner(&middle)]},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    server.admin.must(201, "POST", "/api/v1/namespaces/default/pods", Some(&pod));
    let role = server.create(ROLES, "base", &[]);
    server.create(ROLES, "derived", &[owner(&role)]);
    server.create(CONFIG_MAPS, "of-role", &[owner(&role)]);
    server.settled();
    assert!(server.get(&at(CONFIG_MAPS, "bottom")).is_some());
    server.delete(&at(CONFIG_MAPS, "top"), "Background");
    server.delete(&at(ROLES, "base"), "Background");
    for path in [
        at(SECRETS, "middle"),
        at(CONFIG_MAPS, "bottom"),
        "/api/v1/namespaces/default/pods/p".to_owned(),
        at(ROLES, "derived"),
        at(CONFIG_MAPS, "of-role"),
    ] {
        server.gone(&path);
    }
}

#[test]
fn an_object_with_another_owner_stays_and_lets_go_of_the_one_that_is_gone() {
    let mut server = Server::start();
    let gone = server.create(CONFIG_MAPS, "gone", &[]);
    let kept = server.create(CONFIG_MAPS, "kept", &[]);
    server.create(SECRETS, "shared", &[owner(&gone), owner(&kept)]);
    server.delete(&at(CONFIG_MAPS, "gone"), "Background");
    wait::until("the reference is removed", || server.owners(&at(SECRETS, "shared")) == ["kept"]);
    server.delete(&at(CONFIG_MAPS, "kept"), "Background");
    server.gone(&at(SECRETS, "shared"));
}

#[test]
fn an_object_of_the_owners_name_is_not_the_owner() {
    let mut server = Server::start();
    let first = server.create(CONFIG_MAPS, "owner", &[]);
    server.create(SECRETS, "of-first", &[owner(&first)]);
    server.delete(&at(CONFIG_MAPS, "owner"), "Background");
    server.gone(&at(SECRETS, "of-first"));
    let second = server.create(CONFIG_MAPS, "owner", &[]);
    server.create(SECRETS, "of-second", &[owner(&second)]);
    server.create(SECRETS, "of-first-again", &[owner(&first)]);
    server.gone(&at(SECRETS, "of-first-again"));
    server.settled();
    assert!(server.get(&at(SECRETS, "of-second")).is_some());
}

#[test]
fn an_owner_that_is_deleted_in_the_foreground_goes_last() {
    let mut server = Server::start();
    let top = server.create(CONFIG_MAPS, "top", &[]);
    let middle = server.create(SECRETS, "middle", &[blocking(&top)]);
    let held = json!({"name": "bottom", "finalizers": [HOLD], "ownerReferences": [blocking(&middle)]});
    server.create_with(CONFIG_MAPS, held);
    let kept = server.create(CONFIG_MAPS, "kept", &[]);
    server.create(SECRETS, "shared", &[blocking(&top), owner(&kept)]);
    server.delete(&at(CONFIG_MAPS, "top"), "Foreground");
    wait::until("the last one is being deleted", || {
        server.get(&at(CONFIG_MAPS, "bottom")).unwrap()["metadata"]["deletionTimestamp"].is_string()
    });
    wait::until("the other owner stays", || server.owners(&at(SECRETS, "shared")) == ["kept"]);
    server.settled();
    for path in [at(CONFIG_MAPS, "top"), at(SECRETS, "middle")] {
        let metadata = server.get(&path).unwrap()["metadata"].clone();
        assert_eq!(metadata["finalizers"], json!(["foregroundDeletion"]), "{path}");
        assert!(metadata["deletionTimestamp"].is_string(), "{path}");
    }
    server.release(&at(CONFIG_MAPS, "bottom"));
    for path in [at(CONFIG_MAPS, "bottom"), at(SECRETS, "middle"), at(CONFIG_MAPS, "top")] {
        server.gone(&path);
    }
    assert!(server.get(&at(SECRETS, "shared")).is_some());
}

#[test]
fn a_dependent_that_does_not_block_is_not_waited_for() {
    let mut server = Server::start();
    let top = server.create(CONFIG_MAPS, "top", &[]);
    let held = json!({"name": "held", "finalizers": [HOLD], "ownerReferences": [owner(&top)]});
    server.create_with(SECRETS, held);
    server.delete(&at(CONFIG_MAPS, "top"), "Foreground");
    server.gone(&at(CONFIG_MAPS, "top"));
    wait::until("it is being deleted", || {
        server.get(&at(SECRETS, "held")).unwrap()["metadata"]["deletionTimestamp"].is_string()
    });
    server.release(&at(SECRETS, "held"));
    server.gone(&at(SECRETS, "held"));
}

#[test]
fn objects_that_own_each_other_do_not_wait_for_each_other() {
    let mut server = Server::start();
    let first = server.create(CONFIG_MAPS, "first", &[]);
    let second = server.create(SECRETS, "second", &[blocking(&first)]);
    let own = |object: &Value, owner: Value| {
        let mut object = object.clone();
        object["metadata"]["ownerReferences"] = json!([owner]);
        object
    };
    server.admin.must(200, "PUT", &at(CONFIG_MAPS, "first"), Some(&own(&first, blocking(&second))));
    let itself = server.create(CONFIG_MAPS, "itself", &[]);
    server.admin.must(200, "PUT", &at(CONFIG_MAPS, "itself"), Some(&own(&itself, blocking(&itself))));
    server.delete(&at(CONFIG_MAPS, "first"), "Foreground");
    server.delete(&at(CONFIG_MAPS, "itself"), "Foreground");
    for path in [at(CONFIG_MAPS, "first"), at(SECRETS, "second"), at(CONFIG_MAPS, "itself")] {
        server.gone(&path);
    }
}

#[test]
fn orphans_stay_without_a_reference() {
    let mut server = Server::start();
    let top = server.create(CONFIG_MAPS, "top", &[]);
    let kept = server.create(CONFIG_MAPS, "kept", &[]);
    for i in 0..150 {
        server.create(SECRETS, &format!("orphan-{i}"), &[blocking(&top)]);
    }
    server.create(SECRETS, "shared", &[owner(&kept), owner(&top)]);
    server.delete(&at(CONFIG_MAPS, "top"), "Orphan");
    server.gone(&at(CONFIG_MAPS, "top"));
    for i in 0..150 {
        assert!(server.owners(&at(SECRETS, &format!("orphan-{i}"))).is_empty());
    }
    assert_eq!(server.owners(&at(SECRETS, "shared")), ["kept"]);
    server.settled();
    assert!(server.get(&at(SECRETS, "orphan-0")).is_some());
}

/// AP-52: `DefaultGarbageCollectionPolicy` of the kinds. The request decides, where it says something.
#[test]
fn jobs_and_replication_controllers_leave_their_dependents_unless_they_are_told() {
    let mut server = Server::start();
    let template = |policy: &str| {
        json!({"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": policy}})
    };
    let all = "namespaces/default";
    for (collection, spec, leaves) in [
        (format!("/apis/batch/v1/{all}/jobs"), json!({"template": template("Never")}), true),
        (
            format!("/api/v1/{all}/replicationcontrollers"),
            json!({"selector": {"a": "b"}, "template": template("Always")}),
            true,
        ),
        (
            format!("/apis/apps/v1/{all}/replicasets"),
            json!({"selector": {"matchLabels": {"a": "b"}}, "template": template("Always")}),
            false,
        ),
        (
            format!("/apis/batch/v1/{all}/cronjobs"),
            json!({"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": template("Never")}}}),
            false,
        ),
    ] {
        for name in ["quiet", "told"] {
            let manifest = json!({"metadata": {"name": name}, "spec": spec});
            let made = server.admin.must(201, "POST", &collection, Some(&manifest));
            server.create(SECRETS, &format!("of-{name}"), &[owner(&made)]);
        }
        server.admin.must(200, "DELETE", &at(&collection, "quiet"), None);
        server.delete(&at(&collection, "told"), "Background");
        server.gone(&at(&collection, "quiet"));
        server.gone(&at(SECRETS, "of-told"));
        if leaves {
            assert!(server.owners(&at(SECRETS, "of-quiet")).is_empty(), "{collection}");
            server.delete(&at(SECRETS, "of-quiet"), "Background");
        }
        server.gone(&at(SECRETS, "of-quiet"));
    }
}

/// AP-52: events have no dependents, whatever a request says.
#[test]
fn an_event_is_deleted_at_once() {
    let mut server = Server::start();
    let events = "/api/v1/namespaces/default/events";
    for policy in ["Foreground", "Orphan"] {
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
        server.admin.must(201, "POST", events, Some(&event));
        server.delete(&at(events, "e"), policy);
        assert!(server.get(&at(events, "e")).is_none(), "{policy}");
    }
}

#[test]
fn owners_in_other_namespaces_are_none_and_owners_that_cannot_be_judged_hold() {
    let mut server = Server::start();
    server.admin.must(201, "POST", "/api/v1/namespaces", Some(&json!({"metadata": {"name": "other"}})));
    let elsewhere = server.create("/api/v1/namespaces/other/configmaps", "owner", &[]);
    server.create(SECRETS, "misplaced", &[owner(&elsewhere)]);
    server.gone(&at(SECRETS, "misplaced"));

    let unknown = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "name": "x", "uid": "u"});
    let absent = unknown("v1", "ConfigMap");
    server.create(SECRETS, "of-unknown", &[unknown("example.com/v1", "Widget"), absent.clone()]);
    server.create(SECRETS, "of-unknown-version", &[unknown("v7", "ConfigMap")]);
    server.create(ROLES, "of-namespaced", &[owner(&elsewhere), unknown("v1", "Node")]);
    server.settled();
    for path in [at(SECRETS, "of-unknown"), at(SECRETS, "of-unknown-version"), at(ROLES, "of-namespaced")] {
        assert!(server.get(&path).is_some(), "{path}");
    }
    let is_reported = |event: &Value| {
        event["reason"] == "OwnerRefInvalidNamespace" && event["involvedObject"]["name"] == "of-namespaced"
    };
    wait::until("it is reported", || {
        let events = server.get("/api/v1/namespaces/default/events").unwrap();
        events["items"].as_array().unwrap().iter().any(is_reported)
    });
}

#[test]
fn an_object_may_have_ten_thousand_owners_and_an_owner_a_thousand_dependents() {
    let mut server = Server::start();
    let kept = server.create(CONFIG_MAPS, "kept", &[]);
    let absent =
        |i: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": i.to_string()});
    let mut owners: Vec<Value> = (0..10_000).map(absent).collect();
    owners.insert(5_000, owner(&kept));
    server.create(SECRETS, "rich", &owners);
    wait::until("one is left", || server.owners(&at(SECRETS, "rich")) == ["kept"]);
    for i in 0..1_000 {
        server.create(SECRETS, &format!("child-{i}"), &[blocking(&kept)]);
    }
    server.delete(&at(CONFIG_MAPS, "kept"), "Foreground");
    server.gone(&at(CONFIG_MAPS, "kept"));
    let secrets = server.get(SECRETS).unwrap();
    let left = secrets["items"].as_array().unwrap().iter().map(|secret| &secret["metadata"]["name"]);
    let left: Vec<&Value> = left.filter(|name| name.as_str().unwrap().starts_with("child-")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(server.get(&at(SECRETS, "rich")).is_none());
}

/// A family of objects: for each that is there its owners, by name.
type Family = std::collections::BTreeMap<String, std::collections::BTreeSet<String>>;

/// The objects that remain after a deletion, computed by a naive model.
fn delete_in_model(family: &mut Family, name: &str, policy: &str) {
    family.remove(name);
    if policy == "Orphan" {
        for owners in family.values_mut() {
            owners.remove(name);
        }
        return;
    }
    loop {
        let there: Vec<String> = family.keys().cloned().collect();
        let lost = |owners: &std::collections::BTreeSet<String>| {
            !owners.is_empty() && owners.iter().all(|owner| !there.contains(owner))
        };
        let gone: Vec<String> =
            family.iter().filter(|(_, owners)| lost(owners)).map(|(name, _)| name.clone()).collect();
        if gone.is_empty() {
            family.values_mut().for_each(|owners| owners.retain(|owner| there.contains(owner)));
            return;
        }
        family.retain(|name, _| !gone.contains(name));
    }
}

#[test]
fn any_family_ends_as_a_simple_model_says() {
    let mut server = Server::start();
    for seed in 1..=6_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |limit: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % 1_000_003).unwrap() % limit
        };
        let (mut family, mut objects) = (Family::new(), Vec::new());
        for i in 0..24 {
            let name = format!("f-{seed}-{i}");
            let collection = [CONFIG_MAPS, SECRETS][below(2)];
            let mut owners: Vec<(String, Value)> = Vec::new();
            for _ in 0..if i < 4 { 0 } else { below(4) } {
                let (owner_name, _, object): &(String, &str, Value) = &objects[below(objects.len())];
                let reference = if below(2) == 0 { owner(object) } else { blocking(object) };
                if owners.iter().all(|(name, _)| name != owner_name) {
                    owners.push((owner_name.clone(), reference));
                }
            }
            let references: Vec<Value> = owners.iter().map(|(_, reference)| reference.clone()).collect();
            let object = server.create(collection, &name, &references);
            family.insert(name.clone(), owners.into_iter().map(|(name, _)| name).collect());
            objects.push((name, collection, object));
        }
        for _ in 0..5 {
            let (name, collection, _) = &objects[below(objects.len())];
            if !family.contains_key(name) {
                continue;
            }
            let policy = ["Background", "Foreground", "Orphan"][below(3)];
            server.delete(&at(collection, name), policy);
            delete_in_model(&mut family, name, policy);
            let agrees = |server: &mut Server| {
                let mut found = Family::new();
                for collection in [CONFIG_MAPS, SECRETS] {
                    for object in server.get(collection).unwrap()["items"].as_array().unwrap() {
                        let name = object["metadata"]["name"].as_str().unwrap();
                        let owners = object["metadata"]["ownerReferences"].as_array().cloned();
                        let owners = owners.unwrap_or_default();
                        if name.starts_with(&format!("f-{seed}-")) {
                            let owners =
                                owners.iter().map(|owner| owner["name"].as_str().unwrap().to_owned());
                            found.insert(name.to_owned(), owners.collect());
                        }
                    }
                }
                if found == family { Ok(()) } else { Err(format!("{found:?}, not {family:?}")) }
            };
            wait::until_ok(&format!("{policy} of {name} is done"), || agrees(&mut server));
            server.settled();
            agrees(&mut server).unwrap();
        }
    }
}
