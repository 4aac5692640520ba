//! Front proxies, authorities out of files, and requests without credentials (AN-30 to AN-40, AN-110 to AN-114).

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::common::{Setup, start, start_with};
use portcullis_pki::ca::Usage;
use portcullis_pki::{CaBundle, CertificateAuthority};
use portcullis_server::authn::anonymous::Anonymous;
use portcullis_server::authn::reload::AuthorityFiles;
use portcullis_server::authn::request_header::{HeaderError, Headers, RequestHeader};
use portcullis_testkit::wait;
use serde_json::{Value, json};

const SELF_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn authority(name: &str) -> CertificateAuthority {
    CertificateAuthority::generate(name, SystemTime::now(), Duration::from_secs(3600)).unwrap()
}

fn bundle(authority: &CertificateAuthority) -> CaBundle {
    CaBundle::from_pem(authority.certificate_pem().as_bytes()).unwrap()
}

fn headers() -> Headers {
    let list = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    Headers {
        username: list(&["X-Remote-User", "X-Second-User"]),
        uid: list(&["X-Remote-Uid"]),
        group: list(&["X-Remote-Group"]),
        extra_prefix: list(&["X-Remote-Extra-"]),
    }
}

#[test]
fn a_front_proxy_vouches_for_others_and_nobody_else_does_an_30_to_an_34() {
    let proxies = authority("proxies");
    let trusted = RequestHeader::new(bundle(&proxies), vec!["proxy".to_owned()], &headers()).unwrap();
    let server = start_with(Setup { front_proxy: Some(trusted), ..Setup::default() });
    let certificate = |authority: &CertificateAuthority, name: &str| {
        server.issued(authority, name, &["own"], Usage::Client, SystemTime::now())
    };
    let ask = |by: Option<&crate::common::Identity>, headers: &[&str]| {
        let mut request = server.post(SELF_REVIEWS, "{}");
        if let Some(by) = by {
            request = request.by(by);
        }
        let answer = headers.iter().fold(request, |request, header| request.header(header)).send();
        let user = if answer.code == 201 { answer.json()["status"]["userInfo"].clone() } else { Value::Null };
        (answer.code, user)
    };
    let proxy = certificate(&proxies, "proxy");
    let eve = [
        "X-Remote-User: eve",
        "X-Remote-Uid: u7",
        "X-Remote-Group: a",
        "X-Remote-Group: b",
        "X-Remote-Group;",
        "X-Remote-Extra-Example.Org%2FScope: s1",
        "X-Remote-Extra-Example.Org%2FScope: s2",
        "X-Other: c",
    ];
    let (code, user) = ask(Some(&proxy), &eve);
    assert_eq!(code, 201);
    assert_eq!(
        user,
        json!({"username": "eve", "uid": "u7", "groups": ["a", "b", "system:authenticated"],
            "extra": {"example.org/scope": ["s1", "s2"]}})
    );
    assert_eq!(ask(Some(&proxy), &["X-Remote-User;", "X-Second-User: bob"]).1["username"], "bob", "AN-31");
    // Without a name there is nobody to vouch for, and the certificate of a proxy is no client's.
    assert_eq!(ask(Some(&proxy), &["X-Remote-Group: system:masters"]).0, 401);
    // Of its authority, but not the one that is allowed.
    assert_eq!(ask(Some(&certificate(&proxies, "stranger")), &eve).0, 401);
    assert_eq!(ask(Some(&certificate(&authority("proxies"), "proxy")), &eve).0, 401);
    // A client stays who it is, whatever it says.
    let client = certificate(server.authority(), "jane");
    assert_eq!(ask(Some(&client), &eve).1["username"], "jane");
    assert_eq!(ask(Some(&server.user("proxy", &[])), &eve).1["username"], "proxy");
    assert_eq!(ask(None, &eve).0, 403, "anonymous");
}

#[test]
fn headers_of_front_proxies_are_checked_at_the_start_an_36() {
    let proxies = authority("proxies");
    let refused = |headers: &Headers| RequestHeader::new(bundle(&proxies), vec![], headers).err();
    assert_eq!(refused(&headers()), None);
    let wrong = Headers { uid: vec!["X-Uid".to_owned()], ..headers() };
    assert_eq!(refused(&wrong), Some(HeaderError::Uid));
    let blank = Headers { group: vec![" ".to_owned()], ..headers() };
    assert_eq!(refused(&blank), Some(HeaderError::Empty("group-headers")));
    let bad = Headers { username: vec!["X User".to_owned()], ..headers() };
    assert_eq!(refused(&bad), Some(HeaderError::Name("username-headers", "X User".to_owned())));
}

#[test]
fn requests_without_credentials_are_served_where_the_conditions_say_an_114() {
    let paths = vec!["/livez".to_owned()];
    let server = start_with(Setup { anonymous: Anonymous::At(paths), ..Setup::default() });
    let code = |path: &str| server.get(path).send().code;
    assert_eq!(code("/livez"), 200);
    assert_eq!(code("/livez?verbose"), 200);
    for path in ["/livez/", "/livez/ping", "/healthz", "/version", "/api"] {
        assert_eq!(code(path), 401, "{path}");
    }
    assert_eq!(server.get("/livez").header("Authorization: Bearer nope").send().code, 401);
}

#[test]
fn authorities_in_a_file_count_as_soon_as_it_changes_an_40() {
    let server = start();
    let (first, second) = (authority("first"), authority("second"));
    let path = server.dir.join("clients.pem");
    fs::write(&path, first.certificate_pem()).unwrap();
    let own = fs::read_to_string(server.dir.join("ca.crt")).unwrap();
    let files = AuthorityFiles::default().with_clients(path.clone()).unwrap().with_own(&own);
    server.app.authentication().replace_clients(files.clients().unwrap());
    let authentication = Arc::clone(server.app.authentication());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let following = runtime.spawn(files.follow(authentication));
    let of = |authority: &CertificateAuthority| {
        server.issued(authority, "jane", &[], Usage::Client, SystemTime::now())
    };
    let (of_first, of_second) = (of(&first), of(&second));
    let code = |by: &crate::common::Identity| server.get("/api").by(by).send().code;
    assert_eq!((code(&of_first), code(&of_second), code(&server.admin())), (200, 401, 200));
    let wait_for = |expected: (u16, u16)| {
        wait::until(&format!("{expected:?}"), || (code(&of_first), code(&of_second)) == expected);
    };
    // Both, then the other one alone.
    fs::write(&path, first.certificate_pem() + &second.certificate_pem()).unwrap();
    wait_for((200, 200));
    // A key that is in the file by mistake is told to nobody.
    fs::write(&path, second.certificate_pem() + &fs::read_to_string(server.dir.join("ca.key")).unwrap())
        .unwrap();
    wait_for((401, 200));
    let told = || {
        let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
        server.get(path).by(&server.admin()).send().json()["data"].clone()
    };
    wait::until("the change is published", || {
        let text = told()["client-ca-file"].as_str().unwrap().to_owned();
        text.contains(second.certificate_pem().trim()) && !text.contains(first.certificate_pem().trim())
    });
    let text = told()["client-ca-file"].as_str().unwrap().to_owned();
    assert!(text.contains(own.trim()) && !text.contains("PRIVATE KEY"), "{text}");
    // A file that holds nothing takes nothing away, and a later one counts again.
    fs::write(&path, "half a cert").unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!((code(&of_second), code(&server.admin())), (200, 200));
    fs::write(&path, first.certificate_pem()).unwrap();
    wait_for((200, 401));
    assert_eq!(code(&server.admin()), 200);
    following.abort();
}
