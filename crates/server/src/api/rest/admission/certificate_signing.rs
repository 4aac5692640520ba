//! CertificateSigning: who writes a certificate, or what became of a request, must be allowed to sign for its signer
//! (CS-42, CS-43).

use kinds::Map;
use portcullis_kinds as kinds;
use serde_json::Value;

use super::certificate_approval::{GROUP, REQUESTS, check};
use super::{Operation, Plugin, Review, Verdict};

/// See the module.
pub(super) struct CertificateSigning;

impl Plugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn handles(&self, review: &Review<'_>) -> bool {
        review.operation == Operation::Update
            && (review.resource.group, review.resource.plural, review.subresource)
                == (GROUP, REQUESTS, "status")
    }

    fn validate<'r>(&'r self, review: &'r Review<'_>) -> Verdict<'r> {
        Box::pin(async move {
            let status = |object: Option<&Map>, field: &str| -> Option<Value> {
                object?.get("status")?.get(field).cloned()
            };
            let is_same = |field| status(review.object.as_deref(), field) == status(review.old, field);
            match is_same("certificate") && is_same("conditions") {
                true => Ok(()),
                false => check(review, "sign").await,
            }
        })
    }
}
