//! The modes that answer at once, by their flags (AC-60 to AC-74, seed: the authorization guide).

use portcullis_testkit::scratch::Scratch;

use crate::authorization::support::{POLICY, Running, refused, text};

const PODS: &str = "/api/v1/namespaces/projectCaribou/pods";
const EVENTS: &str = "/api/v1/namespaces/other/events";

#[test]
fn always_deny_blocks_all_but_the_masters_ac_61_ac_63() {
    let scratch = Scratch::new();
    let server = Running::start(&scratch, &["--authorization-mode=AlwaysDeny"]);
    assert_eq!(server.get("alice", PODS), 403);
    assert_eq!(server.get("", "/version"), 403);
    assert!(server.message("alice", PODS).ends_with(": Everything is forbidden."));
    assert_eq!(server.get("root", PODS), 200);
}

#[test]
fn always_deny_before_always_allow_allows_ac_61() {
    for modes in
        ["AlwaysDeny,AlwaysAllow", "AlwaysAllow", "AlwaysAllow,AlwaysDeny", "RBAC,AlwaysDeny,AlwaysAllow"]
    {
        let scratch = Scratch::new();
        let server = Running::start(&scratch, &[&format!("--authorization-mode={modes}")]);
        assert_eq!(server.get("alice", PODS), 200, "{modes}");
        // AN-111: but only who is known.
        assert_eq!(server.get("", PODS), 401, "{modes}");
    }
}

#[test]
fn the_policies_of_the_guide_do_what_it_says() {
    let scratch = Scratch::new();
    let policy = scratch.write("policy.jsonl", POLICY);
    let flags = ["--authorization-mode=ABAC", "--authorization-policy-file", text(&policy)];
    let server = Running::start(&scratch, &flags);
    // 1. Alice can do anything to all resources.
    assert_eq!(server.get("alice", "/api/v1/secrets"), 200);
    assert_eq!(server.get("alice", "/apis/rbac.authorization.k8s.io/v1/clusterroles"), 200);
    // 2. Kubelet can read any pods; but not write them.
    assert_eq!(server.get("kubelet", PODS), 200);
    assert_eq!(server.ask("kubelet", PODS, &["--request", "DELETE"]).0, 403);
    assert_eq!(server.get("kubelet", "/api/v1/secrets"), 403);
    // 3. Kubelet can read and write events.
    assert_eq!(server.get("kubelet", EVENTS), 200);
    assert_eq!(server.ask("kubelet", EVENTS, &["--request", "DELETE"]).0, 200);
    // 4. Bob can just read pods in one namespace.
    assert_eq!(server.get("bob", PODS), 200);
    assert_eq!(server.get("bob", "/api/v1/namespaces/other/pods"), 403);
    assert_eq!(server.ask("bob", PODS, &["--request", "DELETE"]).0, 403);
    // 5. Anyone can make read-only requests to all non-resource paths.
    assert_eq!(server.get("bob", "/version"), 200);
    // Anyone is whoever is known (AB-25).
    assert_eq!(server.get("", "/apis"), 403);
    assert_eq!(server.ask("bob", "/version", &["--request", "POST"]).0, 403);
}

#[test]
fn modes_are_a_union_in_any_order_ac_51() {
    for modes in ["Node,ABAC,RBAC", "RBAC,ABAC,Node", "AlwaysDeny,ABAC,Node,RBAC"] {
        let scratch = Scratch::new();
        let policy = scratch.write("policy.jsonl", POLICY);
        let mode = format!("--authorization-mode={modes}");
        let server = Running::start(&scratch, &[&mode, "--authorization-policy-file", text(&policy)]);
        assert_eq!(server.get("alice", PODS), 200, "{modes}: by ABAC");
        assert_eq!(server.get("jane", PODS), 403, "{modes}: by nobody");
        assert_eq!(server.get("jane", "/apis"), 200, "{modes}: by RBAC and ABAC");
        assert_eq!(server.get("node", "/api/v1/services"), 200, "{modes}: by Node");
        let unrelated = server.message("node", "/api/v1/namespaces/default/secrets/s");
        assert!(unrelated.contains("no relationship found between node 'n1' and this object"), "{unrelated}");
    }
}

#[test]
fn a_super_user_is_allowed_everything_by_rbac_rb_125() {
    let scratch = Scratch::new();
    let flags = ["--authorization-mode=RBAC", "--authorization-rbac-super-user=bob"];
    let server = Running::start(&scratch, &flags);
    assert_eq!(server.get("bob", "/api/v1/secrets"), 200);
    assert_eq!(server.get("alice", "/api/v1/secrets"), 403);
}

#[test]
fn flags_that_contradict_each_other_are_told_together_ac_72() {
    let scratch = Scratch::new();
    for (flags, expected) in [
        (vec!["--authorization-mode="], vec!["at least one authorization-mode must be passed"]),
        (vec!["--authorization-mode=rBAC"], vec!["authorization-mode \"rBAC\" is not a valid mode"]),
        (
            vec!["--authorization-mode=ABAC,Webhook"],
            vec![
                "authorization-mode ABAC's authorization policy file not passed",
                "authorization-mode Webhook's authorization config file not passed",
            ],
        ),
        (
            vec!["--authorization-webhook-config-file=/nowhere"],
            vec!["cannot specify --authorization-webhook-config-file without mode Webhook"],
        ),
        (
            vec!["--authorization-mode=RBAC,RBAC"],
            vec!["authorization-mode [\"RBAC\", \"RBAC\"] has mode specified more than once"],
        ),
        (
            vec!["--authorization-mode=Webhook", "--authorization-webhook-config-file=/nowhere"],
            vec!["--authorization-webhook-config-file", "cannot read /nowhere"],
        ),
        (
            vec!["--authorization-webhook-version=v2", "--authorization-webhook-cache-authorized-ttl=soon"],
            vec!["unsupported SubjectAccessReview version \"v2\"", "\"soon\" is not a duration"],
        ),
        (
            vec!["--authorization-config=/nowhere", "--authorization-mode=RBAC"],
            vec!["--authorization-config cannot be given together with --authorization-mode"],
        ),
    ] {
        let said = refused(&scratch, &flags);
        for expected in expected {
            assert!(said.contains(expected), "{flags:?}: {said}");
        }
    }
}

#[test]
fn a_deny_rule_wins_over_every_later_mode_bc_30() {
    let scratch = Scratch::new();
    let rules = scratch.write(
        "deny.yaml",
        "apiVersion: portcullis.dev/v1
kind: DenyRules
rules:
- name: no-secrets
  message: ask the owner
  subjects:
  - {kind: User, name: \"*\"}
  except:
  - {kind: User, name: bob}
  verbs: [get, list, watch]
  apiGroups: [\"\"]
  resources: [secrets]
  namespaces: [projectCaribou]
",
    );
    let flags = ["--authorization-mode=Deny,AlwaysAllow", "--deny-file", text(&rules)];
    let server = Running::start(&scratch, &flags);
    let secrets = "/api/v1/namespaces/projectCaribou/secrets";
    assert!(server.message("alice", secrets).ends_with(": denied by rule \"no-secrets\": ask the owner"));
    // A list of all namespaces would hold the same objects.
    assert_eq!(server.get("alice", "/api/v1/secrets"), 403);
    assert_eq!(server.get("alice", "/api/v1/namespaces/other/secrets"), 200);
    assert_eq!(server.get("alice", PODS), 200);
    assert_eq!(server.get("bob", secrets), 200);
    // Whom nothing refuses.
    assert_eq!(server.get("root", secrets), 200);
}

#[test]
fn deny_rules_and_their_mode_go_together_bc_30() {
    let scratch = Scratch::new();
    let rules = scratch.write("deny.yaml", "{apiVersion: portcullis.dev/v1, kind: DenyRules}");
    let without_mode = refused(&scratch, &["--deny-file", text(&rules)]);
    assert!(without_mode.contains("--deny-file without mode Deny"), "{without_mode}");
    let without_rules = refused(&scratch, &["--authorization-mode=Deny,RBAC"]);
    assert!(without_rules.contains("--deny-file"), "{without_rules}");
    let wrong = scratch.write("wrong.yaml", "{apiVersion: portcullis.dev/v1, kind: DenyRules, rule: []}");
    let unknown_field = refused(&scratch, &["--authorization-mode=Deny,RBAC", "--deny-file", text(&wrong)]);
    assert!(unknown_field.contains("unknown field `rule`"), "{unknown_field}");
}
