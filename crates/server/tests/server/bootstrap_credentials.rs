//! Bootstrap credentials from their creation to their revocation (NB-10 to NB-37, NB-157).

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Setup, Started, start_with};
use portcullis_pki::ca::Usage;
use portcullis_pki::{CertificateAuthority, bootstrap, pem, sha256};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::tool;
use portcullis_testkit::wait;
use serde_json::{Value, json};

const USER: &str = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";
const GROUP: &str = "system:serviceaccounts:openshift-machine-config-operator";
const CONFIG_MAPS: &str = "/api/v1/namespaces/openshift-config/configmaps";
const CONFIG_MAP: &str = "/api/v1/namespaces/openshift-config/configmaps/kubelet-bootstrap-kubeconfig";
const MANAGED: &str = "/api/v1/namespaces/openshift-config-managed/configmaps";
const LIST: &str = "/api/v1/namespaces/kube-system/configmaps/portcullis-revoked-bootstrap-authorities";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const OPERATOR: &str = "/api/v1/namespaces/openshift-machine-config-operator";

fn cluster() -> Started {
    start_with(Setup { is_cluster: true, ..Setup::default() })
}

fn admin(server: &Started) -> Client {
    Client::new(server.address, &Identity::admin(&server.dir))
}

fn namespaces(admin: &mut Client) {
    for name in ["openshift-config", "openshift-config-managed", "openshift-machine-config-operator"] {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        admin.must(201, "POST", "/api/v1/namespaces", Some(&body));
    }
}

fn cluster_with_namespaces() -> (Started, Client) {
    let server = cluster();
    let mut admin = admin(&server);
    namespaces(&mut admin);
    (server, admin)
}

fn config_map(bundle: &str, acknowledged: &str) -> Value {
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kubelet-bootstrap-kubeconfig"}, "data": {"ca-bundle.crt": bundle}});
    if !acknowledged.is_empty() {
        map["metadata"]["annotations"] = json!({"portcullis.dev/acknowledge": acknowledged});
    }
    map
}

fn credential() -> bootstrap::Credential {
    bootstrap::sign_once(USER, &[GROUP.to_owned()], SystemTime::now()).unwrap()
}

/// A client that shows a credential, over a connection that it keeps.
fn holder(server: &Started, credential: &bootstrap::Credential) -> Client {
    let digest = digest(&credential.certificate_pem);
    let (certificate, key) =
        (server.dir.join(format!("{digest}.crt")), server.dir.join(format!("{digest}.key")));
    fs::write(&certificate, &credential.certificate_pem).unwrap();
    fs::write(&key, &credential.key_pem).unwrap();
    Client::new(server.address, &Identity::read(&server.dir.join("ca.crt"), &certificate, &key))
}

fn issued(server: &Started, by: &CertificateAuthority, name: &str, groups: &[&str]) -> Client {
    let user = server.issued(by, name, groups, Usage::Client, SystemTime::now());
    let identity = Identity::read(&server.dir.join("ca.crt"), &user.certificate, &user.key);
    Client::new(server.address, &identity)
}

fn digest(certificate: &str) -> String {
    let der = pem::first(certificate.as_bytes()).unwrap().der;
    sha256(&der).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn code(client: &mut Client) -> u16 {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    client.ask("POST", WHO, Some(&body)).unwrap().code
}

fn authority(name: &str) -> CertificateAuthority {
    CertificateAuthority::generate(name, SystemTime::now(), Duration::from_secs(3600)).unwrap()
}

/// Asks in a loop over one connection until it is refused, and has the credential revoked meanwhile: a request that
/// begins after the revocation was acknowledged is refused. Says how long after it the refusal was there.
fn refused_within(mut client: Client, revoke: impl FnOnce()) -> Duration {
    let revoked = &AtomicBool::new(false);
    assert_eq!(code(&mut client), 201);
    scope(|scope| {
        let asking = scope.spawn(move || {
            let until = Instant::now() + Duration::from_secs(30);
            let mut after = None;
            while Instant::now() < until {
                let begun = Instant::now();
                let was_revoked = revoked.load(Ordering::SeqCst);
                let first = was_revoked.then(|| *after.get_or_insert(begun));
                match code(&mut client) {
                    401 => {
                        assert_eq!(client.connections(), 1, "on the same connection");
                        return first.map_or(Duration::ZERO, |first| first.elapsed());
                    }
                    201 => assert!(first.is_none(), "served after the revocation"),
                    other => panic!("{other}"),
                }
            }
            panic!("it was never refused");
        });
        std::thread::sleep(Duration::from_millis(100));
        revoke();
        revoked.store(true, Ordering::SeqCst);
        asking.join().unwrap()
    })
}

#[test]
fn a_control_plane_credential_counts_while_its_config_map_is_there_and_not_a_moment_longer_nb_20_to_nb_22() {
    let (server, mut admin) = cluster_with_namespaces();
    let credential = credential();
    let mut early = holder(&server, &credential);
    assert_eq!(code(&mut early), 401, "nobody trusts it yet");
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map(&credential.authority_pem, "")));
    // At once, on the connection that was refused a moment ago.
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let user = early.must(201, "POST", WHO, Some(&body))["status"]["userInfo"].clone();
    assert_eq!(early.connections(), 1);
    assert_eq!(user["username"], USER);
    assert_eq!(user["groups"], json!([GROUP, "system:authenticated"]));

    let mut node = server.kubelet("n1");
    assert_eq!(code(&mut node), 201);
    let took = refused_within(holder(&server, &credential), || {
        admin.must(200, "DELETE", CONFIG_MAP, None);
    });
    assert!(took < Duration::from_millis(100), "{took:?}");
    assert_eq!(code(&mut early), 401, "every other connection as well");
    assert_eq!(code(&mut holder(&server, &credential)), 401, "and new ones");
    assert_eq!(code(&mut node), 201, "others go on (NB-22)");
    assert_eq!((node.connections(), early.connections()), (1, 1));
}

#[test]
fn a_watch_ends_with_the_credential_that_it_goes_on_by_nb_20() {
    let (server, mut admin) = cluster_with_namespaces();
    let (one, two) = (credential(), credential());
    let both = one.authority_pem.clone() + &two.authority_pem;
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map(&both, "")));
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "watcher"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": USER}]});
    admin.must(201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", Some(&binding));
    let csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests?watch=true&timeoutSeconds=600";
    let watches = [&one, &two].map(|credential| holder(&server, credential).watch(csrs).unwrap());
    let mut other = issued(&server, server.authority(), "root", &["system:masters"]).watch(csrs).unwrap();
    admin.must(200, "DELETE", CONFIG_MAP, None);
    for watch in watches {
        assert!(watch.map(Result::unwrap).next().is_none(), "it ends, and as a whole");
    }
    let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "late"}, "spec": {"request": base64_of(&request()), "usages": ["client auth"],
            "signerName": "example.com/any"}});
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    admin.must(201, "POST", path, Some(&request));
    assert_eq!(other.next().unwrap().unwrap()["type"], "ADDED", "others go on");
}

fn base64_of(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// A certificate request, by openssl.
fn request() -> Vec<u8> {
    let words = "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=any -keyout /dev/null";
    tool::run("openssl", words.split(' ')).into_bytes()
}

#[test]
fn t15_a_sync_loop_that_puts_a_revoked_authority_back_lets_nobody_in_nb_25() {
    let (server, mut admin) = cluster_with_namespaces();
    let (revoked, other) = (credential(), credential());
    let fingerprint = digest(&revoked.authority_pem);
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map(&revoked.authority_pem, "")));
    admin.must(404, "GET", LIST, None);
    admin.must(200, "DELETE", CONFIG_MAP, None);
    let list = admin.must(200, "GET", LIST, None);
    assert_eq!(list["data"].as_object().unwrap().keys().collect::<Vec<_>>(), [&fingerprint]);
    for round in 0..3 {
        let both = revoked.authority_pem.clone() + &other.authority_pem;
        admin.must(201, "POST", CONFIG_MAPS, Some(&config_map(&both, "")));
        assert_eq!(code(&mut holder(&server, &revoked)), 401, "round {round}");
        // The digest of something else lets nobody in.
        let patch = json!({"metadata": {"annotations": {"portcullis.dev/acknowledge": digest(&revoked.certificate_pem)}}});
        admin.must(200, "PATCH", CONFIG_MAP, Some(&patch));
        assert_eq!(code(&mut holder(&server, &revoked)), 401);
        let patch = json!({"metadata": {"annotations": {"portcullis.dev/acknowledge": fingerprint}}});
        admin.must(200, "PATCH", CONFIG_MAP, Some(&patch));
        assert_eq!(code(&mut holder(&server, &revoked)), 201, "acknowledged");
        admin.must(200, "DELETE", CONFIG_MAP, None);
        assert_eq!(code(&mut holder(&server, &revoked)), 401, "revoked again");
    }
    assert_eq!(code(&mut holder(&server, &other)), 401);
}

#[test]
fn t15_another_certificate_for_the_key_of_a_revoked_signer_lets_nobody_in() {
    let (server, mut admin) = cluster_with_namespaces();
    let credential = credential();
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map(&credential.authority_pem, "")));
    admin.must(200, "DELETE", CONFIG_MAP, None);
    // Nobody checks the signature of a trusted certificate on itself: its last byte can be another one.
    let mut der = pem::first(credential.authority_pem.as_bytes()).unwrap().der;
    *der.last_mut().unwrap() ^= 1;
    let forged = pem::encode("CERTIFICATE", &der);
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map(&forged, "")));
    assert_eq!(code(&mut holder(&server, &credential)), 401);
    let patch = json!({"metadata": {"annotations": {"portcullis.dev/acknowledge": digest(&forged)}}});
    admin.must(200, "PATCH", CONFIG_MAP, Some(&patch));
    assert_eq!(code(&mut holder(&server, &credential)), 201, "it is the signer that was forged above");
}

#[test]
fn an_authority_is_revoked_when_no_config_map_holds_it_any_more_nb_14() {
    let (server, mut admin) = cluster_with_namespaces();
    let (one, two) = (credential(), credential());
    let both = one.authority_pem.clone() + &two.authority_pem;
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map(&both, "")));
    admin.must(201, "POST", MANAGED, Some(&config_map(&one.authority_pem, "")));
    let codes = || [&one, &two].map(|credential| code(&mut holder(&server, credential)));
    assert_eq!(codes(), [201, 201]);
    admin.must(200, "DELETE", CONFIG_MAP, None);
    assert_eq!(codes(), [201, 401], "the other namespace still holds the first one");
    // An update takes away as a deletion does.
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map(&both, &digest(&two.authority_pem))));
    assert_eq!(codes(), [201, 201]);
    let patch = json!({"data": {"ca-bundle.crt": two.authority_pem}});
    admin.must(200, "PATCH", CONFIG_MAP, Some(&patch));
    admin.must(200, "DELETE", &format!("{MANAGED}/kubelet-bootstrap-kubeconfig"), None);
    assert_eq!(codes(), [401, 201]);
    // The namespace goes, and the ConfigMap with it.
    admin.must(200, "DELETE", "/api/v1/namespaces/openshift-config", None);
    wait::until("both are refused", || codes() == [401, 401]);
    let list = admin.must(200, "GET", LIST, None);
    assert_eq!(list["data"].as_object().unwrap().len(), 2);
}

#[test]
fn a_finalizer_does_not_keep_a_revoked_authority_alive_nb_20() {
    let (server, mut admin) = cluster_with_namespaces();
    let credential = credential();
    let mut map = config_map(&credential.authority_pem, "");
    map["metadata"]["finalizers"] = json!(["example.com/wait"]);
    admin.must(201, "POST", CONFIG_MAPS, Some(&map));
    assert_eq!(code(&mut holder(&server, &credential)), 201);
    admin.must(200, "DELETE", CONFIG_MAP, None);
    admin.must(200, "GET", CONFIG_MAP, None);
    assert_eq!(code(&mut holder(&server, &credential)), 401);
    assert!(admin.must(200, "GET", LIST, None)["data"][digest(&credential.authority_pem)].is_string());
}

#[test]
fn t16_an_authority_of_bootstrap_credentials_vouches_for_the_bootstrapper_alone() {
    let (server, mut admin) = cluster_with_namespaces();
    let signer = authority("kubelet-bootstrap-kubeconfig-signer");
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map(&signer.certificate_pem(), "")));
    let asked = |name: &str, groups: &[&str]| code(&mut issued(&server, &signer, name, groups));
    assert_eq!(asked(USER, &[GROUP]), 201);
    assert_eq!(asked(USER, &["system:serviceaccounts", GROUP]), 201);
    assert_eq!(asked(USER, &[]), 201);
    let other = USER.replace("node-bootstrapper", "other");
    for (name, groups) in [
        ("kubernetes-admin", &["system:masters"][..]),
        (USER, &["system:masters"]),
        (USER, &[GROUP, "system:masters"]),
        (USER, &["system:nodes"]),
        (USER, &["system:serviceaccounts:kube-system"]),
        (USER, &[""]),
        ("system:node:n1", &["system:nodes"]),
        ("system:serviceaccount:kube-system:node-bootstrapper", &[]),
        (&other, &[GROUP]),
        ("system:anonymous", &[]),
        ("", &["system:masters"]),
    ] {
        assert_eq!(asked(name, groups), 401, "{name} {groups:?}");
    }
    // The bootstrapper has no rights but those that are bound to it.
    let mut bootstrapper = issued(&server, &signer, USER, &[GROUP]);
    bootstrapper.must(403, "GET", "/api/v1/secrets", None);
    bootstrapper.must(403, "GET", "/api/v1/nodes", None);
    let csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    bootstrapper.must(403, "GET", csrs, None);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "bootstrap"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "openshift-machine-config-operator",
            "name": "node-bootstrapper"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    admin.must(201, "POST", bindings, Some(&binding));
    bootstrapper.must(200, "GET", csrs, None);
    bootstrapper.must(403, "GET", "/api/v1/secrets", None);
    bootstrapper.must(403, "DELETE", &format!("{csrs}/x"), None);
}

#[test]
fn an_authority_that_vouches_for_everybody_goes_on_when_a_config_map_loses_it() {
    let (server, mut admin) = cluster_with_namespaces();
    let own = server.authority().certificate_pem();
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map(&own, "")));
    assert_eq!(code(&mut issued(&server, server.authority(), "jane", &["system:masters"])), 201);
    admin.must(200, "DELETE", CONFIG_MAP, None);
    assert_eq!(code(&mut issued(&server, server.authority(), "jane", &[])), 201);
}

#[test]
fn what_cannot_be_used_in_a_bundle_is_passed_over_and_drops_nothing_else_nb_16() {
    let (server, mut admin) = cluster_with_namespaces();
    let (one, two) = (credential(), credential());
    let garbage = pem::encode("CERTIFICATE", b"no certificate");
    let key = pem::encode("PRIVATE KEY", b"no key");
    let bundle = format!(
        "# notes\n{garbage}{}-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n{key}{}{}",
        one.authority_pem, one.authority_pem, two.authority_pem
    );
    admin.must(201, "POST", CONFIG_MAPS, Some(&config_map(&bundle, "")));
    let codes = || [&one, &two].map(|credential| code(&mut holder(&server, credential)));
    assert_eq!(codes(), [201, 201]);
    // It is said where those look who wrote it, and said once.
    let events = "/api/v1/namespaces/openshift-config/events";
    let said = wait::until_some("an event", || {
        let list = admin.must(200, "GET", events, None);
        list["items"].as_array().filter(|items| !items.is_empty()).cloned()
    });
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!((&said[0]["type"], &said[0]["reason"]), (&json!("Warning"), &json!("AuthorityPassedOver")));
    assert_eq!(said[0]["involvedObject"]["name"], "kubelet-bootstrap-kubeconfig");
    assert!(said[0]["message"].as_str().unwrap().starts_with("certificate 1: "), "{said:?}");
    // A leaf is no authority, and the client certificate of one credential vouches for nothing.
    let patch = json!({"data": {"ca-bundle.crt": one.certificate_pem}});
    admin.must(200, "PATCH", CONFIG_MAP, Some(&patch));
    assert_eq!(codes(), [401, 401]);
    for broken in [json!({"data": null}), json!({"data": {"other": two.authority_pem}})] {
        admin.must(200, "PATCH", CONFIG_MAP, Some(&broken));
        assert_eq!(codes(), [401, 401]);
    }
}

#[test]
fn trust_and_revocation_are_as_stored_after_a_restart_at_each_step_nb_21_nb_157() {
    let folder = crate::common::scratch();
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("objects");
    let credential = credential();
    let again = || {
        let server = start_with(Setup { is_cluster: true, store: Some(file.clone()), ..Setup::default() });
        let admin = admin(&server);
        (server, admin)
    };
    let authenticates = |server: &Started| code(&mut holder(server, &credential));
    {
        let (server, mut admin) = again();
        namespaces(&mut admin);
        admin.must(201, "POST", CONFIG_MAPS, Some(&config_map(&credential.authority_pem, "")));
        assert_eq!(authenticates(&server), 201);
    }
    {
        let (server, mut admin) = again();
        assert_eq!(authenticates(&server), 201);
        admin.must(200, "DELETE", CONFIG_MAP, None);
    }
    {
        let (server, mut admin) = again();
        assert_eq!(authenticates(&server), 401);
        admin.must(201, "POST", CONFIG_MAPS, Some(&config_map(&credential.authority_pem, "")));
        assert_eq!(authenticates(&server), 401);
    }
    {
        let (server, mut admin) = again();
        assert_eq!(authenticates(&server), 401, "it is back, and stays revoked");
        let patch = json!({"metadata": {"annotations":
            {"portcullis.dev/acknowledge": digest(&credential.authority_pem)}}});
        admin.must(200, "PATCH", CONFIG_MAP, Some(&patch));
    }
    {
        let (server, _) = again();
        assert_eq!(authenticates(&server), 201);
    }
    fs::remove_dir_all(&folder).unwrap();
}

fn account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "node-bootstrapper",
        "annotations": {"portcullis.dev/keep-bootstrap-token": "true"}}})
}

/// The uid of the secret and the token in it, once there is one; not of the secret with this uid.
fn minted(admin: &mut Client, but: &str) -> (String, String) {
    use base64::Engine as _;
    wait::until_ok("the token in the secret", || {
        let answer = admin.ask("GET", &format!("{OPERATOR}/secrets/node-bootstrapper-token"), None).unwrap();
        let secret = answer.json();
        let uid = secret["metadata"]["uid"].as_str().unwrap_or_default();
        if let Some(token) = secret["data"]["token"].as_str().filter(|_| uid != but) {
            assert_eq!(secret["type"], "kubernetes.io/service-account-token");
            let token = base64::engine::general_purpose::STANDARD.decode(token).unwrap();
            return Ok((uid.to_owned(), String::from_utf8(token).unwrap()));
        }
        Err(secret)
    })
}

fn bearer(server: &Started, token: &str) -> Client {
    Client::new(server.address, &Identity::with_token(&server.dir.join("ca.crt"), token))
}

fn worker_credential(server: &Started) {
    let mut admin = admin(server);
    namespaces(&mut admin);
    admin.must(201, "POST", &format!("{OPERATOR}/serviceaccounts"), Some(&account()));
    let (uid, token) = minted(&mut admin, "");
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let user = bearer(server, &token).must(201, "POST", WHO, Some(&body))["status"]["userInfo"].clone();
    assert_eq!(user["username"], USER);
    assert_eq!(user["groups"], json!(["system:serviceaccounts", GROUP, "system:authenticated"]));
    let secret = format!("{OPERATOR}/secrets/node-bootstrapper-token");
    let took = refused_within(bearer(server, &token), || {
        admin.must(200, "DELETE", &secret, None);
    });
    assert!(took < Duration::from_millis(100), "{took:?}");
    let (_, new) = minted(&mut admin, &uid);
    assert_ne!(token, new);
    assert_eq!((code(&mut bearer(server, &token)), code(&mut bearer(server, &new))), (401, 201));
    // Whoever gives up the account gives up its tokens, and nobody makes new ones.
    admin.must(200, "DELETE", &format!("{OPERATOR}/serviceaccounts/node-bootstrapper"), None);
    assert_eq!(code(&mut bearer(server, &new)), 401);
}

#[test]
fn a_worker_credential_dies_with_its_secret_and_another_one_is_minted_nb_30_to_nb_35() {
    worker_credential(&cluster());
}

#[test]
fn a_revoked_worker_credential_stays_revoked_when_signatures_repeat_themselves_nb_33() {
    let key = tool::run("openssl", ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]);
    let signing_key = Some(key.into_bytes());
    worker_credential(&start_with(Setup { is_cluster: true, signing_key, ..Setup::default() }));
}

#[test]
fn a_secret_that_was_deleted_while_nobody_served_is_there_after_the_next_start_nb_34_nb_157() {
    let folder = crate::common::scratch();
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("objects");
    let again = || start_with(Setup { is_cluster: true, store: Some(file.clone()), ..Setup::default() });
    let uid = {
        let server = again();
        let mut admin = admin(&server);
        namespaces(&mut admin);
        admin.must(201, "POST", &format!("{OPERATOR}/serviceaccounts"), Some(&account()));
        minted(&mut admin, "").0
    };
    {
        // Only the store: nothing is made again here.
        use portcullis_store::embedded::Options;
        use portcullis_store::{Expect, Store as _, Write};
        let store = Options::file(&file).open().unwrap();
        let key = "/core/secrets/openshift-machine-config-operator/node-bootstrapper-token".into();
        let gone = Write { key, expect: Expect::Anything, value: None };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(store.commit(vec![gone])).unwrap().entries[0].is_some());
    }
    let server = again();
    let (new, token) = minted(&mut admin(&server), &uid);
    assert_ne!(new, uid);
    assert_eq!(code(&mut bearer(&server, &token)), 201);
    drop(server);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_account_that_is_not_marked_or_is_another_one_gets_no_secret() {
    let (_server, mut admin) = cluster_with_namespaces();
    let mut other = account();
    other["metadata"]["name"] = json!("other");
    admin.must(201, "POST", &format!("{OPERATOR}/serviceaccounts"), Some(&other));
    let mut unmarked = account();
    unmarked["metadata"].as_object_mut().unwrap().remove("annotations");
    admin.must(201, "POST", &format!("{OPERATOR}/serviceaccounts"), Some(&unmarked));
    // What comes later shows that the controller has been past these.
    let marked = json!({"metadata": {"annotations": {"portcullis.dev/keep-bootstrap-token": "true"}}});
    let secrets = |admin: &mut Client| {
        let found = admin.must(200, "GET", &format!("{OPERATOR}/secrets"), None);
        found["items"].as_array().unwrap().len()
    };
    assert_eq!(secrets(&mut admin), 0);
    admin.must(200, "PATCH", &format!("{OPERATOR}/serviceaccounts/node-bootstrapper"), Some(&marked));
    minted(&mut admin, "");
    assert_eq!(secrets(&mut admin), 1);
}

/// Every file below a folder.
fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push((path.display().to_string(), fs::read(&path).unwrap())),
        }
    }
}

#[test]
fn a_fresh_server_holds_no_object_of_bootstrap_credentials() {
    let server = cluster();
    let mut admin = admin(&server);
    let maps = admin.must(200, "GET", "/api/v1/configmaps", None);
    let names: Vec<&str> = maps["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|map| map["metadata"]["name"].as_str().unwrap())
        .collect();
    let usual = [
        "extension-apiserver-authentication",
        "kube-apiserver-legacy-service-account-token-tracking",
        "kube-root-ca.crt",
    ];
    assert!(names.iter().all(|name| usual.contains(name)), "{names:?}");
    assert_eq!(admin.must(200, "GET", "/api/v1/secrets", None)["items"], json!([]));
    let mut found = Vec::new();
    files(&server.dir, &mut found);
    assert!(found.iter().all(|(_, bytes)| !bytes.windows(9).any(|w| w == b"bootstrap")), "nor in its files");
}

/// In many clusters, whoever creates a namespace becomes its administrator.
#[test]
fn a_tenant_who_may_create_namespaces_cannot_create_one_whose_objects_bootstrap_nodes_nb_14() {
    let server = cluster();
    let mut admin = admin(&server);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let mut allow = |name: &str, resources: &[&str], verbs: &[&str]| {
        let role = json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": resources, "verbs": verbs}]});
        let binding = json!({"metadata": {"name": name},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "tenant"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}});
        admin.must(201, "POST", &format!("{rbac}/clusterroles"), Some(&role));
        admin.must(201, "POST", &format!("{rbac}/clusterrolebindings"), Some(&binding));
    };
    allow("namespaces", &["namespaces"], &["create", "update", "patch"]);
    let mut tenant = server.client(&server.user("tenant", &[]));
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let trusted = ["openshift-config", "openshift-config-managed", "openshift-machine-config-operator"];
    for name in trusted {
        for query in ["", "?dryRun=All"] {
            let path = format!("/api/v1/namespaces{query}");
            let refused = tenant.must(403, "POST", &path, Some(&namespace(name)));
            assert_eq!(refused["reason"], "Forbidden");
            assert!(refused["message"].as_str().unwrap().contains("bootstraps nodes"), "{refused}");
        }
    }
    // A generated name could be that of one.
    let generated =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "openshift-c"}});
    tenant.must(403, "POST", "/api/v1/namespaces", Some(&generated));
    tenant.must(201, "POST", "/api/v1/namespaces", Some(&namespace("openshift-config-of-mine")));
    // Whoever may write the objects anyway gains nothing.
    allow("trusted-objects", &["configmaps", "serviceaccounts"], &["update"]);
    for name in trusted {
        tenant.must(201, "POST", "/api/v1/namespaces", Some(&namespace(name)));
    }
}
