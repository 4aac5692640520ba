//! Tokens and the objects that they are bound to: a deletion revokes them with the next request (AN-75 to AN-105).

use std::time::{Duration, Instant};

use crate::common::{Setup, Started, start_with};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::tool;
use portcullis_testkit::wait;
use serde_json::{Value, json};

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const SELF_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BOOTSTRAP: &str = "/api/v1/namespaces/kube-system/secrets";

fn cluster() -> (Started, Client) {
    let server = start_with(Setup { is_cluster: true, ..Setup::default() });
    let admin = Client::new(server.address, &Identity::admin(&server.dir));
    (server, admin)
}

/// Somebody who shows a token, on one connection.
fn holder(server: &Started, token: &str) -> Client {
    Client::new(server.address, &Identity::with_token(&server.dir.join("ca.crt"), token))
}

fn secret(name: &str, kind: &str, data: &[(&str, &str)]) -> Value {
    let data: serde_json::Map<_, _> =
        data.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": name}, "type": kind, "stringData": data})
}

fn bootstrap(id: &str) -> Value {
    let data =
        [("token-id", id), ("token-secret", "0123456789abcdef"), ("usage-bootstrap-authentication", "true")];
    secret(&format!("bootstrap-token-{id}"), "bootstrap.kubernetes.io/token", &data)
}

fn legacy(name: &str, account: &str) -> Value {
    json!({"kind": "Secret", "apiVersion": "v1", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}}})
}

fn account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": name}})
}

fn pod(name: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": {"nodeName": "n1",
        "serviceAccountName": "bot", "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "i"}]}})
}

/// A requested token of the account `bot`.
fn request(admin: &mut Client, spec: Value) -> String {
    let answer = admin.must(201, "POST", &format!("{ACCOUNTS}/bot/token"), Some(&json!({ "spec": spec })));
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// The token that is put into a secret.
fn kept(admin: &mut Client, name: &str) -> String {
    wait::until_some("the token in the secret", || {
        let found = admin.must(200, "GET", &format!("{SECRETS}/{name}"), None);
        let token = STANDARD.decode(found["data"]["token"].as_str()?).unwrap();
        Some(String::from_utf8(token).unwrap())
    })
}

#[test]
fn what_a_token_depends_on_is_gone_with_the_next_request_on_an_open_connection() {
    let (server, mut admin) = cluster();
    let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}});
    admin.must(201, "POST", "/api/v1/nodes", Some(&node));
    for name in ["bot", "gone"] {
        admin.must(201, "POST", ACCOUNTS, Some(&account(name)));
    }
    admin.must(201, "POST", PODS, Some(&pod("p1")));
    admin.must(201, "POST", PODS, Some(&pod("p2")));
    admin.must(201, "POST", SECRETS, Some(&secret("s1", "Opaque", &[])));
    for (name, account) in [("kept", "bot"), ("other", "gone"), ("marked", "bot"), ("changed", "bot")] {
        admin.must(201, "POST", SECRETS, Some(&legacy(name, account)));
    }
    for id in ["aaaaaa", "bbbbbb", "cccccc"] {
        admin.must(201, "POST", BOOTSTRAP, Some(&bootstrap(id)));
    }
    let bound =
        |kind: &str, name: &str| json!({"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}});
    let of = |admin: &mut Client, kind: &str, name: &str| request(admin, bound(kind, name));
    let own = admin.must(201, "POST", &format!("{ACCOUNTS}/gone/token"), Some(&json!({"spec": {}})));

    let label = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}});
    let ways: Vec<(&str, String, &str, String, Option<Value>)> = vec![
        (
            "bootstrap token",
            "aaaaaa.0123456789abcdef".into(),
            "DELETE",
            format!("{BOOTSTRAP}/bootstrap-token-aaaaaa"),
            None,
        ),
        (
            "its use",
            "bbbbbb.0123456789abcdef".into(),
            "PATCH",
            format!("{BOOTSTRAP}/bootstrap-token-bbbbbb"),
            Some(json!({"stringData": {"usage-bootstrap-authentication": "false"}})),
        ),
        (
            "its time",
            "cccccc.0123456789abcdef".into(),
            "PATCH",
            format!("{BOOTSTRAP}/bootstrap-token-cccccc"),
            Some(json!({"stringData": {"expiration": "2026-01-01T00:00:00Z"}})),
        ),
        ("pod", of(&mut admin, "Pod", "p1"), "DELETE", format!("{PODS}/p1?gracePeriodSeconds=0"), None),
        ("secret", of(&mut admin, "Secret", "s1"), "DELETE", format!("{SECRETS}/s1"), None),
        ("node", of(&mut admin, "Node", "n1"), "DELETE", "/api/v1/nodes/n1".into(), None),
        ("kept token", kept(&mut admin, "kept"), "DELETE", format!("{SECRETS}/kept"), None),
        ("marked token", kept(&mut admin, "marked"), "PATCH", format!("{SECRETS}/marked"), Some(label)),
        (
            "changed token",
            kept(&mut admin, "changed"),
            "PATCH",
            format!("{SECRETS}/changed"),
            Some(json!({"stringData": {"token": "another"}})),
        ),
        ("account of a kept token", kept(&mut admin, "other"), "DELETE", format!("{ACCOUNTS}/gone"), None),
    ];
    let token = own["status"]["token"].as_str().unwrap();
    let mut of_account = holder(&server, token);
    of_account.must(200, "GET", "/api", None);
    let mut slowest = Duration::ZERO;
    for (what, token, method, path, body) in ways {
        let mut holder = holder(&server, &token);
        holder.must(200, "GET", "/api", None);
        let asked = Instant::now();
        admin.must(200, method, &path, body.as_ref());
        // The very first request after the answer: no time passes in which the token would still do.
        holder.must(401, "GET", "/api", None);
        slowest = slowest.max(asked.elapsed());
        assert_eq!(holder.connections(), 1, "{what}");
        let review = admin.must(201, "POST", TOKEN_REVIEWS, Some(&json!({"spec": {"token": token}})));
        assert_eq!(review["status"]["authenticated"], Value::Null, "{what}: {review}");
    }
    println!("from asking for the deletion to the refusal: at most {slowest:?}");
    of_account.must(401, "GET", "/api", None);
    assert_eq!(of_account.connections(), 1);

    // Another object of the same name is another object.
    let token = of(&mut admin, "Pod", "p2");
    let mut holder = holder(&server, &token);
    let review = json!({});
    let me = holder.must(201, "POST", SELF_REVIEWS, Some(&review));
    let extra = &me["status"]["userInfo"]["extra"];
    assert_eq!(
        extra["authentication.kubernetes.io/node-name"],
        json!(["n1"]),
        "AN-86: the node itself is gone"
    );
    assert_eq!(extra["authentication.kubernetes.io/node-uid"], Value::Null, "AN-94");
    admin.must(200, "DELETE", &format!("{PODS}/p2?gracePeriodSeconds=0"), None);
    admin.must(201, "POST", PODS, Some(&pod("p2")));
    holder.must(401, "GET", "/api", None);
}

#[test]
fn a_token_for_another_audience_lets_nobody_in_an_73() {
    let (server, mut admin) = cluster();
    admin.must(201, "POST", ACCOUNTS, Some(&account("bot")));
    for audiences in [json!(["vault"]), json!([""]), json!(["https://kubernetes.default.svc/"])] {
        let token = request(&mut admin, json!({ "audiences": audiences }));
        holder(&server, &token).must(401, "GET", "/api", None);
        let spec = json!({"token": token, "audiences": audiences});
        let review = admin.must(201, "POST", TOKEN_REVIEWS, Some(&json!({ "spec": spec })));
        assert_eq!(review["status"]["audiences"], audiences);
        // Whom it is for is all that it is for.
        let spec = json!({"token": token, "audiences": ["another"]});
        let review = admin.must(201, "POST", TOKEN_REVIEWS, Some(&json!({ "spec": spec })));
        assert_eq!(review["status"]["authenticated"], Value::Null);
    }
}

#[test]
fn tokens_that_another_server_has_signed_let_nobody_in() {
    let (server, mut admin) = cluster();
    let (_stranger, mut other_admin) = cluster();
    for admin in [&mut admin, &mut other_admin] {
        admin.must(201, "POST", ACCOUNTS, Some(&account("bot")));
    }
    let token = request(&mut other_admin, json!({}));
    holder(&server, &token).must(401, "GET", "/api", None);
    // The head of a good one, and the claims and the signature of a bad one.
    let good = request(&mut admin, json!({}));
    let mixed = format!("{}.{}", good.split_once('.').unwrap().0, token.split_once('.').unwrap().1);
    holder(&server, &mixed).must(401, "GET", "/api", None);
    holder(&server, &good).must(200, "GET", "/api", None);
}

#[test]
fn secrets_of_tokens_are_filled_noted_and_cleared_away_an_75_to_an_78() {
    let (server, mut admin) = cluster();
    admin.must(201, "POST", ACCOUNTS, Some(&account("bot")));
    admin.must(201, "POST", SECRETS, Some(&legacy("tok", "bot")));
    admin.must(201, "POST", SECRETS, Some(&legacy("orphan", "nobody")));
    let token = kept(&mut admin, "tok");
    let found = admin.must(200, "GET", &format!("{SECRETS}/tok"), None);
    assert_eq!(found["data"]["namespace"], json!(STANDARD.encode("default")));
    let authority = std::fs::read(server.dir.join("ca.crt")).unwrap();
    assert_eq!(found["data"]["ca.crt"], json!(STANDARD.encode(authority)));
    let uid = admin.must(200, "GET", &format!("{ACCOUNTS}/bot"), None)["metadata"]["uid"].clone();
    assert_eq!(found["metadata"]["annotations"]["kubernetes.io/service-account.uid"], uid);

    let me = holder(&server, &token).must(201, "POST", SELF_REVIEWS, Some(&json!({})));
    let me = &me["status"]["userInfo"];
    assert_eq!(me["username"], "system:serviceaccount:default:bot");
    assert_eq!((&me["uid"], &me["extra"]), (&uid, &Value::Null), "AN-79");
    // The day as date(1) tells it; this test may run over midnight.
    let today = || {
        let out = std::process::Command::new("date").args(["-u", "+%F"]).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    };
    let before = today();
    let used = wait::until_some("the day of the use", || {
        let found = admin.must(200, "GET", &format!("{SECRETS}/tok"), None);
        found["metadata"]["labels"]["kubernetes.io/legacy-token-last-used"].as_str().map(str::to_owned)
    });
    assert!(used >= before && used <= today(), "{used}");
    holder(&server, &token).must(200, "GET", "/api", None);

    wait::until_some("the secret without an account to go", || {
        (admin.ask("GET", &format!("{SECRETS}/orphan"), None).unwrap().code == 404).then_some(())
    });
    admin.must(200, "DELETE", &format!("{ACCOUNTS}/bot"), None);
    wait::until_some("the secret of the account to go", || {
        (admin.ask("GET", &format!("{SECRETS}/tok"), None).unwrap().code == 404).then_some(())
    });
}

#[test]
fn bootstrap_tokens_that_are_over_are_deleted_an_105() {
    let (_server, mut admin) = cluster();
    let over = |id: &str, expiration: &str| {
        let mut token = bootstrap(id);
        token["stringData"]["expiration"] = json!(expiration);
        token
    };
    admin.must(201, "POST", BOOTSTRAP, Some(&over("aaaaaa", "2020-01-01T00:00:00Z")));
    admin.must(201, "POST", BOOTSTRAP, Some(&over("bbbbbb", "whenever")));
    admin.must(201, "POST", BOOTSTRAP, Some(&over("cccccc", "2999-01-01T00:00:00Z")));
    let mut other = over("dddddd", "2020-01-01T00:00:00Z");
    other["type"] = json!("Opaque");
    admin.must(201, "POST", BOOTSTRAP, Some(&other));
    admin.must(201, "POST", BOOTSTRAP, Some(&bootstrap("eeeeee")));
    for id in ["aaaaaa", "bbbbbb"] {
        wait::until_some("a token that is over to go", || {
            let path = format!("{BOOTSTRAP}/bootstrap-token-{id}");
            (admin.ask("GET", &path, None).unwrap().code == 404).then_some(())
        });
    }
    for id in ["cccccc", "dddddd", "eeeeee"] {
        admin.must(200, "GET", &format!("{BOOTSTRAP}/bootstrap-token-{id}"), None);
    }
}

#[test]
fn the_documents_of_the_issuer_name_the_key_that_verifies_its_tokens() {
    let (server, mut admin) = cluster();
    admin.must(201, "POST", ACCOUNTS, Some(&account("bot")));
    let token = request(&mut admin, json!({}));
    let configuration = admin.must(200, "GET", "/.well-known/openid-configuration", None);
    assert_eq!(configuration["issuer"], "https://kubernetes.default.svc");
    assert_eq!(configuration["jwks_uri"], "https://kubernetes.default.svc/openid/v1/jwks");
    let keys = admin.must(200, "GET", "/openid/v1/jwks", None);
    for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
        let head = server.get(path).by(&server.admin()).send().head.to_lowercase();
        assert!(head.contains("cache-control: public, max-age=3600"), "{head}");
    }
    // openssl has the key in the data directory, and knows the rest.
    let public = tool::openssl(&server.dir, "pkey -pubout -in sa.key");
    let public = portcullis_pki::jwt::PublicKey::all_from_pem(public.as_bytes()).unwrap();
    assert_eq!(keys["keys"], json!([public[0].jwk()]));
    assert_eq!(configuration["id_token_signing_alg_values_supported"], json!([public[0].algorithm()]));
    let verified =
        portcullis_pki::jwt::UnverifiedToken::read(token.as_bytes()).unwrap().verify(&public).unwrap();
    assert_eq!(verified.issuer(), "https://kubernetes.default.svc");
}

#[test]
fn token_documents_are_read_in_protobuf_as_in_json() {
    let (server, mut admin) = cluster();
    admin.must(201, "POST", ACCOUNTS, Some(&account("bot")));
    let mut count = 0;
    for line in portcullis_testkit::recorded::lines("protobuf.jsonl") {
        let path = match line["json"]["kind"].as_str() {
            Some("TokenReview") => TOKEN_REVIEWS.to_owned(),
            Some("TokenRequest") => format!("{ACCOUNTS}/bot/token"),
            _ => continue,
        };
        let body = STANDARD.decode(line["protobuf"].as_str().unwrap()).unwrap();
        let post = |media: &str, body: Vec<u8>| {
            let request = server.request("POST", &path).by(&server.admin());
            request.header(&format!("Content-Type: {media}")).body(body).send()
        };
        let answer = post("application/vnd.kubernetes.protobuf", body);
        let same = post("application/json", line["json"].to_string().into_bytes());
        // The pods of the requests are not here: that is found out after the request was read.
        assert!(matches!(answer.code, 201 | 404), "{}", answer.text());
        assert_eq!((answer.code, answer.json()), (same.code, same.json()));
        count += 1;
    }
    assert!(count >= 5);
}
