//! Node-scoped accounts against a naive model: pods are looked through for every question.

use std::sync::Arc;

use portcullis_apimachinery::selector::{FieldRequirement, parse_field_selector};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::decision::{Authorizer, Decision};
use crate::graph::Graph;
use crate::identity::NODE_NAME_EXTRA;
use crate::objects::{Kind, Object};
use crate::request::User;

const NODES: [&str; 2] = ["n1", "n2"];

/// A pod with its node and its secret.
#[derive(Clone, Debug)]
struct Pod {
    namespace: &'static str,
    name: &'static str,
    node: &'static str,
    secret: &'static str,
}

fn graph(pods: &[Pod], attachments: &[(&str, &str)]) -> Graph {
    let graph = Graph::new();
    for pod in pods {
        let text = json!({
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "spec": {"nodeName": pod.node, "serviceAccountName": "runs",
                "volumes": [{"name": "v", "secret": {"secretName": pod.secret}}]},
        })
        .to_string();
        graph.apply(&Object::parse(Kind::Pod, &text).unwrap()).unwrap();
    }
    for (name, node) in attachments {
        let text = json!({"metadata": {"name": name}, "spec": {"nodeName": node}}).to_string();
        graph.apply(&Object::parse(Kind::VolumeAttachment, &text).unwrap()).unwrap();
    }
    graph.mark_complete();
    graph
}

fn daemon(node: Option<&str>) -> User {
    let mut user = User::new("system:serviceaccount:system:agent", ["system:serviceaccounts"]);
    if let Some(node) = node {
        user.extra.insert(NODE_NAME_EXTRA.to_owned(), vec![node.to_owned()]);
    }
    user
}

fn scope(resources: &[&str]) -> NodeScope {
    let resources: Vec<String> = resources.iter().map(|&name| name.to_owned()).collect();
    NodeScope::new(&["system:agent".to_owned()], &resources).unwrap()
}

fn deny(scope: NodeScope, graph: Graph) -> DenyAuthorizer {
    DenyAuthorizer::new(None, Some(Arc::new(scope)), Arc::default(), Arc::new(graph))
}

fn is_denied(deny: &DenyAuthorizer, user: &User, verb: &str, request: ResourceRequest<'_>) -> bool {
    let attributes = Attributes { user, verb, path: "", resource: Some(request) };
    match deny.authorize(&attributes) {
        Decision::Deny(reason) => {
            let reason = reason.render(&attributes).to_string();
            assert!(reason.starts_with("node-scoped: "), "{reason}");
            true
        }
        Decision::NoOpinion(_) => false,
        Decision::Allow(_) => panic!("a scope allows nothing"),
    }
}

fn requirements(selector: &str) -> Vec<FieldRequirement> {
    parse_field_selector(selector).unwrap()
}

#[test]
fn of_each_resource_an_account_reaches_the_objects_of_its_node_bc_32() {
    let pods = [
        Pod { namespace: "a", name: "p1", node: "n1", secret: "s1" },
        Pod { namespace: "a", name: "p2", node: "n2", secret: "s2" },
    ];
    let deny = deny(scope(&[]), graph(&pods, &[("va1", "n1"), ("va2", "n2")]));
    let own = requirements("spec.nodeName=n1");
    let other = requirements("spec.nodeName=n2");
    let not_other = requirements("spec.nodeName!=n2");
    let of = |group: &'static str, resource: &'static str, namespace: &'static str, name: &'static str| {
        ResourceRequest { group, resource, namespace, name, ..ResourceRequest::default() }
    };
    let sub = |request: ResourceRequest<'static>, subresource| ResourceRequest { subresource, ..request };
    let leases = "coordination.k8s.io";
    let lease_namespace = "kube-node-lease";
    let cases: Vec<(&str, ResourceRequest<'_>, bool)> = vec![
        ("get", of("", "nodes", "", "n1"), false),
        ("patch", sub(of("", "nodes", "", "n1"), "status"), false),
        ("get", of("", "nodes", "", "n2"), true),
        ("list", of("", "nodes", "", ""), true),
        // With `metadata.name=n1` a list has that name.
        ("list", of("", "nodes", "", "n1"), false),
        ("create", of("", "nodes", "", ""), true),
        ("get", of("", "pods", "a", "p1"), false),
        ("patch", sub(of("", "pods", "a", "p1"), "status"), false),
        ("create", sub(of("", "pods", "a", "p1"), "eviction"), false),
        ("delete", of("", "pods", "a", "p2"), true),
        ("get", sub(of("", "pods", "a", "p2"), "log"), true),
        ("create", of("", "pods", "a", ""), true),
        ("create", sub(of("", "pods", "a", "unbound"), "binding"), true),
        ("create", of("", "bindings", "a", ""), true),
        ("list", of("", "pods", "", ""), true),
        ("list", ResourceRequest { field_selector: &own, ..of("", "pods", "", "") }, false),
        ("watch", ResourceRequest { field_selector: &own, ..of("", "pods", "a", "") }, false),
        ("deletecollection", ResourceRequest { field_selector: &own, ..of("", "pods", "a", "") }, false),
        ("list", ResourceRequest { field_selector: &other, ..of("", "pods", "", "") }, true),
        ("list", ResourceRequest { field_selector: &not_other, ..of("", "pods", "", "") }, true),
        // A selector does not make an object of another node one's own.
        ("get", ResourceRequest { field_selector: &own, ..of("", "pods", "a", "p2") }, true),
        ("get", of("", "secrets", "a", "s1"), false),
        ("update", of("", "secrets", "a", "s1"), false),
        ("get", of("", "secrets", "a", "s2"), true),
        ("get", of("", "secrets", "b", "s1"), true),
        ("list", of("", "secrets", "a", ""), true),
        ("list", ResourceRequest { field_selector: &own, ..of("", "secrets", "a", "") }, true),
        ("list", of("", "secrets", "a", "s1"), false),
        ("get", of("", "configmaps", "a", "s1"), true),
        ("create", sub(of("", "serviceaccounts", "a", "runs"), "token"), false),
        ("create", sub(of("", "serviceaccounts", "a", "admin"), "token"), true),
        ("update", of(leases, "leases", lease_namespace, "n1"), false),
        ("update", of(leases, "leases", lease_namespace, "n2"), true),
        ("create", of(leases, "leases", lease_namespace, ""), true),
        ("list", of(leases, "leases", "", ""), true),
        ("update", of(leases, "leases", "system", "leader"), false),
        ("get", of("storage.k8s.io", "csinodes", "", "n1"), false),
        ("get", of("storage.k8s.io", "csinodes", "", "n2"), true),
        ("get", of("storage.k8s.io", "volumeattachments", "", "va1"), false),
        ("get", of("storage.k8s.io", "volumeattachments", "", "va2"), true),
        ("list", of("storage.k8s.io", "volumeattachments", "", ""), true),
        ("create", of("resource.k8s.io", "resourceslices", "", ""), true),
        (
            "list",
            ResourceRequest { field_selector: &own, ..of("resource.k8s.io", "resourceslices", "", "") },
            false,
        ),
        // Not in scope.
        ("list", of("", "services", "", ""), false),
        ("create", of("", "events", "a", ""), false),
        ("list", of("metrics.k8s.io", "pods", "", ""), false),
    ];
    for (verb, request, expected) in cases {
        assert_eq!(is_denied(&deny, &daemon(Some("n1")), verb, request), expected, "{verb} {request:?}");
        // Others are not touched.
        for name in ["system:serviceaccount:system:other", "system:node:n1", "jane"] {
            assert!(!is_denied(&deny, &User::new(name, ["system:nodes"]), verb, request));
        }
        // A token without a node, with two, or with an empty one reaches nothing in scope.
        let denied_without = is_denied(&deny, &daemon(None), verb, request);
        assert!(denied_without || !expected, "{verb} {request:?}");
        let mut two = daemon(Some("n1"));
        two.extra.get_mut(NODE_NAME_EXTRA).unwrap().push("n2".to_owned());
        assert_eq!(is_denied(&deny, &two, verb, request), denied_without);
        assert_eq!(is_denied(&deny, &daemon(Some("")), verb, request), denied_without);
        // While nothing is known, what needs the graph is denied.
        let is_blind_denied = is_denied(&deny.blind(), &daemon(Some("n1")), verb, request);
        assert!(is_blind_denied || !expected, "{verb} {request:?}");
    }
    assert!(is_denied(&deny.blind(), &daemon(Some("n1")), "get", of("", "secrets", "a", "s1")));
    assert!(!is_denied(&deny.blind(), &daemon(Some("n1")), "get", of("", "nodes", "", "n1")));
    assert!(!is_denied(&deny, &daemon(None), "list", of("", "services", "", "")));
}

#[test]
fn only_named_resources_are_in_scope_bc_32() {
    let deny = deny(scope(&["secrets"]), graph(&[], &[]));
    let request = |resource| ResourceRequest { resource, name: "x", ..ResourceRequest::default() };
    assert!(is_denied(&deny, &daemon(Some("n1")), "get", request("secrets")));
    assert!(!is_denied(&deny, &daemon(Some("n1")), "get", request("nodes")));
}

#[test]
fn flags_that_say_nothing_are_refused_bc_32() {
    let new = |accounts: &[&str], resources: &[&str]| {
        let owned = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        NodeScope::new(&owned(accounts), &owned(resources))
    };
    assert!(new(&["system:*", "*:agent"], &["secrets", "leases.coordination.k8s.io"]).is_ok());
    for accounts in [&[][..], &["agent"], &["a:"], &[":b"], &["system:serviceaccount:a:b"]] {
        assert!(new(accounts, &[]).is_err(), "{accounts:?}");
    }
    let error = new(&["a:b"], &["leases"]).unwrap_err();
    assert!(error.contains("leases.coordination.k8s.io"), "{error}");
}

/// What a scope denies, by looking through all pods.
fn naive(pods: &[Pod], node: Option<&str>, verb: &str, request: &ResourceRequest<'_>) -> bool {
    let Some(node) = node else { return true };
    let collection = matches!(verb, "list" | "watch" | "deletecollection");
    let named = |requirement: &FieldRequirement| requirement.to_string() == format!("spec.nodeName={node}");
    match (request.resource, request.name) {
        ("pods", "") => !(collection && request.field_selector.iter().any(named)),
        (_, "") => true,
        ("nodes", name) => name != node,
        (resource, name) => !pods.iter().any(|pod| {
            let is_this = if resource == "pods" { pod.name == name } else { pod.secret == name };
            pod.node == node && pod.namespace == request.namespace && is_this
        }),
    }
}

fn pod() -> impl Strategy<Value = Pod> {
    let of = |all: &'static [&'static str]| proptest::sample::select(all);
    (of(&["a", "b"]), of(&["p1", "p2", "p3"]), of(&["", "n1", "n2"]), of(&["s1", "s2", "s3"]))
        .prop_map(|(namespace, name, node, secret)| Pod { namespace, name, node, secret })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_scope_denies_what_a_naive_model_denies_bc_32(
        mut pods in proptest::collection::vec(pod(), 0..8),
        node in proptest::option::weighted(0.9, proptest::sample::select(&NODES[..])),
        verb in proptest::sample::select(&["get", "list", "watch", "create", "update", "deletecollection"][..]),
        resource in proptest::sample::select(&["pods", "secrets", "nodes"][..]),
        subresource in proptest::sample::select(&["", "status"][..]),
        namespace in proptest::sample::select(&["", "a", "b"][..]),
        name in proptest::sample::select(&["", "p1", "p2", "p3", "s1", "s2", "s3", "n1", "n2"][..]),
        selector in proptest::sample::select(&["", "spec.nodeName=n1", "spec.nodeName=n2", "spec.nodeName!=n1", "a=b,spec.nodeName=n1"][..]),
    ) {
        // The last of equal names is the one that there is.
        let mut seen = std::collections::BTreeSet::new();
        pods.reverse();
        pods.retain(|pod| seen.insert((pod.namespace, pod.name)));
        let deny = deny(scope(&[]), graph(&pods, &[]));
        let field_selector = requirements(selector);
        let request = ResourceRequest { resource, subresource, namespace, name, field_selector: &field_selector, ..ResourceRequest::default() };
        prop_assert_eq!(
            is_denied(&deny, &daemon(node), verb, request),
            naive(&pods, node, verb, &request)
        );
    }
}
