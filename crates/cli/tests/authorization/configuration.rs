//! The file of `--authorization-config`: several webhooks, match conditions, faults, and changes while serving (AC-80 to
//! AC-117).

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::wait::until;
use portcullis_testkit::webhook::{Asked, Reply, WebhookService};
use serde_json::json;

use crate::authorization::support::{POLICY, Running, refused, text};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SYSTEM: &str = "/api/v1/namespaces/kube-system/secrets";

/// One entry of type Webhook.
fn entry(name: &str, kubeconfig: &Path, failure_policy: &str, conditions: &[&str]) -> String {
    let conditions: Vec<_> = conditions.iter().map(|expression| json!({"expression": expression})).collect();
    let entry = json!({
        "type": "Webhook", "name": name,
        "webhook": {
            "timeout": "3s", "authorizedTTL": "30s", "cacheUnauthorizedRequests": false,
            "subjectAccessReviewVersion": "v1", "matchConditionSubjectAccessReviewVersion": "v1",
            "failurePolicy": failure_policy,
            "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": kubeconfig},
            "matchConditions": conditions,
        },
    });
    format!("- {entry}\n")
}

fn file(version: &str, entries: &[String]) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/{version}\nkind: AuthorizationConfiguration\nauthorizers:\n{}",
        entries.concat()
    )
}

fn local(name: &str) -> String {
    format!("- {{type: {name}, name: {}}}\n", name.to_lowercase())
}

fn says(user: &'static str) -> impl Fn(&Asked, usize) -> Reply + Send + Sync {
    move |asked, _| Reply::status(asked, &json!({"allowed": asked.review["spec"]["user"] == user}))
}

#[test]
fn several_webhooks_each_with_conditions_are_asked_in_order_ac_90_ac_108() {
    for version in ["v1", "v1beta1"] {
        let scratch = Scratch::new();
        let first = WebhookService::start(scratch.path(), says("alice"));
        let second = WebhookService::start(scratch.path(), says("bob"));
        let conditions =
            ["has(request.resourceAttributes)", "request.resourceAttributes.namespace != 'kube-system'"];
        let config = file(
            version,
            &[
                entry("first.example.org", &first.kubeconfig(), "NoOpinion", &conditions),
                local("RBAC"),
                entry("second.example.org", &second.kubeconfig(), "NoOpinion", &[]),
                local("ABAC"),
            ],
        );
        let config = scratch.write("authorization.yaml", config);
        let policy = scratch.write("policy.jsonl", POLICY);
        let flags = ["--authorization-config", text(&config), "--authorization-policy-file", text(&policy)];
        let server = Running::start(&scratch, &flags);
        assert_eq!(server.get("alice", SECRETS), 200);
        assert_eq!((first.asked().len(), second.asked().len()), (1, 0));
        assert_eq!(first.asked()[0].line, "POST /authorize?timeout=3s HTTP/1.1");
        assert_eq!(server.get("bob", SECRETS), 200);
        assert_eq!((first.asked().len(), second.asked().len()), (2, 1));
        // Not for the first: by the second no, by ABAC yes.
        assert_eq!(server.get("alice", SYSTEM), 200);
        assert_eq!((first.asked().len(), second.asked().len()), (2, 2));
        assert_eq!(server.get("jane", SYSTEM), 403);
        let excluded = server.metric(
            "apiserver_authorization_match_condition_exclusions_total{type=\"Webhook\",name=\"first.example.org\"}",
        );
        assert!(!excluded.is_empty());
    }
}

#[test]
fn a_condition_that_fails_goes_by_the_failure_policy_ac_108_ac_54() {
    for (failure_policy, rbac_is_asked) in [("NoOpinion", true), ("Deny", false)] {
        let scratch = Scratch::new();
        let service = WebhookService::start(scratch.path(), says("alice"));
        let unguarded = ["request.resourceAttributes.namespace == 'default'"];
        let config = file(
            "v1",
            &[entry("w", &service.kubeconfig(), failure_policy, &unguarded), local("AlwaysAllow")],
        );
        let config = scratch.write("authorization.yaml", config);
        let server = Running::start(&scratch, &["--authorization-config", text(&config)]);
        // AN-111 is for flags alone.
        assert_eq!(server.get("", "/version"), if rbac_is_asked { 200 } else { 500 });
        assert_eq!(server.get("alice", "/version"), if rbac_is_asked { 200 } else { 500 });
        assert!(service.asked().is_empty());
        assert_eq!(server.get("alice", SECRETS), 200);
        assert_eq!(service.asked().len(), 1);
    }
}

#[test]
fn a_service_that_does_not_answer_in_time_goes_by_the_failure_policy_wh_33_wh_41() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| {
        let allows = Reply::status(asked, &json!({"allowed": true}));
        Reply::After(Duration::from_secs(20), Box::new(allows))
    });
    let quick = |entry: String| entry.replace("\"3s\"", "\"300ms\"");
    let path = service.kubeconfig();
    for (failure_policy, code) in [("NoOpinion", 200), ("Deny", 500)] {
        let entries = [quick(entry("slow", &path, failure_policy, &[])), local("AlwaysAllow")];
        let config = scratch.write("authorization.yaml", file("v1", &entries));
        let scratch = Scratch::new();
        let server = Running::start(&scratch, &["--authorization-config", text(&config)]);
        assert_eq!(server.get("alice", SECRETS), code, "{failure_policy}");
        let timeouts = "apiserver_authorization_webhook_evaluations_total{name=\"slow\",result=\"timeout\"}";
        assert!(server.metric(timeouts).ends_with(" 1"));
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once_ac_80_to_ac_91() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), says("alice"));
    let kubeconfig = service.kubeconfig();
    let good = |conditions: &[&str]| entry("w", &kubeconfig, "Deny", conditions);
    let both = [good(&["request.user == 'x'"]), local("RBAC")];
    let change = |from: &str, to: &str| {
        let text = file("v1", &both);
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    let many: Vec<String> = (0..65).map(|at| format!("request.user == '{at}'")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (config, expected) in [
        (String::new(), vec!["authorizers: Required value: at least one authorization mode must be defined"]),
        (file("v1", &[" []\n".to_owned()]), vec!["authorizers: Required value: at least one"]),
        (file("v2", &both), vec!["apiserver.config.k8s.io/v2"]),
        (change("kind: AuthorizationConfiguration", "kind: Other"), vec!["no kind \"Other\""]),
        (change("\"timeout\"", "\"timeOut\""), vec!["strict decoding error", "timeOut"]),
        (change("kind: Auth", "kind: X\nkind: Auth"), vec!["kind is given twice"]),
        (
            file(
                "v1",
                &["- {name: a}\n- {type: rbac, name: rbac}\n".to_owned(), local("RBAC"), local("RBAC")],
            ),
            vec![
                "authorizers[0].type: Required value",
                "authorizers[1].type: Unsupported value: \"rbac\": supported values: \"ABAC\", \"AlwaysAllow\", \
                 \"AlwaysDeny\", \"Deny\", \"Node\", \"RBAC\", \"Webhook\"",
                "authorizers[3].type: Duplicate value: \"RBAC\"",
            ],
        ),
        (
            file("v1", &["- {type: RBAC, name: foo}\n".to_owned()]),
            vec!["expected name rbac for authorizer RBAC instead of foo"],
        ),
        (change("\"w\"", "\"\""), vec!["authorizers[0].name: Required value"]),
        (change("\"w\"", "\"W_\""), vec!["authorizers[0].name: Invalid value: \"W_\""]),
        (file("v1", &[good(&[]), good(&[])]), vec!["authorizers[1].name: Duplicate value: \"w\""]),
        (
            file("v1", &["- {type: Webhook, name: w}\n".to_owned()]),
            vec!["authorizers[0].webhook: Required value: required when type=Webhook"],
        ),
        (
            file("v1", &["- {type: RBAC, name: rbac, webhook: {timeout: 3s}}\n".to_owned()]),
            vec![
                "authorizers[0].webhook: Invalid value: \"non-null\": may only be specified when type=Webhook",
            ],
        ),
        (
            change("\"3s\"", "\"31s\""),
            vec!["authorizers[0].timeout: Invalid value: \"31s\": must be > 0s and <= 30s"],
        ),
        (change("\"3s\"", "\"0s\""), vec!["authorizers[0].timeout: Required value"]),
        (change("\"3s\"", "\"-1s\""), vec!["authorizers[0].timeout: Invalid value: \"-1s\""]),
        (
            change("\"30s\"", "\"-30s\""),
            vec!["authorizers[0].authorizedTTL: Invalid value: \"-30s\": must be > 0s"],
        ),
        (
            file("v1", &["- {type: Webhook, name: w, webhook: {}}\n".to_owned()]),
            vec![
                "authorizers[0].timeout: Required value",
                "authorizers[0].subjectAccessReviewVersion: Required value",
                "authorizers[0].failurePolicy: Required value",
                "authorizers[0].connectionInfo.type: Required value",
            ],
        ),
        (
            change("\"matchConditionSubjectAccessReviewVersion\":\"v1\",", ""),
            vec!["authorizers[0].matchConditionSubjectAccessReviewVersion: Required value"],
        ),
        (
            change("\"KubeConfigFile\"", "\"InClusterConfig\""),
            vec!["InClusterConfig cannot be used", "can only be set"],
        ),
        (
            change(text(&kubeconfig), "kubeconfig.yaml"),
            vec![
                "authorizers[0].connectionInfo.kubeConfigFile: Invalid value: \"kubeconfig.yaml\": must be an absolute path",
            ],
        ),
        (change(text(&kubeconfig), "/nowhere"), vec!["error loading file"]),
        (change(text(&kubeconfig), "/"), vec!["must be a regular file"]),
        (
            file("v1", &[good(&many)]),
            vec!["authorizers[0].matchConditions: Too many: 65: must have at most 64 items"],
        ),
        (
            file("v1", &[good(&["true", " ", "true"])]),
            vec![
                "authorizers[0].matchConditions[1].expression: Required value",
                "authorizers[0].matchConditions[2].expression: Duplicate value: \"true\"",
            ],
        ),
        (
            file("v1", &[good(&["request.user", "request.nope == ''", "request.user +"])]),
            vec![
                "authorizers[0].matchConditions[0].expression: Invalid value: \"request.user\": compilation failed: \
                 must evaluate to bool",
                "authorizers[0].matchConditions[1].expression: Invalid value: \"request.nope == ''\"",
                "authorizers[0].matchConditions[2].expression: Invalid value: \"request.user +\"",
            ],
        ),
    ] {
        let path = scratch.write("authorization.yaml", &config);
        let said = refused(&scratch, &["--authorization-config", text(&path)]);
        assert!(said.contains(text(&path)), "{said}");
        for expected in expected {
            assert!(said.contains(expected), "{config}\n{expected}\n{said}");
        }
    }
}

#[test]
fn a_changed_file_is_taken_and_a_broken_one_changes_nothing_ac_111_to_ac_117() {
    let scratch = Scratch::new();
    let first = WebhookService::start(scratch.path(), says("alice"));
    let second = WebhookService::start(scratch.path(), says("bob"));
    let (first, second) = (first.kubeconfig(), second.kubeconfig());
    let of = |kubeconfig: &Path| file("v1", &[entry("w", kubeconfig, "NoOpinion", &[]), local("RBAC")]);
    let path = scratch.write("authorization.yaml", of(&first));
    let server = Running::start(&scratch, &["--authorization-config", text(&path)]);
    let reloads = |status: &str| {
        let begins =
            format!("apiserver_authorization_config_controller_automatic_reloads_total{{status=\"{status}\"");
        server.metric(&begins).rsplit(' ').next().unwrap_or_default().parse().unwrap_or(0)
    };
    assert_eq!((server.get("alice", SECRETS), server.get("bob", SECRETS)), (200, 403));
    // Another text that says the same is no change (AC-114).
    fs::write(&path, format!("# the same\n{}", of(&first))).unwrap();
    sleep(Duration::from_secs(3));
    assert_eq!((reloads("success"), reloads("failure")), (0, 0));
    // Broken in every way: the one in force stays.
    for (at, broken) in [
        "{".to_owned(),
        file("v1", &[]),
        of(&first).replace("3s", "300s"),
        // AC-113
        file("v1", &[entry("w", &first, "NoOpinion", &[])]),
        // AC-115
        file("v1", &[local("RBAC"), local("Node")]),
        of(&first).replace("\"matchConditions\":[]", "\"matchConditions\":[{\"expression\":\"1\"}]"),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(&path, &broken).unwrap();
        until(&broken, || reloads("failure") == at + 1);
        assert_eq!((server.get("alice", SECRETS), server.get("bob", SECRETS)), (200, 403), "{broken}");
    }
    fs::write(&path, of(&second)).unwrap();
    until("the second is asked", || reloads("success") == 1);
    // The cache of the first is gone with it.
    assert_eq!((server.get("alice", SECRETS), server.get("bob", SECRETS)), (403, 200));
    // AlwaysDeny and AlwaysAllow may come and go (AC-115).
    fs::write(&path, file("v1", &[local("RBAC"), local("AlwaysAllow")])).unwrap();
    until("everybody is allowed", || reloads("success") == 2);
    assert_eq!(server.get("alice", SECRETS), 200);
    fs::write(&path, file("v1", &[local("RBAC")])).unwrap();
    until("nobody is", || reloads("success") == 3);
    assert_eq!(server.get("alice", SECRETS), 403);
    let log = server.stop();
    assert!(log.contains("the authorization configuration cannot be used; the one in force stays"), "{log}");
    assert!(log.contains("missing required types: [RBAC]"), "{log}");
    assert!(
        log.contains("authorizer type Node is not allowed if it was not enabled at initial server startup"),
        "{log}"
    );
}
