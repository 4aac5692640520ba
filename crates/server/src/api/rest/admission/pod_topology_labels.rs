//! PodTopologyLabels: a pod has the labels of where its node is (AP-120).

use kinds::Map;
use kinds::resources::core::nodes::NODES;
use kinds::resources::pods::add_topology_labels;
use portcullis_kinds as kinds;
use serde_json::Value;

use super::{Operation, Plugin, Review, Verdict};

/// See the module.
pub(super) struct PodTopologyLabels;

impl Plugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    fn handles(&self, review: &Review<'_>) -> bool {
        review.operation == Operation::Create
            && review.resource.group.is_empty()
            && review.resource.plural == "pods"
            && matches!(review.subresource, "" | "binding")
    }

    fn admit<'r>(&'r self, review: &'r mut Review<'_>) -> Verdict<'r> {
        Box::pin(async move {
            let Some(node) = review.object.as_deref().and_then(node).filter(|name| !name.is_empty()) else {
                return Ok(());
            };
            let node = review.stored(&NODES, "", node).await?;
            if let Some(object) = review.object.as_deref_mut() {
                add_topology_labels(object, node.as_ref());
            }
            Ok(())
        })
    }
}

/// The node that a pod is created on, or that a binding is for.
fn node(object: &Map) -> Option<&str> {
    let part = |part: &str, field: &str| object.get(part).and_then(|part| part.get(field));
    part("spec", "nodeName").or_else(|| part("target", "name")).and_then(Value::as_str)
}
