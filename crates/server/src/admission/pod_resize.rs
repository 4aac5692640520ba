//! PodResizeValidator: a pod on a node may be resized to what the node can hold, if it runs Linux.

use kinds::resources::core::nodes::NODES;
use kinds::resources::pods::{PODS, resize_refusal, resized_on};

use super::plugin::{Plugin, Rule};
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "PodResizeValidator",
    rules: &[Rule { operations: &[Operation::Update], resource: &PODS, subresource: "resize" }],
    validate: |attributes, _| Box::pin(validate(attributes)),
    ..Plugin::NONE
};

async fn validate(attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
    let (Some(pod), Some(old)) = (attributes.object.as_deref(), attributes.old) else { return Ok(()) };
    let Some(name) = resized_on(pod, old) else { return Ok(()) };
    let node = attributes.stored(&NODES, "", name).await?;
    match resize_refusal(pod, name, node.as_ref()) {
        Some(why) => Err(attributes.forbidden(&why, Vec::new())),
        None => Ok(()),
    }
}
