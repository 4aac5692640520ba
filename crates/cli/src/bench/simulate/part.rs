//! The size of a simulation, its units, and the interface of its parts.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use portcullis_store::StoreError;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::failure::Failure;

/// The size of what is simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of nodes.
    pub nodes: u32,
    /// The number of pods on each node.
    pub pods_per_node: u32,
    /// The number of nodes that are served at a time.
    pub at_once: u16,
    /// Where the store with the leases is.
    pub directory: PathBuf,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of the allocator.
    Bytes,
    /// Seconds of the clock.
    Seconds,
}

impl Unit {
    /// As JSON names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
        }
    }

    /// A figure for people.
    pub fn text(self, figure: f64) -> String {
        match self {
            Self::Bytes => format!("{:.1} MiB", figure / f64::from(1 << 20)),
            Self::Seconds => format!("{figure:.2} s"),
        }
    }
}

/// A simulation that runs.
pub(super) struct Simulation<'p> {
    pub(super) plan: &'p Plan,
    pub(super) runtime: Runtime,
}

impl Simulation<'_> {
    /// Does work for every node, for so many at a time as the plan says.
    pub(super) fn each_node<F>(
        &self,
        nodes: u32,
        work: impl Fn(u32) -> F + Clone + Send + 'static,
    ) -> Result<(), Failure>
    where
        F: Future<Output = Result<(), StoreError>> + Send,
    {
        let next = Arc::new(AtomicU32::new(0));
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for _ in 0..self.plan.at_once {
                let (next, work) = (Arc::clone(&next), work.clone());
                tasks.spawn(async move {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= nodes {
                            return Ok(());
                        }
                        work(number).await?;
                    }
                });
            }
            while let Some(done) = tasks.join_next().await {
                done.map_err(Failure::unreachable)?.map_err(failed)?;
            }
            Ok(())
        })
    }
}

/// The store has failed.
pub(super) fn failed(error: StoreError) -> Failure {
    Failure::unreachable(error)
}

/// A part of a cluster: what is measured of it, and how, for a number of nodes.
pub(super) struct Part {
    /// As messages name it.
    pub(super) name: &'static str,
    pub(super) figures: &'static [(&'static str, Unit)],
    /// Returns the figures for a number of nodes.
    pub(super) measure: fn(&Simulation<'_>, u32) -> Result<Vec<f64>, Failure>,
}
