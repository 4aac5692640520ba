//! Decisions of the Node authorizer and updates of its graph, from small clusters to large ones.
//!
//! `cargo bench -p portcullis --bench node_decisions`
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use portcullis_cli::bench::synthetic::Synthetic;
use portcullis_policy::graph::Graph;
use portcullis_policy::node::NodeAuthorizer;
use portcullis_policy::objects::Kind;
use portcullis_policy::{Authorizer, FeatureGates};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const SIZES: [u32; 4] = [5, 50, 500, 5000];

fn cluster(nodes: u32) -> (Synthetic, Arc<Graph>) {
    let synthetic = Synthetic { nodes, pods_per_node: 30, bindings: 0 };
    let graph = Arc::new(Graph::new());
    synthetic.each_object(|object| graph.apply(&object).unwrap());
    graph.mark_complete();
    (synthetic, graph)
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("node decision, half denied");
    for nodes in SIZES {
        let (synthetic, graph) = cluster(nodes);
        let authorizer = NodeAuthorizer::new(graph, FeatureGates::default());
        let requests = synthetic.node_requests(100_000);
        let mut at = 0;
        group.bench_function(BenchmarkId::from_parameter(format!("{nodes} nodes of 30 pods")), |bencher| {
            bencher.iter(|| {
                at = if at + 1 == requests.len() { 0 } else { at + 1 };
                black_box(authorizer.authorize(&requests.attributes(at).unwrap()))
            });
        });
    }
}

fn updates(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("graph update, one pod out and in");
    for nodes in SIZES {
        let (synthetic, graph) = cluster(nodes);
        let mut pod = 0_u32;
        group.bench_function(BenchmarkId::from_parameter(format!("{nodes} nodes of 30 pods")), |bencher| {
            bencher.iter_custom(|rounds| {
                let mut spent = std::time::Duration::ZERO;
                for _ in 0..rounds {
                    pod = pod.wrapping_add(2_654_435_761);
                    // Making the pod is not what is measured.
                    spent += synthetic.with_pod(pod % synthetic.pods(), |pod| {
                        let started = std::time::Instant::now();
                        graph.delete(Kind::Pod, &pod.metadata.namespace, &pod.metadata.name);
                        graph.apply_pod(pod).unwrap();
                        started.elapsed()
                    });
                }
                spent
            });
        });
    }
}

criterion_group!(benches, decisions, updates);
criterion_main!(benches);
