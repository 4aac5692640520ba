//! All pods in memory, and a storm of lists: every node asks for its pods again, as after a restart of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use portcullis_store::{Embedded, Entry, Expect, List, Options, Store as _, StoreError, Value, Write};

use super::part::{Part, Simulation, Unit, failed};
use crate::bench::memory::allocated;
use crate::failure::Failure;

pub(super) const PART: Part = Part {
    name: "the pods",
    figures: &[("store of pods of 500 bytes", Unit::Bytes), ("every node lists its pods", Unit::Seconds)],
    measure,
};

const SIZE: usize = 500;
const PREFIX: &str = "/core/pods/";
/// How many pods are written in one commit.
const COMMIT: u32 = 1_000;

fn measure(simulation: &Simulation<'_>, nodes: u32) -> Result<Vec<f64>, Failure> {
    let pods = nodes * simulation.plan.pods_per_node;
    let each = simulation.plan.pods_per_node;
    let before = allocated();
    let store = Options::memory().parts(move |entry| node_of(entry, each)).open().map_err(failed)?;
    simulation.runtime.block_on(fill(&store, pods)).map_err(failed)?;
    let bytes = allocated().saturating_sub(before);
    let began = Instant::now();
    let listed = list_all(simulation, store, nodes)?;
    let took = began.elapsed().as_secs_f64();
    if listed != pods as usize {
        return Err(Failure::unreachable(format_args!("the nodes were given {listed} pods of {pods}")));
    }
    Ok(vec![bytes as f64, took])
}

fn node(number: u32) -> String {
    format!("node-{number}")
}

/// The node of a pod, which its number says.
fn node_of(pod: &Entry, pods_per_node: u32) -> Option<Box<str>> {
    let number: u32 = pod.key.rsplit_once('-')?.1.parse().ok()?;
    Some(node(number / pods_per_node).into())
}

async fn fill(store: &Embedded, pods: u32) -> Result<(), StoreError> {
    for from in (0..pods).step_by(COMMIT as usize) {
        let numbers = from..pods.min(from + COMMIT);
        store.commit(numbers.map(pod).collect()).await?;
    }
    Ok(())
}

fn pod(number: u32) -> Write {
    let value = Value { bytes: Bytes::from(vec![b'x'; SIZE]), revision_at: None, relies_on: None };
    let key = format!("{PREFIX}ns-{}/pod-{number}", number % 200);
    Write { key: key.into(), expect: Expect::Absent, value: Some(value) }
}

/// Lists the pods of every node, of some nodes at once. Returns how many pods that were.
fn list_all(simulation: &Simulation<'_>, store: Embedded, nodes: u32) -> Result<usize, Failure> {
    let (store, listed) = (Arc::new(store), Arc::new(AtomicUsize::new(0)));
    let found = Arc::clone(&listed);
    simulation.each_node(nodes, move |number| {
        let (store, found) = (Arc::clone(&store), Arc::clone(&found));
        async move {
            let list = List { prefix: PREFIX.into(), part: Some(node(number).into()), ..List::default() };
            found.fetch_add(store.list(&list).await?.entries.len(), Ordering::Relaxed);
            Ok(())
        }
    })?;
    Ok(listed.load(Ordering::Relaxed))
}
