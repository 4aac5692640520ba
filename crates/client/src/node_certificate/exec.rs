//! The interface of credential plugins: `ExecCredential` of `client.authentication.k8s.io`.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use portcullis_pki::Pair;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::connect::{Credential, Parts};

/// The environment variable in which a client passes its `ExecCredential`.
pub const VARIABLE: &str = "KUBERNETES_EXEC_INFO";
/// The maximum length that is read. In bytes.
const MAX_BYTES: usize = 1024 * 1024;
const GROUP: &str = "client.authentication.k8s.io";

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `v1`
    V1,
    /// `v1beta1`
    V1Beta1,
}

/// The `ExecCredential` of a client is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{VARIABLE}: {0}")]
pub struct ExecInfoError(String);

/// What a client says about itself (AT-11).
pub struct ExecInfo {
    /// The version of the protocol.
    pub version: Version,
    /// The server of the client, with `provideClusterInfo: true`. Without a credential.
    pub server: Option<Parts>,
    /// Whether the client does not verify the server.
    pub is_insecure: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    cluster: Option<Cluster>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct Cluster {
    server: String,
    certificate_authority_data: String,
    insecure_skip_tls_verify: bool,
}

/// Returns the version that a client asks for.
///
/// # Errors
/// It is not an `ExecCredential`, or its version is not supported.
pub fn version(info: &str) -> Result<Version, ExecInfoError> {
    self::info(info).map(|info| info.version)
}

/// Reads what a client says about itself (AT-11, AT-12).
///
/// # Errors
/// It is not an `ExecCredential`, its version is not supported, or its cluster is malformed.
pub fn info(info: &str) -> Result<ExecInfo, ExecInfoError> {
    let refuse = |why: String| Err(ExecInfoError(why));
    if info.len() > MAX_BYTES {
        return refuse(format!("it is larger than {MAX_BYTES} bytes"));
    }
    let read: Info = match serde_json::from_str(info) {
        Ok(read) => read,
        Err(error) => return refuse(format!("it is not an ExecCredential in JSON: {error}")),
    };
    if read.kind != "ExecCredential" {
        return refuse(format!("its kind is {:?}, not ExecCredential", read.kind));
    }
    let version = match read.api_version.split_once('/') {
        Some((GROUP, "v1")) => Version::V1,
        Some((GROUP, "v1beta1")) => Version::V1Beta1,
        _ => {
            return refuse(format!(
                "version {:?} is not supported: write apiVersion: {GROUP}/v1 into the exec section of the kubeconfig",
                read.api_version
            ));
        }
    };
    let Some(cluster) = read.spec.cluster else {
        return Ok(ExecInfo { version, server: None, is_insecure: false });
    };
    let Ok(certificate_authority) = STANDARD.decode(&cluster.certificate_authority_data) else {
        return refuse("spec.cluster.certificate-authority-data is not base64".to_owned());
    };
    // Without an authority of its own, the server is that of the bootstrap kubeconfig.
    let is_complete = !cluster.server.is_empty() && !certificate_authority.is_empty();
    let server = is_complete.then_some(Parts {
        server: cluster.server,
        certificate_authority,
        credential: Credential::Anonymous,
    });
    Ok(ExecInfo { version, server, is_insecure: cluster.insecure_skip_tls_verify })
}

/// Returns the output of the plugin: the pair, and when to call it again.
pub fn credential(version: Version, pair: &Pair) -> Value {
    credential_of(version, &pair.certificates_pem(), &pair.key().to_pem(), pair.not_after())
}

/// Returns the output of the plugin: a certificate and its key in PEM form, and when to call it again (AT-13, AT-14).
pub fn credential_of(version: Version, certificate: &str, key: &str, until: SystemTime) -> Value {
    let version = match version {
        Version::V1 => "v1",
        Version::V1Beta1 => "v1beta1",
    };
    json!({
        "apiVersion": format!("{GROUP}/{version}"),
        "kind": "ExecCredential",
        "status": {
            "clientCertificateData": certificate,
            "clientKeyData": key,
            "expirationTimestamp": seconds(until),
        },
    })
}

/// Formats a date as Kubernetes does.
fn seconds(date: SystemTime) -> String {
    Timestamp::try_from(date).unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_understood_and_nothing_else_is() {
        let info = |version: &str| {
            format!(r#"{{"apiVersion":"{version}","kind":"ExecCredential","spec":{{"interactive":true}}}}"#)
        };
        assert_eq!(version(&info("client.authentication.k8s.io/v1")), Ok(Version::V1));
        assert_eq!(version(&info("client.authentication.k8s.io/v1beta1")), Ok(Version::V1Beta1));
        let bad = [
            "".to_owned(),
            "null".to_owned(),
            "[]".to_owned(),
            "{}".to_owned(),
            r#"{"kind":"ExecCredential"}"#.to_owned(),
            info("client.authentication.k8s.io/v1alpha1"),
            info("v1"),
            info("v1").replace("ExecCredential", "Pod"),
        ];
        for bad in bad {
            let error = version(&bad).unwrap_err().to_string();
            assert!(error.starts_with("KUBERNETES_EXEC_INFO: "), "{error}");
        }
    }
}
