//! What the name of a signer may look like (CS-13).

use portcullis_policy::field_error::FieldError;
use portcullis_policy::selector::syntax::{MAX_LABEL, MAX_SUBDOMAIN};

use crate::resources::formats::{dns_label, dns_subdomain, quoted};

/// The longest name: a domain, a slash, and a namespace and a name with a dot between them.
const MAX_LENGTH: usize = MAX_SUBDOMAIN + 1 + MAX_LABEL + 1 + MAX_SUBDOMAIN;

/// What is wrong with the name of a signer, each part on its own. Of several bad labels the first is reported.
pub(super) fn validate(field: &str, name: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let invalid = |detail| FieldError::invalid(field, quoted(name), detail);
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        return vec![invalid(
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        )];
    };
    let mut errors = Vec::new();
    if domain.len() > MAX_SUBDOMAIN {
        errors.push(FieldError::too_long(field, MAX_SUBDOMAIN));
    }
    errors.extend(first_fault(domain, |label| dns_label(field, label)));
    if !domain.contains('.') {
        errors.push(invalid("should be a domain with at least two segments separated by dots"));
    }
    errors.extend(first_fault(path, |label| dns_subdomain(field, label)));
    if name.len() > MAX_LENGTH {
        errors.push(FieldError::too_long(field, MAX_LENGTH));
    }
    errors
}

fn first_fault(parts: &str, check: impl Fn(&str) -> Vec<FieldError>) -> Vec<FieldError> {
    parts.split('.').map(check).find(|errors| !errors.is_empty()).unwrap_or_default()
}
