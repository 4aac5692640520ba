//! Deciding allocates nothing: counted by the allocator itself.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use portcullis_cli::bench::synthetic::{Requests, Synthetic};
use portcullis_policy::abac::{AbacPolicyFile, Compatibility};
use portcullis_policy::chain::Mode;
use portcullis_policy::engine::{Builder, Engine, EngineConfig};
use tikv_jemalloc_ctl::thread;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const POLICY: &[u8] = br#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"jane","namespace":"*","resource":"pods","apiGroup":"*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"system:authenticated","readonly":true,"nonResourcePath":"/healthz*"}}
"#;

fn engine(synthetic: Synthetic) -> Engine {
    let no_yaml = |_: &str| Err(String::new());
    let policy = AbacPolicyFile::parse("policy", POLICY, Compatibility::Strict, no_yaml).unwrap();
    let config = EngineConfig {
        modes: vec![Mode::AlwaysDeny, Mode::Node, Mode::Abac, Mode::Rbac],
        abac: Some(policy.into()),
        masters_first: true,
        default_policy: true,
        ..EngineConfig::default()
    };
    let mut builder = Builder::new(config).unwrap();
    synthetic.each_object(|object| builder.take(object).unwrap());
    builder.finish()
}

#[test]
fn deciding_allocates_nothing() {
    let synthetic = Synthetic { nodes: 50, pods_per_node: 20, bindings: 500 };
    let engine = engine(synthetic);
    let mut requests: Requests = synthetic.node_requests(5000);
    requests.append(synthetic.user_requests(5000));
    let allocated = thread::allocatedp::read().unwrap();
    // Once to make whatever is made only once.
    std::hint::black_box(engine.chain().decide(&requests.attributes(1).unwrap()));
    let before = allocated.get();
    let mut allowed = 0;
    for at in 0..requests.len() {
        allowed += usize::from(engine.chain().decide(&requests.attributes(at).unwrap()).is_allow());
    }
    let bytes = allocated.get() - before;
    assert_eq!(bytes, 0, "bytes allocated by {} decisions", requests.len());
    assert!(allowed > 4000 && allowed < 6500, "{allowed} allowed: both answers must be among them");
}
