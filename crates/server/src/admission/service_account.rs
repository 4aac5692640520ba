//! ServiceAccount: sets a pod's service account, and adds its token volume and image pull secrets (AP-110, MP-19,
//! MP-20).

use std::time::Duration;

use kinds::Map;
use kinds::resources::core::service_accounts::SERVICE_ACCOUNTS;
use kinds::resources::pods::{PODS, admission};

use super::plugin::{Plugin, Rule};
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};
use crate::registry::meta;

/// The service account that every namespace gets shortly after its creation.
const DEFAULT: &str = "default";
/// The number of attempts to find it, and the delay between them.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(150);

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "ServiceAccount",
    rules: &[
        Rule { operations: &[Operation::Create], resource: &PODS, subresource: "" },
        Rule { operations: &[Operation::Update], resource: &PODS, subresource: "ephemeralcontainers" },
    ],
    admit: |attributes, _| Box::pin(admit(attributes)),
    validate: |attributes, _| Box::pin(validate(attributes)),
    ..Plugin::NONE
};

async fn admit(attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
    let Some(pod) = attributes.object.as_deref().filter(|_| attributes.operation == Operation::Create) else {
        return Ok(());
    };
    let account = match admission::service_account(pod) {
        Some(name) => account(attributes, name).await?,
        None => None,
    };
    let suffix = meta::suffix()?;
    let Some(pod) = attributes.object.as_deref_mut() else { return Ok(()) };
    admission::admit_service_account(pod, account.as_ref(), &suffix)
        .map_err(|why| attributes.forbidden(&why, Vec::new()))
}

async fn validate(attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
    let Some(pod) = attributes.object.as_deref().filter(|_| attributes.operation == Operation::Update) else {
        return Ok(());
    };
    let spec = pod.get("spec").and_then(|spec| spec.get("serviceAccountName"));
    let Some(name) = spec.and_then(|name| name.as_str()).filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let account = account(attributes, name).await?;
    let namespace = attributes.namespace;
    let checked = match &account {
        Some(account) => admission::admit_ephemeral_containers(pod, Some(account)),
        None => Err(format!("error looking up service account {namespace}/{name}: not found")),
    };
    checked.map_err(|why| attributes.forbidden(&why, Vec::new()))
}

/// Looks up a service account of the namespace. The default one may not have been created yet.
async fn account(attributes: &AdmissionAttributes<'_>, name: &str) -> Result<Option<Map>, Status> {
    for attempt in 1.. {
        let found = attributes.stored(&SERVICE_ACCOUNTS, attributes.namespace, name).await?;
        if found.is_some() || name != DEFAULT || attempt == ATTEMPTS {
            return Ok(found);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(None)
}
