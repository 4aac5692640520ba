//! Validation of mirror pods (MP-1 to MP-20): pure functions over old and new pods.
//!
//! A pod is a mirror pod exactly when it has the annotation, whatever its value (MP-1). Who may create one is not
//! decided here (MP-3), and nothing is changed: in particular a mirror pod is given no account, no token volume and
//! no pull secrets (MP-19).
//!
//! The endpoints of ephemeral containers and of resizing restore the stored annotations before anything is validated
//! (MP-8); they call [`refuse_on_mirror`] alone.

use crate::field_error::{FieldError, NO_FIELD};
use crate::objects::meta::{MIRROR_ANNOTATION, Metadata};
use crate::objects::pod::Pod;

/// Validates the creation of a pod (MP-4, MP-17, MP-18).
pub fn validate_create(pod: &Pod<'_>) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = unbound_mirror(pod).into_iter().collect();
    errors.extend(resource_claims(pod));
    errors.extend(tokens_without_account(pod));
    errors
}

/// Validates an update of a pod itself (MP-5, MP-6, MP-9, MP-17). The new pod is judged as a whole first, then its
/// annotations once more beside the stored ones: that is why one mistake can be reported twice.
pub fn validate_update(pod: &Pod<'_>, stored: &Pod<'_>) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = unbound_mirror(pod).into_iter().collect();
    errors.extend(resource_claims(pod));
    errors.extend(annotation_update(pod, stored));
    errors
}

/// Validates an update of a pod's status, through which annotations can be written too (MP-7).
pub fn validate_status_update(pod: &Pod<'_>, stored: &Pod<'_>) -> Vec<FieldError> {
    annotation_update(pod, stored)
}

/// Refuses new ephemeral containers and resizing where the stored pod is a mirror pod. The one error replaces every
/// other error of the request (MP-15, MP-16).
pub fn refuse_on_mirror(stored: &Pod<'_>) -> Option<FieldError> {
    stored.is_mirror().then(|| FieldError::forbidden(NO_FIELD, "a static pod is changed on its node only"))
}

/// Validates the pod template of a workload (MP-10). `path` is that of the template, such as `spec.template`. A
/// StatefulSet reports the error twice: its caller takes it twice.
pub fn validate_template(metadata: &Metadata<'_>, node_name: &str, path: &str) -> Option<FieldError> {
    // The path has no `metadata` segment.
    unbound(metadata, node_name, path)
}

/// Why the ServiceAccount admission plugin refuses to create this mirror pod (MP-20). Nothing for a pod that is no
/// mirror or that it accepts.
pub fn service_account_refusal(pod: &Pod<'_>) -> Option<&'static str> {
    if !pod.is_mirror() {
        return None;
    }
    if !pod.service_account().is_empty() {
        return Some("a mirror pod may not have a service account");
    }
    let mut has_secret = false;
    pod.each_secret(|_| has_secret = true);
    if has_secret {
        return Some("a mirror pod may not refer to secrets");
    }
    let mut sources = pod.spec.volumes.iter().filter_map(|v| v.projected.as_ref()).flat_map(|p| &p.sources);
    sources
        .any(|source| source.service_account_token.is_some())
        .then_some("a mirror pod may not project service account tokens")
}

/// MP-4, MP-9: a mirror pod is bound from the start.
fn unbound_mirror(pod: &Pod<'_>) -> Option<FieldError> {
    unbound(&pod.metadata, &pod.spec.node_name, "metadata")
}

fn unbound(metadata: &Metadata<'_>, node_name: &str, path: &str) -> Option<FieldError> {
    let value = metadata.annotations.find(MIRROR_ANNOTATION)?;
    node_name.is_empty().then(|| {
        FieldError::invalid(
            annotation_of(path),
            format!("{value:?}"),
            "spec.nodeName must be set for a mirror pod",
        )
    })
}

/// MP-5, MP-6, MP-11: the annotation neither comes, changes nor goes; absent differs from empty.
fn annotation_update(pod: &Pod<'_>, stored: &Pod<'_>) -> Vec<FieldError> {
    let new = pod.metadata.annotations.find(MIRROR_ANNOTATION);
    let old = stored.metadata.annotations.find(MIRROR_ANNOTATION);
    let detail = match old {
        None => "an existing pod cannot be made a mirror pod",
        Some(_) => "the annotation of a mirror pod cannot be changed or removed",
    };
    let changed = (new != old).then(|| FieldError::forbidden(annotation_of("metadata"), detail));
    changed.into_iter().chain(unbound_mirror(pod)).collect()
}

/// MP-17: one error for each claim, which is then not looked at further.
fn resource_claims(pod: &Pod<'_>) -> impl Iterator<Item = FieldError> {
    let claims = if pod.is_mirror() { pod.spec.resource_claims.len() } else { 0 };
    (0..claims).map(|_| FieldError::forbidden(NO_FIELD, "a mirror pod may not use resource claims"))
}

/// MP-18: whoever projects a token has an account. For any pod.
fn tokens_without_account(pod: &Pod<'_>) -> Vec<FieldError> {
    if !pod.service_account().is_empty() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    for (i, volume) in pod.spec.volumes.iter().enumerate() {
        let sources = volume.projected.iter().flat_map(|projected| &projected.sources);
        for (j, _) in sources.enumerate().filter(|(_, source)| source.service_account_token.is_some()) {
            errors.push(FieldError::forbidden(
                format!("spec.volumes[{i}].projected.sources[{j}].serviceAccountToken"),
                "a pod without a service account has no tokens",
            ));
        }
    }
    errors
}

fn annotation_of(path: &str) -> String {
    format!("{path}.annotations[{MIRROR_ANNOTATION}]")
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
