//! PodTopologyLabels: copies the topology labels of the node to the pod when it is bound (AP-120).

use kinds::Map;
use kinds::resources::core::nodes::NODES;
use kinds::resources::pods::{PODS, add_topology_labels};
use serde_json::Value;

use super::plugin::{Plugin, Rule};
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "PodTopologyLabels",
    rules: &[
        Rule { operations: &[Operation::Create], resource: &PODS, subresource: "" },
        Rule { operations: &[Operation::Create], resource: &PODS, subresource: "binding" },
    ],
    admit: |attributes, _| Box::pin(admit(attributes)),
    ..Plugin::NONE
};

async fn admit(attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
    let Some(node) = attributes.object.as_deref().and_then(node).filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let node = attributes.stored(&NODES, "", node).await?;
    if let Some(object) = attributes.object.as_deref_mut() {
        add_topology_labels(object, node.as_ref());
    }
    Ok(())
}

/// Returns the node that a pod is created on, or that a binding names.
fn node(object: &Map) -> Option<&str> {
    let part = |part: &str, field: &str| object.get(part).and_then(|part| part.get(field));
    part("spec", "nodeName").or_else(|| part("target", "name")).and_then(Value::as_str)
}
