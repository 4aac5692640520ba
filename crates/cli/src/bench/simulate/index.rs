//! The index of the Node authorizer, for all pods with their volumes.

use std::time::Instant;

use portcullis_policy::chain::Mode;
use portcullis_policy::engine::{Builder, EngineConfig};

use super::part::{Part, Simulation, Unit};
use crate::bench::memory::allocated;
use crate::bench::synthetic::Synthetic;
use crate::failure::Failure;

pub(super) const PART: Part = Part {
    name: "the index",
    figures: &[("index of pods and volumes", Unit::Bytes), ("to build it", Unit::Seconds)],
    measure,
};

fn measure(simulation: &Simulation<'_>, nodes: u32) -> Result<Vec<f64>, Failure> {
    let synthetic = Synthetic { nodes, pods_per_node: simulation.plan.pods_per_node, bindings: 0 };
    let config = EngineConfig { modes: vec![Mode::Node], ..EngineConfig::default() };
    let (before, began) = (allocated(), Instant::now());
    let mut builder = Builder::new(config).map_err(Failure::input)?;
    let mut fault = None;
    synthetic.each_object(|object| fault = fault.take().or(builder.take(object).err()));
    if let Some(fault) = fault {
        return Err(Failure::input(fault));
    }
    let engine = builder.finish();
    let took = began.elapsed().as_secs_f64();
    let bytes = allocated().saturating_sub(before);
    drop(engine);
    Ok(vec![bytes as f64, took])
}
