//! The leases of all nodes in a file: one round of renewals, each of them durable, as happens every ten seconds.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use portcullis_store::{Expect, Options, Store as _, Value, Write};
use rustix::time::{ClockId, clock_gettime};

use super::part::{Part, Simulation, Unit, failed};
use crate::failure::Failure;

pub(super) const PART: Part = Part {
    name: "the leases",
    figures: &[
        ("every node renews its lease, durably", Unit::Seconds),
        ("processor time of these renewals", Unit::Seconds),
    ],
    measure,
};

/// How many leases are made in one commit.
const COMMIT: u32 = 1_000;

fn measure(simulation: &Simulation<'_>, nodes: u32) -> Result<Vec<f64>, Failure> {
    let folder = Folder::make(&simulation.plan.directory)?;
    let store = Arc::new(Options::file(folder.0.join("leases")).open().map_err(failed)?);
    simulation.runtime.block_on(async {
        for from in (0..nodes).step_by(COMMIT as usize) {
            let numbers = from..nodes.min(from + COMMIT);
            store.commit(numbers.map(|number| lease(number, 0)).collect()).await.map_err(failed)?;
        }
        Ok::<_, Failure>(())
    })?;
    let (began, used) = (Instant::now(), processor_time());
    let renewing = Arc::clone(&store);
    simulation.each_node(nodes, move |number| {
        let store = Arc::clone(&renewing);
        async move { store.commit(vec![lease(number, 1)]).await.map(drop) }
    })?;
    let (took, used) = (began.elapsed(), processor_time().saturating_sub(used));
    Ok(vec![took.as_secs_f64(), used.as_secs_f64()])
}

/// A lease as a kubelet writes it.
fn lease(number: u32, renewals: u32) -> Write {
    let json = format!(
        r#"{{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{{"name":"node-{number}","namespace":"kube-node-lease","uid":"00000000-0000-0000-0000-{number:012}","creationTimestamp":"2026-01-01T00:00:00Z","ownerReferences":[{{"apiVersion":"v1","kind":"Node","name":"node-{number}","uid":"00000000-0000-0000-0001-{number:012}"}}]}},"spec":{{"holderIdentity":"node-{number}","leaseDurationSeconds":40,"renewTime":"2026-01-01T00:00:{renewals:02}.000000Z"}}}}"#
    );
    let value = Value { bytes: Bytes::from(json), revision_at: None, relies_on: None };
    let key = format!("/coordination.k8s.io/leases/kube-node-lease/node-{number}");
    Write { key: key.into(), expect: Expect::Anything, value: Some(value) }
}

/// The processor time of this process, all threads together.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// A new folder, which is removed with all that is in it.
struct Folder(PathBuf);

impl Folder {
    fn make(below: &std::path::Path) -> Result<Self, Failure> {
        let path = below.join(format!("portcullis-simulate-{}", std::process::id()));
        fs::create_dir(&path)
            .map_err(|error| Failure::input(format_args!("cannot make {}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // After a failure the files stay. The name of the folder says what made it.
        let _ = fs::remove_dir_all(&self.0);
    }
}
