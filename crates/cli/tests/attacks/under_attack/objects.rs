//! Attacks by the content of bodies.

use std::thread;
use std::time::{Duration, Instant};

use portcullis_testkit::https::{Client, Identity};
use serde_json::{Value, json};

use crate::alone;
use crate::honest::{Target as _, withstand};
use crate::served::Served;

const DEFAULT: &str = "/api/v1/namespaces/default";
/// How long an attack lasts at least.
const LONG: Duration = Duration::from_secs(3);

/// Sends the same request again and again on some connections. Any answer will do.
fn hammer(
    served: &Served,
    identity: &Identity,
    media_type: &str,
    method: &str,
    path: &str,
    body: &str,
) -> u16 {
    let end = Instant::now() + LONG;
    let header = format!("Content-Type: {media_type}");
    let codes: Vec<u16> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = Client::new(served.address(), identity).header(&header);
                    let mut code = 0;
                    while Instant::now() < end {
                        // A body that is no JSON is sent as text.
                        code = client.send(method, path, body.as_bytes()).unwrap().code;
                    }
                    code
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    codes[0]
}

#[test]
fn thousands_of_entries_in_lists_stall_nobody() {
    let _alone = alone();
    let served = Served::start(&[]);
    let writer = served.user("writer", &["create", "get", "update", "patch"], &["configmaps", "pods"]);
    let owners: Vec<Value> = (0..10_000)
        .map(|n| json!({"apiVersion": "v1", "kind": "Pod", "name": format!("p{n}"), "uid": format!("u{n}")}))
        .collect();
    let body = json!({"metadata": {"name": "c", "ownerReferences": owners}}).to_string();
    let dry_run = format!("{DEFAULT}/configmaps?dryRun=All");
    withstand(&served, "10,000 owner references", || {
        hammer(&served, &writer, "application/json", "POST", &dry_run, &body);
    });
    // An error in each entry.
    let body = json!({"metadata": {"name": "c", "finalizers": vec!["-"; 110_000]}}).to_string();
    withstand(&served, "110,000 invalid finalizers", || {
        assert_eq!(hammer(&served, &writer, "application/json", "POST", &dry_run, &body), 422);
    });
    let dry_run = format!("{DEFAULT}/pods?dryRun=All");
    // The longer list has more values than a body may have.
    for (count, code) in [(50_000, 400), (20_000, 201)] {
        let sources: Vec<Value> = (0..count)
            .map(|n| json!({"serviceAccountToken": {"path": format!("t{n}"), "audience": format!("a{n}")}}))
            .collect();
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "projected": {"sources": sources}}]}})
        .to_string();
        withstand(&served, &format!("{count} projected tokens"), || {
            assert_eq!(hammer(&served, &writer, "application/json", "POST", &dry_run, &pod), code);
        });
    }
}

#[test]
fn statuses_of_thousands_of_containers_stall_nobody() {
    let _alone = alone();
    let served = Served::start(&[]);
    let mut admin = served.admin();
    admin.must(201, "POST", "/api/v1/nodes", Some(&json!({"metadata": {"name": "thief"}})));
    let pod = json!({"metadata": {"name": "mine"}, "spec": {"nodeName": "thief",
        "containers": [{"name": "c", "image": "i"}]}});
    admin.must(201, "POST", &format!("{DEFAULT}/pods"), Some(&pod));
    let thief = served.node("thief");
    let statuses: Vec<Value> = (0..7_000)
        .map(|n| {
            json!({"name": format!("c{n}"), "image": "i", "imageID": "", "ready": true, "restartCount": 1,
            "state": {"running": {}}})
        })
        .collect();
    let status = format!("{DEFAULT}/pods/mine/status");
    let large = json!({"status": {"containerStatuses": statuses}}).to_string();
    withstand(&served, "7,000 container statuses", || {
        hammer(&served, &thief, "application/merge-patch+json", "PATCH", &status, &large);
        let small = r#"{"status":{"message":"x"}}"#;
        hammer(&served, &thief, "application/strategic-merge-patch+json", "PATCH", &status, small);
    });
}

#[test]
fn aliases_of_yaml_do_not_multiply() {
    let _alone = alone();
    let served = Served::start(&[]);
    let nobody = served.identity("nobody", &[]);
    let mut yaml = format!("kind: SelfSubjectAccessReview\nbig: &big [{}]\n", "[], ".repeat(10_000));
    for n in 0..97 {
        yaml.push_str(&format!("a{n}: *big\n"));
    }
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    withstand(&served, "97 aliases", || {
        assert_eq!(hammer(&served, &nobody, "application/yaml", "POST", path, &yaml), 400);
    });
}

#[test]
fn warnings_are_bounded() {
    let _alone = alone();
    let served = Served::start(&[]);
    let writer = served.user("writer", &["create"], &["configmaps"]);
    let mut body = json!({"metadata": {"name": "c"}});
    for n in 0..100 {
        body[format!("{n}{}", "x".repeat(25_000))] = json!(1);
    }
    let path = format!("{DEFAULT}/configmaps?dryRun=All");
    withstand(&served, "100 unknown fields with long names", || {
        assert_eq!(hammer(&served, &writer, "application/json", "POST", &path, &body.to_string()), 201);
    });
}

#[test]
fn events_of_one_node_are_bounded() {
    let _alone = alone();
    let served = Served::start(&[]);
    let mut admin = served.admin();
    admin.must(201, "POST", "/api/v1/nodes", Some(&json!({"metadata": {"name": "thief"}})));
    let thief = served.node("thief");
    let event = json!({"metadata": {"generateName": "e", "namespace": "default"}, "reason": "x",
        "message": "x".repeat(1_000_000), "involvedObject": {"kind": "Node", "name": "thief", "namespace": "default"},
        "source": {"component": "kubelet", "host": "thief"}})
    .to_string();
    withstand(&served, "events of a megabyte", || {
        hammer(&served, &thief, "application/json", "POST", &format!("{DEFAULT}/events"), &event);
    });
}
