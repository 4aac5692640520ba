//! `portcullis bootstrap check`: whether a cluster confines its nodes, against servers that do and that do not (NB-6, NB-7).

use std::collections::BTreeMap;

use portcullis_testkit::program;
use portcullis_testkit::recorded::repository;
use portcullis_testkit::tool::Finished;
use serde_json::Value;

use crate::kubectl::support::Served;

const CHECKS: [&str; 3] = ["RBAC", "Node authorizer", "NodeRestriction"];

/// A server with the example cluster, started with these flags.
fn start(flags: &[&str]) -> Served {
    let cluster = repository().join("examples/cluster");
    Served::start(&[&["--state", cluster.to_str().unwrap()], flags].concat())
}

fn check(served: &Served, words: &str) -> Finished {
    let mut command = program!().command(["bootstrap", "check", "--json"]);
    command.args(words.split_whitespace()).current_dir(served.scratch.path());
    Finished::of(command.env("KUBECONFIG", served.data().join("admin.kubeconfig")))
}

/// The details of all checks, which must have these results, in order.
fn results(done: &Finished, expected: [&str; 3]) -> BTreeMap<String, String> {
    let lines = done.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let checks: Vec<Value> = lines.filter(|line| line["check"].is_string()).collect();
    let text = |line: &Value, field: &str| line[field].as_str().unwrap().to_owned();
    let found: Vec<_> = checks.iter().map(|line| (text(line, "check"), text(line, "result"))).collect();
    let expected: Vec<_> =
        CHECKS.iter().zip(expected).map(|(check, result)| ((*check).to_owned(), result.to_owned())).collect();
    assert_eq!(found, expected, "{done:?}");
    checks.iter().map(|line| (text(line, "check"), text(line, "detail"))).collect()
}

#[test]
fn a_cluster_that_confines_its_nodes_passes_nb_6_nb_7() {
    let served = start(&[]);
    let pods = served.ok("get pods -A -o yaml");
    let done = check(&served, "");
    let details = results(&done, ["pass", "pass", "pass"]);
    assert!(details.values().all(|detail| !detail.contains("not checked")), "{details:?}");
    assert_eq!(done.code, 0, "{done:?}");
    // A node without pods can be named as well, and nothing was changed.
    let details = results(&check(&served, "--node nowhere"), ["pass", "pass", "pass"]);
    assert!(details["Node authorizer"].contains("not checked"), "{details:?}");
    results(&check(&served, "--node node-1"), ["pass", "pass", "pass"]);
    assert_eq!(served.ok("get pods -A -o yaml"), pods);
    served.fails("get node portcullis-posture-check");
    assert_eq!(check(&served, "--node a,b=c").code, 2);
}

#[test]
fn a_cluster_without_the_node_authorizer_fails_nb_6() {
    let done = check(&start(&["--authorization-mode", "RBAC"]), "");
    // Whatever a node writes is denied before admission sees it.
    let details = results(&done, ["pass", "fail", "unknown"]);
    assert!(details["Node authorizer"].contains("is denied"), "{details:?}");
    assert_eq!(done.code, 1, "{done:?}");
}

#[test]
fn a_cluster_that_allows_everything_fails_nb_6() {
    let done = check(&start(&["--authorization-mode", "AlwaysAllow"]), "");
    let details = results(&done, ["fail", "fail", "pass"]);
    assert!(details["Node authorizer"].contains("is allowed"), "{details:?}");
    assert_eq!(done.code, 1, "{done:?}");
}

#[test]
fn a_cluster_in_which_nodes_may_read_all_secrets_fails_nb_7() {
    let served = start(&[]);
    served.ok("create clusterrole secrets --verb get,list --resource secrets");
    served.ok("create clusterrolebinding nodes --clusterrole secrets --group system:nodes");
    let done = check(&served, "");
    let details = results(&done, ["pass", "fail", "pass"]);
    assert!(details["Node authorizer"].contains("list secrets of system:node:"), "{details:?}");
    assert_eq!(done.code, 1, "{done:?}");
}

#[test]
fn a_cluster_without_node_restriction_fails_nb_6() {
    let done = check(&start(&["--disable-admission-plugins", "NodeRestriction"]), "");
    let details = results(&done, ["pass", "pass", "fail"]);
    let detail = &details["NodeRestriction"];
    assert!(detail.contains("node-restriction.kubernetes.io"), "{detail}");
    assert!(detail.contains("status of a pod of another node"), "{detail}");
    assert_eq!(done.code, 1, "{done:?}");
}

#[test]
fn what_the_caller_may_not_ask_is_unknown_and_never_passed_nb_6() {
    let served = start(&[]);
    let mut create =
        program!().command(["bootstrap", "control-plane", "create", "--output", "cp.kubeconfig"]);
    create.current_dir(served.scratch.path()).env("KUBECONFIG", served.data().join("admin.kubeconfig"));
    assert_eq!(Finished::of(&mut create).code, 0);
    let done = check(&served, "--kubeconfig cp.kubeconfig");
    results(&done, ["unknown", "unknown", "unknown"]);
    assert_eq!(done.code, 3, "{done:?}");
    // With the permission for reviews alone, only what needs no more is known.
    served
        .ok("create clusterrole reviewer --verb create --resource subjectaccessreviews.authorization.k8s.io");
    served.ok("create clusterrolebinding reviewer --clusterrole reviewer --serviceaccount \
         openshift-machine-config-operator:node-bootstrapper");
    results(&check(&served, "--kubeconfig cp.kubeconfig"), ["pass", "unknown", "unknown"]);
}
