//! Clients that claim another identity, and too many clients.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::common::{Identity, Started, start};
use portcullis_pki::CertificateAuthority;
use portcullis_pki::ca::Usage;
use portcullis_testkit::tool;

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const WHO_AM_I: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;

fn openssl(words: &[&str]) {
    tool::run("openssl", words);
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A certificate with a changed byte in the middle of its name.
fn damaged(server: &Started, good: &Identity) -> Identity {
    let der = server.dir.join("damaged.der");
    openssl(&["x509", "-in", text(&good.certificate), "-outform", "DER", "-out", text(&der)]);
    let mut bytes = fs::read(&der).unwrap();
    let at = bytes.windows(4).position(|window| window == b"jane").unwrap();
    bytes[at..at + 4].copy_from_slice(b"root");
    fs::write(&der, bytes).unwrap();
    let certificate = server.dir.join("damaged.crt");
    openssl(&["x509", "-inform", "DER", "-in", text(&der), "-out", text(&certificate)]);
    Identity { certificate, key: good.key.clone() }
}

/// A certificate that another client has signed as if it were an authority.
fn by_a_client(server: &Started, client: &Identity) -> Identity {
    let (key, request) = (server.dir.join("by-client.key"), server.dir.join("by-client.csr"));
    let certificate = server.dir.join("by-client.crt");
    openssl(&[
        "req",
        "-new",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        text(&key),
        "-out",
        text(&request),
        "-subj",
        "/O=system:masters/CN=root",
    ]);
    openssl(&[
        "x509",
        "-req",
        "-in",
        text(&request),
        "-CA",
        text(&client.certificate),
        "-CAkey",
        text(&client.key),
        "-CAcreateserial",
        "-days",
        "1",
        "-out",
        text(&certificate),
    ]);
    let chain = fs::read_to_string(&certificate).unwrap() + &fs::read_to_string(&client.certificate).unwrap();
    fs::write(&certificate, chain).unwrap();
    Identity { certificate, key }
}

/// One that vouches for itself, under the name of the authority.
fn by_itself(server: &Started) -> Identity {
    let (key, certificate) = (server.dir.join("self.key"), server.dir.join("self.crt"));
    openssl(&[
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-keyout",
        text(&key),
        "-out",
        text(&certificate),
        "-subj",
        "/CN=portcullis-ca",
    ]);
    Identity { certificate, key }
}

#[test]
fn a_certificate_that_is_bad_in_any_way_lets_nobody_in() {
    let server = start();
    let now = SystemTime::now();
    let day = Duration::from_secs(24 * 3600);
    let masters = ["system:masters"];
    let issue = |usage, at| server.issued(server.authority(), "root", &masters, usage, at);
    let jane = server.user("jane", &[]);
    let other = CertificateAuthority::generate("portcullis-ca", now, day).unwrap();
    for (name, identity) in [
        ("expired", issue(Usage::Client, now - 400 * day)),
        ("not yet valid", issue(Usage::Client, now + 30 * day)),
        ("for servers", issue(Usage::Server, now)),
        (
            "of another authority with the same name",
            server.issued(&other, "root", &masters, Usage::Client, now),
        ),
        (
            "of the authority itself",
            Identity { certificate: server.dir.join("ca.crt"), key: server.dir.join("ca.key") },
        ),
        ("changed after it was signed", damaged(&server, &jane)),
        ("signed by a client", by_a_client(&server, &jane)),
        ("signed by itself", by_itself(&server)),
    ] {
        // Either the handshake fails or nobody is recognised; never is the request served, not even as a stranger's.
        if let Ok(answer) = server.get("/livez").by(&identity).try_send() {
            assert_eq!(answer.code, 401, "{name}");
        }
        assert_eq!(server.get("/livez").send().text(), "ok", "{name}");
    }
    assert_eq!(server.get("/livez").by(&jane).send().text(), "ok");
}

#[test]
fn headers_that_only_a_proxy_may_set_change_nothing() {
    let server = start();
    let jane = server.user("jane", &[]);
    let forged = [
        "X-Remote-User: root",
        "X-Remote-Uid: 0",
        "X-Remote-Group: system:masters",
        "X-Remote-Extra-Scopes: all",
        "X_Remote_User: root",
        "X-Forwarded-User: root",
        "X-Forwarded-For: 127.0.0.1",
        "X-Client-Cert: root",
        "SSL-Client-Subject-DN: CN=root,O=system:masters",
        "Forwarded: for=127.0.0.1",
        "X-HTTP-Method-Override: DELETE",
        "X-Original-URL: /livez",
    ];
    for version in ["--http1.1", "--http2"] {
        let ask = |who: Option<&Identity>, method: &str, path: &str, body: &str| {
            let mut curl =
                server.request(method, path).word(version).header("Content-Type: application/json");
            for header in forged {
                curl = curl.header(header);
            }
            if let Some(who) = who {
                curl = curl.by(who);
            }
            if !body.is_empty() {
                curl = curl.body(body);
            }
            curl.send()
        };
        let who = ask(Some(&jane), "POST", WHO, WHO_AM_I).json();
        assert_eq!(who["status"]["userInfo"]["username"], "jane");
        assert_eq!(who["status"]["userInfo"]["groups"], serde_json::json!(["system:authenticated"]));
        ask(None, "POST", WHO, WHO_AM_I).assert_status(403, "Forbidden");
        ask(None, "GET", "/metrics", "").assert_status(403, "Forbidden");
        ask(Some(&jane), "GET", "/metrics", "").assert_status(403, "Forbidden");
        let status = ask(None, "GET", "/api/v1/secrets", "").assert_status(403, "Forbidden");
        assert!(status["message"].as_str().unwrap().contains("system:anonymous"), "{status}");
    }
}

#[test]
fn impersonation_is_for_those_who_may() {
    let server = start();
    let jane = server.user("jane", &[]);
    for headers in [
        &["Impersonate-User: root"][..],
        &["impersonate-user: kubernetes-admin", "Impersonate-Group: system:masters"],
        &["Impersonate-User: system:node:n0", "Impersonate-Group: system:nodes"],
        &["Impersonate-User: jane", "Impersonate-Uid: 0"],
        &["Impersonate-User: jane", "Impersonate-Extra-Scopes: all"],
        &["Impersonate-User: system:serviceaccount:kube-system:default"],
        &["Impersonate-User: jane", "Impersonate-User: root"],
    ] {
        for who in [None, Some(&jane)] {
            let mut curl = server.post(WHO, WHO_AM_I);
            for header in headers {
                curl = curl.header(header);
            }
            if let Some(who) = who {
                curl = curl.by(who);
            }
            curl.send().assert_status(403, "Forbidden");
        }
    }
    for headers in
        [&["Impersonate-Group: system:masters"][..], &["Impersonate-Uid: 0"], &["Impersonate-Extra-A: b"]]
    {
        let mut curl = server.post(WHO, WHO_AM_I).by(&jane);
        for header in headers {
            curl = curl.header(header);
        }
        curl.send().assert_status(400, "BadRequest");
    }
}
