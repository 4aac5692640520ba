//! `portcullis bench simulate`: runs the parts of a large cluster that fit on one machine.
//!
//! Each part runs at an eighth, a quarter and half of the size. The line through these three predicts the whole size, which
//! is then run as well. So a figure for a cluster that does not fit can be trusted as far as the predictions were right.
//!
//! It has no network, no TLS and no HTTP: those are measured by `benches/api-over-https`.

mod index;
mod leases;
mod line;
mod part;
mod pods;
mod watches;

use tokio::runtime::Runtime;

use self::line::Line;
use self::part::{Part, Simulation};
pub use self::part::{Plan, Unit};
use super::memory;
use crate::failure::Failure;

/// The parts of the whole size at which a line is fitted.
const PARTS_OF_SIZE: [u32; 3] = [8, 4, 2];

/// A figure: what the line predicts for the whole size, and what was measured.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The structure or the work.
    pub what: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The value of the line at the whole size.
    pub predicted: f64,
    /// The measured value at the whole size.
    pub measured: f64,
}

impl Figure {
    /// The measured value minus the predicted one, as a fraction of the measured one.
    pub fn error(&self) -> f64 {
        (self.measured - self.predicted) / self.measured
    }
}

const PARTS: [Part; 4] = [index::PART, pods::PART, watches::PART, leases::PART];

/// Runs every part.
///
/// # Errors
/// The whole size does not fit into memory, or the store cannot be written.
pub fn run(plan: &Plan, runtime: Runtime) -> Result<Vec<Figure>, Failure> {
    let simulation = Simulation { plan, runtime };
    let mut found = Vec::new();
    for part in PARTS {
        let mut points = vec![Vec::new(); part.figures.len()];
        let measure = |nodes| {
            eprintln!("{}: {nodes} nodes", part.name);
            (part.measure)(&simulation, nodes)
        };
        for part_of_size in PARTS_OF_SIZE {
            let nodes = plan.nodes / part_of_size;
            let figures = measure(nodes)?;
            // Each size is half of the next.
            let bytes = part.figures.iter().zip(&figures).filter(|((_, unit), _)| *unit == Unit::Bytes);
            fits(part.name, 2.0 * bytes.map(|(_, bytes)| bytes).sum::<f64>())?;
            for (points, figure) in points.iter_mut().zip(figures) {
                points.push((f64::from(nodes), figure));
            }
        }
        let predicted: Vec<f64> =
            points.iter().map(|points| Line::through(points).at(f64::from(plan.nodes))).collect();
        let measured = measure(plan.nodes)?;
        let figures = part.figures.iter().zip(predicted).zip(measured);
        found.extend(figures.map(|((&(what, unit), predicted), measured)| Figure {
            what,
            unit,
            predicted,
            measured,
        }));
    }
    Ok(found)
}

/// Refuses what does not fit into the memory that is free, if the system says how much that is.
fn fits(what: &str, needed: f64) -> Result<(), Failure> {
    match memory::available() {
        Some(available) if needed > available as f64 => Err(Failure::input(format_args!(
            "{what} needs {:.1} GiB, and {:.1} GiB of memory are free: simulate fewer --nodes",
            needed / f64::from(1 << 30),
            available as f64 / f64::from(1 << 30),
        ))),
        _ => Ok(()),
    }
}
