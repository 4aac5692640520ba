//! Fixes of workloads (PC121, PC122): settings that let code out of its container are dropped, mounts become read-only.

use serde_json::{Value, json};

use super::super::workloads::Place;
use super::change::target;
use super::part::{FixKind, FixPart};
use crate::audit::state::{Access, RiskKind, WORKLOADS};

/// The patch that ends a finding about a workload. Of all its pods and templates exactly one must have the setting, so that without it
/// the finding is gone; a patch only takes settings away. None if there are more, as pods that only a roll-out replaces, or if a mount
/// would have to go.
pub(super) fn fix(id: &str, places: &[Place<'_>], text: &str) -> Option<Vec<FixPart>> {
    let has_it = |place: &&Place<'_>| match id {
        "PC121" => !place.access.risks.is_empty(),
        _ => place.writes_static_pods().next().is_some(),
    };
    let mut with_it = places.iter().filter(has_it);
    let place = with_it.next().filter(|_| with_it.next().is_none())?;
    let version = match place.kind {
        "Pod" => "v1".to_owned(),
        kind => match WORKLOADS.iter().find(|row| row.2 == kind)?.1 {
            "" => "v1".to_owned(),
            group => format!("{group}/v1"),
        },
    };
    let patch = match id {
        "PC121" => without_risks(place.access, place.spec())?,
        _ => read_only(place),
    };
    Some(vec![FixPart {
        kind: FixKind::Patch,
        target: Some(target(&version, place.kind, &(place.namespace.to_owned(), place.name.to_owned()))),
        patch_type: Some("json"),
        patch: Some(Value::Array(patch)),
        manifest: None,
        text: text.to_owned(),
        self_check: None,
    }])
}

/// The operations that end all risks; none if a mount would have to go.
fn without_risks(access: &Access, spec: &str) -> Option<Vec<Value>> {
    let mut operations = Vec::new();
    // From the end, so that places in lists stay what they are.
    for risk in access.risks.iter().rev() {
        let path = format!("{spec}{}", risk.pointer);
        match &risk.kind {
            RiskKind::Privileged | RiskKind::HostPid => {
                operations.push(json!({"op": "test", "path": path, "value": true}));
                operations.push(json!({"op": "remove", "path": path}));
            }
            RiskKind::Capability(name) => {
                operations.push(json!({"op": "test", "path": path, "value": name}));
                operations.push(json!({"op": "remove", "path": path}));
            }
            RiskKind::HostPath { .. } if risk.ends_when_read_only() => {
                operations.push(json!({"op": "add", "path": format!("{path}/readOnly"), "value": true}));
            }
            RiskKind::HostPath { .. } => return None,
        }
    }
    Some(operations)
}

/// The operations that make the mounts of the directory of static pods read-only.
fn read_only(place: &Place<'_>) -> Vec<Value> {
    let spec = place.spec();
    let mounts = place.writes_static_pods();
    mounts
        .map(|mount| json!({"op": "add", "path": format!("{spec}{}/readOnly", mount.pointer), "value": true}))
        .collect()
}
