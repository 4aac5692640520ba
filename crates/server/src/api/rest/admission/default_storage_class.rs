//! DefaultStorageClass: a claim that names no class gets the one that is marked as the default (AP-113, table).

use kinds::resources::core::persistent_volume_claims::{default_class, set_class, takes_default_class};
use kinds::resources::storage::STORAGE_CLASSES;
use portcullis_kinds as kinds;

use super::{Operation, Plugin, Review, Verdict};

/// See the module.
pub(super) struct DefaultStorageClass;

impl Plugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn handles(&self, review: &Review<'_>) -> bool {
        review.operation == Operation::Create && review.is_of("", "persistentvolumeclaims")
    }

    fn admit<'r>(&'r self, review: &'r mut Review<'_>) -> Verdict<'r> {
        Box::pin(async move {
            if !review.object.as_deref().is_some_and(takes_default_class) {
                return Ok(());
            }
            let classes = review.all(&STORAGE_CLASSES).await?;
            if let (Some(claim), Some(class)) = (review.object.as_deref_mut(), default_class(classes.iter()))
            {
                set_class(claim, class);
            }
            Ok(())
        })
    }
}
