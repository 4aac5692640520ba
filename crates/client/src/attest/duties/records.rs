//! The identity records of a cluster: which there are, and what the metrics say about them (AT-190).

use portcullis_attestation::time::instant;

use crate::attest::records::Versioned;
use crate::attest::shared::{Settings, Shared};

/// Reads the records. Those of Machines are beside them; those of an inventory are in one namespace.
pub(super) async fn all(shared: &Shared, settings: &Settings) -> Result<Vec<Versioned>, String> {
    let machines = &settings.config.machines;
    let records = match (machines.apis.is_empty(), &machines.namespace) {
        (true, _) => shared.records.list_in(None).await,
        (false, Some(namespace)) => shared.records.list_in(Some(namespace)).await,
        (false, None) => shared.records.list().await,
    };
    records.map_err(|error| error.to_string())
}

/// Sets the metrics.
pub(super) async fn measure(shared: &Shared, settings: &Settings) -> Result<(), String> {
    let records = all(shared, settings).await?;
    let cluster = shared.records.cluster().as_deref();
    let now = instant(shared.clock.now());
    shared.metrics.recorded(cluster, records.iter().map(|versioned| &versioned.record), now);
    Ok(())
}
