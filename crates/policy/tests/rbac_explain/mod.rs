//! Explanations name the grant, or the closest grant and what is missing.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

use portcullis_policy::objects::rbac::{Binding, Role};
use portcullis_policy::rbac::RbacIndex;
use portcullis_policy::{Attributes, ResourceRequest, User};
use serde_json::json;

fn index() -> RbacIndex {
    let role: Role = serde_json::from_value(json!({
        "metadata": {"name": "reader"},
        "rules": [
            {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
            {"verbs": ["get", "list"], "apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["web"]},
        ],
    }))
    .unwrap();
    let binding = |name: &str, role: &str| -> Binding {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "blue"},
            "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "Group", "name": "devs"}],
        }))
        .unwrap()
    };
    let mut index = RbacIndex::default();
    index.apply_cluster_role(role);
    index.apply_binding(binding("devs-read", "reader"));
    index.apply_binding(binding("devs-gone", "ghost"));
    index
}

fn request<'a>(namespace: &'a str, group: &'a str, resource: &'a str, name: &'a str) -> ResourceRequest<'a> {
    ResourceRequest { namespace, group, resource, name, ..ResourceRequest::default() }
}

fn held(binding: &str, rule: &str) -> String {
    format!("RoleBinding \"{binding}/blue\" of ClusterRole \"reader\" to Group \"devs\"\n  rule {rule}")
}

const DEPLOYMENTS: &str = concat!(
    r#"1: {APIGroups:["apps"], Resources:["deployments"], ResourceNames:["web"], "#,
    r#"Verbs:["get" "list"]}"#
);

#[test]
fn a_grant_names_its_binding_subject_role_and_rule() {
    let (index, user) = (index(), User::new("jane", ["devs"]));
    let resource = Some(request("blue", "apps", "deployments", "web"));
    let attributes = Attributes { user: &user, verb: "get", path: "", resource };
    // The binding, role and subject as RB-36 has them.
    assert_eq!(index.explain(&attributes), format!("allowed by {}", held("devs-read", DEPLOYMENTS)));
}

#[test]
fn a_miss_says_which_factor_is_another_and_the_refusal_what_is_needed() {
    let (index, user) = (index(), User::new("jane", ["devs"]));
    let cases = [
        ("delete", request("blue", "apps", "deployments", "web"), "verb"),
        ("get", request("blue", "batch", "deployments", "web"), "API group"),
        ("get", request("blue", "apps", "daemonsets", "web"), "resource"),
        ("get", request("blue", "apps", "deployments", "db"), "name"),
        ("get", request("red", "apps", "deployments", "web"), "namespace"),
    ];
    for (verb, resource, factor) in cases {
        let attributes = Attributes { user: &user, verb, path: "", resource: Some(resource) };
        let ResourceRequest { namespace, group, resource, name, .. } = resource;
        // Missing roles count where the binding is in force.
        let missing = match namespace {
            "blue" => "not found: clusterrole.rbac.authorization.k8s.io \"ghost\" not found\n",
            _ => "",
        };
        let expected = format!(
            "no rule of the user or of the user's groups allows this\n\
             near miss, other {factor}: {}\n{missing}\
             needed: {{APIGroups:[{group:?}], Resources:[{resource:?}], ResourceNames:[{name:?}], Verbs:[{verb:?}]}} \
             by a RoleBinding in namespace {namespace} or by a ClusterRoleBinding",
            held("devs-read", DEPLOYMENTS),
        );
        assert_eq!(index.explain(&attributes), expected);
    }
}

#[test]
fn a_path_in_a_role_bound_in_a_namespace_is_a_miss_by_namespace_rb_34() {
    let (index, user) = (index(), User::new("jane", ["devs"]));
    let attributes = Attributes { user: &user, verb: "get", path: "/metrics", resource: None };
    let metrics = r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#;
    let expected = format!(
        "no rule of the user or of the user's groups allows this\n\
         near miss, other namespace: {}\n\
         needed: {metrics} by a ClusterRoleBinding",
        held("devs-read", &format!("0: {metrics}")),
    );
    assert_eq!(index.explain(&attributes), expected);
}

#[test]
fn an_index_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let index = index();
    shared(&index);
    assert_eq!(index.bindings().count(), 2);
}
