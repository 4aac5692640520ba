//! Authentication at the guard: client certificates, tokens, and both.

use std::fs;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::tool;
use portcullis_testkit::wait::until;
use serde_json::{Value, json};

use crate::guard::support::{self, Guarded};

/// A client certificate of an authority in a folder, by openssl.
fn certificate(folder: &std::path::Path, authority: (&str, &str), name: &str, subject: &str) -> Identity {
    let (key, out) = (format!("{name}.key"), format!("{name}.crt"));
    fs::write(folder.join("openssl.cnf"), "[req]\ndistinguished_name = dn\n[dn]\n").unwrap();
    let line = format!(
        "req -x509 -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj {subject} \
         -keyout {key} -out {out} -CA {} -CAkey {} -addext extendedKeyUsage=clientAuth -addext \
         basicConstraints=critical,CA:FALSE",
        authority.0, authority.1
    );
    tool::openssl(folder, &line);
    Identity::read(&folder.join("kubelet/kubelet-ca.pem"), &folder.join(out), &folder.join(key))
}

/// KA-40, KA-41, K18.
#[test]
fn a_certificate_of_the_clients_authority_names_its_user_and_groups() {
    let guarded = Guarded::start(&[]);
    let folder = guarded.scratch.path();
    let ours = ("data/ca.crt", "data/ca.key");
    let watcher = certificate(folder, ours, "watcher", "/O=monitors/O=others/CN=watcher");
    let mut client = Client::new(guarded.guard.address, &watcher);
    let refused = client.ask("GET", "/healthz", None).unwrap();
    assert_eq!(
        (refused.code, &*String::from_utf8(refused.body).unwrap()),
        (403, "Forbidden (user=watcher, verb=get, resource=nodes, subresource(s)=[healthz proxy])\n")
    );
    guarded.admin(201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", Some(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "health"},
        "rules": [{"apiGroups": [""], "resources": ["nodes/configz"], "verbs": ["get"]}],
    })));
    guarded.bind("health", "Group", "monitors", "health");
    assert_eq!(client.ask("GET", "/configz", None).unwrap().code, 200);

    // Of another authority, it is worse than none; a token beside it helps (K18).
    let stranger = ("kubelet/kubelet-ca.pem", "kubelet/kubelet-ca-key.pem");
    let strange = certificate(folder, stranger, "strange", "/O=monitors/CN=watcher");
    assert_eq!(Client::new(guarded.guard.address, &strange).ask("GET", "/configz", None).unwrap().code, 401);
    guarded.grant("jane", "get", "nodes/configz");
    let mut both = Client::new(guarded.guard.address, &strange).header("Authorization: Bearer jane-token");
    assert_eq!(both.ask("GET", "/configz", None).unwrap().code, 200);
    // A good certificate comes first, whatever the token.
    let mut first = Client::new(guarded.guard.address, &watcher).header("Authorization: Bearer wrong");
    assert_eq!(first.ask("GET", "/configz", None).unwrap().code, 200);
}

/// KA-44: the token of a pod's service account, as monitoring agents have it.
#[test]
fn the_token_of_a_service_account_is_asked_about() {
    let guarded = Guarded::start(&[]);
    let path = "/api/v1/namespaces/default/serviceaccounts";
    guarded.admin(201, "POST", path, Some(&json!({"metadata": {"name": "agent"}})));
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token: Value = guarded.admin(201, "POST", &format!("{path}/agent/token"), Some(&request));
    let token = token["status"]["token"].as_str().unwrap();
    let agent = Identity::with_token(&guarded.kubelet.authority(), token);
    let mut client = Client::new(guarded.guard.address, &agent);
    assert_eq!(client.ask("GET", "/metrics", None).unwrap().code, 403);
    guarded.grant("system:serviceaccount:default:agent", "get", "nodes/stats");
    until("the account may", || client.ask("GET", "/stats/summary", None).unwrap().code == 200);
    // In the answers that are remembered nothing of the token can be read by others.
    let half = Identity::with_token(&guarded.kubelet.authority(), &token[..token.len() - 1]);
    assert_eq!(
        Client::new(guarded.guard.address, &half).ask("GET", "/stats/summary", None).unwrap().code,
        401
    );
}

/// KA-5: clients are asked for a certificate where there is an authority of theirs, and only there.
#[test]
fn clients_are_asked_for_a_certificate_only_where_one_could_be_good() {
    let guarded = Guarded::start(&[]);
    let kubeconfig = guarded.data().join("admin.kubeconfig");
    let command = support::command(&guarded.scratch, &kubeconfig, guarded.kubelet.address(), &[]);
    let bare = support::without(&command, "--client-ca-file");
    let other = support::run(bare);
    for (address, asks) in [(guarded.guard.address, true), (other.address, false)] {
        let done = tool::try_openssl(guarded.scratch.path(), &format!("s_client -connect {address} -state"));
        let said = done.stderr + &done.stdout;
        assert_eq!(said.contains("read server certificate request"), asks, "{said}");
    }
    // Tokens are good at both.
    guarded.grant("jane", "get", "nodes/pods");
    let mut jane = Client::new(other.address, &guarded.user("jane"));
    assert_eq!(jane.ask("GET", "/pods", None).unwrap().code, 200);
}

/// Without certificates and without reviews of tokens nobody is anybody (KA-49).
#[test]
fn without_anybody_who_vouches_nobody_is_let_in() {
    let guarded = Guarded::start(&[]);
    let closed = guarded.another(&["--authentication-token-webhook=false"]);
    assert_eq!(
        Client::new(closed.address, &guarded.user("jane")).ask("GET", "/pods", None).unwrap().code,
        401
    );
    assert_eq!(Client::new(closed.address, &guarded.nobody()).ask("GET", "/nosuch", None).unwrap().code, 404);
}

/// The authorities of clients are taken up as they change.
#[test]
fn a_new_authority_of_clients_counts_without_a_restart() {
    let guarded = Guarded::start(&[]);
    let folder = guarded.scratch.path();
    let bundle = folder.join("bundle.pem");
    fs::copy(folder.join("data/ca.crt"), &bundle).unwrap();
    // The last of two flags of a name would be refused: a guard of its own.
    let guard = crate::guard::support::with_client_authority(&guarded, &bundle);
    let other = ("kubelet/client-ca.pem", "kubelet/client-ca-key.pem");
    let newcomer = certificate(folder, other, "newcomer", "/CN=newcomer");
    let mut client = Client::new(guard.address, &newcomer);
    assert_eq!(client.ask("GET", "/pods", None).unwrap().code, 401);
    let both = fs::read_to_string(folder.join("data/ca.crt")).unwrap()
        + &fs::read_to_string(folder.join("kubelet/client-ca.pem")).unwrap();
    fs::write(&bundle, both).unwrap();
    until("the new authority counts", || client.ask("GET", "/pods", None).unwrap().code == 403);
    // An unreadable file changes nothing.
    fs::write(&bundle, "half a fi").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(client.ask("GET", "/pods", None).unwrap().code, 403);
}
