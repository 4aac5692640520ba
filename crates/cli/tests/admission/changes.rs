//! Webhooks that change objects, and writes that are made again.

use std::sync::{Arc, Mutex};

use portcullis_testkit::https::Client;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::WebhookService;
use serde_json::{Value, json};

use crate::admission::support::{
    CONFIG_MAPS, MUTATING, Server, VALIDATING, allow, answer, authority, client_config, config_map,
    configure, patching, path, requests, rule, webhook,
};

#[test]
fn patches_are_applied_in_order_and_validated_afterwards() {
    let scratch = Scratch::new();
    let first = WebhookService::start(scratch.path(), |asked, _| {
        answer(asked, &patching(&json!([{"op": "add", "path": "/data/first", "value": "1"}])))
    });
    let second = WebhookService::start(scratch.path(), |asked, _| {
        let seen = &asked.review["request"]["object"]["data"]["first"];
        answer(asked, &patching(&json!([{"op": "add", "path": "/data/second", "value": seen}])))
    });
    let last = WebhookService::start(scratch.path(), |asked, _| allow(asked));
    let server = Server::start(&scratch, &[]);
    let mut admin = server.admin();
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    // By the names of the configurations, not by the time of their creation.
    configure(&mut admin, MUTATING, "b", &[webhook(&second, "second.example.com", &json!({}))]);
    configure(&mut admin, MUTATING, "a", &[webhook(&first, "first.example.com", &again)]);
    configure(&mut admin, VALIDATING, "c", &[webhook(&last, "last.example.com", &json!({}))]);
    let created = admin.must(201, "POST", CONFIG_MAPS, Some(&config_map("x")));
    let data = json!({"a": "b", "first": "1", "second": "1"});
    assert_eq!(created["data"], data);
    // The first is asked again, because the second has changed the object since; the second does not want to be.
    let seen = |service: &WebhookService| -> Vec<Value> {
        requests(service).iter().map(|request| request["object"]["data"].clone()).collect()
    };
    assert_eq!(seen(&first), [json!({"a": "b"}), data.clone()]);
    assert_eq!(seen(&second), [json!({"a": "b", "first": "1"})]);
    assert_eq!(seen(&last), [data]);
}

#[test]
fn patches_that_cannot_be_taken_refuse_the_write() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| {
        let patch = |operations: Value| patching(&operations);
        let response = match asked.review["request"]["name"].as_str().unwrap() {
            "renamed" => patch(json!([{"op": "replace", "path": "/metadata/name", "value": "other"}])),
            "moved" => {
                patch(json!([{"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}]))
            }
            "another-kind" => patch(json!([{"op": "replace", "path": "/kind", "value": "Secret"}])),
            "no-such-place" => patch(json!([{"op": "remove", "path": "/data/x"}])),
            "wrong-type" => patch(json!([{"op": "replace", "path": "/data", "value": 5}])),
            "invalid" => patch(json!([{"op": "add", "path": "/data/a b", "value": "x"}])),
            "merge" => json!({"allowed": true, "patchType": "MergePatch", "patch": "e30="}),
            "without-type" => json!({"allowed": true, "patch": "W10="}),
            "empty" => patch(json!([])),
            _ => patch(json!([{"op": "remove", "path": "/data"}])),
        };
        answer(asked, &response)
    });
    let server = Server::start(&scratch, &[]);
    let mut admin = server.admin();
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map("old")));
    let ignoring = json!({"failurePolicy": "Ignore"});
    configure(&mut admin, MUTATING, "w", &[webhook(&service, "w.example.com", &ignoring)]);
    for (name, code, why) in [
        ("renamed", 500, "metadata.name must not change"),
        ("moved", 500, "metadata.namespace must not change"),
        ("another-kind", 500, "does not match the expected kind"),
        ("no-such-place", 500, "cannot be applied"),
        ("wrong-type", 500, "cannot be applied"),
        ("invalid", 422, "data[a b]"),
        // What is no answer is a failure, which is ignored here.
        ("merge", 201, ""),
        ("without-type", 201, ""),
        ("empty", 201, ""),
    ] {
        let found = admin.ask("POST", CONFIG_MAPS, Some(&config_map(name))).unwrap();
        assert_eq!(found.code, code, "{name}: {}", found.text());
        assert!(found.text().contains(why), "{name}: {}", found.text());
        let stored = admin.ask("GET", &format!("{CONFIG_MAPS}/{name}"), None).unwrap().code;
        assert_eq!(stored, if code == 201 { 200 } else { 404 }, "{name}");
    }
    // There is nothing to change in what goes.
    let found = admin.ask("DELETE", &format!("{CONFIG_MAPS}/old"), None).unwrap();
    assert_eq!(found.code, 500, "{}", found.text());
}

#[test]
fn what_a_webhook_adds_is_checked_like_what_the_client_sent() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| {
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        answer(asked, &patching(&json!([{"op": "replace", "path": "/rules", "value": rules}])))
    });
    let tokens = scratch.write("tokens.csv", "jane,jane,1\n");
    let server = Server::start(&scratch, &["--token-auth-file", tokens.to_str().unwrap()]);
    let mut admin = server.admin();
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let own =
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}]);
    admin.must(201, "POST", roles, Some(&json!({"metadata": {"name": "roles"}, "rules": own})));
    let binding = json!({
        "metadata": {"name": "jane"}, "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "Role", "name": "roles", "apiGroup": "rbac.authorization.k8s.io"},
    });
    admin.must(201, "POST", &roles.replace("roles", "rolebindings"), Some(&binding));
    let mut jane = server.user("jane");
    jane.must(201, "POST", roles, Some(&json!({"metadata": {"name": "a"}, "rules": own})));
    let fields = json!({"rules": [rule(&["*"], "rbac.authorization.k8s.io", "*", "roles")]});
    configure(&mut admin, MUTATING, "w", &[webhook(&service, "w.example.com", &fields)]);
    let refused = jane.ask("POST", roles, Some(&json!({"metadata": {"name": "b"}, "rules": own}))).unwrap();
    refused.assert_status(403, "Forbidden");
}

/// A server whose webhook makes other writes while it is asked for the first time about `x`.
fn disturbed(scratch: &Scratch, disturb: fn(&mut Client)) -> (Server, WebhookService) {
    let other = Arc::<Mutex<Option<Client>>>::default();
    let its_client = Arc::clone(&other);
    let service = WebhookService::start(scratch.path(), move |asked, _| {
        let is_about_x = asked.review["request"]["name"] == "x";
        if let Some(mut client) = its_client.lock().unwrap().take_if(|_| is_about_x) {
            disturb(&mut client);
        }
        allow(asked)
    });
    let server = Server::start(scratch, &[]);
    let mut admin = server.admin();
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map("x")));
    let of_updates = json!({
        "rules": [rule(&["UPDATE"], "", "v1", "configmaps")],
        "matchConditions": [{"name": "c", "expression": "'new' in object.data"}],
    });
    configure(&mut admin, VALIDATING, "w", &[webhook(&service, "w.example.com", &of_updates)]);
    *other.lock().unwrap() = Some(server.admin());
    admin.must(200, "PATCH", &format!("{CONFIG_MAPS}/x"), Some(&json!({"data": {"new": "c"}})));
    (server, service)
}

fn set(client: &mut Client, value: Value) {
    client.must(200, "PATCH", &format!("{CONFIG_MAPS}/x"), Some(&json!({"data": {"other": value}})));
}

#[test]
fn a_write_that_is_made_again_is_asked_about_again_if_there_is_something_new() {
    let scratch = Scratch::new();
    let (server, service) = disturbed(&scratch, |client| set(client, json!("d")));
    let data: Vec<Value> =
        requests(&service).iter().map(|request| request["object"]["data"].clone()).collect();
    assert_eq!(data, [json!({"a": "b", "new": "c"}), json!({"a": "b", "new": "c", "other": "d"})]);
    let stored = server.admin().must(200, "GET", &format!("{CONFIG_MAPS}/x"), None);
    assert_eq!(stored["data"], data[1]);
}

#[test]
fn a_write_that_is_made_again_unchanged_is_not_asked_about_again() {
    let scratch = Scratch::new();
    let (server, service) = disturbed(&scratch, |client| {
        set(client, json!("d"));
        set(client, Value::Null);
    });
    assert_eq!(service.asked().len(), 1);
    let stored = server.admin().must(200, "GET", &format!("{CONFIG_MAPS}/x"), None);
    assert_eq!(stored["data"], json!({"a": "b", "new": "c"}));
    assert_ne!(
        stored["metadata"]["resourceVersion"],
        requests(&service)[0]["object"]["metadata"]["resourceVersion"]
    );
}

#[test]
fn redirects_are_followed_within_the_same_server() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| {
        use portcullis_testkit::webhook::Reply;
        let path = asked.line.split(' ').nth(1).unwrap();
        let name = asked.review["request"]["name"].as_str().unwrap_or_default();
        match (name, path) {
            ("once", "/there") | ("kept", _) => allow(asked),
            ("once", _) => Reply::Head(307, "Location: /there\r\n".to_owned()),
            ("forever", _) => Reply::Head(308, "Location: /admit\r\n".to_owned()),
            ("away", _) => Reply::Head(307, "Location: https://127.0.0.1:1/there\r\n".to_owned()),
            ("as-get", _) => Reply::Head(302, "Location: /there\r\n".to_owned()),
            other => panic!("{other:?}"),
        }
    });
    let server = Server::start(&scratch, &[]);
    let mut admin = server.admin();
    configure(&mut admin, VALIDATING, "w", &[webhook(&service, "w.example.com", &json!({}))]);
    for (name, code, calls) in
        [("kept", 201, 1), ("once", 201, 2), ("forever", 500, 10), ("away", 500, 1), ("as-get", 500, 1)]
    {
        let before = service.asked().len();
        let found = admin.ask("POST", CONFIG_MAPS, Some(&config_map(name))).unwrap();
        assert_eq!((found.code, service.asked().len() - before), (code, calls), "{name}: {}", found.text());
    }
}

#[test]
fn a_service_is_called_at_its_cluster_ip_by_its_name() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| allow(asked));
    // The addresses of services are those of this machine here.
    let server = Server::start(&scratch, &["--service-cluster-ip-range", "127.0.0.0/24"]);
    let mut admin = server.admin();
    let port = service.address().port();
    let hook = json!({
        "metadata": {"name": "hook"},
        "spec": {"clusterIP": "127.0.0.1", "ports": [{"port": port}], "selector": {"a": "b"}},
    });
    let client = |name: &str, port: u16| {
        json!({"clientConfig": {
            "service": {"name": name, "namespace": "default", "path": "/admit", "port": port},
            "caBundle": authority(&service),
        }})
    };
    configure(&mut admin, VALIDATING, "w", &[webhook(&service, "w.example.com", &client("hook", port))]);
    let refused = admin.ask("POST", CONFIG_MAPS, Some(&config_map("a"))).unwrap();
    let message = refused.assert_status(500, "InternalError")["message"].to_string();
    assert!(message.contains("service default/hook not found"), "{message}");
    let free = admin.ask("DELETE", "/api/v1/namespaces/default/services/kubernetes", None).unwrap();
    assert_eq!(free.code, 200, "{}", free.text());
    admin.must(201, "POST", "/api/v1/namespaces/default/services", Some(&hook));
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map("a")));
    let asked = &service.asked()[0];
    assert_eq!(asked.line, "POST /admit?timeout=10s HTTP/1.1");
    let host = format!("host: hook.default.svc:{port}");
    assert!(asked.head.contains(&host), "{:?}", asked.head);
    // A port that the service does not have.
    let other = json!({"webhooks": [webhook(&service, "w.example.com", &client("hook", 1))]});
    admin.must(200, "PATCH", &format!("{}/w", path(VALIDATING)), Some(&other));
    let refused = admin.ask("POST", CONFIG_MAPS, Some(&config_map("b"))).unwrap();
    assert!(refused.text().contains("it has no port 1"), "{}", refused.text());
    assert_eq!(client_config(&service)["caBundle"], authority(&service));
}

#[test]
fn only_a_server_with_the_right_certificate_is_told_of_a_write() {
    let scratch = Scratch::new();
    let service = WebhookService::start_as(scratch.path(), "selfsigned", |asked, _| allow(asked));
    let server = Server::start(&scratch, &[]);
    let mut admin = server.admin();
    configure(&mut admin, VALIDATING, "w", &[webhook(&service, "w.example.com", &json!({}))]);
    let refused = admin.ask("POST", CONFIG_MAPS, Some(&config_map("a"))).unwrap();
    refused.assert_status(500, "InternalError");
    assert!(service.asked().is_empty());
}
