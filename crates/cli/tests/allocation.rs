//! Deciding allocates nothing: counted by the allocator itself.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::sync::Arc;

use portcullis_cli::bench::synthetic::{Requests, Synthetic};
use portcullis_policy::abac::{AbacPolicyFile, Compatibility};
use portcullis_policy::chain::Mode;
use portcullis_policy::deny::{DenyRules, LiveRules, NodeScope};
use portcullis_policy::engine::{Builder, Engine, EngineConfig, LiveEngine};
use portcullis_policy::{Attributes, ResourceRequest, User};
use tikv_jemalloc_ctl::thread;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const POLICY: &[u8] = br#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"jane","namespace":"*","resource":"pods","apiGroup":"*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"system:authenticated","readonly":true,"nonResourcePath":"/healthz*"}}
"#;

fn config() -> EngineConfig {
    let no_yaml = |_: &str| Err(String::new());
    let policy = AbacPolicyFile::parse("policy", POLICY, Compatibility::Strict, no_yaml).unwrap();
    EngineConfig {
        modes: vec![Mode::AlwaysDeny, Mode::Node, Mode::Abac, Mode::Rbac],
        abac: Some(policy.into()),
        masters_first: true,
        default_policy: true,
        ..EngineConfig::default()
    }
}

fn engine(synthetic: Synthetic) -> Engine {
    let mut builder = Builder::new(config()).unwrap();
    synthetic.each_object(|object| builder.take(object).unwrap());
    builder.finish()
}

#[test]
fn deciding_allocates_nothing() {
    let synthetic = Synthetic { nodes: 50, pods_per_node: 20, bindings: 500 };
    let mut requests: Requests = synthetic.node_requests(5000);
    requests.append(synthetic.user_requests(5000));
    let engine = engine(synthetic);
    let live = LiveEngine::new(&config()).unwrap();
    synthetic.each_object(|object| drop(live.apply(object).unwrap()));
    live.mark_complete();
    let decide = |at: usize, is_live: bool| {
        let attributes = requests.attributes(at).unwrap();
        if is_live { live.authorize(&attributes) } else { engine.authorize(&attributes) }
    };
    let allocated = thread::allocatedp::read().unwrap();
    for is_live in [false, true] {
        // Once to make whatever is made only once.
        std::hint::black_box(decide(1, is_live));
        let before = allocated.get();
        let allowed: usize = (0..requests.len()).map(|at| usize::from(decide(at, is_live).is_allow())).sum();
        let bytes = allocated.get() - before;
        assert_eq!(bytes, 0, "bytes allocated by {} decisions", requests.len());
        assert!(allowed > 4000 && allowed < 6500, "{allowed} allowed: both answers must be among them");
    }
}

const RULES: &str = r#"{"apiVersion": "portcullis.dev/v1", "kind": "DenyRules", "rules": [
    {"name": "a", "subjects": [{"kind": "User", "name": "j*e"}, {"kind": "Group", "name": "d*v"}], "verbs": ["get"],
        "apiGroups": [""], "resources": ["secrets"], "namespaces": ["n*"],
        "namespaceSelector": {"matchLabels": {"stage": "production"},
            "matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a", "b"]}]}}]}"#;

#[test]
fn denying_allocates_nothing_bc_30_bc_32() {
    let rules = LiveRules::new(DenyRules::parse(RULES).unwrap());
    let scope = NodeScope::new(&["n*:agent".to_owned()], &[]).unwrap();
    let config = EngineConfig {
        modes: vec![Mode::Deny, Mode::AlwaysAllow],
        deny: Some(Arc::new(rules)),
        node_scope: Some(Arc::new(scope)),
        ..EngineConfig::default()
    };
    let engine = Engine::from_json(
        config,
        [
            r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n1", "labels": {"stage": "production"}}}"#,
            r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n2", "labels": {"stage": "test"}}}"#,
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n2"}, "spec": {"nodeName": "node",
                "volumes": [{"name": "v", "secret": {"secretName": "s"}}]}}"#,
        ],
    )
    .unwrap();
    let mut agent = User::new("system:serviceaccount:n2:agent", ["system:serviceaccounts"]);
    agent.extra.insert("authentication.kubernetes.io/node-name".to_owned(), vec!["node".to_owned()]);
    let free = User::new("system:serviceaccount:n2:agent", ["system:serviceaccounts"]);
    let users = [User::new("jane", ["dev"]), User::new("bob", ["ops"]), agent, free];
    let decide = || {
        let (mut allowed, mut denied) = (0, 0);
        for user in &users {
            for namespace in ["n1", "n2", "unknown"] {
                for name in ["s", "other", ""] {
                    let request = ResourceRequest {
                        namespace,
                        name,
                        resource: "secrets",
                        ..ResourceRequest::default()
                    };
                    let asked = Attributes { user, verb: "get", path: "", resource: Some(request) };
                    let outcome = std::hint::black_box(engine.authorize(&asked));
                    allowed += usize::from(outcome.is_allow());
                    denied += usize::from(outcome.is_deny());
                }
            }
        }
        (allowed, denied)
    };
    let allocated = thread::allocatedp::read().unwrap();
    // Once to make whatever is made only once.
    decide();
    let before = allocated.get();
    let (allowed, denied) = decide();
    assert_eq!(allocated.get() - before, 0, "bytes allocated");
    // Bob: all nine. Jane: not in n1. "unknown" does not begin with n. The agent: its one secret.
    assert_eq!((allowed, denied), (9 + 6 + 1, 3 + 8 + 9));
}
