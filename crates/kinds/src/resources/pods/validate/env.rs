//! Validation of environment variables, and of references to fields of the pod.

use std::collections::BTreeMap;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names;
use portcullis_apimachinery::names::NameRule;

use crate::fields::{ErrorList, Errors, Field};
use crate::resources::pods::amount;
use crate::resources::pods::defaults::CONTAINER_LISTS;
use crate::resources::pods::syntax;

/// The pod fields that an environment variable can refer to.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// All pod fields that can be referred to.
const KNOWN_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];
const BYTE_DIVISORS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
const MAX_FILE_KEY: usize = 128;

pub(super) fn variables(variables: &Field<'_>, errors: &mut Errors) {
    for variable in variables.items() {
        errors.require_syntax(&variable.child("name"), syntax::env_name);
        let source = variable.child("valueFrom");
        if source.is_set() {
            value_from(&variable, &source, errors);
        }
    }
}

fn value_from(variable: &Field<'_>, source: &Field<'_>, errors: &mut Errors) {
    let mut sources = 0;
    if let Some(field) = source.child("fieldRef").set() {
        sources += 1;
        field_ref(&field, &FIELDS, errors);
    }
    if let Some(resource) = source.child("resourceFieldRef").set() {
        sources += 1;
        resource_ref(&resource, false, errors);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(selector) = source.child(kind).set() {
            sources += 1;
            errors.extend(selector.child("name").faults(names::subdomain_errors));
            key(&selector, errors);
        }
    }
    if let Some(file) = source.child("fileKeyRef").set() {
        sources += 1;
        file_key(&file, errors);
    }
    if sources == 0 {
        errors.push(source.invalid(
            "must specify one of: fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef or fileKeyRef",
        ));
    } else if !variable.child("value").text().is_empty() {
        errors.push(source.invalid("may not be specified when `value` is not empty"));
    } else if sources > 1 {
        errors.push(source.invalid("may not have more than one field specified at a time"));
    }
}

fn key(selector: &Field<'_>, errors: &mut Errors) {
    errors.require_syntax(&selector.child("key"), names::config_map_key_errors);
}

fn file_key(file: &Field<'_>, errors: &mut Errors) {
    let key = file.child("key");
    if key.text().is_empty() {
        errors.push(key.required(""));
    } else {
        errors.extend(key.faults(syntax::env_name));
        errors.push_if(key.text().len() > MAX_FILE_KEY, || FieldError::too_long(key.path(), MAX_FILE_KEY));
    }
    errors.require_syntax(&file.child("volumeName"), names::label_errors);
    errors.require_syntax(&file.child("path"), syntax::unreserved_path);
}

/// Volumes from which variables are read must exist and be `emptyDir` volumes.
pub(super) fn files(spec: &Field<'_>, errors: &mut Errors) {
    let volumes: BTreeMap<&str, Field<'_>> =
        spec.child("volumes").items().map(|volume| (volume.child("name").text(), volume)).collect();
    for list in CONTAINER_LISTS {
        for container in spec.child(list).items() {
            for variable in container.child("env").items() {
                let Some(file) = variable.child("valueFrom").child("fileKeyRef").set() else { continue };
                let name = file.child("volumeName");
                match volumes.get(name.text()) {
                    None => errors.push(name.not_found()),
                    Some(volume) if volume.child("emptyDir").is_set() => {}
                    Some(_) => errors.push(name.invalid("must be the name of an emptyDir volume")),
                }
            }
        }
    }
}

pub(super) fn sources(sources: &Field<'_>, errors: &mut Errors) {
    for source in sources.items() {
        let prefix = source.child("prefix");
        errors.check_syntax(&prefix, syntax::env_name);
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            let Some(reference) = source.child(kind).set() else { continue };
            count += 1;
            let name = reference.child("name");
            if name.text().is_empty() {
                errors.push(name.required(""));
            } else {
                errors.extend(name.faults(|prefix| NameRule::Subdomain.prefix_errors(prefix)));
            }
        }
        // The path is that of the list.
        if count == 0 {
            errors.push(sources.invalid("must specify one of: `configMapRef` or `secretRef`"));
        } else if count > 1 {
            errors.push(sources.invalid("may not have more than one field specified at a time"));
        }
    }
}

/// Validates a reference to a field of the pod: one of these, or a label or annotation by its key.
pub(super) fn field_ref(reference: &Field<'_>, allowed: &[&str], errors: &mut Errors) {
    let version = reference.child("apiVersion");
    if version.text().is_empty() {
        errors.push(version.required(""));
        return;
    }
    let path = reference.child("fieldPath");
    if path.text().is_empty() {
        errors.push(path.required(""));
        return;
    }
    let subscripted = path.text().strip_suffix("']").and_then(|text| text.split_once("['"));
    if version.text() != "v1" {
        errors.push(path.invalid("error converting fieldPath: unsupported pod version"));
        return;
    }
    match subscripted {
        Some((field, subscript)) => match field {
            "metadata.annotations" | "metadata.labels" => {
                let key = if field == "metadata.annotations" {
                    subscript.to_lowercase()
                } else {
                    subscript.to_owned()
                };
                // The path is that of the reference.
                errors
                    .extend(names::label_key_errors(&key).into_iter().map(|fault| reference.invalid(fault)));
            }
            _ => errors.push(path.invalid("field label does not support subscript")),
        },
        None if !KNOWN_FIELDS.contains(&path.text()) && path.text() != "spec.host" => {
            errors.push(path.invalid("error converting fieldPath: field label not supported"));
        }
        None => {
            // `spec.host` is the old name of `spec.nodeName`.
            let text = if path.text() == "spec.host" { "spec.nodeName" } else { path.text() };
            errors.push_if(!allowed.contains(&text), || path.not_supported(allowed));
        }
    }
}

/// Validates a reference to a container's requests or limits. In a volume it must name the container.
pub(super) fn resource_ref(reference: &Field<'_>, is_in_volume: bool, errors: &mut Errors) {
    let container = reference.child("containerName");
    let resource = reference.child("resource");
    let name = resource.text();
    let is_huge_pages = HUGE_PAGES.iter().any(|prefix| name.starts_with(prefix));
    if is_in_volume && container.text().is_empty() {
        errors.push(container.required(""));
    } else if name.is_empty() {
        errors.push(resource.required(""));
    } else if !RESOURCES.contains(&name) && !is_huge_pages {
        errors.push(resource.not_supported(&RESOURCES));
    }
    let divisor = reference.child("divisor");
    let quantity = amount::quantity(divisor.value());
    if quantity.is_zero() {
        return;
    }
    let text = quantity.to_string();
    let is_supported = match name {
        "limits.cpu" | "requests.cpu" => matches!(text.as_str(), "1m" | "1"),
        name if RESOURCES.contains(&name) || is_huge_pages => BYTE_DIVISORS.contains(&text.as_str()),
        _ => true,
    };
    errors.push_if(!is_supported, || divisor.invalid("is not a divisor that this resource can have"));
}
