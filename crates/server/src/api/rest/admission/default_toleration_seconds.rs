//! DefaultTolerationSeconds: a pod stays for a while on a node that is not ready or cannot be reached (AP-110).

use kinds::resources::pods::admission;
use portcullis_kinds as kinds;

use super::{Operation, Plugin, Review, Verdict};

/// See the module.
pub(super) struct DefaultTolerationSeconds;

impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn handles(&self, review: &Review<'_>) -> bool {
        review.is_of("", "pods") && matches!(review.operation, Operation::Create | Operation::Update)
    }

    fn admit<'r>(&'r self, review: &'r mut Review<'_>) -> Verdict<'r> {
        Box::pin(async move {
            if let Some(pod) = review.object.as_deref_mut() {
                admission::default_tolerations(pod);
            }
            Ok(())
        })
    }
}
