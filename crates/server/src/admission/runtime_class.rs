//! RuntimeClass: applies the overhead, the node selector and the tolerations of a pod's runtime class (AP-115).

use kinds::resources::pods::{PODS, admission};
use kinds::resources::runtime_classes::RUNTIME_CLASSES;

use super::plugin::{Plugin, Rule};
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "RuntimeClass",
    rules: &[Rule { operations: &[Operation::Create], resource: &PODS, subresource: "" }],
    admit: |attributes, _| Box::pin(admit(attributes)),
    ..Plugin::NONE
};

async fn admit(attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
    let class = match attributes.object.as_deref().and_then(admission::runtime_class) {
        Some(name) => attributes.stored(&RUNTIME_CLASSES, "", name).await?,
        None => None,
    };
    let Some(pod) = attributes.object.as_deref_mut() else { return Ok(()) };
    admission::admit_runtime_class(pod, class.as_ref()).map_err(|why| attributes.forbidden(&why, Vec::new()))
}
