//! Measures how long a large state takes to load.
//!
//! Writes the objects of a cluster of 5,000 nodes, 150,000 pods and 75,000 claims with their volumes (305,000 objects)
//! to the temporary directory, loads them again and again, prints the times and removes the file:
//!
//! ```text
//! cargo run --release -p portcullis-server --example load_state -- [ROUNDS] [THREADS] [pretty]
//! ```
#![allow(clippy::unwrap_used, reason = "a measurement that cannot be set up must stop")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::time::Instant;

use portcullis_server::state;
use serde_json::json;

const NODES: usize = 5_000;
const PODS: usize = 150_000;
const CLAIMS: usize = 75_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().map_or(5, |text| text.parse().unwrap());
    let threads: NonZeroUsize = arguments.next().map_or(NonZeroUsize::MIN, |text| text.parse().unwrap());
    let pretty = arguments.next().is_some();
    let path = std::env::temp_dir().join(format!("portcullis-state-{}.json", std::process::id()));
    write_state(File::create(&path).unwrap(), pretty).unwrap();
    let megabytes = std::fs::metadata(&path).unwrap().len() / 1_000_000;
    for _ in 0..rounds {
        let start = Instant::now();
        let mut names = 0;
        let summary = state::load(std::slice::from_ref(&path), threads, &mut |object| {
            names += object.key().1.len();
            Ok(())
        });
        let count = summary.unwrap().object_count();
        println!(
            "{count} objects, {megabytes} MB, {threads} threads: {:.3} s",
            start.elapsed().as_secs_f64()
        );
        assert!(names > 0, "every object has a name");
    }
    std::fs::remove_file(&path).unwrap();
}

fn write_state(file: File, pretty: bool) -> std::io::Result<()> {
    let mut out = BufWriter::new(file);
    write!(out, "{{\"apiVersion\":\"v1\",\"items\":[")?;
    let objects = (0..NODES).map(node).chain((0..PODS).map(pod)).chain((0..CLAIMS).map(claim));
    for (index, object) in objects.chain((0..CLAIMS).map(volume)).enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        if pretty {
            serde_json::to_writer_pretty(&mut out, &object)?;
        } else {
            serde_json::to_writer(&mut out, &object)?;
        }
    }
    write!(out, "\n],\"kind\":\"List\",\"metadata\":{{\"resourceVersion\":\"\"}}}}")?;
    out.flush()
}

fn uid(kind: usize, index: usize) -> String {
    format!("00000000-0000-4000-8{kind:03}-{index:012}")
}

fn node(index: usize) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": format!("node-{index}"), "uid": uid(1, index),
        "labels": {"kubernetes.io/hostname": format!("node-{index}"), "topology.kubernetes.io/zone": "zone-a"},
    }, "spec": {"podCIDR": "10.0.0.0/24"}, "status": {"nodeInfo": {"kubeletVersion": "v1.36.0"}}})
}

fn pod(index: usize) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
        "name": format!("pod-{index}"), "namespace": format!("namespace-{}", index % 200), "uid": uid(2, index),
    }, "spec": {
        "nodeName": format!("node-{}", index % NODES), "serviceAccountName": "default",
        "containers": [{"name": "main", "image": "registry.example/app:1",
            "envFrom": [{"secretRef": {"name": "shared"}}]}],
        "volumes": [
            {"name": "own", "secret": {"secretName": format!("secret-{index}")}},
            {"name": "settings", "configMap": {"name": format!("settings-{index}")}},
            {"name": "data", "persistentVolumeClaim": {"claimName": format!("claim-{index}")}},
        ],
    }, "status": {"phase": "Running"}})
}

fn claim(index: usize) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
        "name": format!("claim-{index}"), "namespace": format!("namespace-{}", index % 200), "uid": uid(3, index),
    }, "spec": {"volumeName": format!("volume-{index}"), "accessModes": ["ReadWriteOnce"]}})
}

fn volume(index: usize) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {
        "name": format!("volume-{index}"), "uid": uid(4, index),
    }, "spec": {"claimRef": {
        "kind": "PersistentVolumeClaim", "name": format!("claim-{index}"),
        "namespace": format!("namespace-{}", index % 200),
    }, "csi": {"driver": "csi.example.com", "volumeHandle": format!("handle-{index}"),
        "nodePublishSecretRef": {"name": format!("volume-secret-{index}"), "namespace": "storage"}}}})
}
