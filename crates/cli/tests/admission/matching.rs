//! Which writes a webhook is asked about. The expectations are those of the Kubernetes documentation of
//! `ValidatingWebhookConfiguration`.

use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::WebhookService;
use serde_json::{Value, json};

use crate::admission::support::{
    CONFIG_MAPS, MUTATING, Server, VALIDATING, allow, answer, config_map, configure, path, requests, rule,
    webhook,
};

/// The names of the webhooks that were asked since, sorted. A webhook is known by its path.
fn asked_since(service: &WebhookService, before: usize) -> Vec<String> {
    let mut names: Vec<String> = service.asked()[before..]
        .iter()
        .map(|asked| asked.line.split(['/', '?']).nth(1).unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// A webhook whose path is its name.
fn named(service: &WebhookService, name: &str, fields: &Value) -> Value {
    let mut webhook = webhook(service, &format!("{name}.example.com"), fields);
    webhook["clientConfig"]["url"] = format!("https://{}/{name}", service.address()).into();
    webhook
}

/// A request, its code, and the webhooks that are asked about it.
type Case = (&'static str, String, Option<Value>, u16, Vec<&'static str>);

#[test]
fn rules_selectors_and_conditions_choose_the_writes() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| allow(asked));
    let server = Server::start(&scratch, &[]);
    let mut admin = server.admin();
    let labelled = json!({"metadata": {"name": "team", "labels": {"kind": "team"}}});
    admin.must(201, "POST", "/api/v1/namespaces", Some(&labelled));
    let on = |operations: &[&str], group: &str, version: &str, resource: &str| {
        json!([rule(operations, group, version, resource)])
    };
    let scoped = |scope: &str| {
        let mut rule = rule(&["*"], "*", "*", "*");
        rule["scope"] = scope.into();
        json!({"rules": [rule]})
    };
    let condition = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    let every = json!([rule(&["*"], "", "*", "*/*")]);
    let hooks = [
        ("maps", json!({})),
        ("creates", json!({"rules": on(&["CREATE"], "", "v1", "configmaps")})),
        ("updates", json!({"rules": on(&["UPDATE"], "", "v1", "configmaps")})),
        ("other-group", json!({"rules": on(&["*"], "apps", "v1", "configmaps")})),
        ("old-version", json!({"rules": on(&["*"], "", "v1beta1", "configmaps")})),
        ("main-resources", json!({"rules": on(&["*"], "*", "*", "*")})),
        ("subresources", json!({"rules": on(&["*"], "*", "*", "*/status")})),
        ("all", json!({"rules": every})),
        ("cluster", scoped("Cluster")),
        ("namespaced", scoped("Namespaced")),
        ("team", json!({"rules": every, "namespaceSelector": {"matchLabels": {"kind": "team"}}})),
        (
            "not-team",
            json!({"rules": every, "namespaceSelector": {"matchExpressions": [
            {"key": "kind", "operator": "NotIn", "values": ["team"]}]}}),
        ),
        ("labelled", json!({"objectSelector": {"matchLabels": {"x": "y"}}})),
        ("by-name", condition("request.name == 'a' && request.userInfo.username == 'system:admin'")),
        ("by-data", condition("object != null && has(object.data) && object.data.a == 'b'")),
        ("by-old", condition("oldObject != null && oldObject.data.a == 'b'")),
        (
            "by-right",
            condition("request.name == 'a' && authorizer.requestResource.check('create').allowed()"),
        ),
        (
            "by-no-right",
            condition(
                "authorizer.serviceAccount('team', 'nobody').group('').resource('configmaps').check('get').allowed()",
            ),
        ),
        ("by-options", condition("request.dryRun && request.options.kind == 'CreateOptions'")),
    ];
    let hooks: Vec<Value> = hooks.iter().map(|(name, fields)| named(&service, name, fields)).collect();
    configure(&mut admin, VALIDATING, "hooks", &hooks);
    let admin_name = admin.must(
        201,
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        Some(&json!({})),
    )["status"]["userInfo"]["username"]
        .clone();
    let by_name = if admin_name == "system:admin" { vec!["by-name"] } else { vec![] };

    let in_team = "/api/v1/namespaces/team/configmaps";
    let mut labelled = config_map("b");
    labelled["metadata"]["labels"] = json!({"x": "y"});
    let empty = json!({"metadata": {"name": "empty"}});
    let node = json!({"metadata": {"name": "n"}});
    let status = json!({"status": {"conditions": []}});
    let usual = ["all", "main-resources", "maps", "namespaced"];
    let cases: Vec<Case> = vec![
        (
            "POST",
            CONFIG_MAPS.to_owned(),
            Some(config_map("a")),
            201,
            [&usual[..], &["by-data", "by-right", "creates", "not-team"], &by_name].concat(),
        ),
        (
            "POST",
            format!("{CONFIG_MAPS}?dryRun=All"),
            Some(empty),
            201,
            [&usual[..], &["by-options", "creates", "not-team"]].concat(),
        ),
        (
            "POST",
            in_team.to_owned(),
            Some(labelled.clone()),
            201,
            [&usual[..], &["by-data", "creates", "labelled", "team"]].concat(),
        ),
        // The old labels count as well.
        (
            "PUT",
            format!("{in_team}/b"),
            Some(config_map("b")),
            200,
            [&usual[..], &["by-data", "by-old", "labelled", "team", "updates"]].concat(),
        ),
        ("DELETE", format!("{in_team}/b"), None, 200, [&usual[..], &["by-old", "team"]].concat()),
        // Cluster-scoped objects are in no namespace: every selector of namespaces takes them.
        (
            "POST",
            "/api/v1/nodes".to_owned(),
            Some(node),
            201,
            vec!["all", "cluster", "main-resources", "not-team", "team"],
        ),
        (
            "PATCH",
            "/api/v1/nodes/n/status".to_owned(),
            Some(status),
            200,
            vec!["all", "not-team", "subresources", "team"],
        ),
        // Of a namespace its own labels.
        (
            "DELETE",
            "/api/v1/namespaces/team".to_owned(),
            None,
            200,
            vec!["all", "cluster", "main-resources", "team"],
        ),
        // Webhooks are not asked about webhooks, and not about reads.
        ("GET", CONFIG_MAPS.to_owned(), None, 200, vec![]),
        ("DELETE", format!("{}/hooks", path(VALIDATING)), None, 200, vec![]),
        ("DELETE", format!("{CONFIG_MAPS}/a"), None, 200, vec![]),
    ];
    for (method, path, body, code, mut expected) in cases {
        let before = service.asked().len();
        let answer = admin.ask(method, &path, body.as_ref()).unwrap();
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.text());
        expected.sort_unstable();
        assert_eq!(asked_since(&service, before), expected, "{method} {path}");
    }
}

#[test]
fn a_webhook_for_another_version_is_asked_in_it_or_with_exact_not_at_all() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| allow(asked));
    let server = Server::start(&scratch, &[]);
    let mut admin = server.admin();
    let of_v1 = json!([rule(&["*"], "autoscaling", "v1", "horizontalpodautoscalers")]);
    let hooks = [
        named(&service, "equivalent", &json!({"rules": of_v1})),
        named(&service, "exact", &json!({"rules": of_v1, "matchPolicy": "Exact"})),
    ];
    configure(&mut admin, VALIDATING, "hooks", &hooks);
    let scaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "s"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    });
    admin.must(
        201,
        "POST",
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
        Some(&scaler),
    );
    assert_eq!(asked_since(&service, 0), ["equivalent"]);
    let request = &requests(&service)[0];
    assert_eq!(request["resource"]["version"], "v1");
    assert_eq!(request["kind"]["version"], "v1");
    assert_eq!(request["requestResource"]["version"], "v2");
    assert_eq!(request["requestKind"]["version"], "v2");
    assert_eq!(request["object"]["apiVersion"], "autoscaling/v1");
    // The field of v1 for the metric of v2.
    assert_eq!(request["object"]["spec"]["targetCPUUtilizationPercentage"], 50);
}

#[test]
fn configurations_take_effect_with_their_answer_and_cannot_lock_themselves_in() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| {
        answer(asked, &json!({"allowed": false, "status": {"message": "never"}}))
    });
    let server = Server::start(&scratch, &[]);
    let mut admin = server.admin();
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map("a")));
    let every = json!({"rules": [rule(&["*"], "*", "*", "*/*")]});
    for kind in [MUTATING, VALIDATING] {
        configure(&mut admin, kind, "never", &[webhook(&service, "never.example.com", &every)]);
        let refused = admin.ask("POST", CONFIG_MAPS, Some(&config_map("b"))).unwrap();
        assert_eq!(refused.code, 400, "{}", refused.text());
        let message = refused.json()["message"].clone();
        assert_eq!(message, "admission webhook \"never.example.com\" denied the request: never");
        // Without the rule nobody is asked any more.
        let rules = json!({"webhooks": [webhook(&service, "never.example.com", &json!({"rules": []}))]});
        let patched = admin.ask("PATCH", &format!("{}/never", path(kind)), Some(&rules)).unwrap();
        assert_eq!(patched.code, 200, "{}", patched.text());
        admin.must(201, "POST", &format!("{CONFIG_MAPS}?dryRun=All"), Some(&config_map("b")));
        admin.must(200, "DELETE", &format!("{}/never", path(kind)), None);
    }
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map("b")));
}

#[test]
fn plugins_that_are_switched_off_ask_nobody() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| allow(asked));
    let off = "MutatingAdmissionWebhook,ValidatingAdmissionWebhook";
    let server = Server::start(&scratch, &["--disable-admission-plugins", off]);
    let mut admin = server.admin();
    for kind in [MUTATING, VALIDATING] {
        configure(&mut admin, kind, "w", &[webhook(&service, "w.example.com", &json!({}))]);
    }
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map("a")));
    assert!(service.asked().is_empty());
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| allow(asked));
    let server = Server::start(&scratch, &[]);
    let mut admin = server.admin();
    let condition = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    let url = |url: &str| json!({"clientConfig": {"url": url}});
    for (fields, expected) in [
        (condition("object.x"), "must evaluate to bool"),
        (condition("request.user == 'x'"), "undefined field 'user'"),
        (condition("authorizer.group('').check('get').allowed()"), "found no matching overload for 'check'"),
        (condition("has(object"), "compilation failed"),
        (url("http://127.0.0.1/x"), "'https' is the only allowed URL scheme"),
        (url("https://h/x?y=z"), "query parameters are not permitted in the URL"),
        (url("https://h/x#y"), "fragments are not permitted in the URL"),
        (url("https://me@h/x"), "user information is not permitted in the URL"),
        (json!({"timeoutSeconds": 31}), "the timeout value must be between 1 and 30 seconds"),
        (json!({"sideEffects": "Some"}), "sideEffects"),
    ] {
        let configuration =
            json!({"metadata": {"name": "w"}, "webhooks": [webhook(&service, "w.example.com", &fields)]});
        let refused = admin.ask("POST", &path(VALIDATING), Some(&configuration)).unwrap();
        assert_eq!(refused.code, 422, "{fields}: {}", refused.text());
        assert!(refused.text().contains(expected), "{fields}: {}", refused.text());
    }
}

#[test]
fn a_collection_is_deleted_by_one_review_for_each_object() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| allow(asked));
    let server = Server::start(&scratch, &[]);
    let mut admin = server.admin();
    for name in ["a", "b", "c"] {
        let mut map = config_map(name);
        map["metadata"]["labels"] = json!({"x": name});
        admin.must(201, "POST", CONFIG_MAPS, Some(&map));
    }
    configure(&mut admin, VALIDATING, "w", &[webhook(&service, "w.example.com", &json!({}))]);
    admin.must(200, "DELETE", &format!("{CONFIG_MAPS}?labelSelector=x in (a,c)").replace(' ', "%20"), None);
    let asked = requests(&service);
    let old: Vec<&Value> = asked.iter().map(|request| &request["oldObject"]["metadata"]["name"]).collect();
    assert_eq!(old, ["a", "c"]);
    for request in &asked {
        assert_eq!((&request["operation"], &request["object"]), (&json!("DELETE"), &Value::Null));
        assert!(request.get("name").is_none(), "{request}");
    }
}
