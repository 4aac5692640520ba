//! PersistentVolumeClaimResize: a claim may grow only where its storage class allows it (AP-133).

use kinds::resources::core::persistent_volume_claims::growth_refusal;
use kinds::resources::storage::STORAGE_CLASSES;
use portcullis_kinds as kinds;

use super::{Operation, Plugin, Review, Verdict};

/// See the module.
pub(super) struct PersistentVolumeClaimResize;

impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn handles(&self, review: &Review<'_>) -> bool {
        review.operation == Operation::Update && review.is_of("", "persistentvolumeclaims")
    }

    fn admit<'r>(&'r self, review: &'r mut Review<'_>) -> Verdict<'r> {
        Box::pin(async move {
            let (Some(claim), Some(old)) = (review.object.as_deref(), review.old) else { return Ok(()) };
            // Most claims do not grow: then no class is looked at.
            if growth_refusal(claim, old, |_| false).is_none() {
                return Ok(());
            }
            let classes = review.all(&STORAGE_CLASSES).await?;
            let expands = |name: &str| {
                let class = classes.iter().find(|class| kinds::meta::name(class) == name);
                let allows = class.and_then(|class| class.get("allowVolumeExpansion"));
                allows.and_then(|allows| allows.as_bool()) == Some(true)
            };
            match growth_refusal(claim, old, expands) {
                Some(why) => Err(review.forbidden(why, Vec::new())),
                None => Ok(()),
            }
        })
    }
}
