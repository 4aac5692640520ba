//! CertificateApproval: who approves or denies a certificate must be allowed to for its signer (CS-40, CS-41).

use kinds::Map;
use policy::Attributes;
use policy::request::ResourceRequest;
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use serde_json::Value;

use super::{Operation, Plugin, Review, Verdict};
use crate::authz::Verdict as Answer;
use crate::status::Status;

pub(super) const GROUP: &str = "certificates.k8s.io";
pub(super) const REQUESTS: &str = "certificatesigningrequests";

/// See the module.
pub(super) struct CertificateApproval;

impl Plugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn handles(&self, review: &Review<'_>) -> bool {
        review.operation == Operation::Update
            && (review.resource.group, review.resource.plural, review.subresource)
                == (GROUP, REQUESTS, "approval")
    }

    fn validate<'r>(&'r self, review: &'r Review<'_>) -> Verdict<'r> {
        Box::pin(async move { check(review, "approve").await })
    }
}

/// The signer that a request is for.
pub(super) fn signer(request: &Map) -> &str {
    let name = request.get("spec").and_then(|spec| spec.get("signerName"));
    name.and_then(Value::as_str).unwrap_or_default()
}

/// Whether the caller may do this for the signer of the stored request: by its whole name, or for all of its domain.
///
/// # Errors
/// 403 when the caller may not.
pub(super) async fn check(review: &Review<'_>, verb: &str) -> Result<(), Status> {
    let signer = review.old.map(signer).unwrap_or_default();
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
        let attributes = Attributes { user: review.user, verb, path: "", resource: Some(resource) };
        // CS-44: nobody knowing is a no.
        if review.app.authorization().ask(&attributes).await.verdict == Answer::Allow {
            return Ok(());
        }
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(review.forbidden(&why, Vec::new()))
}
