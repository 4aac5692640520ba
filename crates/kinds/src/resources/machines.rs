//! Machines of `machine.openshift.io` and `cluster.x-k8s.io` (NB-120), from which the machine approver knows the
//! machines of a cluster. Other components own their fields, so all values are kept unchanged.

use serde_json::Value;

use super::cells::{AGE, NAME, age, name, text_column};
use crate::fields::{Members, begin_generation, keep_metadata, raise_generation};
use crate::resource::{MetadataChecks, Resource, Subresource};
use crate::schema::machine::{CLUSTER_MACHINE, OPENSHIFT_MACHINE};
use crate::table::Row;

/// The row of the Machines of OpenShift.
pub static OPENSHIFT_MACHINES: Resource =
    Resource { group: "machine.openshift.io", version: "v1beta1", schema: &OPENSHIFT_MACHINE, ..USUAL };

/// The row of the Machines of Cluster API.
pub static CLUSTER_API_MACHINES: Resource =
    Resource { group: "cluster.x-k8s.io", version: "v1beta2", schema: &CLUSTER_MACHINE, ..USUAL };

/// Machines behave like custom resources.
const USUAL: Resource = Resource {
    kind: "Machine",
    plural: "machines",
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: false },
    subresources: &[Subresource::status("Machine")],
    updates_unconditionally: false,
    prepare_create: |machine| {
        machine.remove("status");
        begin_generation(machine);
    },
    prepare_update: |machine, old| {
        machine.copy("status", old);
        let has_changed = machine.object("spec") != old.object("spec");
        raise_generation(machine, old, has_changed);
    },
    prepare_status: |machine, old| {
        machine.copy("spec", old);
        keep_metadata(machine, old);
    },
    columns: &[
        NAME,
        text_column("Phase", "How far the machine has come."),
        text_column("Node", "The node that runs on it."),
        AGE,
    ],
    row: |machine, now| {
        let status = machine.object("status");
        Row::of(vec![
            name(machine),
            Value::from(status.text("phase")),
            Value::from(status.object("nodeRef").text("name")),
            age(machine, now),
        ])
    },
    ..Resource::USUAL
};
