//! Validation of pod annotations.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::well_known::MIRROR_ANNOTATION;
use serde_json::Value;

use crate::Map;
use crate::fields::{ErrorList, Errors, Field};
use crate::resources::pods::defaults::CONTAINER_LISTS;
use crate::resources::pods::prepare::APP_ARMOR_PREFIX;
use crate::resources::pods::syntax;
use crate::resources::pods::validate::{Kept, scheduling};

const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";

fn annotations(pod: &Map) -> Field<'_> {
    Field::root(pod, "metadata").child("annotations")
}

/// Validates the annotations of a pod on their own (MP-4, MP-9). All errors are collected (MP-12).
pub(in crate::resources::pods) fn validate(pod: &Map, kept: &Kept, errors: &mut Errors) {
    let all = annotations(pod);
    let spec = Field::root(pod, "spec");
    let mirror = all.key(MIRROR_ANNOTATION);
    if mirror.is_set() && spec.child("nodeName").text().is_empty() {
        errors.push(mirror.invalid("must set spec.nodeName if mirror pod annotation is set"));
    }
    tolerations(&all, kept, errors);
    if !kept.deletion_cost {
        errors.extend(deletion_cost(pod));
    }
    for (name, value) in all.entries() {
        if name == SECCOMP_POD || name.starts_with(SECCOMP_PREFIX) {
            seccomp(&value.named(format!("{}.{name}", all.path())), errors);
        }
    }
    for (name, value) in all.entries() {
        if let Some(container) = name.strip_prefix(APP_ARMOR_PREFIX) {
            app_armor(&spec, container, &value, errors);
        }
    }
}

fn tolerations(all: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    let text = all.key(TOLERATIONS);
    if text.text().is_empty() {
        return;
    }
    match serde_json::from_str::<Value>(text.text()) {
        Ok(list @ (Value::Array(_) | Value::Null)) => {
            let list = Field::at(format!("{}.{TOLERATIONS}", all.path()), Some(&list));
            scheduling::tolerations(&list, kept, errors);
        }
        _ => errors.push(text.named(all.path()).invalid("must be a list of tolerations in JSON")),
    }
}

/// Validates the pod deletion cost: a 32-bit integer, without a plus sign or leading zeros.
pub(super) fn deletion_cost(pod: &Map) -> Option<FieldError> {
    let cost = annotations(pod).key(DELETION_COST).set()?;
    let text = cost.text();
    let is_plain = text == "0" || text.starts_with(|c: char| c == '-' || matches!(c, '1'..='9'));
    let is_valid = is_plain && text.parse::<i32>().is_ok();
    (!is_valid).then(|| cost.invalid("must be a 32bit integer"))
}

fn seccomp(profile: &Field<'_>, errors: &mut Errors) {
    match profile.text() {
        "runtime/default" | "docker/default" | "unconfined" => {}
        text => match text.strip_prefix("localhost/") {
            Some(path) => {
                let faults = syntax::descending_path(path);
                errors.extend(faults.into_iter().map(|fault| profile.invalid(fault)));
            }
            None => errors.push(profile.invalid("must be a valid seccomp profile")),
        },
    }
}

fn app_armor(spec: &Field<'_>, container: &str, profile: &Field<'_>, errors: &mut Errors) {
    let mut containers = CONTAINER_LISTS.iter().flat_map(|list| spec.child(list).items());
    if !containers.any(|known| known.child("name").text() == container) {
        errors.push(profile.invalid("container not found"));
    }
    let text = profile.text();
    if !matches!(text, "" | "runtime/default" | "unconfined") && !text.starts_with("localhost/") {
        errors.push(profile.invalid("invalid AppArmor profile name"));
    }
}

/// Validates changes of annotations in an update of the pod or its status (MP-5 to MP-7, MP-11), and the new
/// annotations on their own.
pub(in crate::resources::pods) fn validate_update(pod: &Map, old: &Map, kept: &Kept, errors: &mut Errors) {
    let new = annotations(pod);
    let old = annotations(old);
    let is_fixed = |name: &str| name.starts_with(APP_ARMOR_PREFIX) || name == MIRROR_ANNOTATION;
    for (name, value) in old.entries().filter(|(name, _)| is_fixed(name)) {
        if new.key(name).value() != value.value() {
            errors.push(value.forbidden("may not be removed or updated"));
        }
    }
    for (name, value) in new.entries().filter(|(name, _)| is_fixed(name)) {
        errors.push_if(!old.key(name).is_set(), || value.forbidden("may not be added"));
    }
    validate(pod, kept, errors);
}

/// An annotation and the corresponding field of a new pod must agree.
pub(super) fn match_fields(pod: &Map, errors: &mut Errors) {
    let all = annotations(pod);
    let spec = Field::root(pod, "spec");
    let context = spec.child("securityContext");
    let of_pod = context.child("seccompProfile");
    same_profile(&all.key(SECCOMP_POD), &of_pod, &["runtime/default", "docker/default"], errors);
    let containers = || CONTAINER_LISTS.iter().flat_map(|list| spec.child(list).items());
    for container in containers() {
        let annotation = all.key(format!("{SECCOMP_PREFIX}{}", container.child("name").text()));
        let field = container.child("securityContext").child("seccompProfile");
        same_profile(&annotation, &field, &["runtime/default", "docker/default"], errors);
    }
    if spec.child("os").child("name").text() == "windows" {
        return;
    }
    for container in containers() {
        let annotation = all.key(format!("{APP_ARMOR_PREFIX}{}", container.child("name").text()));
        let own = container.child("securityContext").child("appArmorProfile");
        // The pod's profile is used if the container has none, but the path is the container's.
        let path = own.path();
        let field = own.set().unwrap_or_else(|| context.child("appArmorProfile")).named(path);
        same_profile(&annotation, &field, &["runtime/default"], errors);
    }
}

fn same_profile(annotation: &Field<'_>, field: &Field<'_>, defaults: &[&str], errors: &mut Errors) {
    if !annotation.is_set() || !field.is_set() {
        return;
    }
    let kind = field.child("type");
    let profile = field.child("localhostProfile");
    let text = annotation.text();
    let is_kind = match kind.text() {
        "Unconfined" => text == "unconfined",
        "RuntimeDefault" => defaults.contains(&text),
        "Localhost" => text.starts_with("localhost/"),
        _ => true,
    };
    if !is_kind {
        errors.push(kind.forbidden("type in annotation and field must match"));
    } else if kind.text() == "Localhost"
        && text.strip_prefix("localhost/") != profile.value().and_then(Value::as_str)
    {
        errors.push(profile.forbidden("profile in annotation and field must match"));
    }
}
