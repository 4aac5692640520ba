//! The integration checks and the tables of upgrade and rollback of KEP-2862, against a running API server.
//!
//! Where two of the checks contradict each other, the one that says "unsuccessfully" is about the feature switched off.

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::kubelet::Options;
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;

use crate::guard::support::Guarded;

const ON: &[&str] = &[];
const OFF: &[&str] = &["--feature-gates", "KubeletFineGrainedAuthz=false"];

/// Whether a user with this permission gets at this endpoint.
#[track_caller]
fn check(guarded: &Guarded, subresource: &str, path: &str, succeeds: bool) {
    let user = if subresource == "proxy" { "joe" } else { "jane" };
    let answer = guarded.ask(user, "GET", path);
    let expected = if succeeds { 200 } else { 403 };
    assert_eq!(answer.code, expected, "{user} {path}: {}", String::from_utf8_lossy(&answer.body));
}

fn granted(flags: &[&str]) -> Guarded {
    let guarded = Guarded::start(flags);
    guarded.grant("joe", "get", "nodes/proxy");
    guarded
}

#[test]
fn enabled_proxy_permission_authorizes_configz() {
    check(&granted(ON), "proxy", "/configz", true);
}

#[test]
fn enabled_configz_permission_authorizes_configz() {
    let guarded = granted(ON);
    guarded.grant("jane", "get", "nodes/configz");
    check(&guarded, "configz", "/configz", true);
}

#[test]
fn enabled_proxy_permission_authorizes_healthz() {
    check(&granted(ON), "proxy", "/healthz", true);
}

#[test]
fn enabled_healthz_permission_authorizes_healthz() {
    let guarded = granted(ON);
    guarded.grant("jane", "get", "nodes/healthz");
    check(&guarded, "healthz", "/healthz", true);
}

#[test]
fn enabled_proxy_permission_authorizes_pods() {
    check(&granted(ON), "proxy", "/pods/", true);
}

#[test]
fn enabled_pods_permission_authorizes_pods() {
    let guarded = granted(ON);
    guarded.grant("jane", "get", "nodes/pods");
    check(&guarded, "pods", "/pods/", true);
    check(&guarded, "pods", "/runningpods/", true);
}

#[test]
fn disabled_proxy_permission_authorizes_configz() {
    check(&granted(OFF), "proxy", "/configz", true);
}

#[test]
fn disabled_configz_permission_does_not_authorize_configz() {
    let guarded = granted(OFF);
    guarded.grant("jane", "get", "nodes/configz");
    check(&guarded, "configz", "/configz", false);
}

#[test]
fn disabled_proxy_permission_authorizes_healthz() {
    check(&granted(OFF), "proxy", "/healthz", true);
}

#[test]
fn disabled_healthz_permission_does_not_authorize_healthz() {
    let guarded = granted(OFF);
    guarded.grant("jane", "get", "nodes/healthz");
    check(&guarded, "healthz", "/healthz", false);
}

#[test]
fn disabled_proxy_permission_authorizes_pods() {
    check(&granted(OFF), "proxy", "/pods/", true);
}

#[test]
fn disabled_pods_permission_does_not_authorize_pods() {
    let guarded = granted(OFF);
    guarded.grant("jane", "get", "nodes/pods");
    check(&guarded, "pods", "/pods/", false);
}

const OLDER: &[&str] = &["--emulated-version", "1.35", "--feature-gates", "KubeletFineGrainedAuthz=false"];

/// What workloads with the new permission, workloads with the old one, and kube-apiserver get with the feature on or off
/// in the kubelet and in kube-apiserver.
fn reach(in_kubelet: bool, in_apiserver: bool) -> [u16; 3] {
    let users = ["fine", "coarse", "apiserver"].map(str::to_owned);
    let api = if in_apiserver { &[][..] } else { OLDER };
    let kubelet = if in_kubelet { ON } else { OFF };
    let guarded = Guarded::with_users(&users, Options::default(), api, kubelet);
    let role = guarded.admin(
        200,
        "GET",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:kubelet-api-admin",
        None,
    );
    let resources: Vec<&str> = role["rules"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|rule| rule["resources"].as_array().unwrap())
        .filter_map(|name| name.as_str())
        .collect();
    for name in ["nodes/pods", "nodes/healthz", "nodes/configz"] {
        assert_eq!(resources.contains(&name), in_apiserver, "{name}");
    }
    // KA-75: the metric by which the KEP has operators look.
    let metrics =
        Client::new(guarded.api, &Identity::admin(&guarded.data())).ask("GET", "/metrics", None).unwrap();
    let (stage, on) = if in_apiserver { ("", 1) } else { ("BETA", 0) };
    let line =
        format!("kubernetes_feature_enabled{{name=\"KubeletFineGrainedAuthz\",stage=\"{stage}\"}} {on}");
    let text = String::from_utf8(metrics.body).unwrap();
    assert!(text.lines().any(|found| found == line), "{line}");
    guarded.grant("fine", "get", "nodes/pods");
    guarded.grant("coarse", "get", "nodes/proxy");
    guarded.bind("apiserver", "User", "apiserver", "system:kubelet-api-admin");
    users.map(|user| guarded.code(&user, "GET", "/pods"))
}

/// The table of upgrades, and that of rollbacks: where only one of the two has the feature, they are the same.
#[test]
fn upgrade_of_both_and_of_the_kubelet_alone_everybody_reaches_the_kubelet() {
    assert_eq!(reach(true, true), [200, 200, 200]);
    // Upgrade of the kubelet alone; rollback of kube-apiserver alone.
    assert_eq!(reach(true, false), [200, 200, 200]);
}

#[test]
fn upgrade_of_the_api_server_alone_workloads_need_the_old_permission() {
    // Upgrade of kube-apiserver alone; rollback of the kubelet alone.
    assert_eq!(reach(false, true), [403, 200, 200]);
}

#[test]
fn rollback_of_both_workloads_need_the_old_permission() {
    assert_eq!(reach(false, false), [403, 200, 200]);
}

/// What happens to the role when the feature comes, goes and comes again over the same store.
#[test]
fn the_role_of_kube_apiserver_follows_the_feature_over_restarts() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let grants = |flags: &[&str]| {
        let mut command = program!().serve_command(&data);
        command.args(flags);
        let served = Running::start(command);
        let mut admin = Client::new(served.address(), &Identity::admin(&data));
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:kubelet-api-admin";
        let role = admin.must(200, "GET", path, None);
        let _ = served.stop();
        role["rules"].to_string().contains("nodes/pods")
    };
    assert!(!grants(OLDER));
    assert!(grants(&[]));
    // As in Kubernetes, what was granted is not taken away by a start: reconciliation adds (RB-103).
    assert!(grants(OLDER));
    assert!(grants(&[]));
}
