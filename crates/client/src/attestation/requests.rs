//! The certificate requests that the controller follows.

use std::collections::BTreeMap;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_apimachinery::time::Instant;
use portcullis_attestation::exchange::RequestFacts;
use portcullis_attestation::request::ClientRequest;
use portcullis_attestation::signers::{self, Purpose};
use portcullis_attestation::time::system_time;
use portcullis_pki::evidence::{self, AttestedRequest, Envelope, Labels, MAX_PEM_BYTES, Phase};
use portcullis_pki::sha256;
use serde::Deserialize;

/// A request, as far as the controller reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Stored {
    /// The metadata.
    pub metadata: Metadata,
    /// The specification.
    pub spec: Spec,
    /// The status.
    pub status: Status,
}

/// The metadata of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: String,
    /// The version.
    pub resource_version: String,
    /// When it was created.
    pub creation_timestamp: String,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
}

/// The specification of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The PKCS#10 request and the evidence in PEM, in base64.
    pub request: String,
    /// The signer.
    pub signer_name: String,
    /// Who made the request.
    pub username: String,
    /// The groups of that user.
    pub groups: Vec<String>,
    /// The usages.
    pub usages: Vec<String>,
    /// What else the API server knows about that user.
    pub extra: BTreeMap<String, Vec<String>>,
    /// The requested lifetime.
    pub expiration_seconds: Option<u64>,
}

/// The status of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The certificate, in base64.
    pub certificate: String,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// A condition of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// `Approved`, `Denied` or `Failed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The reason, one word.
    pub reason: String,
    /// The message for people.
    pub message: String,
}

/// What a request asks for (AT-80, AT-172).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// A client certificate, proved by this attestor.
    Client(&'a str),
    /// A serving certificate, of the signer of this attestor.
    Serving(&'a str),
    /// A serving certificate, of the signer of kubelets.
    KubeletServing,
}

impl Stored {
    /// The attestor whose client signer it is for; none if it is for another signer.
    pub fn provider(&self) -> Option<&str> {
        match signers::read(&self.spec.signer_name)? {
            (Purpose::Client, provider) => Some(provider),
            (Purpose::Serving, _) => None,
        }
    }

    /// What it asks for; none if no attestor has to do with it.
    pub fn kind(&self) -> Option<Kind<'_>> {
        if self.spec.signer_name == signers::KUBELET_SERVING {
            return Some(Kind::KubeletServing);
        }
        Some(match signers::read(&self.spec.signer_name)? {
            (Purpose::Client, provider) => Kind::Client(provider),
            (Purpose::Serving, provider) => Kind::Serving(provider),
        })
    }

    /// Whether a condition is set.
    pub fn has(&self, kind: &str) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == kind)
    }

    /// Whether nothing is left to decide.
    pub fn is_decided(&self) -> bool {
        !self.status.certificate.is_empty() || self.has("Denied") || self.has("Failed")
    }
}

/// A request whose contents are parsed.
#[derive(Debug)]
pub struct Parsed {
    /// The object.
    pub stored: Stored,
    /// The PKCS#10 request and its evidence, or why they cannot be read.
    pub content: Result<AttestedRequest, String>,
    /// What its evidence says that it is for; none if there is none.
    pub phase: Option<Phase>,
}

impl Parsed {
    /// Parses the contents of a request.
    pub fn new(stored: Stored) -> Self {
        let content = content(&stored.spec.request);
        let data = content.as_ref().ok().and_then(|content| content.evidence.as_ref());
        let phase =
            data.and_then(|evidence| Envelope::read(&evidence.data).ok()).map(|envelope| envelope.phase);
        Self { stored, content, phase }
    }

    /// The request, as the rules take it.
    pub fn client_request(&self) -> ClientRequest<'_> {
        let Spec { signer_name, username, groups, usages, .. } = &self.stored.spec;
        let content = self.content.as_ref().map_err(String::as_str);
        ClientRequest { signer_name, username, groups, usages, content }
    }

    /// The name of its node; none if it is not for a node.
    pub fn node_name(&self) -> Option<&str> {
        portcullis_attestation::request::node_name(&self.content.as_ref().ok()?.csr)
    }

    /// What a challenge is bound to; none if the request is not for a node.
    pub fn facts(&self) -> Option<RequestFacts> {
        let csr = &self.content.as_ref().ok()?.csr;
        Some(RequestFacts {
            uid: self.stored.metadata.uid.clone(),
            username: self.stored.spec.username.clone(),
            common_name: format!("system:node:{}", self.node_name()?),
            public_key: sha256(csr.public_key_der()),
        })
    }

    /// When it was created.
    pub fn created(&self) -> SystemTime {
        let created = Instant::parse(&self.stored.metadata.creation_timestamp);
        created.map(system_time).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// Parses the request and its evidence.
fn content(request: &str) -> Result<AttestedRequest, String> {
    if request.len() > MAX_PEM_BYTES * 2 {
        return Err(format!("the request is larger than {MAX_PEM_BYTES} bytes"));
    }
    let pem = STANDARD.decode(request).map_err(|_| "spec.request is not base64".to_owned())?;
    evidence::read(&pem, Labels::Exact).map_err(|error| error.to_string())
}
