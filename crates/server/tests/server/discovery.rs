//! Health, version, metrics and discovery (AP-100 to AP-104), against what Kubernetes answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{STARTED, Setup, Started, done, start, start_with};
use portcullis_server::api::check::Check;
use portcullis_server::registry::runtime_config::RuntimeConfig;
use portcullis_testkit::{recorded, wait};
use serde_json::{Value, json};

/// Asks what a recorded case asked, and compares what it compared.
fn check(server: &Started, case: &Value) {
    let id = case["id"].as_str().unwrap();
    let mut request =
        server.request(case["method"].as_str().unwrap(), case["path"].as_str().unwrap()).word("--http1.1");
    if case["as"] != "anonymous" {
        request = request.by(&server.admin());
    }
    if case["headers"]["Accept"].is_null() {
        request = request.header("Accept: application/json");
    }
    let answer = request.recorded(case).send();
    let expected = &case["expect"];
    assert_eq!(answer.code, expected["code"], "{id}: {}", answer.text());
    let compare = case["compare"].as_str().unwrap_or("full");
    if compare == "code" {
        return;
    }
    assert_eq!(answer.media_type(), expected["type"], "{id}");
    if let Some(text) = expected["text"].as_str() {
        assert_eq!(answer.text(), text, "{id}");
    }
    if let Some(body) = expected.get("body") {
        let got = answer.json();
        for (key, value) in body.as_object().unwrap() {
            assert_eq!(&got[key], value, "{id}: {key}");
        }
    }
}

#[test]
fn discovery_health_version_and_strangers_are_answered_as_recorded() {
    let server = start();
    let mut asked = 0;
    for case in recorded::lines("http/discovery.jsonl") {
        // Documents about tokens that servers issue are another matter.
        let path = case["path"].as_str().unwrap();
        if path.starts_with("/.well-known") || path.starts_with("/openid") {
            continue;
        }
        check(&server, &case);
        asked += 1;
    }
    assert!(asked > 75, "{asked}");
}

#[test]
fn strangers_with_any_credentials_are_answered_as_recorded() {
    let server = start();
    let mut asked = 0;
    for case in recorded::lines("http/authn-credentials.jsonl") {
        if case["as"] == "anonymous" && case.get("imp").is_none() {
            check(&server, &case);
            asked += 1;
        }
    }
    assert!(asked > 50, "{asked}");
}

#[test]
fn the_aggregated_form_is_for_those_who_ask_for_its_version_ap_100() {
    let server = start();
    let get = |path: &str, accept: &str| {
        server.get(path).by(&server.admin()).header(&format!("Accept: {accept}")).send()
    };
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for path in ["/api", "/apis", "/apis/"] {
        let answer = get(path, &format!("{aggregated},application/json"));
        assert_eq!(answer.json()["kind"], "APIGroupDiscoveryList");
        // client-go takes the document for the plain one unless the media type says all of this.
        let media = answer.header("content-type");
        for part in ["application/json", "g=apidiscovery.k8s.io", "v=v2", "as=apigroupdiscoverylist"] {
            assert!(media.contains(part), "{media}");
        }
        for plain in [&format!("application/json,{aggregated}"), "*/*"] {
            assert_ne!(get(path, plain).json()["kind"], "APIGroupDiscoveryList");
        }
        get(path, &aggregated.replace("v=v2", "v=v2beta1")).assert_status(406, "NotAcceptable");
        get(path, "text/plain").assert_status(406, "NotAcceptable");
        get(path, "application/*").assert_status(406, "NotAcceptable");
    }
    get("/apis/node.k8s.io/v1", aggregated).assert_status(406, "NotAcceptable");
}

#[test]
fn old_versions_are_described_only_when_they_are_on() {
    let get = |server: &Started, path: &str| server.get(path).by(&server.admin()).send();
    let server = start();
    let group = get(&server, "/apis/authorization.k8s.io").json();
    assert_eq!(group["versions"], json!([{"groupVersion": "authorization.k8s.io/v1", "version": "v1"}]));
    assert_eq!(group["kind"], "APIGroup");
    for version in ["authorization.k8s.io/v1beta1", "rbac.authorization.k8s.io/v1alpha1"] {
        get(&server, &format!("/apis/{version}")).assert_status(404, "NotFound");
    }

    let runtime = RuntimeConfig {
        authorization_v1beta1: true,
        rbac_v1alpha1: true,
        rbac_v1beta1: true,
        ..RuntimeConfig::default()
    };
    let server = start_with(Setup { runtime, ..Setup::default() });
    let names = |version: &str| {
        let list = get(&server, &format!("/apis/{version}")).json();
        assert_eq!(list["groupVersion"], version);
        let resources = list["resources"].as_array().unwrap();
        resources.iter().map(|r| r["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let reviews = [
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
    ];
    for version in ["v1", "v1beta1"] {
        assert_eq!(names(&format!("authorization.k8s.io/{version}")), reviews);
    }
    let roles = ["clusterrolebindings", "clusterroles", "rolebindings", "roles"];
    for version in ["v1", "v1beta1", "v1alpha1"] {
        assert_eq!(names(&format!("rbac.authorization.k8s.io/{version}")), roles);
    }
}

#[test]
fn fields_are_described_to_those_who_ask() {
    let server = start();
    let get = |path: &str| server.get(path).by(&server.admin()).send();
    let index = get("/openapi/v3").json();
    let paths = index["paths"].as_object().unwrap();
    assert!(paths.contains_key("api/v1") && paths.contains_key("apis/rbac.authorization.k8s.io/v1"));
    for entry in paths.values() {
        let document = get(entry["serverRelativeURL"].as_str().unwrap()).json();
        assert_eq!(document["openapi"], "3.0.0");
    }
    assert_eq!(get("/openapi/v3/apis/nope/v1").code, 404);
    server.post("/openapi/v3", "{}").by(&server.admin()).send().assert_status(405, "MethodNotAllowed");
    assert_eq!(get("/openapi/v2").json()["swagger"], "2.0");
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let answer = server.get("/openapi/v2").by(&server.admin()).header(&format!("Accept: {protobuf}")).send();
    assert_eq!(answer.header("content-type"), "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    // Field 1, `swagger`, comes first in the message.
    assert!(answer.body.starts_with(b"\x0a\x032.0"));
    let other = protobuf.replace('@', ".");
    let same = server.get("/openapi/v2").by(&server.admin()).header(&format!("Accept: {other}")).send();
    assert!(same.body == answer.body);
    server
        .get("/openapi/v2")
        .by(&server.admin())
        .header("Accept: text/plain")
        .send()
        .assert_status(406, "NotAcceptable");
}

/// As RFC 9110 says: 304 for who has the document, the document for others.
#[test]
fn documents_of_openapi_are_sent_once_to_those_who_keep_them() {
    let server = start();
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    for (path, accept) in [
        ("/openapi/v3", "application/json"),
        ("/openapi/v3/api/v1", "application/json"),
        ("/openapi/v2", "application/json"),
        ("/openapi/v2", protobuf),
    ] {
        let ask = |headers: &[String]| {
            let mut request = server.get(path).by(&server.admin()).header(&format!("Accept: {accept}"));
            for header in headers {
                request = request.header(header);
            }
            request.send()
        };
        let whole = ask(&[]);
        // The tag is in upper case, which the head of an answer does not show.
        let tag = whole.header("etag").to_uppercase();
        assert_eq!((whole.code, tag.starts_with('"') && tag.len() > 10), (200, true), "{path}: {tag}");
        for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
            let answer = ask(&[format!("If-None-Match: {known}")]);
            assert_eq!((answer.code, answer.body.len()), (304, 0), "{path}: {known}");
            assert_eq!(answer.header("etag").to_uppercase(), tag, "{path}");
        }
        let other = ask(&["If-None-Match: \"other\"".to_owned()]);
        assert_eq!(other.code, 200);
        assert!(other.body == whole.body, "{path}: stays the same");
        if path != "/openapi/v3" {
            let packed = ask(&["Accept-Encoding: gzip".to_owned()]);
            assert_eq!(packed.header("content-encoding"), "gzip", "{path}");
            assert!(packed.body.len() < whole.body.len() / 4, "{path}");
        }
    }
    let (json, protobuf) = (
        server.get("/openapi/v2").by(&server.admin()).send(),
        server.get("/openapi/v2").by(&server.admin()).header(&format!("Accept: {protobuf}")).send(),
    );
    assert_ne!(json.header("etag"), protobuf.header("etag"), "each form has its own");
}

#[test]
fn a_check_that_fails_is_named_to_all_and_explained_to_those_who_may_ask() {
    let is_ready = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_ready);
    let run =
        Box::new(
            move || if flag.load(Ordering::Relaxed) { Ok(()) } else { Err("no pods seen yet".to_owned()) },
        );
    let checks = vec![Check { name: "index", endpoints: Check::READINESS, run }];
    let server = start_with(Setup { checks, ..Setup::default() });
    let get = |path: &str| server.get(path).send();
    let answer = get("/readyz");
    assert_eq!(answer.code, 500);
    assert_eq!(
        answer.text(),
        format!(
            "[+]ping ok\n{STARTED}[-]index failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n"
        )
    );
    assert_eq!(get("/livez").text(), "ok", "it is not a reason to restart");
    assert_eq!(get("/livez?verbose").text(), format!("[+]ping ok\n{STARTED}livez check passed\n"));
    assert_eq!(
        get("/readyz?verbose&exclude=index").text(),
        format!("[+]ping ok\n{STARTED}[+]index excluded: ok\n[+]shutdown ok\nreadyz check passed\n")
    );
    let explained = server.get("/readyz/index").by(&server.admin()).send();
    assert_eq!((explained.code, explained.text()), (500, "internal server error: no pods seen yet\n"));
    get("/readyz/index").assert_status(403, "Forbidden");
    is_ready.store(true, Ordering::Relaxed);
    assert_eq!(get("/readyz").text(), "ok");
}

#[test]
fn metrics_count_requests_and_decisions_without_labels_of_the_callers_choice() {
    let server = start();
    let admin = server.admin();
    assert_eq!(server.post(crate::common::REVIEWS, crate::common::REVIEW).by(&admin).send().code, 201);
    assert_eq!(server.post(crate::common::REVIEWS, "{").by(&admin).send().code, 400);
    for path in ["/secret-path-1", "/apis/g/v1/secret-path-2"] {
        assert_eq!(server.get(path).send().code, 403);
    }
    assert_eq!(server.request("BREW", "/livez").send().code, 403);
    let answer = server.get("/metrics").by(&admin).send();
    let text = answer.text();
    for line in [
        r#"apiserver_request_total{verb="POST",group="authorization.k8s.io",version="v1",resource="subjectaccessreviews",subresource="",scope="resource",component="apiserver",code="201",dry_run=""} 1"#,
        r#"apiserver_request_total{verb="POST",group="authorization.k8s.io",version="v1",resource="subjectaccessreviews",subresource="",scope="resource",component="apiserver",code="400",dry_run=""} 1"#,
        r#"authorization_attempts_total{result="no-opinion"} 3"#,
        r#"apiserver_request_duration_seconds_count{verb="POST",group="authorization.k8s.io",version="v1",resource="subjectaccessreviews",subresource="",scope="resource",component="apiserver",dry_run=""} 2"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("secret-path") && !text.contains("BREW"), "{text}");
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
}

#[test]
fn the_documents_of_a_custom_kind_follow_its_definition() {
    let server = start_with(Setup { is_cluster: true, ..Setup::default() });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let named = |field: &str| {
        let spec = json!({"type": "object", "properties": {field: {"type": "string"}}});
        json!({"type": "object", "properties": {"spec": spec}})
    };
    let definition = json!({
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": named("first")}},
            ],
        },
    });
    done(&server, "POST", definitions, &definition, 201);
    let v3 = "/openapi/v3/apis/example.org/v1";
    let document = || server.get(v3).by(&server.admin()).send();
    wait::until("the kind is described", || document().code == 200);
    let field = |name: &str| {
        format!("/components/schemas/org.example.v1.Widget/properties/spec/properties/{name}/type")
    };
    let (first, again) = (document(), document());
    assert_eq!(first.json().pointer(&field("first")).unwrap(), "string");
    assert_eq!(first.header("etag"), again.header("etag"));

    let patch = json!([
        {"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": named("second")},
    ]);
    let request = server.request("PATCH", &format!("{definitions}/widgets.example.org")).by(&server.admin());
    let patched = request.header("Content-Type: application/json-patch+json").body(patch.to_string()).send();
    assert_eq!(patched.code, 200, "{}", patched.text());
    wait::until("the document changes", || document().json().pointer(&field("second")).is_some());
    let second = document();
    assert_eq!(second.json().pointer(&field("first")), None);
    assert_ne!(first.header("etag"), second.header("etag"));
    let v2 = server.get("/openapi/v2").by(&server.admin()).send().json();
    let properties = &v2["definitions"]["org.example.v1.Widget"]["properties"]["spec"]["properties"];
    assert_eq!(properties.as_object().unwrap().keys().collect::<Vec<_>>(), ["second"]);

    done(&server, "DELETE", &format!("{definitions}/widgets.example.org"), &Value::Null, 200);
    wait::until("the document is gone", || document().code == 404);
}
