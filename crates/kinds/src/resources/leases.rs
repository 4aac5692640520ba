//! Leases, for leader election and node heartbeats.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use super::cells::{AGE, NAME, age, name, text_column};
use crate::Map;
use crate::fields::{Errors, Members};
use crate::resource::{MetadataChecks, Resource};
use crate::schema::coordination::LEASE;
use crate::table::Row;

/// The row of Leases.
pub static LEASES: Resource = Resource {
    group: "coordination.k8s.io",
    kind: "Lease",
    plural: "leases",
    schema: &LEASE,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: false },
    creates_on_update: true,
    updates_unconditionally: false,
    prepare_create: drop_disabled,
    validate_create: validate,
    prepare_update: |lease, _| drop_disabled(lease),
    validate_update: |lease, _| validate(lease),
    columns: &[NAME, text_column("Holder", "Who holds the lease."), AGE],
    row: |lease, now| {
        Row::of(vec![name(lease), Value::from(lease.object("spec").text("holderIdentity")), age(lease, now)])
    },
    ..Resource::USUAL
};

/// AP-137: drops the fields of coordinated leader election, which is disabled.
fn drop_disabled(lease: &mut Map) {
    if let Some(spec) = lease.object_or_new("spec") {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

/// AP-130. Decoding has already validated the times.
fn validate(lease: &Map) -> Errors {
    let spec = lease.object("spec");
    let below = |name: &str, limit: i64, detail: &str| {
        let value = spec.get(name).and_then(Value::as_i64).filter(|&value| value < limit)?;
        Some(FieldError::invalid(format!("spec.{name}"), value.to_string(), detail))
    };
    let duration = below("leaseDurationSeconds", 1, "must be greater than 0");
    let transitions = below("leaseTransitions", 0, "must be greater than or equal to 0");
    duration.into_iter().chain(transitions).collect()
}
