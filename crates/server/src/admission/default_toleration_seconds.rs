//! DefaultTolerationSeconds: adds tolerations for nodes that are not ready or unreachable (AP-110).

use kinds::resources::pods::{PODS, admission};

use super::plugin::{Plugin, Rule};
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "DefaultTolerationSeconds",
    rules: &[Rule { operations: &[Operation::Create, Operation::Update], resource: &PODS, subresource: "" }],
    admit: |attributes, _| Box::pin(admit(attributes)),
    ..Plugin::NONE
};

async fn admit(attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
    if let Some(pod) = attributes.object.as_deref_mut() {
        admission::default_tolerations(pod);
    }
    Ok(())
}
