//! Fixes of workloads (PC121, PC122): settings that let code out of its container are dropped, mounts become read-only.

use serde_json::{Value, json};

use super::change::target;
use super::part::{FixKind, FixPart};
use crate::audit::state::{Access, PodFacts, RiskKind, State, Template, WORKLOADS};

/// The patches that end a finding about a workload: of its template, or of a pod that belongs to none. None if a patch cannot end it:
/// a mount would have to go, or pods are there that only a roll-out replaces.
pub(super) fn fix(state: &State, id: &str, subject: &str, text: &str) -> Option<Vec<FixPart>> {
    let mut words = subject.splitn(3, '/');
    let (kind, namespace, name) = (words.next()?, words.next()?, words.next()?);
    let facts = state.facts();
    let is_pod = |pod: &&PodFacts| pod.namespace == namespace && pod.name == name && !pod.is_mirror;
    let is_template = |template: &&Template| {
        template.namespace == namespace && template.name == name && template.kind.to_lowercase() == kind
    };
    let (access, object, spec) = if kind == "pod" {
        let pod = facts.pods.iter().find(is_pod)?;
        let object = target("v1", "Pod", &(namespace.to_owned(), name.to_owned()));
        (&pod.access, object, "/spec")
    } else {
        let template = facts.templates.iter().find(is_template)?;
        let (_, group, kind, _) = WORKLOADS.iter().find(|row| row.2 == template.kind)?;
        let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        let object = target(&version, kind, &(namespace.to_owned(), name.to_owned()));
        let spec =
            if *kind == "CronJob" { "/spec/jobTemplate/spec/template/spec" } else { "/spec/template/spec" };
        let has_pods = facts
            .pods
            .iter()
            .any(|pod| pod.namespace == namespace && !pod.controller.is_none() && pod.access.is_risky());
        if has_pods
            || facts
                .templates
                .iter()
                .any(|other| other.controller.name == name && other.namespace == namespace)
        {
            return None;
        }
        (&template.access, object, spec)
    };
    let patch = match id {
        "PC121" => without_risks(access, spec)?,
        _ => read_only(access, spec),
    };
    Some(vec![FixPart {
        kind: FixKind::Patch,
        target: Some(object),
        patch_type: Some("json"),
        patch: Some(Value::Array(patch)),
        manifest: None,
        text: text.to_owned(),
        self_check: None,
    }])
}

impl Access {
    fn is_risky(&self) -> bool {
        !self.risks.is_empty() || !self.writable.is_empty()
    }
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

/// The operations that make all mounts of the node's directories read-only.
fn read_only(access: &Access, spec: &str) -> Vec<Value> {
    let mounts = access.writable.iter();
    mounts
        .map(|mount| json!({"op": "add", "path": format!("{spec}{}/readOnly", mount.pointer), "value": true}))
        .collect()
}
