//! A refused write, with the fields of the Status in the response (NR-6).

use std::fmt;

use serde::Serialize;

use super::request::AdmissionRequest;
use crate::objects::meta::MetadataOnly;

/// The rejection of a write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    /// The HTTP status code: 403, 404 or 500.
    pub code: u16,
    /// The machine-readable reason. Empty for 500, as Kubernetes writes the unknown reason.
    pub reason: &'static str,
    /// The message for people. Programs must not depend on its wording.
    pub message: String,
    /// The resource that was refused or missing; `None` for 500.
    pub details: Option<RejectionDetails>,
}

/// The resource of a rejection. Empty fields are not serialized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectionDetails {
    /// The object's name; may be empty for 404.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The API group; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource (403), or the singular lower-case kind (404).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

impl Rejection {
    /// Creates a 404: a core object that the rule needs is not known.
    pub(super) fn not_found(kind: &str, name: &str) -> Self {
        Self {
            code: 404,
            reason: "NotFound",
            message: format!("{kind} \"{name}\" not found"),
            details: Some(RejectionDetails {
                group: String::new(),
                kind: kind.to_owned(),
                name: name.to_owned(),
            }),
        }
    }

    /// Creates a 500: the submitted and the known state disagree, perhaps only temporarily, so a retry may help.
    pub(super) fn internal(message: impl fmt::Display) -> Self {
        Self { code: 500, reason: "", message: message.to_string(), details: None }
    }
}

impl AdmissionRequest<'_> {
    /// Creates a 403 for this request. It names the request's object, else the body's, else the body's name prefix.
    pub(super) fn forbidden(&self, why: impl fmt::Display) -> Rejection {
        let name = self.name_for_people();
        let dot = if self.group.is_empty() { "" } else { "." };
        Rejection {
            code: 403,
            reason: "Forbidden",
            message: format!("{}{dot}{} \"{name}\" is forbidden: {why}", self.resource, self.group),
            details: Some(RejectionDetails {
                group: self.group.to_owned(),
                kind: self.resource.to_owned(),
                name,
            }),
        }
    }

    /// Refuses the request with a 403 unless this holds.
    pub(super) fn require(&self, holds: bool, why: impl fmt::Display) -> Result<(), Rejection> {
        if holds { Ok(()) } else { Err(self.forbidden(why)) }
    }

    /// Refuses the request unless the pod is bound to the node.
    pub(super) fn require_bound(&self, pod_node: &str, me: &str) -> Result<(), Rejection> {
        self.require(pod_node == me, format_args!("the pod is not bound to node {me:?}"))
    }

    fn name_for_people(&self) -> String {
        if !self.name.is_empty() {
            return self.name.to_owned();
        }
        let body = self.object.and_then(|object| object.read::<MetadataOnly<'_>>().ok());
        let metadata = body.map(|b| b.metadata).unwrap_or_default();
        [metadata.name, metadata.generate_name]
            .into_iter()
            .find(|name| !name.is_empty())
            .map_or_else(|| "Unknown".to_owned(), |name| name.0.into_owned())
    }
}
