//! PodSecurity with a configuration: what holds without labels, and who is exempt. The words and the annotations are those of
//! kube-apiserver.

use portcullis_testkit::request::{Answer, Request};
use serde_json::{Value, json};

use crate::common::{Setup, Started, start_with};

const METADATA: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";
const EXEMPT: &str = "pod-security.kubernetes.io/exempt";

fn start(defaults: Value, exemptions: Value) -> Started {
    let configuration = json!({
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": defaults,
        "exemptions": exemptions,
    });
    let admission = Some(json!([{"name": "PodSecurity", "configuration": configuration}]));
    start_with(Setup { is_cluster: true, admission, audit: Some(METADATA), ..Setup::default() })
}

fn namespace(name: &str, labels: &[(&str, &str)]) -> Value {
    let labels: serde_json::Map<_, _> = labels
        .iter()
        .map(|(mode, value)| (format!("pod-security.kubernetes.io/{mode}"), json!(value)))
        .collect();
    json!({"metadata": {"name": name, "labels": labels}})
}

/// A pod that baseline refuses.
fn host_pod(runtime_class: Option<&str>) -> Value {
    let mut spec = json!({"hostPID": true, "containers": [{"name": "c", "image": "i"}]});
    if let Some(name) = runtime_class {
        spec["runtimeClassName"] = json!(name);
    }
    json!({"metadata": {"generateName": "p-"}, "spec": spec})
}

fn by_admin(server: &Started, request: Request) -> Answer {
    request.by(&server.admin()).send()
}

/// Another administrator.
fn by_bob(server: &Started, request: Request) -> Answer {
    let request = request.header("Impersonate-User: bob").header("Impersonate-Group: system:masters");
    by_admin(server, request)
}

fn pods(server: &Started, namespace: &str, pod: &Value) -> Request {
    server.post(&format!("/api/v1/namespaces/{namespace}/pods"), pod.to_string())
}

/// The annotations of the last event.
fn annotations(server: &Started) -> Value {
    server.audited().pop().unwrap()["annotations"].clone()
}

/// In small letters, as answers are read here.
fn warnings(answer: &Answer) -> String {
    answer.header("warning").to_owned()
}

#[test]
fn defaults_hold_where_no_label_says_otherwise() {
    let server =
        start(json!({"enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted"}), json!({}));
    for new in
        [namespace("plain", &[]), namespace("open", &[("enforce", "privileged"), ("warn", "privileged")])]
    {
        let made = by_admin(&server, server.post("/api/v1/namespaces", new.to_string()));
        assert_eq!(made.code, 201, "{}", made.text());
    }
    let refused = by_admin(&server, pods(&server, "plain", &host_pod(None)));
    assert_eq!(refused.code, 403);
    assert!(
        refused.text().contains(r#"violates PodSecurity \"baseline:v1.30\": host namespaces"#),
        "{}",
        refused.text()
    );
    let mut plain = host_pod(None);
    plain["spec"]["hostPID"] = json!(false);
    let warned = by_admin(&server, pods(&server, "plain", &plain));
    assert_eq!(warned.code, 201, "{}", warned.text());
    assert!(warnings(&warned).contains("would violate podsecurity"), "{}", warnings(&warned));
    let taken = by_admin(&server, pods(&server, "open", &host_pod(None)));
    assert_eq!((taken.code, warnings(&taken)), (201, String::new()), "{}", taken.text());
    assert!(annotations(&server).get(EXEMPT).is_none());
}

#[test]
fn what_is_exempt_passes_and_the_audit_log_says_why() {
    let exemptions = json!({"usernames": ["bob"], "namespaces": ["system"], "runtimeClasses": ["sandbox"]});
    let server = start(json!({"enforce": "restricted"}), exemptions);
    for name in ["system", "team"] {
        let made = by_admin(&server, server.post("/api/v1/namespaces", namespace(name, &[]).to_string()));
        assert_eq!((made.code, warnings(&made)), (201, String::new()), "{}", made.text());
    }
    let class = json!({"metadata": {"name": "sandbox"}, "handler": "h"}).to_string();
    assert_eq!(by_admin(&server, server.post("/apis/node.k8s.io/v1/runtimeclasses", class)).code, 201);

    assert_eq!(by_admin(&server, pods(&server, "team", &host_pod(None))).code, 403);
    assert!(annotations(&server).get(EXEMPT).is_none());
    for (answer, why) in [
        (by_bob(&server, pods(&server, "team", &host_pod(None))), "user"),
        (by_admin(&server, pods(&server, "team", &host_pod(Some("sandbox")))), "runtimeClass"),
        (by_admin(&server, pods(&server, "system", &host_pod(None))), "namespace"),
        // Namespaces are looked at first, RuntimeClasses last.
        (by_bob(&server, pods(&server, "system", &host_pod(Some("sandbox")))), "namespace"),
        (by_bob(&server, pods(&server, "team", &host_pod(Some("sandbox")))), "user"),
    ] {
        assert_eq!((answer.code, warnings(&answer)), (201, String::new()), "{}", answer.text());
        let event = server.audited().into_iter().find(|event| event["auditID"] == answer.header("audit-id"));
        let noted = event.unwrap()["annotations"].clone();
        assert_eq!(noted[EXEMPT], why, "{noted}");
        assert!(noted.get("pod-security.kubernetes.io/enforce-policy").is_none(), "{noted}");
    }
    // Neither users nor RuntimeClasses are exempt by a part of their name, nor namespaces by another case.
    let other = server.post("/api/v1/namespaces/team/pods", host_pod(None).to_string());
    let other = other.header("Impersonate-User: bobby").header("Impersonate-Group: system:masters");
    assert_eq!(by_admin(&server, other).code, 403);
}

#[test]
fn labels_of_exempt_namespaces_are_told_to_be_ignored() {
    let exemptions = json!({"namespaces": ["system"], "runtimeClasses": ["sandbox"]});
    let server = start(json!({"audit": "restricted"}), exemptions);
    let class = json!({"metadata": {"name": "sandbox"}, "handler": "h"}).to_string();
    assert_eq!(by_admin(&server, server.post("/apis/node.k8s.io/v1/runtimeclasses", class)).code, 201);
    let labelled = namespace("system", &[("enforce", "baseline"), ("enforce-version", "v1.30")]);
    let ignored = "namespace \\\"system\\\" is exempt from pod security, and the policy (enforce=baseline:v1.30) will be ignored";
    let made = by_admin(&server, server.post("/api/v1/namespaces", labelled.to_string()));
    assert_eq!(made.code, 201, "{}", made.text());
    assert!(warnings(&made).contains(ignored), "{}", warnings(&made));
    let patch = |name: &str, labels: &[(&str, &str)]| {
        let request = server.request("PATCH", &format!("/api/v1/namespaces/{name}"));
        let body = namespace(name, labels).to_string();
        let answer =
            by_admin(&server, request.header("Content-Type: application/merge-patch+json").body(body));
        assert_eq!(answer.code, 200, "{}", answer.text());
        warnings(&answer)
    };
    // Only a stricter policy is told.
    assert_eq!(patch("system", &[("enforce", "privileged")]), "");
    assert!(
        patch("system", &[("enforce", "restricted")]).contains("(enforce=restricted:v1.30) will be ignored")
    );

    // Of a namespace that is not exempt, pods with an exempt RuntimeClass are no reason to warn.
    let made = by_admin(&server, server.post("/api/v1/namespaces", namespace("team", &[]).to_string()));
    assert_eq!((made.code, warnings(&made)), (201, String::new()));
    assert_eq!(by_admin(&server, pods(&server, "team", &host_pod(Some("sandbox")))).code, 201);
    assert_eq!(patch("team", &[("enforce", "baseline")]), "");
    assert_eq!(patch("team", &[("enforce", "restricted")]), "");
}

/// The labels are those of kube-apiserver.
#[test]
fn evaluations_exemptions_and_errors_are_counted() {
    let unreadable = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "unreadable", "labels": {"pod-security.kubernetes.io/audit": "strict"}},
    });
    let configuration = json!({
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "exemptions": {"usernames": ["bob"]},
    });
    let server = start_with(Setup {
        is_cluster: true,
        state: Some(unreadable.to_string()),
        admission: Some(json!([{"name": "PodSecurity", "configuration": configuration}])),
        ..Setup::default()
    });
    let counted = |metric: &str, labels: &str, count: u32| {
        server.wait_for_metric(&format!("pod_security_{metric}_total{{{labels}}} {count}"));
    };
    let of = |what: &str, version: &str, mode: &str, resource: &str| {
        let (decision, level) = what.split_once(' ').unwrap();
        format!(
            r#"decision="{decision}",policy_level="{level}",policy_version="{version}",mode="{mode}",request_operation="create",resource="{resource}",subresource="""#
        )
    };
    // They are there before anything happens.
    counted("evaluations", &of("allow privileged", "latest", "enforce", "pod"), 0);
    for resource in ["pod", "controller"] {
        let labels = format!(r#"request_operation="update",resource="{resource}",subresource="""#);
        counted("exemptions", &labels, 0);
    }
    let labels = [
        ("enforce", "baseline"),
        ("enforce-version", "v1.30"),
        ("audit", "restricted"),
        ("audit-version", "v1.99"),
    ];
    for new in [namespace("team", &labels), namespace("open", &[])] {
        assert_eq!(by_admin(&server, server.post("/api/v1/namespaces", new.to_string())).code, 201);
    }
    let mut plain = host_pod(None);
    plain["spec"]["hostPID"] = json!(false);
    assert_eq!(by_admin(&server, pods(&server, "team", &plain)).code, 201);
    assert_eq!(by_admin(&server, pods(&server, "team", &host_pod(None))).code, 403);
    assert_eq!(by_admin(&server, pods(&server, "open", &host_pod(None))).code, 201);
    assert_eq!(by_bob(&server, pods(&server, "team", &host_pod(None))).code, 201);
    assert_eq!(by_admin(&server, pods(&server, "unreadable", &plain)).code, 201);
    let template =
        json!({"metadata": {"name": "t"}, "template": {"metadata": {}, "spec": host_pod(None)["spec"]}});
    let path = "/api/v1/namespaces/team/podtemplates";
    assert_eq!(by_admin(&server, server.post(path, template.to_string())).code, 201);

    counted("evaluations", &of("allow baseline", "v1.30", "enforce", "pod"), 1);
    counted("evaluations", &of("deny baseline", "v1.30", "enforce", "pod"), 1);
    // A version that does not exist yet, also if the pod is refused anyway.
    counted("evaluations", &of("deny restricted", "future", "audit", "pod"), 2);
    counted("evaluations", &of("deny restricted", "future", "audit", "controller"), 1);
    counted("evaluations", &of("deny baseline", "v1.30", "warn", "controller"), 1);
    counted("evaluations", &of("allow privileged", "latest", "enforce", "pod"), 2);
    counted("exemptions", r#"request_operation="create",resource="pod",subresource="""#, 1);
    counted("errors", r#"fatal="false",request_operation="create",resource="pod",subresource="""#, 1);
}
