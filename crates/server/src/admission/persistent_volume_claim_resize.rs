//! PersistentVolumeClaimResize: a claim may grow only if its storage class allows expansion (AP-133).

use kinds::resources::core::persistent_volume_claims::{PERSISTENT_VOLUME_CLAIMS, growth_refusal};
use kinds::resources::storage::STORAGE_CLASSES;

use super::plugin::{Plugin, Rule};
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "PersistentVolumeClaimResize",
    rules: &[Rule { operations: &[Operation::Update], resource: &PERSISTENT_VOLUME_CLAIMS, subresource: "" }],
    validate: |attributes, _| Box::pin(validate(attributes)),
    ..Plugin::NONE
};

async fn validate(attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
    let (Some(claim), Some(old)) = (attributes.object.as_deref(), attributes.old) else {
        return Ok(());
    };
    // Most claims do not grow. For them no storage class is looked up.
    if growth_refusal(claim, old, |_| false).is_none() {
        return Ok(());
    }
    let classes = attributes.all(&STORAGE_CLASSES).await?;
    let expands = |name: &str| {
        let class = classes.iter().find(|class| kinds::meta::name(class) == name);
        let allows = class.and_then(|class| class.get("allowVolumeExpansion"));
        allows.and_then(|allows| allows.as_bool()) == Some(true)
    };
    match growth_refusal(claim, old, expands) {
        Some(why) => Err(attributes.forbidden(why, Vec::new())),
        None => Ok(()),
    }
}
