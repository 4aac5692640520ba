//! Priority: sets the priority of a pod's priority class (AP-110). Only the built-in classes exist.

use kinds::resources::pods::{PODS, admission};

use super::plugin::{Plugin, Rule};
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "Priority",
    rules: &[Rule { operations: &[Operation::Create, Operation::Update], resource: &PODS, subresource: "" }],
    admit: |attributes, _| Box::pin(admit(attributes)),
    ..Plugin::NONE
};

async fn admit(attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
    let Some(pod) = attributes.object.as_deref_mut() else { return Ok(()) };
    match attributes.old {
        Some(old) => {
            admission::keep_priority(pod, old);
            Ok(())
        }
        None => admission::admit_priority(pod, admission::built_in_priority)
            .map_err(|why| attributes.forbidden(&why, Vec::new())),
    }
}
