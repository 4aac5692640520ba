//! How fast the embedded store is: durable commits of many writers, reads, long lists, and changes for many watches.
//! The file lies where temporary files do; its disk is what commits are measured against.
//!
//! `cargo bench -p portcullis-store --bench embedded`
#![allow(missing_docs, clippy::unwrap_used, reason = "a measurement that cannot be set up must stop")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use portcullis_store::encryption::{Encryption, Key, Provider, Resources};
use portcullis_store::{Embedded, Expect, List, Options, Store, Value, Watch, Write};
use portcullis_testkit::scratch::Scratch;
use tokio::runtime::Runtime;

fn write(key: String, size: usize) -> Write {
    let value = Value { bytes: Bytes::from(vec![b'x'; size]), revision_at: Some(size / 2), relies_on: None };
    Write { key: key.into(), expect: Expect::Anything, value: Some(value) }
}

fn pod(number: u64) -> String {
    format!("/core/pods/namespace-{:03}/pod-{number:06}", number % 300)
}

fn lease(number: u64) -> String {
    format!("/coordination.k8s.io/leases/kube-node-lease/node-{number:05}")
}

/// Adds entries of 500 bytes.
async fn fill(store: &Embedded, keys: impl Iterator<Item = String>) {
    let writes: Vec<_> = keys.map(|key| write(key, 500)).collect();
    for round in writes.chunks(5_000) {
        store.commit(round.to_vec()).await.unwrap();
    }
}

/// So many commits by 32 writers, each to keys of its own.
async fn commits(store: &Arc<Embedded>, count: u64, keys: u64, key: fn(u64) -> String) -> Duration {
    const WRITERS: u64 = 32;
    let start = Instant::now();
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let mut dice = writer + 1;
                for _ in 0..count.div_ceil(WRITERS) {
                    dice =
                        dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let number = (dice >> 33) % (keys / WRITERS) * WRITERS + writer;
                    store.commit(vec![write(key(number), 500)]).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    start.elapsed()
}

fn durable_commits(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let folder = Scratch::new();
    let store = Arc::new(Options::file(folder.path().join("store")).open().unwrap());
    runtime.block_on(fill(&store, (0..150_000).map(pod).chain((0..5_000).map(lease))));
    let mut group = criterion.benchmark_group("durable commits by 32 writers beside 150,000 objects");
    group.throughput(Throughput::Elements(1));
    group.bench_function("of 5,000 leases", |bencher| {
        bencher.iter_custom(|count| runtime.block_on(commits(&store, count, 5_000, lease)));
    });
    group.bench_function("of 150,000 pods", |bencher| {
        bencher.iter_custom(|count| runtime.block_on(commits(&store, count, 150_000, pod)));
    });
    group.bench_function("one after the other", |bencher| {
        bencher.iter(|| runtime.block_on(store.commit(vec![write(lease(7), 500)])).unwrap());
    });
}

/// Measures durable commits with each encryption provider.
fn encrypted_commits(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut group = criterion.benchmark_group("durable commits by 32 writers, encrypted");
    group.throughput(Throughput::Elements(1));
    for (name, provider) in [
        ("identity", Provider::Identity),
        ("aesgcm", Provider::AesGcm(vec![Key::aes_gcm("key", &[1; 32]).unwrap()])),
        ("secretbox", Provider::SecretBox(vec![Key::secret_box("key", &[1; 32]).unwrap()])),
    ] {
        let mut encryption = Encryption::none();
        encryption.add(Resources::All, [Arc::new(provider)]);
        let folder = Scratch::new();
        let options = Options::file(folder.path().join("store")).transformer(Arc::new(encryption));
        let store = Arc::new(options.open().unwrap());
        runtime.block_on(fill(&store, (0..5_000).map(lease)));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| runtime.block_on(commits(&store, count, 5_000, lease)));
        });
    }
}

fn reads(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let store = Options::memory().open().unwrap();
    runtime.block_on(fill(&store, (0..150_000).map(pod)));
    let mut group = criterion.benchmark_group("reads of 150,000 objects");
    let mut number = 0;
    group.bench_function("get", |bencher| {
        bencher.iter(|| {
            number = (number + 7_919) % 150_000;
            black_box(runtime.block_on(store.get(&pod(number))).unwrap().unwrap())
        });
    });
    let list = List { prefix: "/core/pods/".into(), ..List::default() };
    group.sample_size(20);
    group.bench_function("list all", |bencher| {
        bencher.iter(|| runtime.block_on(store.list(&list)).unwrap().entries.len());
    });
    let page = List { limit: 500, ..list.clone() };
    group.bench_function("list 500, count the rest", |bencher| {
        bencher.iter(|| runtime.block_on(store.list(&page)).unwrap().remaining);
    });
}

fn watches(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut group = criterion.benchmark_group("a change, until all watches of its prefix have it");
    for watches in [1, 1_000, 5_000] {
        let store = Arc::new(Options::memory().open().unwrap());
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        runtime.block_on(async {
            for _ in 0..watches {
                let mut watch = store.watch("/core/pods/", store.revision()).await.unwrap();
                let told = told.clone();
                tokio::spawn(async move {
                    while let Ok(events) = watch.next().await {
                        let _ = told.send(events.len());
                    }
                });
            }
        });
        group.throughput(Throughput::Elements(watches));
        group.bench_function(BenchmarkId::new("watches", watches), |bencher| {
            bencher.iter(|| {
                runtime.block_on(async {
                    store.commit(vec![write(pod(1), 500)]).await.unwrap();
                    for _ in 0..watches {
                        heard.recv().await.unwrap();
                    }
                });
            });
        });
        group.bench_function(BenchmarkId::new("the writer's wait with watches", watches), |bencher| {
            bencher.iter_custom(|count| {
                let mut waited = Duration::ZERO;
                for _ in 0..count {
                    runtime.block_on(async {
                        let start = Instant::now();
                        store.commit(vec![write(pod(1), 500)]).await.unwrap();
                        waited += start.elapsed();
                        for _ in 0..watches {
                            heard.recv().await.unwrap();
                        }
                    });
                }
                waited
            });
        });
    }
}

fn opening(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let store = Options::file(&path).open().unwrap();
    runtime.block_on(fill(&store, (0..150_000).map(pod)));
    drop(store);
    let mut group = criterion.benchmark_group("a file of 150,000 objects");
    group.sample_size(10);
    group.bench_function("open and close", |bencher| {
        bencher.iter(|| Options::file(&path).open().unwrap());
    });
}

criterion_group!(benches, durable_commits, encrypted_commits, reads, watches, opening);
criterion_main!(benches);
