//! Mirror pods: how the API server shows the static pods of a node. Who may create one is not decided here (MP-3), and
//! nothing is changed: in particular a mirror pod is given no account, no token volume and no pull secrets (MP-19).

use portcullis_apimachinery::field_error::{FieldError, NO_FIELD};
use portcullis_apimachinery::well_known::MIRROR_ANNOTATION;

use crate::Map;
use crate::fields::Members;

/// Whether a pod is a mirror pod: it has the annotation, whatever its value (MP-1, MP-2).
pub(super) fn is_mirror(pod: &Map) -> bool {
    pod.metadata().object("annotations").contains_key(MIRROR_ANNOTATION)
}

/// The error of changing a static pod through its mirror pod, which replaces all others, including those of the
/// metadata (MP-15, MP-16). The endpoints for that restore the stored annotations first (MP-8).
pub(super) fn refusal(old: &Map) -> Option<FieldError> {
    is_mirror(old)
        .then(|| FieldError::forbidden(NO_FIELD, "static pods cannot be changed through their mirror pods"))
}
