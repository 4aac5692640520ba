//! RuntimeClass: a pod gets the overhead, the node selector and the tolerations of its class (AP-115).

use kinds::resources::pods::admission;
use kinds::resources::runtime_classes::RUNTIME_CLASSES;
use portcullis_kinds as kinds;

use super::{Operation, Plugin, Review, Verdict};

/// See the module.
pub(super) struct RuntimeClass;

impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn handles(&self, review: &Review<'_>) -> bool {
        review.operation == Operation::Create && review.is_of("", "pods")
    }

    fn admit<'r>(&'r self, review: &'r mut Review<'_>) -> Verdict<'r> {
        Box::pin(async move {
            let class = match review.object.as_deref().and_then(admission::runtime_class) {
                Some(name) => review.stored(&RUNTIME_CLASSES, "", name).await?,
                None => None,
            };
            let Some(pod) = review.object.as_deref_mut() else { return Ok(()) };
            admission::admit_runtime_class(pod, class.as_ref())
                .map_err(|why| review.forbidden(&why, Vec::new()))
        })
    }
}
