//! `portcullis bootstrap` against a server, and the commands of `docs/bootstrap.md`, typed one after the other.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_pki::cert::KnownAuthority;
use portcullis_pki::{KeyPair, pem, sha256};
use portcullis_testkit::program;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::webhook::{Reply, WebhookService};
use serde_json::{Value, json};

use crate::kubectl::support::Served;

const USER: &str = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";
const GROUP: &str = "system:serviceaccounts:openshift-machine-config-operator";

/// Runs `portcullis bootstrap` with these words, in this folder, by this kubeconfig.
fn typed(folder: &Path, kubeconfig: &Path, words: &str) -> Finished {
    let mut command = program!().command(["bootstrap"]);
    Finished::of(command.args(words.split(' ')).current_dir(folder).env("KUBECONFIG", kubeconfig))
}

fn bootstrap(served: &Served, words: &str) -> Finished {
    typed(served.scratch.path(), &served.data().join("admin.kubeconfig"), words)
}

fn done(served: &Served, words: &str) -> String {
    let done = bootstrap(served, words);
    assert_eq!(done.code, 0, "{words}: {done:?}");
    done.stdout
}

/// Who the holder of a kubeconfig is: name and groups, or what kubectl complains of.
fn who(served: &Served, kubeconfig: &str) -> Result<(String, Vec<String>), String> {
    // The port may be another one by now.
    let done =
        served.kubectl(&format!("--kubeconfig {kubeconfig} --server {} auth whoami -o json", served.url));
    if done.code != 0 {
        return Err(done.stderr);
    }
    let review: Value = serde_json::from_str(&done.stdout).unwrap();
    let user = &review["status"]["userInfo"];
    let groups = user["groups"].as_array().unwrap().iter().map(|group| group.as_str().unwrap().to_owned());
    Ok((user["username"].as_str().unwrap().to_owned(), groups.collect()))
}

fn listed(served: &Served) -> Vec<Value> {
    done(served, "list --json").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_page_on_bootstrap_credentials_shows_what_happens() {
    let served = Served::start(&[]);
    fs::copy(served.data().join("ca.crt"), served.scratch.path().join("ca.crt")).unwrap();
    served.types("docs/bootstrap.md", &["kubectl", "portcullis"], served.scratch.path(), "");
}

/// Every file below a folder.
fn files(folder: &Path, found: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(fs::read(&path).unwrap()) }
    }
}

/// The public keys of all private keys in a text, also of those in base64.
fn keys(text: &[u8], found: &mut Vec<[u8; 32]>) {
    for block in pem::blocks(text).iter().filter(|block| block.label.ends_with("PRIVATE KEY")) {
        let key = KeyPair::from_pem(pem::encode(&block.label, &block.der).as_bytes()).unwrap();
        found.push(sha256(key.public_der()));
    }
    for word in text.split(|byte| !byte.is_ascii_alphanumeric() && !b"+/=".contains(byte)) {
        if word.len() > 100
            && let Ok(inner) = STANDARD.decode(word)
        {
            keys(&inner, found);
        }
    }
}

#[test]
fn the_key_of_the_signer_is_in_no_object_and_in_no_file_nb_12() {
    let served = Served::start(&[]);
    done(&served, "control-plane create --output cp.kubeconfig");
    let map = served.json("get configmap -n openshift-config kubelet-bootstrap-kubeconfig");
    let bundle = map["data"]["ca-bundle.crt"].as_str().unwrap();
    let known = |pem: &str| KnownAuthority::read(pem::first(pem.as_bytes()).unwrap().der).unwrap();
    let signer = known(bundle).key_digest();
    // The credential holds the client's key, which is how we know that keys are found at all.
    let kubeconfig = fs::read_to_string(served.scratch.path().join("cp.kubeconfig")).unwrap();
    let field = |name: &str| {
        let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap();
        String::from_utf8(STANDARD.decode(line.trim_start_matches(": ")).unwrap()).unwrap()
    };
    let client = known(&field("client-certificate-data")).key_digest();
    let (mut texts, mut found) = (Vec::new(), Vec::new());
    files(served.scratch.path(), &mut texts);
    texts.push(served.ok("get configmaps,secrets -A -o yaml").into_bytes());
    texts.iter().for_each(|text| keys(text, &mut found));
    assert!(found.contains(&client) && found.len() > 3, "keys are found");
    assert!(!found.contains(&signer));
    let objects = fs::read(served.data().join("objects.redb")).unwrap();
    assert!(!objects.windows(11).any(|window| window == b"PRIVATE KEY"));
}

#[test]
fn both_kinds_let_the_bootstrapper_in_until_they_are_revoked_nb_157() {
    let served = Served::start(&[]);
    let authenticated = "system:authenticated".to_owned();
    done(&served, "control-plane create --output cp.kubeconfig");
    done(&served, "worker create --output worker.kubeconfig");
    done(&served, "token create --output token.kubeconfig --ttl 1h");
    for file in ["cp.kubeconfig", "worker.kubeconfig", "token.kubeconfig"] {
        let mode = fs::metadata(served.scratch.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file} (NB-18)");
        assert_eq!(served.ok(&format!("--kubeconfig {file} get csr")), "", "{file}");
        for refused in ["get secrets -A", "get nodes", "get pods -A", "delete csr x", "get configmaps -A"] {
            let error = served.fails(&format!("--kubeconfig {file} {refused}"));
            assert!(error.contains("Forbidden"), "{file} {refused}: {error} (NB-36)");
        }
    }
    assert_eq!(who(&served, "cp.kubeconfig"), Ok((USER.into(), vec![GROUP.into(), authenticated.clone()])));
    let accounts = "system:serviceaccounts".to_owned();
    assert_eq!(
        who(&served, "worker.kubeconfig"),
        Ok((USER.into(), vec![accounts, GROUP.into(), authenticated]))
    );
    let rows = listed(&served);
    let kinds: Vec<&str> = rows.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["control-plane", "worker", "token"]);
    assert!(rows.iter().all(|row| row["revoked"] == false && row["sha256"].as_str().unwrap().len() == 64));
    let id = rows[2]["subject"].as_str().unwrap().strip_prefix("system:bootstrap:").unwrap().to_owned();

    done(&served, "control-plane revoke");
    assert!(who(&served, "cp.kubeconfig").unwrap_err().contains("Unauthorized"));
    done(&served, "worker revoke --output new.kubeconfig");
    assert!(who(&served, "worker.kubeconfig").unwrap_err().contains("Unauthorized"));
    assert_eq!(who(&served, "new.kubeconfig").unwrap().0, USER);
    done(&served, &format!("token revoke {id}"));
    assert!(who(&served, "token.kubeconfig").unwrap_err().contains("Unauthorized"));
    for nothing in ["control-plane revoke".to_owned(), format!("token revoke {id}")] {
        let again = bootstrap(&served, &nothing);
        assert_eq!((again.code, again.stdout.as_str()), (1, ""), "{nothing}: {again:?}");
    }
    let rows = listed(&served);
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["revoked"], &rows[1]["revoked"]), (&json!(true), &json!(false)));
    assert!(rows[0]["notAfter"].as_str().unwrap().starts_with("20"));
}

#[test]
fn whenever_the_server_dies_what_is_gone_is_revoked_nb_21_nb_157() {
    let mut served = Served::start(&[]);
    let map = "configmap -n openshift-config kubelet-bootstrap-kubeconfig";
    for round in 0..8 {
        let file = format!("{round}.kubeconfig");
        done(&served, &format!("control-plane create --output {file}"));
        assert_eq!(who(&served, &file).unwrap().0, USER);
        let saved = served.ok(&format!("get {map} -o yaml"));
        let kubeconfig = served.data().join("admin.kubeconfig");
        let mut deleting = tool::command("kubectl")
            .args(["delete", "--wait=false"])
            .args(map.split(' '))
            .env("KUBECONFIG", kubeconfig)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Before, while and after it is done.
        std::thread::sleep(std::time::Duration::from_millis(30 * round));
        served = served.crash(&[]);
        let _ = deleting.kill();
        deleting.wait().unwrap();
        if served.kubectl(&format!("get {map}")).code == 0 {
            assert_eq!(who(&served, &file).unwrap().0, USER, "round {round}");
            done(&served, "control-plane revoke");
            served = served.crash(&[]);
        }
        assert!(who(&served, &file).unwrap_err().contains("Unauthorized"), "round {round}");
        served.ok_with("create -f -", &saved);
        assert!(who(&served, &file).unwrap_err().contains("Unauthorized"), "round {round}: put back");
        served.ok(&format!("delete {map}"));
    }
}

#[test]
fn a_check_names_every_rule_that_goes_too_far_nb_36() {
    let served = Served::start(&[]);
    for create in ["control-plane", "worker", "token"] {
        done(&served, &format!("{create} create --output {create}.kubeconfig"));
    }
    let clean = done(&served, "check");
    assert!(
        clean.ends_with(
            "bootstrap credentials: pass: their holders may request certificates and nothing else\n"
        ),
        "{clean}"
    );
    let account = "openshift-machine-config-operator:node-bootstrapper";
    served.ok(&format!("create clusterrolebinding a --clusterrole view --serviceaccount {account}"));
    served
        .ok("create clusterrolebinding b --clusterrole view --serviceaccount kube-system:node-bootstrapper");
    served.ok(&format!("create rolebinding c -n default --clusterrole system:kube-dns --group {GROUP}"));
    served.ok("create role d -n default --verb get --resource configmaps");
    served.ok(&format!("create rolebinding d -n default --role d --user {USER}"));
    served.ok("create clusterrolebinding e --clusterrole nowhere --group system:authenticated");
    served.ok("create clusterrolebinding f --clusterrole \
         system:certificates.k8s.io:certificatesigningrequests:nodeclient --group system:bootstrappers");
    let checked = bootstrap(&served, "check --json");
    assert_eq!(checked.code, 1, "{checked:?}");
    let findings: Vec<Value> =
        checked.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let findings: Vec<Value> = findings.into_iter().filter(|line| line["check"].is_null()).collect();
    let mut by: Vec<&str> = findings.iter().map(|finding| finding["binding"].as_str().unwrap()).collect();
    by.dedup();
    assert_eq!(
        by,
        ["ClusterRoleBinding a", "ClusterRoleBinding f", "RoleBinding default/c", "RoleBinding default/d"]
    );
    assert_eq!(
        findings.last().unwrap()["rule"],
        json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]})
    );
}

#[test]
fn one_authority_is_revoked_and_the_other_goes_on() {
    let served = Served::start(&[]);
    done(&served, "control-plane create --output one.kubeconfig");
    let one = listed(&served)[0]["sha256"].as_str().unwrap().to_owned();
    done(&served, "control-plane create --output two.kubeconfig");
    assert_eq!(listed(&served).len(), 2);
    // As openssl writes it.
    let pairs: Vec<String> =
        one.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).to_uppercase()).collect();
    done(&served, &format!("control-plane revoke --sha256 {}", pairs.join(":")));
    assert!(who(&served, "one.kubeconfig").is_err());
    assert_eq!(who(&served, "two.kubeconfig").unwrap().0, USER);
    assert_eq!(bootstrap(&served, &format!("control-plane revoke --sha256 {one}")).code, 1);
}

#[test]
fn a_credential_made_without_a_server_counts_once_its_manifest_is_applied() {
    let served = Served::start(&[]);
    let made = typed(
        served.scratch.path(),
        Path::new("/nowhere"),
        &format!(
            "control-plane create --offline --server {} --certificate-authority data/ca.crt --output cp.kubeconfig \
             --manifest manifest.json",
            served.url
        ),
    );
    assert_eq!((made.code, made.stdout.as_str()), (0, ""), "{made:?}");
    assert!(who(&served, "cp.kubeconfig").is_err());
    let manifest = fs::read_to_string(served.scratch.path().join("manifest.json")).unwrap();
    assert!(!manifest.contains("PRIVATE"));
    served.ok("apply -f manifest.json");
    assert_eq!(who(&served, "cp.kubeconfig").unwrap().0, USER);
    served.ok("--kubeconfig cp.kubeconfig get csr");
}

#[test]
fn a_command_that_cannot_be_carried_out_leaves_nothing_behind() {
    let served = Served::start(&[]);
    fs::write(served.scratch.path().join("mine"), "precious").unwrap();
    let refused = bootstrap(&served, "control-plane create --output mine");
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.contains("mine already exists"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(served.scratch.path().join("mine")).unwrap(), "precious");
    served.fails("get namespace openshift-config");
    for (words, says, code) in [
        ("control-plane create --output /no/such/folder/x", "cannot write", 3),
        ("control-plane create --output x --server http://plain", "must begin with https://", 2),
        ("control-plane create --output x --certificate-authority mine", "--certificate-authority mine", 2),
        ("control-plane create --output x --kubeconfig mine", "mine", 2),
        ("control-plane revoke --sha256 abc", "64 hexadecimal digits", 2),
        ("token create --output x --groups system:masters", "system:bootstrappers:", 2),
        ("token create --output x --usages everything", "everything", 2),
        ("token create --output x --ttl soon", "soon", 2),
        ("token revoke ABCDEF", "six lower-case letters", 2),
        ("worker create --output x --account somewhere", "NAMESPACE/NAME", 2),
    ] {
        let refused = bootstrap(&served, words);
        assert_eq!((refused.code, refused.stdout.as_str()), (code, ""), "{words}: {refused:?}");
        assert!(refused.stderr.contains(says), "{words}: {}", refused.stderr);
    }
    assert!(!served.scratch.path().join("x").exists());
    served.fails("get namespace openshift-config");
    // Nobody listens there.
    let kubeconfig = fs::read_to_string(served.data().join("admin.kubeconfig")).unwrap();
    let nobody = kubeconfig.replace(served.url.trim_start_matches("https://"), "127.0.0.1:1");
    fs::write(served.scratch.path().join("nobody"), nobody).unwrap();
    let unreachable = bootstrap(&served, "worker create --output x --kubeconfig nobody");
    assert_eq!(unreachable.code, 3, "{unreachable:?}");
    assert!(!served.scratch.path().join("x").exists());
}

#[test]
fn no_credential_is_handed_out_that_the_server_does_not_accept() {
    // A server that reads no ConfigMap with authorities.
    let served = Served::start(&["--bootstrap-ca-configmap", "none"]);
    let refused = bootstrap(&served, "control-plane create --output cp.kubeconfig --timeout 1s");
    assert_eq!((refused.code, refused.stdout.as_str()), (3, ""), "{refused:?}");
    for part in ["does not accept the new credential", "Unauthorized", "was removed again", "--timeout"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert!(!served.scratch.path().join("cp.kubeconfig").exists());
    let map = served.json("get configmap -n openshift-config kubelet-bootstrap-kubeconfig");
    assert!(!map.to_string().contains("CERTIFICATE"), "{map}");
}

#[test]
fn a_credential_is_handed_out_once_the_server_says_whose_it_is() {
    let scratch = portcullis_testkit::scratch::Scratch::new();
    let reviews = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (asked_for, id) = (Arc::clone(&reviews), Arc::new(std::sync::Mutex::new(String::new())));
    // An API server that takes up a new token with the fourth review.
    let service = WebhookService::start(scratch.path(), move |asked, _| {
        let status = |code: u16, reason: &str| {
            let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                "reason": reason, "message": reason, "metadata": {}});
            Reply::Body(code, "application/json", body.to_string())
        };
        if asked.line.contains("/selfsubjectreviews") {
            if asked_for.fetch_add(1, Ordering::SeqCst) < 3 {
                return status(401, "Unauthorized");
            }
            let user = format!("system:bootstrap:{}", id.lock().unwrap());
            let review = json!({"kind": "SelfSubjectReview", "status": {"userInfo": {"username": user}}});
            return Reply::Body(201, "application/json", review.to_string());
        }
        if asked.line.starts_with("GET") {
            return status(404, "NotFound");
        }
        if asked.line.contains("/secrets") {
            asked.review["stringData"]["token-id"].as_str().unwrap().clone_into(&mut id.lock().unwrap());
        }
        Reply::Body(201, "application/json", asked.review.to_string())
    });
    let kubeconfig = kubeconfig_of(&scratch, &service);
    let created = typed(scratch.path(), &kubeconfig, "token create --output token.kubeconfig");
    assert_eq!(created.code, 0, "{created:?}");
    assert_eq!(reviews.load(Ordering::SeqCst), 4);
    assert!(created.stderr.starts_with("machines with this kubeconfig may now join as system:bootstrap:"));
    assert!(scratch.path().join("token.kubeconfig").exists());
}

/// A kubeconfig for a fake API server.
fn kubeconfig_of(
    scratch: &portcullis_testkit::scratch::Scratch,
    service: &WebhookService,
) -> std::path::PathBuf {
    let authority = STANDARD.encode(fs::read(service.file("ca.pem")).unwrap());
    scratch.write(
        "kubeconfig",
        format!(
            "clusters: [{{name: c, cluster: {{server: 'https://{}', certificate-authority-data: {authority}}}}}]\n\
             users: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             current-context: x\n",
            service.address()
        ),
    )
}

#[test]
fn no_kubeconfig_is_ever_written_with_an_empty_token_or_with_the_one_that_was_revoked_nb_35() {
    let scratch = portcullis_testkit::scratch::Scratch::new();
    let old = STANDARD.encode("old-token");
    let is_deleted = Arc::new(AtomicBool::new(false));
    let deleted = Arc::clone(&is_deleted);
    // An API server whose controllers fill in no token after the first one.
    let service = WebhookService::start(scratch.path(), move |asked, _| {
        let secret = |uid: &str, token: Option<&str>| {
            json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
                "metadata": {"name": "node-bootstrapper-token", "uid": uid,
                    "annotations": {"kubernetes.io/service-account.name": "node-bootstrapper"}},
                "data": {"token": token}})
        };
        let answer = match asked.line.split(' ').next() {
            Some("DELETE") => {
                deleted.store(true, Ordering::SeqCst);
                json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})
            }
            Some("GET") if asked.line.contains("/secrets/") => match deleted.load(Ordering::SeqCst) {
                true => secret("two", None),
                false => secret("one", Some(&old)),
            },
            _ => json!({"kind": "Thing", "metadata": {"name": "thing"}}),
        };
        Reply::Body(200, "application/json", answer.to_string())
    });
    let kubeconfig = kubeconfig_of(&scratch, &service);
    let revoked =
        typed(scratch.path(), &kubeconfig, "worker revoke --output worker.kubeconfig --timeout 300ms");
    assert_eq!(revoked.code, 3, "{revoked:?}");
    assert!(revoked.stderr.contains("BootstrapTokenPending"), "{}", revoked.stderr);
    assert!(revoked.stdout.starts_with("revoked: "), "{}", revoked.stdout);
    assert!(is_deleted.load(Ordering::SeqCst));
    assert!(!scratch.path().join("worker.kubeconfig").exists());
    let listed = typed(scratch.path(), &kubeconfig, "worker list");
    assert!(listed.stdout.contains("BootstrapTokenPending"), "{listed:?}");
}
