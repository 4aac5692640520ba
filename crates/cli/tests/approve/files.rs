//! `portcullis approve --csr`: the checks of one request over objects in files (NB-143).

use std::path::PathBuf;

use portcullis_testkit::scratch::Scratch;
use serde_json::{Value, json};

use super::*;

/// A request by the bootstrap user for `worker-0`, made with OpenSSL, and its Machine.
fn state(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let made = tool::openssl(
        scratch.path(),
        "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj \
         /O=system:nodes/CN=system:node:worker-0 -keyout node.key",
    );
    let csr = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "csr-1", "uid": "u", "creationTimestamp": "2026-01-02T03:02:00Z"},
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(made),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
            "username": format!("system:serviceaccount:{NAMESPACE}:node-bootstrapper"),
            "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{NAMESPACE}"), "system:authenticated"],
        },
    });
    let machine = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": "m", "namespace": "machines", "creationTimestamp": "2026-01-02T03:00:00Z"},
        "status": {"addresses": [{"type": "InternalDNS", "address": "worker-0"}]},
    });
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "control-plane-0"}});
    let state = json!({"apiVersion": "v1", "kind": "List", "items": [machine, node]});
    (scratch.write("csr.json", csr.to_string()), scratch.write("state.json", state.to_string()))
}

fn run(csr: &std::path::Path, state: &std::path::Path, more: &[&str]) -> (i32, String, String) {
    let mut command = program!().command(["approve", "--now", "2026-01-02T03:05:00Z", "--csr"]);
    let finished = Finished::of(command.arg(csr).arg("--state").arg(state).args(more));
    (finished.code, finished.stdout, finished.stderr)
}

#[test]
fn all_checks_are_printed_in_their_order_with_the_decision() {
    let scratch = Scratch::new();
    let (csr, state) = state(&scratch);
    let (code, table, error) = run(&csr, &state, &[]);
    assert_eq!((code, error.as_str()), (0, ""), "{table}");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 20);
    assert!(lines[..18].iter().all(|line| line.contains(" pass ")), "{table}");
    assert!(lines[18].starts_with("NB-95 ") && lines[18].contains(" skip "), "{table}");
    assert_eq!(
        lines[19],
        "csr-1: approve: ClientApproved (NB-96) Machine machine.openshift.io/v1beta1 machines/m"
    );
    let (code, json, _) = run(&csr, &state, &["-o", "json"]);
    let decided: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(code, 0);
    assert_eq!(decided["decision"]["outcome"], "approve");
    assert_eq!(decided["checks"].as_array().unwrap().len(), 19);
}

#[test]
fn what_would_not_be_approved_ends_with_1_and_says_which_check_fails() {
    let scratch = Scratch::new();
    let (csr, state) = state(&scratch);
    let text = std::fs::read_to_string(&state).unwrap();
    let registered = scratch.write("registered.json", text.replace("control-plane-0", "worker-0"));
    let (code, table, _) = run(&csr, &registered, &["-o", "json"]);
    let decided: Value = serde_json::from_str(&table).unwrap();
    assert_eq!((code, &decided["decision"]["reason"]), (1, &json!("NodeAlreadyExists")));
    assert_eq!(decided["decision"]["rule"], "NB-88");

    let old = scratch.write("old.json", text.replace("2026-01-02T03:00:00Z", "2026-01-01T03:00:00Z"));
    let (code, table, _) = run(&csr, &old, &[]);
    assert!(code == 1 && table.contains("hold: OutsideMachineWindow (NB-93)"), "{table}");

    let request = std::fs::read_to_string(&csr).unwrap();
    let foreign =
        scratch.write("foreign.json", request.replace("kube-apiserver-client-kubelet", "legacy-unknown"));
    let (code, table, _) = run(&foreign, &state, &[]);
    assert_eq!((code, table.as_str()), (1, "csr-1: ignore: it is for another signer\n"));
}

#[test]
fn input_that_cannot_be_used_ends_with_2_and_prints_no_decision() {
    let scratch = Scratch::new();
    let (csr, state) = state(&scratch);
    let empty = scratch.write("empty.json", r#"{"apiVersion":"v1","kind":"List","items":[]}"#);
    let broken = scratch.write(
        "broken.json",
        r#"{"apiVersion":"machine.openshift.io/v1beta1","kind":"Machine","status":[]}"#,
    );
    for (csr, state, more, said) in [
        (&empty, &state, &[][..], "exactly one is needed"),
        (&csr, &broken, &[], "broken.json"),
        (&csr, &scratch.path().join("none"), &[], "none"),
        (&csr, &state, &["--config", "/nonexistent.yaml"], "/nonexistent.yaml"),
        (&csr, &state, &["--kubeconfig", "x"], "cannot be used with"),
    ] {
        let (code, table, error) = run(csr, state, more);
        assert_eq!((code, table.as_str()), (2, ""), "{error}");
        assert!(error.contains(said), "{error}");
    }
}
