//! Priority: a pod has the priority of its class (AP-110). There are no classes but those that every cluster has.

use kinds::resources::pods::admission;
use portcullis_kinds as kinds;

use super::{Operation, Plugin, Review, Verdict};

/// See the module.
pub(super) struct Priority;

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn handles(&self, review: &Review<'_>) -> bool {
        review.is_of("", "pods") && matches!(review.operation, Operation::Create | Operation::Update)
    }

    fn admit<'r>(&'r self, review: &'r mut Review<'_>) -> Verdict<'r> {
        Box::pin(async move {
            let Some(pod) = review.object.as_deref_mut() else { return Ok(()) };
            match review.old {
                Some(old) => {
                    admission::keep_priority(pod, old);
                    Ok(())
                }
                None => admission::admit_priority(pod, admission::built_in_priority)
                    .map_err(|why| review.forbidden(&why, Vec::new())),
            }
        })
    }
}
