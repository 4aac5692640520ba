//! The first and later starts, checked with the file system, openssl and kubectl.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::common::{STARTED, Setup, scratch, start_with};
use portcullis_server::bootstrap::{Bootstrap, BootstrapError};
use portcullis_testkit::tool::{self, Finished};
use serde_json::json;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const FILES: [&str; 6] = ["ca.crt", "ca.key", "apiserver.crt", "apiserver.key", "admin.crt", "admin.key"];

fn prepare(dir: &Path, at: SystemTime) -> Result<Bootstrap, BootstrapError> {
    Bootstrap::prepare(dir, "127.0.0.1".parse().unwrap(), at)
}

fn contents(dir: &Path) -> Vec<Vec<u8>> {
    FILES.iter().map(|f| fs::read(dir.join(f)).unwrap()).collect()
}

#[test]
fn everything_is_made_once_and_only_its_owner_can_read_it() {
    let dir = scratch();
    let now = SystemTime::now();
    let first = prepare(&dir, now).unwrap();
    let kubeconfig = first.write_kubeconfig(1234).unwrap();
    assert!(matches!(prepare(&dir, now), Err(BootstrapError::InUse(_))), "one process at a time");
    drop(first);
    let made = contents(&dir);
    prepare(&dir, now + DAY).unwrap();
    assert_eq!(contents(&dir), made, "a second start reuses what is there");

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&kubeconfig), 0o600);
    for file in FILES.iter().filter(|f| f.ends_with(".key")) {
        assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
    }
    let left: Vec<_> =
        fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.ends_with(".new")), "{left:?}");
    let names = tool::openssl(&dir, "x509 -in apiserver.crt -noout -ext subjectAltName");
    for name in [
        "DNS:kubernetes,",
        "DNS:kubernetes.default,",
        "DNS:kubernetes.default.svc,",
        "DNS:kubernetes.default.svc.cluster.local",
        "DNS:localhost",
        "IP Address:127.0.0.1",
        "IP Address:0:0:0:0:0:0:0:1",
    ] {
        assert!(names.contains(name), "{name}: {names}");
    }
    tool::openssl(&dir, "verify -x509_strict -CAfile ca.crt -purpose sslserver apiserver.crt");
    tool::openssl(&dir, "verify -x509_strict -CAfile ca.crt -purpose sslclient admin.crt");
    assert_eq!(
        tool::openssl(&dir, "x509 -in admin.crt -noout -subject -nameopt sep_comma_plus").trim(),
        "subject=O=system:masters,CN=kubernetes-admin"
    );
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_is_about_to_expire_or_no_longer_fits_is_renewed_at_start() {
    let dir = scratch();
    let now = SystemTime::now();
    drop(prepare(&dir, now).unwrap());
    let [ca, ca_key, serving, _, admin, _] = contents(&dir).try_into().unwrap();
    drop(prepare(&dir, now + 340 * DAY).unwrap());
    let later = contents(&dir);
    assert_eq!((&later[0], &later[1]), (&ca, &ca_key), "the authority stays");
    assert_ne!(later[2], serving);
    assert_ne!(later[4], admin);

    // Another address to be reached at.
    drop(Bootstrap::prepare(&dir, "127.0.0.2".parse().unwrap(), now + 340 * DAY).unwrap());
    assert_ne!(contents(&dir)[2], later[2]);
    assert!(tool::openssl(&dir, "x509 -in apiserver.crt -noout -ext subjectAltName").contains("127.0.0.2"));

    // A certificate that does not belong to its key, or is no certificate.
    for garbage in [ca.as_slice(), b"garbage"] {
        fs::write(dir.join("apiserver.crt"), garbage).unwrap();
        drop(prepare(&dir, now).unwrap());
        tool::openssl(&dir, "verify -CAfile ca.crt -purpose sslserver apiserver.crt");
    }

    assert!(matches!(prepare(&dir, now + 3651 * DAY), Err(BootstrapError::Expired(_))));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_lost_file_of_the_authority_never_costs_the_key() {
    let dir = scratch();
    let now = SystemTime::now();
    drop(prepare(&dir, now).unwrap());
    let made = contents(&dir);
    // The certificate is made again for the same key, and what was issued before stays good.
    fs::remove_file(dir.join("ca.crt")).unwrap();
    drop(prepare(&dir, now).unwrap());
    let again = contents(&dir);
    assert_eq!(again[1], made[1]);
    assert_eq!(again[2..], made[2..]);
    tool::openssl(&dir, "verify -CAfile ca.crt -purpose sslclient admin.crt");

    fs::remove_file(dir.join("ca.key")).unwrap();
    let error = prepare(&dir, now).unwrap_err().to_string();
    assert!(error.contains("ca.key is missing, but"), "{error}");
    assert_eq!(fs::read(dir.join("ca.crt")).unwrap(), again[0]);
    fs::write(dir.join("ca.key"), &made[3]).unwrap();
    let error = prepare(&dir, now).unwrap_err().to_string();
    assert!(error.contains("does not belong to its certificate"), "{error}");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn kubectl_works_with_the_administrators_kubeconfig() {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role",
        "metadata": {"name": "r", "namespace": "default"},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]}]});
    let binding = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": "default"},
        "subjects": [{"kind": "Group", "name": "system:masters", "apiGroup": RBAC},
            {"kind": "User", "name": "jane", "apiGroup": RBAC}],
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "r"}});
    let server = start_with(Setup { state: Some(format!("{role}\n{binding}")), ..Setup::default() });
    let kubectl = |words: &[&str]| {
        let mut command = tool::command("kubectl");
        command.arg("--kubeconfig").arg(server.dir.join("admin.kubeconfig"));
        command.arg("--cache-dir").arg(server.dir.join("cache")).args(words);
        let Finished { code, stdout, stderr } = Finished::of(&mut command);
        (code, stdout.trim().to_owned(), stderr)
    };
    let (code, out, error) = kubectl(&["auth", "can-i", "get", "pods"]);
    assert_eq!((code, out.as_str()), (0, "yes"), "{error}");
    let (code, out, error) = kubectl(&["auth", "can-i", "get", "/metrics"]);
    assert_eq!((code, out.as_str()), (0, "yes"), "{error}");
    let (code, out, error) = kubectl(&["auth", "can-i", "--list", "-n", "default"]);
    assert_eq!(code, 0, "{error}");
    assert!(out.contains("pods") && out.contains("[p]"), "{out}");
    let (code, out, error) = kubectl(&["get", "--raw", "/readyz?verbose"]);
    let policy = "[+]poststarthook/rbac/bootstrap-roles ok\n";
    let expected = format!("[+]ping ok\n{STARTED}{policy}[+]shutdown ok\nreadyz check passed");
    assert_eq!((code, out), (0, expected), "{error}");
    let (code, out, error) = kubectl(&["version"]);
    assert_eq!(code, 0, "{error}");
    assert!(out.contains("Server Version: v1.36.0+portcullis."), "{out}");
    let review = server.dir.join("review.json");
    fs::write(&review, crate::common::REVIEW).unwrap();
    let (code, out, error) = kubectl(&[
        "create",
        "-o",
        "jsonpath={.status.allowed}",
        "-f",
        review.to_str().unwrap(),
        "--validate=false",
    ]);
    assert_eq!((code, out.as_str()), (0, "true"), "{error}");
}
