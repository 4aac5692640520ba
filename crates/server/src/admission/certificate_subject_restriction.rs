//! CertificateSubjectRestriction: refuses requests to the kube-apiserver-client signer for group `system:masters`
//! (CS-48).

use std::fmt::Display;

use kinds::decode::bytes;
use kinds::resources::certificates::CERTIFICATE_SIGNING_REQUESTS;
use pki::Csr;

use super::certificate_approval::signer;
use super::plugin::{Plugin, Rule};
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "CertificateSubjectRestriction",
    rules: &[Rule {
        operations: &[Operation::Create],
        resource: &CERTIFICATE_SIGNING_REQUESTS,
        subresource: "",
    }],
    validate: |attributes, _| Box::pin(validate(attributes)),
    ..Plugin::NONE
};

async fn validate(attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
    let Some(request) = attributes.object.as_deref().filter(|request| signer(request) == SIGNER) else {
        return Ok(());
    };
    let refuse = |why: String| Err(attributes.forbidden(&why, Vec::new()));
    let unreadable = |error: &dyn Display| refuse(format!("failed to parse CSR: {error}"));
    let asked = match bytes(request, "spec", "request") {
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
}
