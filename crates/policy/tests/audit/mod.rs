//! The audit compared with naive models: each answers by asking about every pair, from the documents and not from an index.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod findings;
mod map;
mod model;
mod states;

use std::collections::BTreeSet;

use portcullis_policy::audit::reach::{self, Asked, DirectReach, Wanted};
use portcullis_policy::audit::state::{Item, ItemKind, State, StateBuilder};
use portcullis_policy::engine::EngineConfig;
use portcullis_policy::{Attributes, Engine, Mode, ResourceRequest, User};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::Value;

use model::Model;

fn config() -> EngineConfig {
    EngineConfig { modes: vec![Mode::Node, Mode::Rbac], ..EngineConfig::default() }
}

fn state(documents: &[Value]) -> State {
    let mut builder = StateBuilder::new(config()).unwrap();
    for document in documents {
        let of = |field: &str| document[field].as_str().unwrap().to_owned();
        let kind = ItemKind::of(&of("apiVersion"), &of("kind")).expect("a kind that the audit reads");
        let text = document.to_string();
        let item = Item::parse(kind, &text).unwrap();
        item.check_key().unwrap();
        builder.take(item).unwrap();
    }
    builder.finish()
}

fn engine(documents: &[Value]) -> Engine {
    let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
    Engine::from_json(config(), texts.iter().map(String::as_str)).unwrap()
}

/// The lists of direct reach: resource, group, verb, subresource, and whether it has namespaces.
const LISTS: [(&str, &str, &str, &str, bool); 9] = [
    ("secrets", "", "get", "", true),
    ("configmaps", "", "get", "", true),
    ("persistentvolumeclaims", "", "get", "", true),
    ("resourceclaims", "resource.k8s.io", "get", "", true),
    ("pods", "", "get", "", true),
    ("serviceaccounts", "", "create", "token", true),
    ("persistentvolumes", "", "get", "", false),
    ("volumeattachments", "storage.k8s.io", "get", "", false),
    ("resourceslices", "resource.k8s.io", "get", "", false),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn direct_reach_is_what_the_authorizer_allows_of_every_candidate_au_161(documents in states::documents()) {
        let direct = DirectReach::of(&state(&documents));
        let only_node = EngineConfig { modes: vec![Mode::Node], ..EngineConfig::default() };
        let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
        let engine = Engine::from_json(only_node, texts.iter().map(String::as_str)).unwrap();
        for node in states::NODES {
            let user = User::new(format!("system:node:{node}"), ["system:nodes"]);
            for (resource, group, verb, subresource, is_namespaced) in LISTS {
                let namespaces: &[&str] = if is_namespaced { &states::NAMESPACES } else { &[""] };
                for namespace in namespaces {
                    for name in states::names() {
                        let request = ResourceRequest {
                            namespace, group, version: "v1", resource, subresource, name: &name,
                            ..ResourceRequest::default()
                        };
                        let attributes = Attributes { user: &user, verb, path: "", resource: Some(request) };
                        let is_allowed = engine.authorize(&attributes).is_allow();
                        let reached = direct.nodes.get(node).into_iter().flatten().any(|index| {
                            let (kind, of, named) = &direct.objects[*index];
                            kind.resource() == resource && of == namespace && *named == name
                        });
                        prop_assert_eq!(reached, is_allowed, "{} {} {}/{}", node, resource, namespace, name);
                    }
                }
            }
        }
    }

    #[test]
    fn the_closure_is_the_naive_fixed_point_au_164(documents in states::documents()) {
        let state = state(&documents);
        let model = Model::new(&documents, engine(&documents));
        let asked = Asked { is_expired: &|_| false };
        let report = reach::report(&state, &Wanted { paths: 1000, ..Wanted::default() }, &asked);
        prop_assert_eq!(
            report.nodes.iter().map(|node| node.node.as_str()).collect::<BTreeSet<_>>(),
            model.nodes()
        );
        for node in &report.nodes {
            let found = model.closure(&node.node);
            let closure = node.closure.as_ref().unwrap();
            let names = |kind: &str| -> Vec<String> {
                let of_kind = found.reached.iter().filter(|vertex| vertex.0 == kind);
                of_kind.map(model::name).collect::<BTreeSet<_>>().into_iter().collect()
            };
            let others: Vec<String> = names("node").into_iter().filter(|other| *other != node.node).collect();
            prop_assert_eq!(closure.cluster_admin.as_str(), found.admin, "{}", &node.node);
            prop_assert_eq!(&closure.nodes, &others, "nodes of {}", &node.node);
            prop_assert_eq!(&closure.serviceaccounts, &names("serviceaccount"), "accounts of {}", &node.node);
            prop_assert_eq!(closure.counts.secrets.count, names("secret").len(), "secrets of {}", &node.node);
            prop_assert_eq!(closure.counts.configmaps.count, names("configmap").len(), "configmaps of {}", &node.node);
            prop_assert_eq!(closure.counts.pods.count, names("pod").len(), "pods of {}", &node.node);
            // Every path begins at the node, is connected, and has edges that the model knows.
            for path in &closure.paths {
                let mut at = format!("node/{}", node.node);
                for edge in &path.edges {
                    prop_assert_eq!(&edge.from, &at);
                    let is_known = found.edges.contains(&(edge.id.clone(), edge.from.clone(), edge.to.clone()));
                    prop_assert!(is_known, "{:?}", edge);
                    at.clone_from(&edge.to);
                }
                prop_assert_eq!(&path.to, &at);
            }
        }
    }

    #[test]
    fn the_order_of_the_documents_changes_nothing_au_164(documents in states::documents(), turn in 0_usize..20) {
        let asked = Asked { is_expired: &|_| false };
        let wanted = Wanted { paths: 20, ..Wanted::default() };
        let one = reach::report(&state(&documents), &wanted, &asked);
        let mut turned = documents;
        let middle = turn.min(turned.len());
        turned.rotate_left(middle);
        turned.reverse();
        let other = reach::report(&state(&turned), &wanted, &asked);
        prop_assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&other).unwrap());
    }
}

/// The comparison above says something about each edge only if it occurs.
#[test]
fn every_edge_occurs_in_random_states() {
    let mut runner = TestRunner::deterministic();
    let strategy = states::documents();
    let mut seen = BTreeSet::new();
    for _ in 0..300 {
        let documents = strategy.new_tree(&mut runner).unwrap().current();
        let model = Model::new(&documents, engine(&documents));
        for node in states::NODES {
            seen.extend(model.closure(node).edges.into_iter().map(|edge| edge.0));
        }
    }
    let missing: Vec<String> =
        (1..=31).map(|number| format!("E{number}")).filter(|edge| !seen.contains(edge)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
