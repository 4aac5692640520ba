//! A CertificateSigningRequest as the approver sees it.

use std::net::IpAddr;

use base64::Engine as _;
use portcullis_apimachinery::time::Instant;
use serde::Deserialize;

use super::object::{self, ObjectError, View};
use crate::identity::NODE_USER_PREFIX;
use crate::objects::decode::{List, or_default};

/// The reason in this approver's `Approved` conditions. It is that of the earlier approver in clusters.
pub const APPROVED_REASON: &str = "NodeCSRApprove";

/// A CertificateSigningRequest: the object, and the PKCS#10 request in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The object's name.
    pub name: String,
    /// The object's unique id.
    pub uid: String,
    /// The creation time, set by the API server; `None` if it cannot be parsed.
    pub created: Option<Instant>,
    /// The name of the signer.
    pub signer_name: String,
    /// The requester's user name, as authenticated by the API server.
    pub username: String,
    /// The requester's groups.
    pub groups: Vec<String>,
    /// The requested usages.
    pub usages: Vec<String>,
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// Whether the certificate was issued.
    pub has_certificate: bool,
    /// The content of the PKCS#10 request, or why it could not be parsed.
    pub content: Result<Pkcs10, String>,
}

/// A condition of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// `Approved`, `Denied` or `Failed`.
    pub kind: String,
    /// The reason, one word.
    pub reason: String,
    /// The time of the condition; `None` if it cannot be parsed.
    pub since: Option<Instant>,
}

/// The content of a PKCS#10 request. It exists only if the signature was verified with the key in the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pkcs10 {
    /// The common name; empty if there is none.
    pub common_name: String,
    /// The number of attributes of the subject that are neither the last common name nor an organization.
    pub other_attributes: usize,
    /// The organizations, in order.
    pub organizations: Vec<String>,
    /// The requested DNS names.
    pub dns: Vec<String>,
    /// The requested e-mail addresses.
    pub email: Vec<String>,
    /// The requested IP addresses.
    pub ip: Vec<IpAddr>,
    /// The requested URIs.
    pub uri: Vec<String>,
    /// The number of requested alternative names of other kinds.
    pub other_names: usize,
    /// The requested extensions.
    pub extensions: Vec<Extension>,
    /// The key.
    pub key: Key,
    /// A hash of the public key, which identifies it.
    pub key_hash: [u8; 32],
    /// Whether the request is signed over a SHA-1 hash.
    pub is_sha1: bool,
    /// Whether anything but white space follows the first PEM block.
    pub has_trailing_data: bool,
}

/// A requested extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The object identifier, dotted.
    pub oid: String,
    /// For basic constraints: whether they request a CA certificate, or cannot be parsed. False for all others.
    pub is_ca: bool,
}

/// The kind of a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// RSA.
    Rsa {
        /// The size of the modulus.
        bits: usize,
    },
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// ECDSA on P-521.
    P521,
    /// Ed25519.
    Ed25519,
}

impl Request {
    /// Reads a CertificateSigningRequest. The caller provides the parser of PKCS#10 in PEM, which must verify the
    /// signature.
    ///
    /// # Errors
    /// The text is not a JSON object, or a relevant field has a value of another type. A PKCS#10 request that cannot be
    /// parsed is not an error; see [`Request::content`].
    pub fn from_json(
        text: &str,
        pkcs10: impl FnOnce(&[u8]) -> Result<Pkcs10, String>,
    ) -> Result<Self, ObjectError> {
        let view: View<Spec, Status> = object::decode(text)?;
        let content = base64::engine::general_purpose::STANDARD
            .decode(&view.spec.request)
            .map_err(|_| "spec.request is not base64".to_owned())
            .and_then(|bytes| pkcs10(&bytes));
        Ok(Self {
            created: view.metadata.created(),
            name: view.metadata.name,
            uid: view.metadata.uid,
            signer_name: view.spec.signer_name,
            username: view.spec.username,
            groups: view.spec.groups.0,
            usages: view.spec.usages.0,
            conditions: view.status.conditions.0.into_iter().map(ConditionView::into_condition).collect(),
            has_certificate: !view.status.certificate.is_empty(),
            content,
        })
    }

    /// Returns whether the request is undecided and no certificate was issued (NB-52).
    pub fn is_pending(&self) -> bool {
        let is_decision =
            |condition: &Condition| matches!(&*condition.kind, "Approved" | "Denied" | "Failed");
        !self.has_certificate && !self.conditions.iter().any(is_decision)
    }

    /// The condition that approves it.
    pub fn approval(&self) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == "Approved")
    }

    /// The requested common name; empty if the request cannot be parsed.
    pub fn common_name(&self) -> &str {
        self.content.as_ref().map_or("", |content| &content.common_name)
    }

    /// Returns whether it is by the node itself, and not by an identity that nodes share.
    pub(super) fn is_by_the_node(&self) -> bool {
        !self.username.is_empty() && self.username == self.common_name()
    }

    /// The name of the node that the certificate would identify; `None` if it is not for a node.
    pub fn node_name(&self) -> Option<&str> {
        self.common_name().strip_prefix(NODE_USER_PREFIX).filter(|name| !name.is_empty())
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    request: String,
    #[serde(deserialize_with = "or_default")]
    signer_name: String,
    #[serde(deserialize_with = "or_default")]
    username: String,
    groups: List<String>,
    usages: List<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: List<ConditionView>,
    #[serde(deserialize_with = "or_default")]
    certificate: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConditionView {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default")]
    reason: String,
    #[serde(deserialize_with = "or_default")]
    last_transition_time: String,
    #[serde(deserialize_with = "or_default")]
    last_update_time: String,
}

impl ConditionView {
    fn into_condition(self) -> Condition {
        let time = |text: &str| Instant::parse(text).ok();
        let since = time(&self.last_transition_time).or_else(|| time(&self.last_update_time));
        Condition { kind: self.kind, reason: self.reason, since }
    }
}
