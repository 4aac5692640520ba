//! One line of the audit log: an `audit.k8s.io/v1` Event.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::Value;

use policy::User;

/// The maximum length of a logged user agent, in bytes.
const MAX_USER_AGENT: usize = 1024;
/// The maximum length of other texts that a caller without credentials chooses, in bytes.
const MAX_STRANGERS_TEXT: usize = 1024;
const TRUNCATED: &str = "...TRUNCATED";

/// The facts about a request that are known so far.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    pub(super) level: &'static str,
    #[serde(rename = "auditID")]
    pub(super) audit_id: String,
    pub(super) stage: &'static str,
    #[serde(rename = "requestURI")]
    pub(super) request_uri: String,
    pub(super) verb: String,
    pub(super) user: UserInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) impersonated_user: Option<UserInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) authentication_metadata: Option<AuthenticationMetadata>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    pub(super) source_ips: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) object_ref: Option<ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_status: Option<ResponseStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_object: Option<Value>,
    pub(super) request_received_timestamp: String,
    pub(super) stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<Cow<'static, str>, String>,
}

/// How the user was authenticated.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuthenticationMetadata {
    /// The verb by which constrained impersonation was allowed (AN-151).
    pub(super) impersonation_constraint: String,
}

/// A user; empty if unknown.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct UserInfo {
    #[serde(skip_serializing_if = "String::is_empty")]
    username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
}

impl From<&User> for UserInfo {
    fn from(user: &User) -> Self {
        let User { name, uid, groups, extra } = user.clone();
        Self { username: name, uid, groups, extra }
    }
}

/// The object of a request.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) subresource: String,
}

/// The status of the response. It has only the fields of `Status` that Kubernetes logs.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct ResponseStatus {
    #[serde(serialize_with = "empty_object")]
    pub(super) metadata: (),
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<Value>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) code: u16,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(code: &u16) -> bool {
    *code == 0
}

fn empty_object<S: Serializer>((): &(), serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(std::iter::empty::<(&str, &str)>())
}

impl ResponseStatus {
    /// Creates a status with only a code.
    pub(super) fn of_code(code: u16) -> Self {
        Self { code, ..Self::default() }
    }

    /// Creates a status from a document of kind `Status`.
    pub(super) fn of_document(document: &Value, code: u16) -> Option<Self> {
        let text =
            |field: &str| document.get(field).and_then(Value::as_str).map(str::to_owned).unwrap_or_default();
        (text("kind") == "Status").then(|| Self {
            metadata: (),
            status: text("status"),
            message: text("message"),
            reason: text("reason"),
            details: document.get("details").cloned(),
            code,
        })
    }
}

impl Event {
    /// Truncates what a caller without credentials chooses, so that its events are small.
    ///
    /// DIVERGES: kube-apiserver logs it completely. Such a caller would fill the disk.
    pub(super) fn shorten(&mut self) {
        let status = self.response_status.iter_mut();
        let object = self.object_ref.iter_mut().flat_map(|object| {
            let ObjectReference { resource, namespace, name, api_group, api_version, subresource, .. } =
                object;
            [resource, namespace, name, api_group, api_version, subresource]
        });
        let texts = [&mut self.request_uri, &mut self.verb].into_iter().chain(object);
        let status = status.map(|status| {
            status.details = None;
            &mut status.message
        });
        texts.chain(status).chain(self.annotations.values_mut()).for_each(shorten);
        // A failure repeats the path. What it says is in the response status.
        if self
            .response_object
            .as_ref()
            .is_some_and(|object| object.get("kind").is_some_and(|kind| kind == "Status"))
        {
            self.response_object = None;
        }
    }
}

fn shorten(text: &mut String) {
    if text.len() > MAX_STRANGERS_TEXT {
        text.truncate(text.floor_char_boundary(MAX_STRANGERS_TEXT));
        text.push_str(TRUNCATED);
    }
}

/// Truncates a user agent.
pub(super) fn user_agent(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.len() <= MAX_USER_AGENT {
        return text.into_owned();
    }
    let end = text.floor_char_boundary(MAX_USER_AGENT);
    format!("{}{TRUNCATED}", text.get(..end).unwrap_or_default())
}

/// Removes `managedFields` from an object, or from the items of a list.
pub(super) fn drop_managed_fields(object: &mut Value) {
    let drop = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    drop(object);
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(drop);
    }
}
