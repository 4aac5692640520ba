//! CertificateSubjectRestriction: nobody asks the signer of clients for a certificate of `system:masters` (CS-48).

use std::fmt::Display;

use pki::Csr;
use portcullis_pki as pki;

use super::certificate_approval::{GROUP, REQUESTS, signer};
use super::{Operation, Plugin, Review, Verdict};
use crate::api::rest::context;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// See the module.
pub(super) struct CertificateSubjectRestriction;

impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn handles(&self, review: &Review<'_>) -> bool {
        review.operation == Operation::Create && review.is_of(GROUP, REQUESTS)
    }

    fn validate<'r>(&'r self, review: &'r Review<'_>) -> Verdict<'r> {
        Box::pin(async move {
            let Some(request) = review.object.as_deref().filter(|request| signer(request) == SIGNER) else {
                return Ok(());
            };
            let refuse = |why: String| Err(review.forbidden(&why, Vec::new()));
            let unreadable = |error: &dyn Display| refuse(format!("failed to parse CSR: {error}"));
            let asked = match context::bytes(request, "spec", "request") {
                Ok(pem) => Csr::from_pem(&pem),
                Err(error) => return unreadable(&error),
            };
            let organizations = match &asked {
                Ok(asked) => asked.subject().organizations(),
                Err(error) => return unreadable(error),
            };
            match organizations {
                Ok(organizations) if organizations.contains(&MASTERS) => {
                    refuse(format!("use of {SIGNER} signer with {MASTERS} group is not allowed"))
                }
                Ok(_) => Ok(()),
                Err(error) => unreadable(&error),
            }
        })
    }
}
