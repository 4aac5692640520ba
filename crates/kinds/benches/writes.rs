//! Benchmarks of the steps of one write of a pod, without network, admission and store. A configuration with one changed label
//! is applied to a stored pod.

#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a benchmark may stop")]

use std::borrow::Cow;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use portcullis_kinds::Map;
use portcullis_kinds::apply::{Application, Endpoint, Typed, Versions, Write};
use portcullis_kinds::decode;
use portcullis_kinds::resource::Keeps;
use portcullis_kinds::resources::pods::PODS;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

struct OneVersion;

impl Versions for OneVersion {
    type Schema = Typed;

    fn schema(&self, version: &str) -> Option<Typed> {
        (version == "v1").then(|| Typed::of(PODS.schema))
    }

    fn convert<'o>(&self, object: Cow<'o, Map>, _: &str, _: &str) -> Option<Cow<'o, Map>> {
        Some(object)
    }
}

const ENDPOINT: Endpoint<'static, OneVersion> = Endpoint {
    versions: &OneVersion,
    version: "v1",
    subresource: "",
    keeps: Keeps::Except(&["status"]),
    now: "2026-01-02T03:04:05Z",
};

/// The configuration of `benches/api-over-https`.
fn configuration(turn: u32) -> Map {
    let configuration = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web", "namespace": "default",
            "labels": {"app": "web", "turn": turn.to_string()},
            "annotations": {"example.com/checksum": "0123456789"},
        },
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "web", "image": "registry.example.com/web:1.2.3",
                "ports": [{"containerPort": 8080}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                "envFrom": [{"secretRef": {"name": "web"}}],
                "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}],
            }],
            "volumes": [{"name": "config", "configMap": {"name": "web"}}],
        },
    });
    object(configuration)
}

fn object(value: Value) -> Map {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

fn empty() -> Map {
    decode::value(json!({}), PODS.schema).expect("an object").object
}

fn merged(live: &Map, empty: &Map, config: &Map) -> Map {
    let application = Application { live, empty, config, manager: "bench", forces: false };
    ENDPOINT.apply(application).expect("no conflict")
}

fn decoded(merged: Map) -> Map {
    let mut object = decode::value(merged.into(), PODS.schema).expect("a pod").object;
    (PODS.default)(&mut object);
    object
}

/// The pod that the first configuration made, as it is stored.
fn stored() -> Map {
    let mut pod = merged(&empty(), &empty(), &configuration(0));
    let managed = pod.get("metadata").unwrap().get("managedFields").cloned().unwrap();
    let metadata = |pod: &mut Map| object(pod.remove("metadata").unwrap());
    let mut of_pod = metadata(&mut pod);
    of_pod.insert("uid".to_owned(), "0b2c5f2e-7d5c-4f0e-9a3b-0f1e2d3c4b5a".into());
    of_pod.insert("creationTimestamp".to_owned(), "2026-01-02T03:04:05Z".into());
    of_pod.insert("managedFields".to_owned(), managed);
    pod.insert("metadata".to_owned(), of_pod.into());
    let mut pod = decoded(pod);
    (PODS.prepare_create)(&mut pod);
    assert!((PODS.validate_create)(&pod).is_empty(), "{:?}", (PODS.validate_create)(&pod));
    pod
}

fn steps(c: &mut Criterion) {
    let mut group = c.benchmark_group("pod");
    let (old, empty, config) = (stored(), empty(), configuration(1));
    let text = serde_json::to_vec(&old).unwrap();
    group.bench_function("read what is stored", |b| {
        b.iter(|| serde_json::from_slice::<Map>(black_box(&text)).unwrap());
    });
    group.bench_function("merge a configuration", |b| {
        b.iter(|| merged(black_box(&old), &empty, &config));
    });
    let with_label = merged(&old, &empty, &config);
    group.bench_function("decode and default the result", |b| {
        b.iter_batched(|| with_label.clone(), decoded, criterion::BatchSize::SmallInput);
    });
    let new = decoded(with_label);
    group.bench_function("validate the update", |b| {
        b.iter(|| (PODS.validate_update)(black_box(&new), &old));
    });
    group.bench_function("record an update", |b| {
        b.iter_batched_ref(
            || new.clone(),
            |new| ENDPOINT.update("other", Write { live: &old, is_new: false }, new),
            criterion::BatchSize::SmallInput,
        );
    });
    group.bench_function("write", |b| b.iter(|| serde_json::to_vec(black_box(&new)).unwrap()));
    group.bench_function("copy", |b| b.iter(|| black_box(&new).clone()));
    group.bench_function("compare", |b| b.iter(|| black_box(&new) == black_box(&new)));
}

/// All steps of an applied configuration: from what is stored to what will be.
fn applied(c: &mut Criterion) {
    let (text, empty) = (serde_json::to_vec(&stored()).unwrap(), empty());
    let config = serde_json::to_vec(&configuration(1)).unwrap();
    c.bench_function("pod/apply", |b| {
        b.iter(|| {
            let old: Map = serde_json::from_slice(black_box(&text)).unwrap();
            let config: Map = serde_json::from_slice(black_box(&config)).unwrap();
            let mut new = decoded(merged(&old, &empty, &config));
            (PODS.prepare_update)(&mut new, &old);
            assert!((PODS.validate_update)(&new, &old).is_empty());
            serde_json::to_vec(&new).unwrap()
        });
    });
}

criterion_group!(benches, steps, applied);
criterion_main!(benches);
