//! CertificateSigning: whoever writes the status of a request needs permission `sign` on its signer (CS-42, CS-43).

use kinds::Map;
use kinds::resources::certificates::CERTIFICATE_SIGNING_REQUESTS;
use serde_json::Value;

use super::certificate_approval::check;
use super::plugin::{Plugin, Rule};
use crate::authz::Authorization;
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "CertificateSigning",
    rules: &[Rule {
        operations: &[Operation::Update],
        resource: &CERTIFICATE_SIGNING_REQUESTS,
        subresource: "status",
    }],
    validate: |attributes, context| Box::pin(validate(attributes, context.authorization)),
    ..Plugin::NONE
};

async fn validate(attributes: &AdmissionAttributes<'_>, authorization: &Authorization) -> Result<(), Status> {
    let status =
        |object: Option<&Map>, field: &str| -> Option<Value> { object?.get("status")?.get(field).cloned() };
    let is_same = |field| status(attributes.object.as_deref(), field) == status(attributes.old, field);
    match is_same("certificate") && is_same("conditions") {
        true => Ok(()),
        false => check(attributes, authorization, "sign").await,
    }
}
