//! Bodies with as many entries as fit: they are answered, and none takes the time or the memory of more than it is.

use crate::common::start;
use portcullis_testkit::https::{Client, Identity};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// The kind of the owners is none that is served: the garbage collector leaves the object alone.
#[test]
fn ten_thousand_owner_references_are_created_turned_around_and_patched() {
    let server = start();
    let mut client = Client::new(server.address, &Identity::admin(&server.dir));
    let mut owners: Vec<Value> = (0..10_000)
        .map(|n| json!({"apiVersion": "example.org/v1", "kind": "Owner", "name": format!("o{n}"), "uid": format!("u{n}")}))
        .collect();
    let map = |owners: &[Value]| json!({"metadata": {"name": "owned", "ownerReferences": owners}});
    let count = |object: &Value| object["metadata"]["ownerReferences"].as_array().map(Vec::len);
    let mut twice = owners.clone();
    twice.extend(owners.clone());
    assert_eq!(count(&client.must(201, "POST", MAPS, Some(&map(&twice)))), Some(10_000));
    owners.reverse();
    let path = format!("{MAPS}/owned");
    let turned = client.must(200, "PUT", &path, Some(&map(&owners)));
    assert_eq!(turned["metadata"]["ownerReferences"][0]["name"], "o9999");
    let patch = serde_json::to_vec(&json!({"metadata": {"ownerReferences": owners}})).unwrap();
    let request = server.request("PATCH", &path).by(&server.admin());
    let patched = request.header("Content-Type: application/strategic-merge-patch+json").body(patch).send();
    assert_eq!((patched.code, count(&patched.json())), (200, Some(10_000)));
}

#[test]
fn five_thousand_container_statuses_of_one_name_are_written_and_changed() {
    let server = start();
    let mut client = Client::new(server.address, &Identity::admin(&server.dir));
    let account = json!({"metadata": {"name": "default"}});
    client.must(201, "POST", "/api/v1/namespaces/default/serviceaccounts", Some(&account));
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}],
        "restartPolicy": "Never", "automountServiceAccountToken": false}});
    client.must(201, "POST", PODS, Some(&pod));
    let statuses = |state: &Value| {
        let one = json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        json!({"status": {"containerStatuses": vec![one; 5_000]}})
    };
    let path = format!("{PODS}/p/status");
    let patch = |body: &Value| {
        let request = server.request("PATCH", &path).by(&server.admin());
        request.header("Content-Type: application/merge-patch+json").body(body.to_string()).send()
    };
    assert_eq!(patch(&statuses(&json!({"terminated": {"exitCode": 1}}))).code, 200);
    assert_eq!(patch(&json!({"status": {"message": "again"}})).code, 200);
    // AP-124: what has ended does not run again.
    let revived = patch(&statuses(&json!({"running": {}})));
    revived.assert_status(422, "Invalid");
}

#[test]
fn aliases_of_yaml_do_not_make_a_body_larger_than_it_may_be_ap_10() {
    let server = start();
    let create = |yaml: String| {
        let request = server.request("POST", MAPS).by(&server.admin());
        request.header("Content-Type: application/yaml").body(yaml).send()
    };
    let with_aliases = |length: usize, count: usize| {
        let aliases: String = (0..count).map(|n| format!("  k{n}: *text\n")).collect();
        format!("metadata: {{name: m{count}}}\nunknown: &text {}\ndata:\n{aliases}", "x".repeat(length))
    };
    assert_eq!(create(with_aliases(100, 90)).code, 201);
    create(with_aliases(100_000, 97)).assert_status(400, "BadRequest");
    create(with_aliases(2_700_000, 97)).assert_status(400, "BadRequest");
    let lists: String = (0..97).map(|_| "  - *list\n").collect();
    let list = vec!["0"; 100_000].join(",");
    let nested = format!("metadata: {{name: n}}\none: &list [{list}]\nall:\n{lists}");
    create(nested).assert_status(400, "BadRequest");
}

#[test]
fn long_names_of_unknown_fields_do_not_fill_the_answer_ap_14() {
    let server = start();
    let unknown: String = (0..100).map(|n| format!(r#","{n}{}":1"#, "x".repeat(25_000))).collect();
    let body = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}}{unknown}}}"#);
    let warned = server.post(MAPS, body("w")).by(&server.admin()).send();
    assert_eq!(warned.code, 201);
    // As many characters as kube-apiserver writes, and what is around them.
    assert!((3_000..8_000).contains(&warned.head.len()), "{} bytes", warned.head.len());
    let refused =
        server.post(&format!("{MAPS}?fieldValidation=Strict"), body("s")).by(&server.admin()).send();
    let status = refused.assert_status(400, "BadRequest");
    assert!(status["message"].as_str().unwrap().contains("strict decoding error: unknown field \"0xx"));
    assert!(refused.body.len() < 64 * 1024, "{} bytes", refused.body.len());
}

#[test]
fn a_list_with_an_error_in_each_entry_is_answered_with_the_first_of_them_ap_21() {
    let server = start();
    let owners = vec![json!({}); 110_000];
    let map = json!({"metadata": {"name": "wrong", "ownerReferences": owners}}).to_string();
    let account = json!({"metadata": {"name": "wrong"}, "subsets": vec![json!({}); 110_000]}).to_string();
    let endpoints = "/api/v1/namespaces/default/endpoints";
    for (path, body) in [(MAPS, map), (endpoints, account)] {
        let refused = server.post(path, body).by(&server.admin()).send();
        let status = refused.assert_status(422, "Invalid");
        assert!(status["details"]["causes"].as_array().unwrap().len() <= 1_000);
        assert!(refused.body.len() < 1 << 20, "{} bytes", refused.body.len());
    }
}

/// One request must not wait for the turn that it has itself.
#[test]
fn a_deletion_with_long_options_and_a_long_answer_is_answered() {
    let server = start();
    let mut client = Client::new(server.address, &Identity::admin(&server.dir));
    let options =
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "unknown": "x".repeat(200_000)}).to_string();
    for accept in ["application/vnd.kubernetes.protobuf", "application/json;as=Table;g=meta.k8s.io;v=v1"] {
        for number in 0..3 {
            let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"a": "x".repeat(100_000)}});
            client.must(201, "POST", MAPS, Some(&map));
        }
        let request = server.request("DELETE", MAPS).by(&server.admin()).body(options.clone());
        let request = request.header("Content-Type: application/json").header(&format!("Accept: {accept}"));
        assert_eq!(request.send().code, 200, "{accept}");
        assert_eq!(client.must(200, "GET", MAPS, None)["items"], json!([]));
    }
}
