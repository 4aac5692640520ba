//! Access reviews over HTTP (WH-70 to WH-94), asked by curl and compared with what Kubernetes answered.

use crate::common::{Answer, REVIEW, REVIEWS, Setup, Started, start, start_with};
use portcullis_server::registry::runtime_config::RuntimeConfig;
use portcullis_testkit::recorded;
use serde_json::{Value, json};

const GROUP: &str = "/apis/authorization.k8s.io/v1";

fn ask(server: &Started, path: &str, body: impl Into<Vec<u8>>) -> Answer {
    server.post(path, body).by(&server.admin()).send()
}

/// The objects that the cases make before they ask, as a state: what a cluster would hold by then.
fn state_of(cases: &[Value]) -> String {
    let made = cases.iter().filter(|case| case["method"] == "POST" && case["expect"]["code"] == 201);
    made.filter_map(|case| {
        let path = case["path"].as_str().unwrap();
        let kind = case["body"]["kind"].as_str().unwrap_or_default();
        let is_kept =
            ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ServiceAccount"].contains(&kind);
        if !is_kept || path.starts_with(GROUP) {
            return None;
        }
        let mut object = case["body"].clone();
        if let Some((_, rest)) = path.split_once("/namespaces/") {
            object["metadata"]["namespace"] = json!(rest.split('/').next().unwrap());
        }
        Some(object.to_string())
    })
    .collect::<Vec<_>>()
    .join("\n")
}

/// Who a case asks as: a client certificate for each user that the recording impersonates.
fn caller(server: &Started, case: &Value) -> Option<crate::common::Identity> {
    let Some(user) = case.get("imp") else { return Some(server.admin()) };
    if user.get("uid").is_some() || user.get("extra").is_some() {
        return None;
    }
    let groups: Vec<&str> =
        user["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    Some(server.user(user["user"].as_str()?, &groups))
}

/// Replays the reviews of a recording over the objects that it made before, decisions and reasons included.
fn replay(name: &str) -> usize {
    let cases = recorded::lines(name);
    let server = start_with(Setup { state: Some(state_of(&cases)), ..Setup::default() });
    let mut asked = 0;
    for case in &cases {
        let path = case["path"].as_str().unwrap();
        let id = case["id"].as_str().unwrap();
        if !path.starts_with(GROUP) {
            continue;
        }
        let Some(caller) = caller(&server, case) else { continue };
        let mut request = server.request(case["method"].as_str().unwrap(), path);
        if case["as"] != "anonymous" {
            request = request.by(&caller);
        }
        let headers = case["headers"].as_object();
        if headers.is_none_or(|h| !h.contains_key("Content-Type")) {
            request = request.header("Content-Type: application/json");
        }
        let answer = request.recorded(case).send();
        let expected = &case["expect"];
        assert_eq!(answer.code, expected["code"], "{id}: {}", answer.text());
        assert_eq!(answer.media_type(), expected["type"], "{id}");
        if case["compare"] == "code" {
            asked += 1;
            continue;
        }
        let (mut got, mut want) = (answer.json(), expected["body"].clone());
        if got["kind"] == "Status" {
            got.as_object_mut().unwrap().remove("message");
            for cause in
                got.pointer_mut("/details/causes").and_then(Value::as_array_mut).into_iter().flatten()
            {
                cause.as_object_mut().unwrap().remove("message");
            }
        } else {
            for document in [&mut got, &mut want] {
                // Identifiers are not in the recordings; the words of a reason are free, and so is the order of rules.
                document["spec"].as_object_mut().unwrap().remove("uid");
                let status = document["status"].as_object_mut().unwrap();
                status.remove("reason");
                for rules in ["resourceRules", "nonResourceRules"] {
                    if let Some(rules) = status.get_mut(rules).and_then(Value::as_array_mut) {
                        rules.sort_by_key(Value::to_string);
                    }
                }
            }
        }
        match case["compare"].as_str() {
            Some("subset") => assert!(contains(&got, &want), "{id}: {got} has not all of {want}"),
            _ => assert_eq!(got, want, "{id}"),
        }
        asked += 1;
    }
    asked
}

/// Whether a document says everything that a smaller one says.
fn contains(all: &Value, part: &Value) -> bool {
    match (all, part) {
        (Value::Object(all), Value::Object(part)) => {
            part.iter().all(|(key, value)| all.get(key).is_some_and(|found| contains(found, value)))
        }
        (Value::Array(all), Value::Array(part)) => {
            part.iter().all(|value| all.iter().any(|found| contains(found, value)))
        }
        _ => all == part,
    }
}

#[test]
fn reviews_of_others_are_answered_as_recorded() {
    assert!(replay("http/review-sar.jsonl") > 70);
}

#[test]
fn reviews_of_oneself_are_answered_as_recorded() {
    assert!(replay("http/review-self.jsonl") >= 5);
}

#[test]
fn an_answer_says_what_the_engine_said_wh_78() {
    let server = start();
    let answer = ask(&server, REVIEWS, REVIEW);
    assert_eq!(answer.code, 201);
    let review = answer.json();
    assert_eq!(review["status"], json!({"allowed": true, "reason": "fixed rule"}));
    assert_eq!(review["spec"], serde_json::from_str::<Value>(REVIEW).unwrap()["spec"]);
    let no = ask(&server, REVIEWS, REVIEW.replace("pods", "secrets")).json();
    assert_eq!(no["status"], json!({"allowed": false}));
    let denied = ask(&server, REVIEWS, REVIEW.replace("jane", "banned")).json();
    assert_eq!(denied["status"], json!({"allowed": false, "denied": true, "reason": "banned <for good>"}));
}

#[test]
fn a_self_review_is_about_the_caller_whatever_it_says() {
    let server = start();
    let body = r#"{"spec":{"user":"jane","groups":["system:masters"],"resourceAttributes":{"namespace":"default","verb":"get","resource":"pods"}}}"#;
    let path = format!("{GROUP}/selfsubjectaccessreviews");
    let allowed = |name: &str| {
        let answer = server.post(&path, body).by(&server.user(name, &[])).send();
        assert_eq!(answer.code, 201);
        assert!(answer.header("warning").contains("unknown field"), "AP-14: {}", answer.head);
        answer.json()["status"]["allowed"].as_bool().unwrap()
    };
    assert!(allowed("jane"));
    assert!(!allowed("joe"));
}

#[test]
fn a_rules_review_lists_for_the_caller_wh_90_to_wh_94() {
    const RBAC: &str = "rbac.authorization.k8s.io/v1";
    let binding = |kind: &str, name: &str, to: (&str, &str)| {
        let mut metadata = json!({"name": name});
        if kind == "RoleBinding" {
            metadata["namespace"] = json!("ns1");
        }
        let group = "rbac.authorization.k8s.io";
        json!({"apiVersion": RBAC, "kind": kind, "metadata": metadata,
            "subjects": [{"kind": "User", "name": "jane", "apiGroup": group}],
            "roleRef": {"apiGroup": group, "kind": to.0, "name": to.1}})
    };
    let rule =
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["jane", "ns1"]});
    let path_rule = json!({"verbs": ["get"], "nonResourceURLs": ["/only-jane"]});
    let objects = [
        json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "r", "namespace": "ns1"}, "rules": [rule]}),
        json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "c"}, "rules": [path_rule]}),
        binding("RoleBinding", "a", ("Role", "r")),
        binding("ClusterRoleBinding", "b", ("ClusterRole", "c")),
        binding("ClusterRoleBinding", "c", ("ClusterRole", "one")),
        binding("ClusterRoleBinding", "d", ("ClusterRole", "one")),
        binding("RoleBinding", "e", ("Role", "two")),
    ];
    let state = objects.map(|object| object.to_string()).join("\n");
    let server = start_with(Setup { state: Some(state), ..Setup::default() });
    let path = format!("{GROUP}/selfsubjectrulesreviews");
    let jane = server.user("jane", &[]);
    let body = r#"{"metadata":{"name":"x"},"spec":{"namespace":"ns1"},"status":{"incomplete":true}}"#;
    let answer = server.post(&path, body).by(&jane).send();
    assert_eq!(answer.code, 201);
    let mut review = answer.json();
    let mut status = review["status"].take();
    assert_eq!(
        review,
        json!({"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {},
            "status": null})
    );
    // Beside what the default policy gives to everybody.
    assert!(status["resourceRules"].as_array().unwrap().contains(&rule), "{status}");
    assert!(status["nonResourceRules"].as_array().unwrap().contains(&path_rule), "{status}");
    assert_eq!(status["incomplete"], false);
    let missing = |kind: &str, name: &str| format!("{kind}.rbac.authorization.k8s.io \"{name}\" not found");
    let (one, two) = (missing("clusterrole", "one"), missing("role", "two"));
    assert_eq!(status["evaluationError"].take(), format!("[{one}, {two}]"), "AC-52: each once");
    // A webhook lists nothing, and so the list may lack something.
    let server = start();
    let jane = server.user("jane", &[]);
    let status = server.post(&path, body).by(&jane).send().json()["status"].take();
    assert_eq!(
        status,
        json!({"resourceRules": [], "nonResourceRules": [], "incomplete": true,
            "evaluationError": "webhook authorizer does not support user rule resolution"})
    );
    let empty = server.post(&path, "{}").by(&jane).send().assert_status(400, "BadRequest");
    assert_eq!(empty["message"], "no namespace on request");
}

#[test]
fn bodies_are_json_or_yaml_and_no_larger_than_three_mebibytes_ap_10() {
    let server = start();
    for media in ["text/plain", "*/*", "application/merge-patch+json"] {
        let request = server.request("POST", REVIEWS).by(&server.admin());
        let answer = request.header(&format!("Content-Type: {media}")).body(REVIEW).send();
        let status = answer.assert_status(415, "UnsupportedMediaType");
        assert!(status["message"].as_str().unwrap().contains("application/json"));
    }
    for media in ["Content-Type: Application/JSON; charset=utf-8", "Content-Type;", "Content-Type:"] {
        let request = server.request("POST", REVIEWS).by(&server.admin());
        assert_eq!(request.header(media).body(REVIEW).send().code, 201, "{media}");
    }
    let yaml = "spec:\n  user: jane\n  nonResourceAttributes: {path: /, verb: get}\n";
    let request =
        server.request("POST", REVIEWS).by(&server.admin()).header("Content-Type: application/yaml");
    let answer = request.header("Accept: application/yaml").body(yaml).send();
    assert_eq!((answer.code, answer.media_type()), (201, "application/yaml"));
    assert!(answer.text().contains("  user: jane\n"), "{}", answer.text());
    let padded = |n: usize| format!("{REVIEW}{}", " ".repeat(n - REVIEW.len()));
    let limit = 3 * 1024 * 1024;
    for version in ["--http1.1", "--http2"] {
        let send = |n: usize, chunked: bool| {
            let request = server.post(REVIEWS, padded(n)).by(&server.admin()).word(version);
            if chunked { request.header("Transfer-Encoding: chunked").send() } else { request.send() }
        };
        assert_eq!(send(limit, false).code, 201);
        // Over HTTP/2 this curl drops an answer that comes before it has sent everything.
        if version == "--http1.1" {
            send(limit + 1, false).assert_status(413, "RequestEntityTooLarge");
            assert_eq!(send(limit, true).code, 201);
            send(limit + 1, true).assert_status(413, "RequestEntityTooLarge");
        }
    }
    let refused = server.post(REVIEWS, padded(limit + 1)).send();
    refused.assert_status(403, "Forbidden");
}

#[test]
fn a_client_that_takes_nothing_that_is_served_is_406_before_anything_else() {
    let server = start();
    for accept in
        ["text/html", "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1", "application/*"]
    {
        let request = server.post(REVIEWS, "not json").by(&server.admin());
        request.header(&format!("Accept: {accept}")).send().assert_status(406, "NotAcceptable");
    }
    let both = server.post(REVIEWS, REVIEW).by(&server.admin());
    let accept = "Accept: application/vnd.kubernetes.protobuf,application/json";
    assert_eq!(both.header(accept).send().media_type(), "application/vnd.kubernetes.protobuf");
}

#[test]
fn bodies_that_are_no_review_are_400() {
    let server = start();
    let version = r#"{"apiVersion":"authorization.k8s.io/v2","spec":{}}"#;
    let deep = "[".repeat(100_000);
    let wide = r#"{"spec":"#.repeat(5000);
    for body in [
        "{",
        "",
        "[]",
        "5",
        "\"x\"",
        "{} {}",
        "{}x",
        r#"{"spec":[]}"#,
        r#"{"spec":{"groups":"a"}}"#,
        version,
        &deep,
        &wide,
        "\u{feff}{}",
    ] {
        let answer = ask(&server, REVIEWS, body);
        assert_eq!(answer.code, 400, "{}", answer.text());
        answer.assert_status(400, "BadRequest");
    }
    ask(&server, REVIEWS, vec![b'{', b'"', 0xff, 0xfe, b'"', b':', b'1', b'}'])
        .assert_status(400, "BadRequest");
    ask(&server, REVIEWS, "null").assert_status(422, "Invalid");
}

#[test]
fn of_repeated_keys_the_last_one_counts_ap_13() {
    let server = start();
    let body = REVIEW.replace(r#""user":"jane""#, r#""user":"nobody","user":"jane""#);
    let answer = ask(&server, REVIEWS, body.as_str());
    assert_eq!(answer.json()["status"]["allowed"], true);
    assert!(answer.header("warning").contains(r#"duplicate field \"spec.user\""#), "{}", answer.head);
    let body = REVIEW.replace(r#""user":"jane""#, r#""user":"jane","user":"nobody""#);
    assert_eq!(ask(&server, REVIEWS, body.as_str()).json()["status"]["allowed"], false);
    let strict = format!("{REVIEWS}?fieldValidation=Strict");
    ask(&server, &strict, body.as_str()).assert_status(400, "BadRequest");
    let ignored = ask(&server, &format!("{REVIEWS}?fieldValidation=Ignore"), body);
    assert_eq!((ignored.code, ignored.header("warning")), (201, ""));
}

#[test]
fn parameters_are_checked_ap_14_to_ap_16() {
    let server = start();
    let long = "x".repeat(129);
    for (query, field) in [
        ("dryRun=Some", "dryRun"),
        ("dryRun=", "dryRun"),
        ("dryRun=All&dryRun=all", "dryRun"),
        ("fieldValidation=strict", "fieldValidation"),
        (&format!("fieldManager={long}"), "fieldManager"),
    ] {
        let status = ask(&server, &format!("{REVIEWS}?{query}"), REVIEW).assert_status(422, "Invalid");
        assert_eq!(status["details"]["kind"], "CreateOptions");
        assert_eq!(status["details"]["causes"][0]["field"], field);
    }
    for query in ["dryRun=All", "dryRun=All&dryRun=All", "fieldValidation=", "fieldManager=me", "pretty=true"]
    {
        assert_eq!(ask(&server, &format!("{REVIEWS}?{query}"), REVIEW).code, 201, "{query}");
    }
}

#[test]
fn only_the_collection_and_only_post_wh_84() {
    let server = start();
    for method in ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"] {
        let answer = server.request(method, REVIEWS).by(&server.admin()).send();
        assert_eq!(answer.assert_status(405, "MethodNotAllowed")["details"], json!({}));
        let named = server.request(method, &format!("{REVIEWS}/x")).by(&server.admin()).send();
        assert_eq!(named.assert_status(404, "NotFound")["details"], json!({}));
    }
    assert_eq!(server.request("HEAD", REVIEWS).by(&server.admin()).send().code, 405);
    for path in ["/localsubjectaccessreviews", "/namespaces/a/subjectaccessreviews", "/nope"] {
        ask(&server, &format!("{GROUP}{path}"), REVIEW).assert_status(404, "NotFound");
    }
    assert_eq!(ask(&server, &format!("{REVIEWS}/"), REVIEW).code, 201, "AP-4");
}

#[test]
fn the_old_version_reads_the_old_key_when_it_is_on_wh_121() {
    let path = "/apis/authorization.k8s.io/v1beta1/subjectaccessreviews";
    let body = |key: &str| {
        format!(
            r#"{{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview","spec":{{"{key}":["system:masters"],"nonResourceAttributes":{{"path":"/x","verb":"get"}}}}}}"#
        )
    };
    let server = start();
    ask(&server, path, body("group")).assert_status(404, "NotFound");
    let runtime = RuntimeConfig { authorization_v1beta1: true, ..RuntimeConfig::default() };
    let server = start_with(Setup { runtime, ..Setup::default() });
    let answer = ask(&server, path, body("group")).json();
    assert_eq!(answer["status"]["allowed"], true);
    assert_eq!(answer["spec"]["group"], json!(["system:masters"]));
    assert_eq!(answer["apiVersion"], "authorization.k8s.io/v1beta1");
    ask(&server, path, body("groups")).assert_status(422, "Invalid");
}

#[test]
fn a_review_in_protobuf_is_answered_like_the_same_review_in_json() {
    use base64::Engine as _;
    let server = start();
    let mut asked = 0;
    for line in recorded::lines("protobuf.jsonl") {
        if line["json"]["kind"] != "SubjectAccessReview" {
            continue;
        }
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(line["protobuf"].as_str().unwrap()).unwrap();
        let request = server.request("POST", REVIEWS).by(&server.admin());
        let protobuf =
            request.header("Content-Type: application/vnd.kubernetes.protobuf").body(bytes.clone()).send();
        let json = ask(&server, REVIEWS, line["json"].to_string());
        assert_eq!((protobuf.code, protobuf.json()), (json.code, json.json()));
        assert_eq!(protobuf.code, 201);
        for cut in 0..bytes.len() {
            let request = server.request("POST", REVIEWS).by(&server.admin());
            let broken =
                request.header("Content-Type: application/vnd.kubernetes.protobuf").body(&bytes[..cut]);
            let answer = broken.send();
            // Only behind the review itself there are two empty fields that nobody misses.
            let is_whole = answer.code == 201 && answer.json() == json.json() && cut >= bytes.len() - 4;
            assert!(is_whole || matches!(answer.code, 400 | 422), "cut at {cut}: {}", answer.text());
        }
        asked += 1;
    }
    assert!(asked > 0);
}
