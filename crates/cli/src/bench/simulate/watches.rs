//! The watches of all kubelets, three each, that wait for something to happen.

use portcullis_store::{Options, Store as _};

use super::part::{Part, Simulation, Unit, failed};
use crate::bench::memory::allocated;
use crate::failure::Failure;

pub(super) const PART: Part = Part {
    name: "the watches",
    figures: &[("three watches of each node, without their connections", Unit::Bytes)],
    measure,
};

/// The prefixes below which each kubelet watches its own objects.
const WATCHED: [&str; 3] = ["/core/nodes/", "/core/pods/", "/coordination.k8s.io/leases/kube-node-lease/"];

fn measure(simulation: &Simulation<'_>, nodes: u32) -> Result<Vec<f64>, Failure> {
    let store = Options::memory().open().map_err(failed)?;
    let revision = store.revision();
    let before = allocated();
    let watches = simulation.runtime.block_on(async {
        let mut watches = Vec::new();
        for number in 0..nodes {
            for kind in WATCHED {
                watches.push(store.watch(&format!("{kind}node-{number}"), revision).await?);
            }
        }
        Ok(watches)
    });
    let watches = watches.map_err(failed)?;
    let bytes = allocated().saturating_sub(before);
    drop(watches);
    Ok(vec![bytes as f64])
}
