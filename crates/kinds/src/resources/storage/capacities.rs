//! CSIStorageCapacities: how much storage of a class is left, and where.

use portcullis_apimachinery::quantity::Quantity;
use serde_json::Value;

use super::USUAL;
use crate::Map;
use crate::fields::{Errors, Members};
use crate::resource::{MetadataChecks, Resource};
use crate::resources::cells::{NAME, name, text_column};
use crate::resources::formats::{dns_subdomain, immutable};
use crate::resources::quantities::{negative_error, quantity};
use crate::resources::scheduling::validate_label_selector;
use crate::schema::storage::CSI_STORAGE_CAPACITY;
use crate::table::Row;

/// The row of CSIStorageCapacities.
pub static CSI_STORAGE_CAPACITIES: Resource = Resource {
    kind: "CSIStorageCapacity",
    plural: "csistoragecapacities",
    is_namespaced: true,
    schema: &CSI_STORAGE_CAPACITY,
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    validate_create: |capacity| validate(capacity, true),
    validate_update: |capacity, old| {
        let mut errors = validate(capacity, false);
        errors.extend(immutable("nodeTopology", capacity.get("nodeTopology"), old.get("nodeTopology")));
        let class = |capacity: &Map| capacity.text("storageClassName").to_owned();
        errors.extend(immutable("storageClassName", class(capacity), class(old)));
        errors
    },
    columns: &[
        NAME,
        text_column("StorageClassName", "Of which class the storage is."),
        text_column("Capacity", "How much is left."),
    ],
    row: |capacity, _| {
        let left =
            quantity(capacity, "capacity").map_or_else(|| "<unset>".to_owned(), |left| left.to_string());
        Row::of(vec![name(capacity), Value::from(capacity.text("storageClassName")), Value::from(left)])
    },
    ..USUAL
};

fn validate(capacity: &Map, checks_values: bool) -> Errors {
    let mut errors = dns_subdomain("storageClassName", capacity.text("storageClassName"));
    errors.extend(validate_label_selector("nodeTopology", capacity.object("nodeTopology"), checks_values));
    for member in ["capacity", "maximumVolumeSize"] {
        let amount: Option<Quantity> = quantity(capacity, member);
        errors.extend(amount.and_then(|amount| negative_error(member, &amount)));
    }
    errors
}
