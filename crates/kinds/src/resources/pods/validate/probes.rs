//! Validation of probes and lifecycle hooks.

use serde_json::Value;

use crate::fields::{ErrorList, Errors, Field};
use crate::resources::pods::syntax;
use crate::schema::values;

/// Validates the probes and hooks of a long-running container. `grace` is the pod's grace period, in seconds.
pub(super) fn of_container(container: &Field<'_>, grace: Option<i64>, errors: &mut Errors) {
    let lifecycle = container.child("lifecycle");
    for hook in ["postStart", "preStop"] {
        if let Some(hook) = lifecycle.child(hook).set() {
            handler(&hook, &["exec", "httpGet", "tcpSocket", "sleep"], grace, errors);
        }
    }
    if let Some(probe) = container.child("livenessProbe").set() {
        self::probe(&probe, grace, errors);
        succeeds_at_once(&probe, errors);
    }
    if let Some(probe) = container.child("readinessProbe").set() {
        self::probe(&probe, grace, errors);
        let period = probe.child("terminationGracePeriodSeconds");
        errors.push_if(period.is_set(), || period.invalid("must not be set for readinessProbes"));
    }
    if let Some(probe) = container.child("startupProbe").set() {
        self::probe(&probe, grace, errors);
        succeeds_at_once(&probe, errors);
    }
}

fn succeeds_at_once(probe: &Field<'_>, errors: &mut Errors) {
    let threshold = probe.child("successThreshold");
    errors.push_if(threshold.number() != 1, || threshold.invalid("must be 1"));
}

fn probe(probe: &Field<'_>, grace: Option<i64>, errors: &mut Errors) {
    handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], grace, errors);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        let field = probe.child(field);
        errors.push_if(field.number() < 0, || field.invalid("must be greater than or equal to 0"));
    }
    let period = probe.child("terminationGracePeriodSeconds");
    if period.number_if_set().is_some_and(|period| period <= 0) {
        errors.push(period.invalid("must be greater than 0"));
    }
}

/// Validates a handler, which must have exactly one of these kinds.
fn handler(handler: &Field<'_>, kinds: &[&str], grace: Option<i64>, errors: &mut Errors) {
    let mut is_handled = false;
    for kind in kinds {
        let Some(action) = handler.child(kind).set() else { continue };
        if is_handled {
            errors.push(action.forbidden("may not specify more than 1 handler type"));
            continue;
        }
        is_handled = true;
        match *kind {
            "exec" => {
                errors.require(&action.child("command"));
            }
            "httpGet" => http_get(&action, errors),
            "sleep" => sleep(&action, grace, errors),
            _ => port(&action.child("port"), errors),
        }
    }
    errors.push_if(!is_handled, || handler.required("must specify a handler type"));
}

fn http_get(get: &Field<'_>, errors: &mut Errors) {
    let path = get.child("path");
    errors.require(&path);
    port(&get.child("port"), errors);
    let scheme = get.child("scheme");
    errors
        .push_if(!values::URI_SCHEMES.contains(&scheme.text()), || scheme.not_supported(values::URI_SCHEMES));
    let headers = get.child("httpHeaders");
    for header in headers.items() {
        // The path is that of the list.
        errors.extend(header.child("name").named(headers.path()).faults(syntax::header_name));
    }
}

fn sleep(action: &Field<'_>, grace: Option<i64>, errors: &mut Errors) {
    let seconds = action.child("seconds").named(action.path());
    if grace.is_some_and(|grace| !(0..=grace).contains(&seconds.number())) {
        errors.push(seconds.invalid("must be non-negative and less than terminationGracePeriodSeconds"));
    }
}

/// A port by number or name.
fn port(port: &Field<'_>, errors: &mut Errors) {
    if let Some(Value::String(_)) = port.value() {
        errors.extend(port.faults(syntax::port_name));
    } else if !(1..=65535).contains(&port.number()) {
        errors.push(port.invalid("must be between 1 and 65535, inclusive"));
    }
}
