//! Explanations name the grant, or the closest grant and what is missing.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

use portcullis_policy::objects::rbac::{Binding, PolicyRule, Role};
use portcullis_policy::rbac::{Explanation, Factor, RbacIndex, Refused};
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

fn refused<'a>(index: &'a RbacIndex, attributes: &'a Attributes<'a>) -> Refused<'a> {
    match index.explain(attributes) {
        Explanation::Refused(refused) => refused,
        other => panic!("{other}"),
    }
}

#[test]
fn a_grant_names_its_binding_subject_role_and_rule() {
    let (index, user) = (index(), User::new("jane", ["devs"]));
    let resource = Some(request("blue", "apps", "deployments", "web"));
    let attributes = Attributes { user: &user, verb: "get", path: "", resource };
    let Explanation::Granted(granted) = index.explain(&attributes) else { panic!("granted") };
    assert_eq!((granted.binding.name(), granted.binding.namespace()), ("devs-read", "blue"));
    assert_eq!((granted.subject.kind.as_str(), granted.subject.name.as_str()), ("Group", "devs"));
    assert_eq!((granted.role.metadata.name.as_str(), granted.rule_index), ("reader", 1));
    // The binding, role and subject as RB-36 has them.
    let text = index.explain(&attributes).to_string();
    assert!(
        text.starts_with(
            r#"allowed by RoleBinding "devs-read/blue" of ClusterRole "reader" to Group "devs""#
        ),
        "{text}"
    );
}

#[test]
fn a_miss_says_which_factor_is_another_and_the_refusal_what_is_needed() {
    let (index, user) = (index(), User::new("jane", ["devs"]));
    let cases = [
        ("delete", request("blue", "apps", "deployments", "web"), Factor::Verb),
        ("get", request("blue", "batch", "deployments", "web"), Factor::ApiGroup),
        ("get", request("blue", "apps", "daemonsets", "web"), Factor::Resource),
        ("get", request("blue", "apps", "deployments", "db"), Factor::Name),
        ("get", request("red", "apps", "deployments", "web"), Factor::Namespace),
    ];
    for (verb, resource, factor) in cases {
        let attributes = Attributes { user: &user, verb, path: "", resource: Some(resource) };
        let refused = refused(&index, &attributes);
        assert_eq!(refused.misses.iter().map(|m| m.failed.clone()).collect::<Vec<_>>(), [[factor]]);
        let needed = PolicyRule {
            verbs: vec![verb.to_owned()],
            api_groups: vec![resource.group.to_owned()],
            resources: vec![resource.resource.to_owned()],
            resource_names: vec![resource.name.to_owned()],
            ..PolicyRule::default()
        };
        assert_eq!(refused.needed, needed);
        assert_eq!(refused.namespace, resource.namespace);
        // Missing roles count where the binding is in force.
        assert_eq!(refused.unresolved.is_empty(), resource.namespace == "red");
    }
}

#[test]
fn a_path_in_a_role_bound_in_a_namespace_is_a_miss_by_namespace_rb_34() {
    let (index, user) = (index(), User::new("jane", ["devs"]));
    let attributes = Attributes { user: &user, verb: "get", path: "/metrics", resource: None };
    let refused = refused(&index, &attributes);
    assert_eq!(refused.misses.iter().map(|m| m.failed.clone()).collect::<Vec<_>>(), [[Factor::Namespace]]);
    assert_eq!(refused.namespace, "");
}

#[test]
fn an_index_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let index = index();
    shared(&index);
    assert_eq!(index.bindings().count(), 2);
}
