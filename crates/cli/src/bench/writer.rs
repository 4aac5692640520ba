//! Updates during the measurement: one pod is deleted and added again, at a constant rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use portcullis_policy::graph::Graph;
use portcullis_policy::objects::decode::{List, Text};
use portcullis_policy::objects::meta::Metadata;
use portcullis_policy::objects::pod::{Pod, PodSpec, SecretNameSource, Volume};
use portcullis_policy::objects::{Kind, Object};

use super::histogram::Histogram;
use super::memory;
use super::synthetic::Synthetic;

/// The number of pods of a snapshot that are kept for updates.
const KEPT: usize = 10_000;

/// The pods to delete and add again.
#[derive(Debug)]
pub enum Updates {
    /// All pods of a synthetic cluster, in a scattered order.
    Synthetic(Synthetic),
    /// The first pods of a snapshot, with their locations and references.
    Kept(Vec<KeptPod>),
}

/// The parts of a pod that are needed to delete and add it.
#[derive(Clone, Debug)]
pub struct KeptPod {
    namespace: String,
    name: String,
    node: String,
    secrets: Vec<String>,
}

impl Updates {
    /// Creates an empty set, for a snapshot.
    pub fn kept() -> Self {
        Self::Kept(Vec::new())
    }

    /// Keeps a pod of the snapshot, up to the maximum number.
    pub fn keep(&mut self, object: &Object<'_>) {
        let (Self::Kept(pods), Object::Pod(pod)) = (self, object) else { return };
        if pods.len() == KEPT || pod.spec.node_name.is_empty() {
            return;
        }
        let mut secrets = Vec::new();
        pod.each_secret(|name| secrets.push(name.to_owned()));
        pods.push(KeptPod {
            namespace: pod.metadata.namespace.to_string(),
            name: pod.metadata.name.to_string(),
            node: pod.spec.node_name.to_string(),
            secrets,
        });
    }

    /// Returns the size of the kept pods, measured by copying them.
    pub fn bytes(&self) -> u64 {
        let Self::Kept(pods) = self else { return 0 };
        let before = memory::allocated();
        let copy = pods.clone();
        let bytes = memory::allocated().saturating_sub(before);
        drop(copy);
        bytes
    }

    /// Returns whether there are no pods.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Synthetic(synthetic) => synthetic.pods() == 0,
            Self::Kept(pods) => pods.is_empty(),
        }
    }

    /// Deletes one pod and adds it again.
    fn change(&self, graph: &Graph, at: u32, latency: &mut Histogram) {
        let mut out_and_in = |pod: &Pod<'_>| {
            let started = Instant::now();
            graph.delete(Kind::Pod, &pod.metadata.namespace, &pod.metadata.name);
            // The graph held the pod before, so its names fit.
            let _ = graph.apply_pod(pod);
            latency.record(nanoseconds(started.elapsed()));
        };
        match self {
            // A large odd step visits every pod.
            Self::Synthetic(synthetic) => {
                synthetic.with_pod(at.wrapping_mul(2_654_435_761) % synthetic.pods().max(1), &mut out_and_in);
            }
            Self::Kept(pods) => {
                if let Some(pod) = pods.get(at as usize % pods.len().max(1)) {
                    out_and_in(&pod.pod());
                }
            }
        }
    }

    /// Updates pods at a rate until stopped, and returns the latencies.
    pub fn run(&self, graph: &Graph, per_second: u32, stop: &AtomicBool) -> Histogram {
        let mut latency = Histogram::default();
        let started = Instant::now();
        let mut done = 0_u32;
        while !stop.load(Ordering::Relaxed) {
            let due = (started.elapsed().as_secs_f64() * f64::from(per_second)) as u32;
            while done < due && !stop.load(Ordering::Relaxed) {
                self.change(graph, done, &mut latency);
                done += 1;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        latency
    }
}

impl KeptPod {
    fn pod(&self) -> Pod<'_> {
        let volumes = self.secrets.iter().map(|secret| Volume {
            secret: Some(SecretNameSource { secret_name: Text::from(&**secret) }),
            ..Volume::default()
        });
        Pod {
            metadata: Metadata {
                namespace: Text::from(&*self.namespace),
                name: Text::from(&*self.name),
                ..Metadata::default()
            },
            spec: PodSpec {
                node_name: Text::from(&*self.node),
                volumes: List(volumes.collect()),
                ..PodSpec::default()
            },
            ..Pod::default()
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
