//! Ingresses, which say how requests from outside reach services, and IngressClasses, which say who carries them out.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::USUAL;
use crate::Map;
use crate::fields::{ErrorList, Errors, Members, begin_generation};
use crate::resource::{Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::{dns_label, dns_subdomain, immutable, one_of};
use crate::resources::ports::{number_errors, number_or_name_errors};
use crate::resources::status;
use crate::schema::networking::{INGRESS, INGRESS_CLASS, INGRESS_STATUS};
use crate::schema::values;
use crate::table::{Column, NONE, Row};

/// The row of Ingresses.
pub static INGRESSES: Resource = Resource {
    kind: "Ingress",
    plural: "ingresses",
    short_names: &["ing"],
    subresources: &[Subresource::status("Ingress")],
    schema: &INGRESS,
    prepare_create: |ingress| status::begin(ingress, &INGRESS_STATUS),
    validate_create: validate,
    prepare_update: status::keep,
    validate_update: |ingress, _| validate(ingress),
    prepare_status: status::keep_spec,
    columns: COLUMNS,
    row,
    ..USUAL
};

/// The row of IngressClasses.
pub static INGRESS_CLASSES: Resource = Resource {
    kind: "IngressClass",
    plural: "ingressclasses",
    is_namespaced: false,
    schema: &INGRESS_CLASS,
    default: |class| {
        if let Some(parameters) = class.object_mut("spec").and_then(|spec| spec.object_mut("parameters")) {
            parameters.default_value("scope", "Cluster");
        }
    },
    prepare_create: begin_generation,
    validate_create: validate_class,
    prepare_update: status::raise,
    validate_update: |class, old| {
        let controller = |class: &Map| class.object("spec").text("controller").to_owned();
        let mut errors: Errors =
            immutable("spec.controller", controller(class), controller(old)).into_iter().collect();
        errors.extend(validate_parameters(class));
        errors
    },
    columns: &[
        NAME,
        text_column("Controller", "Who carries out ingresses of the class."),
        text_column("Parameters", "The object with the configuration of the controller."),
        AGE,
    ],
    row: |class, now| {
        let spec = class.object("spec");
        let shown = spec.object_if_set("parameters").map_or_else(
            || NONE.to_owned(),
            |parameters| {
                let kind = match parameters.text("apiGroup") {
                    "" => parameters.text("kind").to_owned(),
                    group => format!("{}.{group}", parameters.text("kind")),
                };
                format!("{kind}/{}", parameters.text("name"))
            },
        );
        Row::of(vec![name(class), Value::from(spec.text("controller")), Value::from(shown), age(class, now)])
    },
    ..USUAL
};

const COLUMNS: &[Column] = &[
    NAME,
    text_column("Class", "Who carries it out."),
    text_column("Hosts", "The names that clients ask for."),
    text_column("Address", "Where clients reach it."),
    text_column("Ports", "The ports that it answers on."),
    AGE,
];

fn validate(ingress: &Map) -> Errors {
    let spec = ingress.object("spec");
    let mut errors = Errors::new();
    if let Some(backend) = spec.object_if_set("defaultBackend") {
        validate_backend("spec.defaultBackend", backend, &mut errors);
    }
    errors.push_if(spec.list("rules").is_empty() && !spec.has("defaultBackend"), || {
        let detail = "either `defaultBackend` or `rules` must be specified";
        FieldError::invalid("spec", "{}", detail)
    });
    for (i, tls) in spec.objects("tls").enumerate() {
        for (j, host) in tls.texts("hosts").enumerate() {
            validate_host(&format!("spec.tls[{i}].hosts[{j}]"), host, &mut errors);
        }
    }
    for (i, rule) in spec.objects("rules").enumerate() {
        let field = format!("spec.rules[{i}]");
        let host = rule.text("host");
        if !host.is_empty() {
            validate_host(&format!("{field}.host"), host, &mut errors);
        }
        let Some(http) = rule.object_if_set("http") else { continue };
        let field = format!("{field}.http.paths");
        errors.push_if(http.list("paths").is_empty(), || FieldError::required(&field, ""));
        for (j, path) in http.objects("paths").enumerate() {
            validate_path(&format!("{field}[{j}]"), path, &mut errors);
        }
    }
    if spec.has("ingressClassName") {
        errors.extend(dns_subdomain("spec.ingressClassName", spec.text("ingressClassName")));
    }
    errors
}

/// A host is a DNS name, whose first part may be a wildcard.
fn validate_host(field: &str, host: &str, errors: &mut Errors) {
    errors.push_if(host.parse::<std::net::IpAddr>().is_ok(), || {
        FieldError::invalid(field, quoted(host), "must be a DNS name, not an IP address")
    });
    errors.extend(dns_subdomain(field, host.strip_prefix("*.").unwrap_or(host)));
}

fn validate_path(field: &str, path: &Map, errors: &mut Errors) {
    let (kind, text) = (path.text("pathType"), path.text("path"));
    let at = format!("{field}.path");
    match kind {
        "" => errors.push(FieldError::required(format!("{field}.pathType"), "pathType must be specified")),
        "Exact" | "Prefix" => errors.push_if(!text.starts_with('/'), || {
            FieldError::invalid(&at, quoted(text), "must be an absolute path")
        }),
        "ImplementationSpecific" => errors.push_if(!text.is_empty() && !text.starts_with('/'), || {
            FieldError::invalid(&at, quoted(text), "must be an absolute path")
        }),
        other => {
            errors.push(FieldError::not_supported(
                format!("{field}.pathType"),
                quoted(other),
                values::PATH_TYPES,
            ));
        }
    }
    validate_backend(&format!("{field}.backend"), path.object("backend"), errors);
}

fn validate_backend(field: &str, backend: &Map, errors: &mut Errors) {
    match (backend.object_if_set("service"), backend.object_if_set("resource")) {
        (Some(_), Some(_)) => {
            let detail = "cannot set both resource and service backends";
            errors.push(FieldError::invalid(field, "", detail));
        }
        (None, None) => errors.push(FieldError::required(field, "resource or service backend is required")),
        (None, Some(resource)) => {
            for member in ["kind", "name"] {
                errors.push_if(resource.text(member).is_empty(), || {
                    FieldError::required(format!("{field}.resource.{member}"), "")
                });
            }
        }
        (Some(service), None) => {
            match service.text("name") {
                "" => errors.push(FieldError::required(format!("{field}.service.name"), "")),
                name => errors.extend(dns_label(&format!("{field}.service.name"), name)),
            }
            let (name, number) =
                (service.object("port").text("name"), service.object("port").number("number"));
            let at = format!("{field}.service.port");
            match (name, number) {
                ("", 0) => errors.push(FieldError::required(at, "port name or number is required")),
                ("", number) => errors.extend(number_errors(&format!("{at}.number"), number)),
                (name, 0) => errors.extend(number_or_name_errors(&format!("{at}.name"), &Value::from(name))),
                _ => errors.push(FieldError::invalid(at, "", "cannot set both port name & port number")),
            }
        }
    }
}

fn validate_class(class: &Map) -> Errors {
    let controller = class.object("spec").text("controller");
    let mut errors = match controller.split_once('/') {
        _ if controller.is_empty() => Errors::from([FieldError::required("spec.controller", "")]),
        Some((domain, path)) if !path.is_empty() => dns_subdomain("spec.controller", domain),
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            Errors::from([FieldError::invalid("spec.controller", quoted(controller), detail)])
        }
    };
    errors.push_if(controller.len() > 250, || FieldError::too_long("spec.controller", 250));
    errors.extend(validate_parameters(class));
    errors
}

fn validate_parameters(class: &Map) -> Errors {
    let Some(parameters) = class.object("spec").object_if_set("parameters") else { return Errors::new() };
    let field = "spec.parameters";
    let mut errors = Errors::new();
    for member in ["kind", "name"] {
        errors.push_if(parameters.text(member).is_empty(), || {
            FieldError::required(format!("{field}.{member}"), "")
        });
    }
    let scope = parameters.text("scope");
    errors.extend(one_of(&format!("{field}.scope"), scope, &["Cluster", "Namespace"]));
    let has_namespace = parameters.has("namespace");
    let at = format!("{field}.namespace");
    match scope {
        "Namespace" if !has_namespace => {
            errors.push(FieldError::required(at, "`parameters.scope` is set to 'Namespace'"));
        }
        "Cluster" if has_namespace => {
            errors.push(FieldError::forbidden(at, "`parameters.scope` is set to 'Cluster'"));
        }
        _ => {}
    }
    errors
}

fn row(ingress: &Map, now: i64) -> Row {
    let spec = ingress.object("spec");
    let class = if spec.has("ingressClassName") { spec.text("ingressClassName") } else { NONE };
    let hosts: Vec<&str> =
        spec.objects("rules").map(|rule| rule.text("host")).filter(|host| !host.is_empty()).collect();
    let shown = match hosts.as_slice() {
        [] => "*".to_owned(),
        [first, second, third, more @ ..] if !more.is_empty() => {
            format!("{first},{second},{third} + {} more...", more.len())
        }
        few => few.join(","),
    };
    let balancer = ingress.object("status").object("loadBalancer");
    let addresses: Vec<&str> = balancer
        .objects("ingress")
        .map(|point| if point.text("ip").is_empty() { point.text("hostname") } else { point.text("ip") })
        .filter(|address| !address.is_empty())
        .collect();
    let ports = if spec.list("tls").is_empty() { "80" } else { "80, 443" };
    Row::of(vec![
        name(ingress),
        Value::from(class),
        Value::from(shown),
        Value::from(addresses.join(",")),
        Value::from(ports),
        age(ingress, now),
    ])
}
