//! Kinds of `certificates.k8s.io`.

use serde::Deserialize;

use super::decode::{Text, or_default};
use super::meta::Metadata;

/// A request for a certificate for a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct PodCertificateRequest<'a> {
    /// The metadata.
    #[serde(borrow, deserialize_with = "or_default")]
    pub metadata: Metadata<'a>,
    /// For whom.
    #[serde(borrow, deserialize_with = "or_default")]
    pub spec: PodCertificateRequestSpec<'a>,
}

/// Whom a pod certificate is for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct PodCertificateRequestSpec<'a> {
    /// The node that the pod is on.
    #[serde(borrow)]
    pub node_name: Text<'a>,
    /// That node's unique id.
    #[serde(borrow, rename = "nodeUID")]
    pub node_uid: Text<'a>,
    /// The pod.
    #[serde(borrow)]
    pub pod_name: Text<'a>,
    /// The pod's unique id.
    #[serde(borrow, rename = "podUID")]
    pub pod_uid: Text<'a>,
    /// The pod's service account.
    #[serde(borrow)]
    pub service_account_name: Text<'a>,
    /// The service account's unique id.
    #[serde(borrow, rename = "serviceAccountUID")]
    pub service_account_uid: Text<'a>,
}

/// A request for a certificate.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct CertificateSigningRequest<'a> {
    /// What is asked for, and of whom.
    #[serde(borrow, deserialize_with = "or_default")]
    pub spec: CertificateSigningRequestSpec<'a>,
}

/// What certificate is asked for, and of whom.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct CertificateSigningRequestSpec<'a> {
    /// The PKCS#10 request: PEM, in base64.
    #[serde(borrow)]
    pub request: Text<'a>,
    /// Who shall sign.
    #[serde(borrow)]
    pub signer_name: Text<'a>,
}
