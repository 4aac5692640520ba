//! HorizontalPodAutoscalers in `autoscaling/v1`, which knows the share of the CPU alone. They are stored as `v2`; what
//! `v1` has no field for is in annotations of its documents, as in Kubernetes.
//!
//! DIVERGES: the annotations hold the fields as `v2` has them. Kubernetes writes them in forms of its own, which differ
//! in the names of some fields.

use serde_json::{Value, json};

use super::HORIZONTAL_POD_AUTOSCALERS as CURRENT;
use crate::Map;
use crate::decode;
use crate::fields::Members;
use crate::resource::{Conversion, Resource};
use crate::schema::autoscaling::v1::HORIZONTAL_POD_AUTOSCALER;

/// The row of HorizontalPodAutoscalers in `v1`.
pub static V1: Resource = Resource {
    version: "v1",
    schema: &HORIZONTAL_POD_AUTOSCALER,
    version_of: Some(Conversion { row: &CURRENT, to: upgrade, from: downgrade }),
    ..CURRENT
};

/// The annotations with what `v1` has no field for: the part of the object, the member, and the annotation.
const ANNOTATED: [(&str, &str, &str); 4] = [
    ("spec", "metrics", "autoscaling.alpha.kubernetes.io/metrics"),
    ("spec", "behavior", "autoscaling.alpha.kubernetes.io/behavior"),
    ("status", "conditions", "autoscaling.alpha.kubernetes.io/conditions"),
    ("status", "currentMetrics", "autoscaling.alpha.kubernetes.io/current-metrics"),
];
/// The lists of metrics, with the field of `v1` for the share of the CPU.
const CPU: [(&str, &str, &str); 2] = [
    ("spec", "metrics", "targetCPUUtilizationPercentage"),
    ("status", "currentMetrics", "currentCPUUtilizationPercentage"),
];

/// The share of the requested CPU that a metric aims at, or was measured.
fn cpu_share(part: &str, metric: &Value) -> Option<i64> {
    let resource = metric.get("resource").filter(|resource| resource.get("name") == Some(&json!("cpu")))?;
    let amount = resource.get(if part == "spec" { "target" } else { "current" })?;
    amount.get("averageUtilization").and_then(Value::as_i64)
}

/// A document of `v1` as the object that it means.
fn upgrade(mut document: Map) -> Map {
    document.insert("apiVersion".to_owned(), CURRENT.api_version().into());
    for (part, member, annotation) in ANNOTATED {
        let annotations =
            document.object_mut("metadata").and_then(|metadata| metadata.object_mut("annotations"));
        let text = annotations.and_then(|annotations| annotations.remove(annotation));
        // An annotation in another form is dropped, like all unreadable ones.
        let value =
            text.as_ref().and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
        if let (Some(value), Some(part)) = (value, document.object_or_new(part)) {
            part.insert(member.to_owned(), value);
        }
    }
    drop_empty_annotations(&mut document);
    for (part, member, field) in CPU {
        let Some(holder) = document.object_mut(part) else { continue };
        let Some(share) = holder.remove(field).and_then(|share| share.as_i64()) else { continue };
        let amount = match part {
            "spec" => ("target", json!({"type": "Utilization", "averageUtilization": share})),
            _ => ("current", json!({"averageUtilization": share})),
        };
        let resource = Map::from_iter([("name".to_owned(), json!("cpu")), (amount.0.to_owned(), amount.1)]);
        holder.push_to(member, json!({"type": "Resource", "resource": resource}));
    }
    document
}

/// An object as a document of `v1`.
fn downgrade(mut object: Map, served: &Resource) -> Map {
    object.insert("apiVersion".to_owned(), served.api_version().into());
    for (part, member, field) in CPU {
        let Some(holder) = object.object_mut(part) else { continue };
        let Some(metrics) = holder.get_mut(member).and_then(Value::as_array_mut) else { continue };
        let Some(at) = metrics.iter().position(|metric| cpu_share(part, metric).is_some()) else { continue };
        let share = cpu_share(part, &metrics.remove(at));
        holder.insert(field.to_owned(), json!(share));
    }
    for (part, member, annotation) in ANNOTATED {
        let Some(value) = object.object_mut(part).and_then(|part| part.remove(member)) else { continue };
        if value.is_null() || value == json!([]) {
            continue;
        }
        let annotations =
            object.object_or_new("metadata").and_then(|metadata| metadata.object_or_new("annotations"));
        if let Some(annotations) = annotations {
            annotations.insert(annotation.to_owned(), value.to_string().into());
        }
    }
    let complete = decode::value(object.clone().into(), served.schema);
    complete.map_or(object, |decoded| decoded.object)
}

fn drop_empty_annotations(document: &mut Map) {
    let Some(metadata) = document.object_mut("metadata") else { return };
    if metadata.object_if_set("annotations").is_some_and(Map::is_empty) {
        metadata.remove("annotations");
    }
}
