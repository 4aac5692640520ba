//! Validation of the load balancer status.

use std::net::IpAddr;

use portcullis_apimachinery::field_error::FieldError;

use super::spec::LOAD_BALANCER;
use crate::Map;
use crate::fields::{Errors, Members};
use crate::resources::addresses;
use crate::resources::formats::dns_subdomain;

/// Validates the status of a service.
pub(super) fn validate(service: &Map) -> Errors {
    let balancer = service.object("status").object("loadBalancer");
    let field = "status.loadBalancer.ingress";
    if service.object("spec").text("type") != LOAD_BALANCER {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        let is_used = !balancer.list("ingress").is_empty();
        return if is_used { Errors::from([FieldError::forbidden(field, detail)]) } else { Errors::new() };
    }
    let ingresses = balancer.objects("ingress").enumerate();
    ingresses.flat_map(|(i, ingress)| ingress_errors(&format!("{field}[{i}]"), ingress)).collect()
}

fn ingress_errors(field: &str, ingress: &Map) -> Errors {
    let mut errors = Errors::new();
    let (ip, mode) = (ingress.text("ip"), ingress.text("ipMode"));
    if !ip.is_empty() {
        errors.extend(addresses::errors(&format!("{field}.ip"), ip));
    }
    let mode_field = format!("{field}.ipMode");
    match (ingress.has("ipMode"), ip.is_empty()) {
        (false, false) => errors.push(FieldError::required(mode_field, "must be specified when `ip` is set")),
        (true, true) => {
            errors.push(FieldError::forbidden(mode_field, "may not be specified when `ip` is not set"));
        }
        (true, false) if !matches!(mode, "VIP" | "Proxy") => {
            errors.push(FieldError::not_supported(mode_field, mode, &["Proxy", "VIP"]));
        }
        _ => {}
    }
    let hostname = ingress.text("hostname");
    if !hostname.is_empty() {
        let field = format!("{field}.hostname");
        errors.extend(dns_subdomain(&field, hostname));
        if hostname.parse::<IpAddr>().is_ok() {
            errors.push(FieldError::invalid(field, hostname, "must be a DNS name, not an IP address"));
        }
    }
    errors
}
