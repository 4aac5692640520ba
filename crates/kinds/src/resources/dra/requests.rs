//! The device requests in the spec of ResourceClaims and of their templates.

use std::collections::{HashMap, HashSet};

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;

use super::configuration::{MAX_CONFIG, validate_settings};
use super::lists::{validate_list, validate_set};
use super::names::fully_qualified_name;
use super::selectors::{Faults, validate_selectors};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resources::formats::{dns_label, dns_subdomain, label_value, one_of, qualified_name};
use crate::schema::values;

/// The maximum number of requests, and of references to requests.
const MAX_REQUESTS: usize = 32;
const MAX_CONSTRAINTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MAX_TOLERATIONS: usize = 16;

/// Applies the defaults of a claim's spec.
pub(super) fn default(spec: &mut Map) {
    let Some(devices) = spec.object_or_new("devices") else { return };
    for request in devices.objects_mut("requests") {
        if request.has("exactly") {
            request.object_or_new("exactly").into_iter().for_each(default_request);
        }
        request.objects_mut("firstAvailable").for_each(default_request);
    }
}

fn default_request(request: &mut Map) {
    request.default_text("allocationMode", "ExactCount");
    if request.text("allocationMode") == "ExactCount" && request.number("count") == 0 {
        request.insert("count".to_owned(), 1.into());
    }
    request.objects_mut("tolerations").for_each(|toleration| toleration.default_text("operator", "Equal"));
}

/// Validates a new claim's spec.
pub(super) fn validate(field: &str, spec: &Map, faults: &Faults) -> Errors {
    let devices = spec.object("devices");
    let names = Names::of(spec);
    let field = format!("{field}.devices");
    let requests = devices.objects("requests");
    let mut errors = validate_set(
        &format!("{field}.requests"),
        requests,
        MAX_REQUESTS,
        |field, request| validate_request(field, request, faults),
        |request| request.text("name"),
    );
    errors.extend(validate_list(
        &format!("{field}.constraints"),
        devices.objects("constraints"),
        MAX_CONSTRAINTS,
        |field, constraint| validate_constraint(field, constraint, &names),
    ));
    errors.extend(validate_list(
        &format!("{field}.config"),
        devices.objects("config"),
        MAX_CONFIG,
        |field, config| {
            let mut errors = names.validate_references(field, config);
            errors.extend(validate_settings(field, config, false));
            errors
        },
    ));
    errors
}

fn validate_request(field: &str, request: &Map, faults: &Faults) -> Errors {
    let mut errors = dns_label(&format!("{field}.name"), request.text("name"));
    let detail = "exactly one of `exactly` or `firstAvailable` is required";
    match (request.has("exactly"), request.list("firstAvailable").is_empty()) {
        (false, true) => errors.push(FieldError::required(field, detail)),
        (true, false) => {
            let detail = format!("{detail}, but multiple fields are set");
            errors.push(FieldError::invalid(field, "null", detail));
        }
        (true, true) => {
            validate_exact(&format!("{field}.exactly"), request.object("exactly"), faults, &mut errors);
        }
        (false, false) => errors.extend(validate_set(
            &format!("{field}.firstAvailable"),
            request.objects("firstAvailable"),
            MAX_ALTERNATIVES,
            |field, alternative| {
                let mut errors = dns_label(&format!("{field}.name"), alternative.text("name"));
                validate_exact(field, alternative, faults, &mut errors);
                errors
            },
            |alternative| alternative.text("name"),
        )),
    }
    errors
}

fn validate_exact(field: &str, request: &Map, faults: &Faults, errors: &mut Errors) {
    let at_class = format!("{field}.deviceClassName");
    errors.extend(match request.text("deviceClassName") {
        "" => Errors::from([FieldError::required(at_class, "")]),
        class => dns_subdomain(&at_class, class),
    });
    errors.extend(validate_selectors(&format!("{field}.selectors"), request, faults));
    errors.extend(validate_mode(field, request));
    errors.extend(validate_list(
        &format!("{field}.tolerations"),
        request.objects("tolerations"),
        MAX_TOLERATIONS,
        validate_toleration,
    ));
}

fn validate_mode(field: &str, request: &Map) -> Option<FieldError> {
    let count = request.number("count");
    let invalid = |detail| Some(FieldError::invalid(format!("{field}.count"), count.to_string(), detail));
    match request.text("allocationMode") {
        "All" if count != 0 => invalid("must not be specified when allocationMode is 'All'"),
        "ExactCount" if count <= 0 => invalid("must be greater than zero"),
        mode => one_of(&format!("{field}.allocationMode"), mode, &["All", "ExactCount"]),
    }
}

fn validate_toleration(field: &str, toleration: &Map) -> Errors {
    let (key, value) = (toleration.text("key"), toleration.text("value"));
    let (at_value, at_operator) = (format!("{field}.value"), format!("{field}.operator"));
    let mut errors = Errors::new();
    if !key.is_empty() {
        errors.extend(qualified_name(&format!("{field}.key"), key));
    }
    match toleration.text("operator") {
        "" => errors.push(FieldError::required(at_operator, "")),
        "Exists" if !value.is_empty() => {
            errors.push(FieldError::invalid(at_value, quoted(value), "must be empty for operator `Exists`"));
        }
        "Equal" => errors.extend(label_value(&at_value, value)),
        operator => errors.extend(one_of(&at_operator, operator, values::DEVICE_TOLERATION_OPERATORS)),
    }
    let effect = toleration.text("effect");
    if !effect.is_empty() {
        errors.extend(one_of(&format!("{field}.effect"), effect, values::DEVICE_TAINT_EFFECTS));
    }
    errors
}

fn validate_constraint(field: &str, constraint: &Map, names: &Names<'_>) -> Errors {
    let mut errors = names.validate_references(field, constraint);
    let attribute = ["matchAttribute", "distinctAttribute"].into_iter().find(|name| constraint.has(name));
    match attribute {
        Some(name) => errors.extend(fully_qualified_name(&format!("{field}.{name}"), constraint.text(name))),
        None => {
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required";
            errors.push(FieldError::required(field, detail));
        }
    }
    errors
}

/// The names of a claim's requests and of their subrequests.
pub(super) struct Names<'a>(HashMap<&'a str, HashSet<&'a str>>);

impl<'a> Names<'a> {
    pub(super) fn of(spec: &'a Map) -> Self {
        let requests = spec.object("devices").objects("requests");
        let alternatives =
            |request: &'a Map| request.objects("firstAvailable").map(|other| other.text("name")).collect();
        Self(requests.map(|request| (request.text("name"), alternatives(request))).collect())
    }

    fn has(&self, name: &str) -> bool {
        match name.split_once('/') {
            None => self.0.contains_key(name),
            Some((request, alternative)) => {
                self.0.get(request).is_some_and(|alternatives| alternatives.contains(alternative))
            }
        }
    }

    /// Validates a reference to a request, or to a subrequest.
    pub(super) fn validate_reference(&self, field: &str, name: &str) -> Errors {
        let detail = "must be the name of a request in the claim or the name of a request and a subrequest \
            separated by '/'";
        let unknown = FieldError::invalid(field, quoted(name), detail);
        if name.split('/').count() > 2 {
            return Errors::from([unknown]);
        }
        let mut errors: Errors = name.split('/').flat_map(|part| dns_label(field, part)).collect();
        errors.push_if(!self.has(name), || unknown);
        errors
    }

    /// Validates the list `requests`.
    pub(super) fn validate_references(&self, field: &str, owner: &Map) -> Errors {
        let check = |field: &str, name: &str| self.validate_reference(field, name);
        validate_set(&format!("{field}.requests"), owner.texts("requests"), MAX_REQUESTS, check, |name| name)
    }
}
