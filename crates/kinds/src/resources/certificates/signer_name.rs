//! Syntax of signer names (CS-13).

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::{MAX_LABEL, MAX_SUBDOMAIN};
use portcullis_apimachinery::quote::quoted;

use crate::fields::{ErrorList, Errors};
use crate::resources::formats::{dns_label, dns_subdomain};

/// The maximum length: a domain, a slash, and a namespace and a name separated by a dot.
const MAX_LENGTH: usize = MAX_SUBDOMAIN + 1 + MAX_LABEL + 1 + MAX_SUBDOMAIN;

/// Validates a signer name part by part. Only the first of several bad labels is reported.
pub(super) fn validate(field: &str, name: &str) -> Errors {
    if name.is_empty() {
        return Errors::from([FieldError::required(field, "")]);
    }
    let invalid = |detail| FieldError::invalid(field, quoted(name), detail);
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return Errors::from([invalid(detail)]);
    };
    let mut errors = Errors::new();
    errors.push_if(domain.len() > MAX_SUBDOMAIN, || FieldError::too_long(field, MAX_SUBDOMAIN));
    errors.extend(first_fault(domain, |label| dns_label(field, label)));
    if !domain.contains('.') {
        errors.push(invalid("should be a domain with at least two segments separated by dots"));
    }
    errors.extend(first_fault(path, |label| dns_subdomain(field, label)));
    errors.push_if(name.len() > MAX_LENGTH, || FieldError::too_long(field, MAX_LENGTH));
    errors
}

fn first_fault(parts: &str, check: impl Fn(&str) -> Errors) -> Errors {
    parts.split('.').map(check).find(|errors| !errors.is_empty()).unwrap_or_default()
}
