//! Kinds of `certificates.k8s.io`.

use serde::Deserialize;

use super::decode::{Text, or_default};
use super::meta::MetadataAndSpec;

/// A request for a certificate for a pod.
pub type PodCertificateRequest<'a> = MetadataAndSpec<'a, PodCertificateRequestSpec<'a>>;

/// The spec of a pod certificate request.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PodCertificateRequestSpec<'a> {
    /// The node that the pod is on.
    pub node_name: Text<'a>,
    /// That node's unique id.
    #[serde(rename = "nodeUID")]
    pub node_uid: Text<'a>,
    /// The pod.
    pub pod_name: Text<'a>,
    /// The pod's unique id.
    #[serde(rename = "podUID")]
    pub pod_uid: Text<'a>,
    /// The pod's service account.
    pub service_account_name: Text<'a>,
    /// The service account's unique id.
    #[serde(rename = "serviceAccountUID")]
    pub service_account_uid: Text<'a>,
}

/// A request for a certificate.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct CertificateSigningRequest<'a> {
    /// The requested certificate and the signer.
    #[serde(deserialize_with = "or_default")]
    pub spec: CertificateSigningRequestSpec<'a>,
}

/// The spec of a certificate signing request.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct CertificateSigningRequestSpec<'a> {
    /// The PKCS#10 request: PEM, in base64.
    pub request: Text<'a>,
    /// The name of the signer.
    pub signer_name: Text<'a>,
}
