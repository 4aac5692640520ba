//! ServiceAccount: a pod runs as a service account of its namespace, and has that one's token and pull secrets
//! (AP-110, MP-19, MP-20).

use std::time::Duration;

use kinds::Map;
use kinds::resources::core::service_accounts::SERVICE_ACCOUNTS;
use kinds::resources::pods::admission;
use portcullis_kinds as kinds;

use super::{Operation, Plugin, Review, Verdict};
use crate::api::rest::meta;
use crate::status::Status;

/// The account that every namespace gets, some time after it was made.
const DEFAULT: &str = "default";
/// How often, and how far apart, it is looked for.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(150);

/// See the module.
pub(super) struct ServiceAccount;

impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn handles(&self, review: &Review<'_>) -> bool {
        review.resource.group.is_empty()
            && review.resource.plural == "pods"
            && matches!(
                (review.operation, review.subresource),
                (Operation::Create, "") | (Operation::Update, "ephemeralcontainers")
            )
    }

    fn admit<'r>(&'r self, review: &'r mut Review<'_>) -> Verdict<'r> {
        Box::pin(async move {
            let Some(pod) = review.object.as_deref().filter(|_| review.operation == Operation::Create) else {
                return Ok(());
            };
            let account = match admission::service_account(pod) {
                Some(name) => account(review, name).await?,
                None => None,
            };
            let suffix = meta::suffix()?;
            let Some(pod) = review.object.as_deref_mut() else { return Ok(()) };
            admission::admit_service_account(pod, account.as_ref(), &suffix)
                .map_err(|why| review.forbidden(&why, Vec::new()))
        })
    }

    fn validate<'r>(&'r self, review: &'r Review<'_>) -> Verdict<'r> {
        Box::pin(async move {
            let Some(pod) = review.object.as_deref().filter(|_| review.operation == Operation::Update) else {
                return Ok(());
            };
            let spec = pod.get("spec").and_then(|spec| spec.get("serviceAccountName"));
            let Some(name) = spec.and_then(|name| name.as_str()).filter(|name| !name.is_empty()) else {
                return Ok(());
            };
            let account = account(review, name).await?;
            let namespace = review.namespace;
            let checked = match &account {
                Some(account) => admission::admit_ephemeral_containers(pod, Some(account)),
                None => Err(format!("error looking up service account {namespace}/{name}: not found")),
            };
            checked.map_err(|why| review.forbidden(&why, Vec::new()))
        })
    }
}

/// An account of the namespace. The default one may be still to come.
async fn account(review: &Review<'_>, name: &str) -> Result<Option<Map>, Status> {
    for attempt in 1.. {
        let found = review.stored(&SERVICE_ACCOUNTS, review.namespace, name).await?;
        if found.is_some() || name != DEFAULT || attempt == ATTEMPTS {
            return Ok(found);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(None)
}
