//! DefaultStorageClass: sets the default storage class of a claim that names none (AP-113, table).

use kinds::resources::core::persistent_volume_claims::{
    PERSISTENT_VOLUME_CLAIMS, default_class, set_class, takes_default_class,
};
use kinds::resources::storage::STORAGE_CLASSES;

use super::plugin::{Plugin, Rule};
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "DefaultStorageClass",
    rules: &[Rule { operations: &[Operation::Create], resource: &PERSISTENT_VOLUME_CLAIMS, subresource: "" }],
    admit: |attributes, _| Box::pin(admit(attributes)),
    ..Plugin::NONE
};

async fn admit(attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
    if !attributes.object.as_deref().is_some_and(takes_default_class) {
        return Ok(());
    }
    let classes = attributes.all(&STORAGE_CLASSES).await?;
    if let (Some(claim), Some(class)) = (attributes.object.as_deref_mut(), default_class(classes.iter())) {
        set_class(claim, class);
    }
    Ok(())
}
