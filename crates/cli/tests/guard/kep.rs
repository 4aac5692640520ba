//! The integration checks and the tables of upgrade and rollback of KEP-2862, against a running API server.
//!
//! Where two of the checks contradict each other, the one that says "unsuccessfully" is about the feature switched off.

use crate::support::Guarded;

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
