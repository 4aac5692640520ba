//! Benchmark of `reach` in a large cluster, with the state loaded (AU-152): 30,000 pods on 1,000 nodes, and 5,000 bindings.
//!
//! The cluster is that of `benches/audit`: most bindings are harmless, some let an account read the secrets of its namespace or run
//! commands there, a few in the whole cluster.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a benchmark that cannot be set up must stop"
)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use portcullis_policy::Mode;
use portcullis_policy::audit::reach::{self, Asked, Wanted};
use portcullis_policy::audit::state::{Item, ItemKind, State, StateBuilder};
use portcullis_policy::engine::EngineConfig;
use serde_json::{Value, json};
use tikv_jemallocator::Jemalloc;

/// That of the program.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const PODS: usize = 30_000;
const NODES: usize = 1000;
const BINDINGS: usize = 5000;
const NAMESPACES: usize = 200;
const APPS: usize = 20;
const RBAC: &str = "rbac.authorization.k8s.io";

fn node(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{number}")}})
}

fn pod(number: usize) -> Value {
    let (namespace, app) = (number % NAMESPACES, format!("app-{}", number / NAMESPACES % APPS));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{app}-6d4cf56db6-{number}"), "namespace": format!("team-{namespace}"),
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": "r", "controller": true},
            ],
        },
        "spec": {
            "nodeName": format!("node-{}", number % NODES), "serviceAccountName": app,
            "imagePullSecrets": [{"name": "registry"}],
            "containers": [{"name": "main", "envFrom": [{"secretRef": {"name": app}}]}],
            "volumes": [
                {"name": "config", "configMap": {"name": app}},
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
            ],
        },
    })
}

fn role(name: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": resources, "verbs": verbs}],
    })
}

fn binding(number: usize) -> Value {
    let namespace = format!("team-{}", number % NAMESPACES);
    let name = format!("binding-{number}");
    let role = match number % 5 {
        3 => "reader",
        4 => "executor",
        _ => "viewer",
    };
    let (kind, metadata) = match number % 1000 {
        999 => ("ClusterRoleBinding", json!({"name": name})),
        _ => ("RoleBinding", json!({"name": name, "namespace": namespace})),
    };
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [
            {"kind": "ServiceAccount", "namespace": namespace, "name": format!("app-{}", number % APPS)},
        ],
    })
}

fn state() -> State {
    let roles = [
        role("viewer", &["pods", "services"], &["get", "list"]),
        role("reader", &["secrets"], &["get", "list"]),
        role("executor", &["pods/exec"], &["create"]),
    ];
    let mut pods: Vec<Value> = (0..PODS).map(pod).collect();
    // As an API server lists them.
    let key = |pod: &Value| ["namespace", "name"].map(|field| pod["metadata"][field].to_string());
    pods.sort_by_cached_key(key);
    let all = (0..NODES).map(node).chain(pods).chain(roles).chain((0..BINDINGS).map(binding));
    let config = EngineConfig { modes: vec![Mode::Node, Mode::Rbac], ..EngineConfig::default() };
    let mut builder = StateBuilder::new(config).unwrap();
    for document in all {
        let of = |field: &str| document[field].as_str().unwrap();
        let kind = ItemKind::of(of("apiVersion"), of("kind")).unwrap();
        builder.take(Item::parse(kind, &document.to_string()).unwrap()).unwrap();
    }
    builder.finish()
}

fn reports(c: &mut Criterion) {
    let mut group = c.benchmark_group("reach/30000-pods");
    group.sample_size(20);
    let state = state();
    let asked = Asked { is_expired: &|_| false };
    for (name, nodes, direct_alone) in [
        ("one-node", vec!["node-7".to_owned()], false),
        ("one-node-directly", vec!["node-7".to_owned()], true),
        ("all-nodes", Vec::new(), false),
    ] {
        let wanted = Wanted { nodes, direct_alone, ..Wanted::default() };
        group.bench_function(name, |b| {
            b.iter(|| black_box(reach::report(&state, black_box(&wanted), &asked)))
        });
    }
    group.finish();
}

criterion_group!(reach_of_nodes, reports);
criterion_main!(reach_of_nodes);
