//! CertificateApproval: who approves or denies a certificate must be allowed to for its signer (CS-40, CS-41,
//! NR-109).

use kinds::Map;
use kinds::resources::certificates::CERTIFICATE_SIGNING_REQUESTS;
use policy::Attributes;
use policy::request::ResourceRequest;
use serde_json::Value;

use super::plugin::{Plugin, Rule};
use crate::authz::Authorization;
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};

const GROUP: &str = "certificates.k8s.io";

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "CertificateApproval",
    rules: &[Rule {
        operations: &[Operation::Update],
        resource: &CERTIFICATE_SIGNING_REQUESTS,
        subresource: "approval",
    }],
    validate: |attributes, context| Box::pin(check(attributes, context.authorization, "approve")),
    ..Plugin::NONE
};

/// Returns the signer of a request.
pub(super) fn signer(request: &Map) -> &str {
    let name = request.get("spec").and_then(|spec| spec.get("signerName"));
    name.and_then(Value::as_str).unwrap_or_default()
}

/// Checks whether the caller has this permission on the signer of the stored request: by its full name, or by the
/// wildcard of its domain.
///
/// # Errors
/// 403 if the caller does not have the permission.
pub(super) async fn check(
    attributes: &AdmissionAttributes<'_>,
    authorization: &Authorization,
    verb: &str,
) -> Result<(), Status> {
    let signer = attributes.old.map(signer).unwrap_or_default();
    let domain = signer.split_once('/').map_or(signer, |(domain, _)| domain);
    let of_domain = format!("{domain}/*");
    for name in [signer, &of_domain] {
        let resource = ResourceRequest {
            group: GROUP,
            version: "*",
            resource: "signers",
            name,
            ..ResourceRequest::default()
        };
        let attributes = Attributes { user: attributes.user, verb, path: "", resource: Some(resource) };
        // CS-44: no opinion counts as denied.
        if authorization.ask(&attributes).await.is_allow() {
            return Ok(());
        }
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(attributes.forbidden(&why, Vec::new()))
}
