//! Authentication and authorization of requests, checked with curl and openssl (AN-20 to AN-24, AN-40, AC-53 to AC-58).

use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use crate::common::{REVIEW, REVIEWS, Setup, start, start_with};
use portcullis_kinds::Kinds;
use portcullis_pki::ca::Usage;
use portcullis_pki::{CaBundle, CertificateAuthority};
use portcullis_server::api::documents::Documents;
use portcullis_server::api::route::Route;
use portcullis_server::authn::anonymous::Anonymous;
use portcullis_server::registry::runtime_config::RuntimeConfig;
use portcullis_testkit::tool;

#[test]
fn every_route_refuses_strangers_and_users_without_rights_unless_it_is_public() {
    // What `system:public-info-viewer` and, for every authenticated user, `system:discovery` and
    // `system:basic-user` grant. Nothing else may be here.
    let public = ["/healthz", "/livez", "/readyz", "/version"];
    let authenticated_get = |path: &str| path.starts_with("/api") || path.starts_with("/openapi/");
    let authenticated_post = |path: &str| path.contains("/selfsubject");

    let runtime = RuntimeConfig {
        authorization_v1beta1: true,
        rbac_v1alpha1: true,
        rbac_v1beta1: true,
        ..RuntimeConfig::default()
    };
    let server = start_with(Setup { runtime, ..Setup::default() });
    let nobody = server.user("nobody", &[]);
    let paths = Route::paths(&Documents::new(&Kinds::built_in(), runtime));
    assert!(paths.len() > 50);
    for path in &paths {
        for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS"] {
            let is_public = method == "GET" && public.contains(&path.as_str());
            let stranger = server.request(method, path).send();
            assert_eq!(stranger.code != 403, is_public, "anonymous {method} {path}: {}", stranger.code);
            let user = server.request(method, path).by(&nobody).send();
            let is_granted = is_public
                || method == "GET" && authenticated_get(path) && !path.contains("reviews")
                || method == "POST" && authenticated_post(path);
            assert_eq!(user.code != 403, is_granted, "nobody {method} {path}: {}", user.code);
        }
        let bad = server.request("GET", path).header("Authorization: Bearer nope").send();
        bad.assert_status(401, "Unauthorized");
    }
}

#[test]
fn every_endpoint_of_every_kind_refuses_strangers_and_users_without_rights() {
    let server = start();
    let nobody = server.user("nobody", &[]);
    let mut paths = Vec::new();
    for resource in portcullis_kinds::resources::ALL {
        let prefix = match resource.group {
            "" => format!("/api/{}", resource.version),
            group => format!("/apis/{group}/{}", resource.version),
        };
        let scope = if resource.is_namespaced { "/namespaces/default" } else { "" };
        let collection = format!("{prefix}{scope}/{}", resource.plural);
        paths.push(format!("{prefix}/{}", resource.plural));
        paths.push(format!("{collection}?watch=1&timeoutSeconds=1"));
        paths.push(format!("{prefix}/watch{scope}/{}", resource.plural));
        paths.push(format!("{prefix}/watch{scope}/{}/x", resource.plural));
        paths.push(format!("{collection}/x"));
        paths.extend(resource.subresources.iter().map(|sub| format!("{collection}/x/{}", sub.name)));
        // Other ways of writing the same, which authorizers may read differently.
        paths.push(format!("/{collection}"));
        paths.push(format!("{collection}//x"));
        paths.push(format!("{collection}/x/"));
        paths.push(collection);
    }
    assert!(paths.len() > 200, "{}", paths.len());
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        for (who, identity) in [("anonymous", None), ("nobody", Some(&nobody))] {
            let codes = server.codes(method, &paths, identity);
            assert_eq!(codes.len(), paths.len());
            for (path, code) in paths.iter().zip(codes) {
                assert_eq!(code, 403, "{who} {method} {path}");
            }
        }
    }
}

#[test]
fn only_what_was_authorized_is_served() {
    let server = start();
    let code = |method: &str, path: &str| server.request(method, path).by(&server.admin()).send().code;
    assert_eq!(code("GET", "/api/v1/namespaces/default"), 200);
    assert_eq!(code("GET", "/api/v1/namespaces/"), 200, "AP-4");
    // jane may get pods in the namespace default, and nothing else.
    let jane = server.user("jane", &[]);
    let ask = |method: &str, path: &str| server.request(method, path).by(&jane).send().code;
    assert_eq!(ask("GET", "/api/v1/namespaces/default/pods/x"), 404);
    assert_eq!(ask("GET", "/api/v1/namespaces/default/pods"), 403);
    assert_eq!(ask("DELETE", "/api/v1/namespaces/default/pods/x"), 403);
    // What authorizers take for a get of pods in that namespace, and is none.
    for path in [
        "/api/v1/namespaces/default/pods/x/y/z",
        "/api/v1/namespaces/default//pods/x",
        "//api/v1/namespaces/default/pods/x",
        "/api/v1/namespaces/default/pods/x//",
        "/api/v9/namespaces/default/pods/x",
    ] {
        assert!(matches!(ask("GET", path), 403 | 404), "{path}");
    }
    assert_eq!(ask("HEAD", "/api/v1/namespaces/default/pods/x"), 405, "AP-2");
    // Subresources with documents of their own are never the object.
    for path in ["log", "exec", "proxy", "binding", "eviction"] {
        let path = format!("/api/v1/namespaces/kube-system/pods/x/{path}");
        assert!(matches!(code("GET", &path), 404 | 405), "{path}");
    }
}

#[test]
fn refusals_have_the_words_of_kubernetes_ac_56_to_ac_58() {
    let server = start();
    let jane = server.user("jane", &[]);
    let forbidden = |method: &str, path: &str| {
        server.request(method, path).by(&jane).send().assert_status(403, "Forbidden")
    };
    let status = forbidden("GET", "/api/v1/namespaces/default/pods");
    assert_eq!(
        status["message"],
        r#"pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default""#
    );
    assert_eq!(status["details"], serde_json::json!({"kind": "pods"}));
    let status = forbidden("DELETE", "/apis/apps/v1/deployments/d/scale");
    assert_eq!(
        status["message"],
        r#"deployments.apps "d" is forbidden: User "jane" cannot delete resource "deployments/scale" in API group "apps" at the cluster scope"#
    );
    assert_eq!(status["details"], serde_json::json!({"group": "apps", "kind": "deployments", "name": "d"}));
    let status = forbidden("GET", "/metrics");
    assert_eq!(status["message"], r#"forbidden: User "jane" cannot get path "/metrics""#);
    assert_eq!(status["details"], serde_json::json!({}));
    let status = forbidden("GET", "/a%3Cb%3E%26%22c");
    assert_eq!(status["message"], r#"forbidden: User "jane" cannot get path "/a&lt;b&gt;&amp;\"c""#);

    let banned = server.user("banned", &[]);
    let answer = server.get("/livez").by(&banned).send();
    let status = answer.assert_status(403, "Forbidden");
    assert_eq!(
        status["message"], r#"forbidden: User "banned" cannot get path "/livez": banned <for good>"#,
        "the reason is not sanitized"
    );
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
}

#[test]
fn an_error_without_a_yes_is_500_and_with_a_yes_is_passed_over_ac_53() {
    let server = start();
    let answer = server.get("/x?a=1&b=2").by(&server.user("broken", &[])).send();
    assert_eq!((answer.code, answer.media_type()), (500, "text/plain"));
    assert!(
        answer.text().ends_with(": the index is &lt;gone&gt; &amp; lost\n")
            && answer.text().starts_with("Internal Server Error: \"/x?a=1&amp;b=2\""),
        "{}",
        answer.text()
    );
    assert_eq!(server.get("/livez").by(&server.user("shaky", &[])).send().code, 200);
    // A review about such users is answered, allowed only where the decision is yes (WH-80).
    for (user, allowed, error) in
        [("broken", false, "the index is <gone> & lost"), ("shaky", true, "one index is gone")]
    {
        let body = REVIEW.replace("jane", user);
        let answer = server.post(REVIEWS, body).by(&server.admin()).send();
        assert_eq!(answer.code, 201);
        assert_eq!(answer.json()["status"]["allowed"], allowed);
        assert_eq!(answer.json()["status"]["evaluationError"], error);
    }
}

#[test]
fn a_path_that_cannot_be_read_is_answered_before_anybody_is_asked_ac_5() {
    let server = start();
    let answer = server.get("/api/v1/watch").header("Authorization: Bearer nope").send();
    assert_eq!((answer.code, answer.media_type()), (500, "text/plain"));
    assert!(
        answer.text().contains(r#""/api/v1/watch": failed to create RequestInfo: unable to determine kind"#)
    );
    server.get("/%zz").send().assert_status(400, "BadRequest");
}

#[test]
fn credentials_that_fail_are_401_and_never_anonymous_an_13_an_24() {
    let server = start();
    let status = server.get("/livez").header("Authorization: Bearer nope").send();
    let body = status.assert_status(401, "Unauthorized");
    assert_eq!(body["message"], "Unauthorized");
    assert!(body.get("details").is_none());
    assert_eq!(status.header("www-authenticate"), "");

    let now = SystemTime::now();
    let foreign = CertificateAuthority::generate("portcullis-ca", now, Duration::from_secs(86400)).unwrap();
    let long_ago = now - Duration::from_secs(7200);
    let for_servers = server.issued(server.authority(), "jane", &["system:masters"], Usage::Server, now);
    let expired = server.issued(server.authority(), "jane", &["system:masters"], Usage::Client, long_ago);
    let unknown = server.issued(&foreign, "jane", &["system:masters"], Usage::Client, now);
    for (what, identity) in
        [("for servers", for_servers), ("expired", expired), ("of an unknown authority", unknown)]
    {
        for path in ["/livez", "/api", "/apis/authorization.k8s.io/v1/subjectaccessreviews"] {
            let answer = server.get(path).by(&identity).send();
            assert_eq!(answer.code, 401, "a certificate {what} at {path}");
        }
    }

    let nameless = server.user("", &["system:masters"]);
    assert_eq!(server.get("/livez").by(&nameless).send().code, 200, "AN-43: as if without certificate");
    assert_eq!(server.get("/api").by(&nameless).send().code, 403);
    let jane = server.user("jane", &[]);
    let both = server.get("/api").by(&jane).header("Authorization: Bearer nope").send();
    assert_eq!(both.code, 200, "a valid certificate counts beside a bad token");
    let basic = server.get("/livez").header("Authorization: Basic YTpi").send();
    assert_eq!(basic.code, 200, "no credentials that anybody reads");
}

#[test]
fn without_anonymous_requests_a_stranger_is_401() {
    let server = start_with(Setup { anonymous: Anonymous::Nowhere, ..Setup::default() });
    server.get("/livez").send().assert_status(401, "Unauthorized");
    assert_eq!(server.get("/livez").by(&server.admin()).send().code, 200);
}

#[test]
fn strangers_get_one_request_for_each_http2_connection_an_22() {
    let server = start();
    let two = |version: &str, identity: Option<&crate::common::Identity>| {
        let url = format!("https://localhost:{}/livez", server.address.port());
        let mut curl = tool::command("curl");
        curl.args(["-sS", version, "-o", "/dev/null", "-w", "%{num_connects}", "--cacert"])
            .arg(server.dir.join("ca.crt"));
        if let Some(identity) = identity {
            curl.arg("--cert").arg(&identity.certificate).arg("--key").arg(&identity.key);
        }
        curl.args([&url, "-o", "/dev/null", &url]);
        let out = curl.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    assert_eq!(two("--http2", None), "11", "a new connection each time");
    assert_eq!(two("--http2", Some(&server.admin())), "10");
    assert_eq!(two("--http1.1", None), "10");
}

#[test]
fn a_changed_bundle_counts_on_open_connections_an_40() {
    let server = start();
    let other =
        CertificateAuthority::generate("other", SystemTime::now(), Duration::from_secs(86400)).unwrap();
    let jane = server.user("jane", &[]);
    let theirs = server.issued(&other, "jane", &[], Usage::Client, SystemTime::now());
    assert_eq!(server.get("/api").by(&jane).send().code, 200);
    assert_eq!(server.get("/api").by(&theirs).send().code, 401);
    let bundle = CaBundle::from_pem(other.certificate_pem().as_bytes()).unwrap();
    server.app.authentication().replace_clients(bundle);
    assert_eq!(server.get("/api").by(&jane).send().code, 401);
    assert_eq!(server.get("/api").by(&theirs).send().code, 200);
}

#[test]
fn impersonation_without_a_user_is_refused_and_without_anything_is_none_an_121_an_130() {
    let server = start();
    for headers in [
        &["impersonate-group: g"][..],
        &["Impersonate-Uid: 1"],
        &["Impersonate-Extra-a: b"],
        &["Impersonate-Group;"],
        &["Impersonate-User;", "Impersonate-Group: x"],
    ] {
        let mut request = server.get("/api").by(&server.admin());
        for header in headers {
            request = request.header(header);
        }
        request.send().assert_status(400, "BadRequest");
    }
    for header in ["Impersonate-Other: x", "Impersonate-User;", "Impersonate-Uid;"] {
        assert_eq!(server.get("/api").by(&server.admin()).header(header).send().code, 200, "{header}");
    }
}

/// The user that the server authenticates a caller as.
fn whoami(request: crate::common::Request) -> serde_json::Value {
    let answer = request.send();
    assert_eq!(answer.code, 201, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()["status"]["userInfo"].clone()
}

const SELF_REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn with_rules(rules: &str) -> crate::common::Started {
    let role = |name: &str, rules: &str| {
        format!(
            r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{{"name":"{name}"}},"rules":{rules}}},
            {{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{{"name":"{name}"}},"roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"{name}"}},"subjects":[{{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"alice"}}]}}"#
        )
    };
    let state = format!(r#"{{"kind":"List","apiVersion":"v1","items":[{}]}}"#, role("imp", rules));
    start_with(Setup { state: Some(state), ..Setup::default() })
}

#[test]
fn an_impersonated_user_has_nothing_of_the_caller_an_124_to_an_126() {
    let server = with_rules("[]");
    let ask = |headers: &[&str]| {
        let mut request = server.post(SELF_REVIEW, "{}").by(&server.admin());
        for header in headers {
            request = request.header(header);
        }
        whoami(request)
    };
    assert_eq!(
        ask(&["Impersonate-User: bob"]),
        serde_json::json!({"username": "bob", "groups": ["system:authenticated"]})
    );
    assert_eq!(
        ask(&[
            "Impersonate-User: bob",
            "Impersonate-Group: a",
            "Impersonate-Group: b",
            "Impersonate-Uid: u",
            "Impersonate-Extra-Acme%2fX: 1",
            "Impersonate-Extra-Acme%2fX: 2"
        ]),
        serde_json::json!({"username": "bob", "uid": "u", "groups": ["a", "b", "system:authenticated"],
            "extra": {"acme/x": ["1", "2"]}})
    );
    assert_eq!(
        ask(&["Impersonate-User: system:serviceaccount:ns:sa"])["groups"],
        serde_json::json!(["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"])
    );
    assert_eq!(
        ask(&["Impersonate-User: system:serviceaccount:Ns:sa"])["groups"],
        serde_json::json!(["system:authenticated"])
    );
    // Nobody known may not even ask who they are.
    let anonymous =
        server.post(SELF_REVIEW, "{}").by(&server.admin()).header("Impersonate-User: system:anonymous");
    anonymous.send().assert_status(403, "Forbidden");
}

#[test]
fn who_may_impersonate_whom_is_asked_for_every_part_an_123_an_127() {
    let server = with_rules(
        r#"[{"verbs":["impersonate"],"apiGroups":[""],"resources":["users"],"resourceNames":["bob"]},
            {"verbs":["impersonate"],"apiGroups":[""],"resources":["groups"],"resourceNames":["g1"]},
            {"verbs":["impersonate"],"apiGroups":["authentication.k8s.io"],"resources":["userextras/scopes"],"resourceNames":["s1"]}]"#,
    );
    let alice = server.user("alice", &[]);
    let ask = |headers: &[&str]| {
        let mut request = server.post(SELF_REVIEW, "{}").by(&alice).header("Impersonate-User: bob");
        for header in headers {
            request = request.header(header);
        }
        request.send()
    };
    assert_eq!(ask(&[]).code, 201);
    assert_eq!(ask(&["Impersonate-Group: g1", "Impersonate-Extra-Scopes: s1"]).code, 201);
    for (headers, details) in [
        (
            &["Impersonate-Group: system:masters"][..],
            serde_json::json!({"kind": "groups", "name": "system:masters"}),
        ),
        (
            &["Impersonate-Uid: u"],
            serde_json::json!({"group": "authentication.k8s.io", "kind": "uids", "name": "u"}),
        ),
        (
            &["Impersonate-Extra-Scopes: s2"],
            serde_json::json!({"group": "authentication.k8s.io", "kind": "userextras", "name": "s2"}),
        ),
    ] {
        assert_eq!(ask(headers).assert_status(403, "Forbidden")["details"], details);
    }
    let other = server.post(SELF_REVIEW, "{}").by(&alice).header("Impersonate-User: eve").send();
    let status = other.assert_status(403, "Forbidden");
    assert_eq!(
        status["message"],
        r#"users "eve" is forbidden: User "alice" cannot impersonate resource "users" in API group "" at the cluster scope"#
    );
}

#[test]
fn constrained_impersonation_needs_the_request_and_the_user_an_140_to_an_145() {
    let server = with_rules(
        r#"[{"verbs":["impersonate:user-info"],"apiGroups":["authentication.k8s.io"],"resources":["users"],"resourceNames":["bob"]},
            {"verbs":["impersonate:user-info"],"apiGroups":["authentication.k8s.io"],"resources":["groups"]},
            {"verbs":["impersonate-on:user-info:create"],"apiGroups":["authentication.k8s.io"],"resources":["selfsubjectreviews"]}]"#,
    );
    let alice = server.user("alice", &[]);
    let ask = |path: &str, header: &str| {
        server.post(path, "{}").by(&alice).header("Impersonate-User: bob").header(header).send()
    };
    assert_eq!(ask(SELF_REVIEW, "Impersonate-Group: g").code, 201);
    // Not this request.
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let status = ask(path, "Impersonate-Group: g").assert_status(403, "Forbidden");
    assert_eq!(status["details"]["kind"], "selfsubjectaccessreviews");
    // Never this group.
    let status = ask(SELF_REVIEW, "Impersonate-Group: system:masters").assert_status(403, "Forbidden");
    assert_eq!(status["details"]["name"], "system:masters");
    // Not this user.
    let request = server.post(SELF_REVIEW, "{}").by(&alice).header("Impersonate-User: eve");
    let status = request.send().assert_status(403, "Forbidden");
    assert_eq!(
        status["details"],
        serde_json::json!({"group": "authentication.k8s.io", "kind": "users", "name": "eve"})
    );
}

#[test]
fn static_tokens_are_users_an_60_to_an_64() {
    let tokens = "secret,jane,u1,\"g1,g2\"\nplain,joe,u2";
    let server = start_with(Setup {
        tokens: Some(tokens),
        state: Some(r#"{"kind":"List","apiVersion":"v1","items":[]}"#.into()),
        ..Setup::default()
    });
    let ask = |token: &str| server.post(SELF_REVIEW, "{}").header(&format!("Authorization: Bearer {token}"));
    assert_eq!(
        whoami(ask("secret")),
        serde_json::json!({"username": "jane", "uid": "u1", "groups": ["g1", "g2", "system:authenticated"]})
    );
    assert_eq!(
        whoami(ask("plain")),
        serde_json::json!({"username": "joe", "uid": "u2", "groups": ["system:authenticated"]})
    );
    ask("other").send().assert_status(401, "Unauthorized");
    // AN-11: a certificate that fails does not keep the token from counting, and one that is good comes first.
    let long_ago = SystemTime::now() - Duration::from_secs(7200);
    let expired = server.issued(server.authority(), "eve", &[], Usage::Client, long_ago);
    assert_eq!(whoami(ask("secret").by(&expired))["username"], "jane");
    assert_eq!(whoami(ask("secret").by(&server.admin()))["username"], "kubernetes-admin");
}

#[test]
fn openssl_finds_the_certificate_good_and_the_handshake_proves_possession() {
    let server = start();
    let ask = |words: &[&str]| {
        let mut child = tool::command("openssl")
            .args(["s_client", "-connect", &server.address.to_string(), "-CAfile"])
            .arg(server.dir.join("ca.crt"))
            .args([
                "-verify_return_error",
                "-verify_hostname",
                "kubernetes.default.svc",
                "-alpn",
                "http/1.1",
                "-ign_eof",
            ])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let out = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
    };
    for version in ["-tls1_2", "-tls1_3"] {
        let text = ask(&[version]);
        assert!(text.contains("Verify return code: 0 (ok)") && text.contains("HTTP/1.1 200 OK"), "{text}");
    }
    assert!(!ask(&["-tls1_1"]).contains("HTTP/1.1 200 OK"));

    // A certificate with another one's key does not get through the handshake.
    let admin = server.admin();
    let jane = server.user("jane", &[]);
    let mixed = crate::common::Identity { certificate: admin.certificate.clone(), key: jane.key };
    assert!(server.get("/livez").by(&mixed).try_send().is_err());
    assert!(fs::read_to_string(&admin.certificate).unwrap().contains("BEGIN CERTIFICATE"));
}

#[test]
fn a_certificate_can_be_exchanged_while_serving() {
    let server = start();
    let before = portcullis_pki::KeyPair::generate().unwrap();
    let template = portcullis_pki::ca::Template {
        common_name: "other".into(),
        organizations: vec![],
        dns_names: vec!["elsewhere".into()],
        ip_addresses: vec![],
        usage: Usage::Server,
        lifetime: Duration::from_secs(3600),
    };
    let certificate = server.authority().issue(&template, &before, SystemTime::now()).unwrap();
    let pem = portcullis_pki::pem::encode("CERTIFICATE", &certificate);
    let other = portcullis_pki::KeyPair::generate().unwrap();
    assert!(server.tls.reload(pem.as_bytes(), &other).is_err(), "a key of another certificate");
    assert_eq!(server.get("/livez").send().code, 200, "and nothing has changed");
    server.tls.reload(pem.as_bytes(), &before).unwrap();
    assert!(
        server.get("/livez").try_send().unwrap_err().contains("subject name"),
        "the new one has another name"
    );
}

#[test]
fn a_resumed_session_is_still_the_same_client_and_nobody_elses() {
    let server = start();
    let admin = server.admin();
    let session = server.dir.join("session");
    let ask = |words: &[&str], file: &std::path::Path, with_certificate: bool| {
        let mut openssl = tool::command("openssl");
        openssl.args([
            "s_client",
            "-tls1_2",
            "-connect",
            &server.address.to_string(),
            "-alpn",
            "http/1.1",
            "-ign_eof",
        ]);
        openssl.args(words).arg(file);
        if with_certificate {
            openssl.arg("-cert").arg(&admin.certificate).arg("-key").arg(&admin.key);
        }
        openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = openssl.spawn().unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        child.stdin.take().unwrap().write_all(request).unwrap();
        String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
    };
    let first = ask(&["-sess_out"], &session, true);
    assert!(first.contains("New, TLSv1.2") && first.contains("HTTP/1.1 200 OK"), "{first}");
    let resumed = ask(&["-sess_in"], &session, false);
    assert!(resumed.contains("Reused, TLSv1.2") && resumed.contains("HTTP/1.1 200 OK"), "{resumed}");
    let stranger = ask(&["-sess_out"], &server.dir.join("other"), false);
    assert!(stranger.contains("HTTP/1.1 403"), "{stranger}");
    let resumed = ask(&["-sess_in"], &server.dir.join("other"), false);
    assert!(resumed.contains("Reused, TLSv1.2") && resumed.contains("HTTP/1.1 403"), "{resumed}");

    // The certificate is verified on a resumed session as on any other.
    let other =
        CertificateAuthority::generate("other", SystemTime::now(), Duration::from_secs(86400)).unwrap();
    let bundle = CaBundle::from_pem(other.certificate_pem().as_bytes()).unwrap();
    server.app.authentication().replace_clients(bundle);
    let resumed = ask(&["-sess_in"], &session, false);
    assert!(resumed.contains("Reused, TLSv1.2") && resumed.contains("HTTP/1.1 401"), "{resumed}");
}
