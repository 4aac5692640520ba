//! Syntax of names in `resource.k8s.io`.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::MAX_SUBDOMAIN;
use portcullis_apimachinery::quote::quoted;

use crate::fields::{ErrorList, Errors};
use crate::resources::formats::{dns_subdomain, driver_name};

/// The maximum length of an attribute name after the domain, in bytes.
const MAX_IDENTIFIER: usize = 32;
/// The maximum length of an attribute or capacity key in a field path, in bytes; longer ones are shortened in the
/// middle.
const MAX_KEY: usize = 63 + 1 + MAX_IDENTIFIER;

/// Validates a pool name: DNS subdomains separated by slashes.
pub(super) fn pool_name(field: &str, name: &str) -> Errors {
    if name.is_empty() {
        return Errors::from([FieldError::required(field, "")]);
    }
    let mut errors = Errors::new();
    errors.push_if(name.len() > MAX_SUBDOMAIN, || FieldError::too_long(field, MAX_SUBDOMAIN));
    errors.extend(name.split('/').flat_map(|part| dns_subdomain(field, part)));
    errors
}

/// Validates the name of an attribute or a capacity: an identifier, with or without a domain.
pub(super) fn qualified_name(field: &str, name: &str) -> Errors {
    let Some((domain, identifier)) = name.split_once('/') else { return c_identifier(field, name) };
    if identifier.contains('/') {
        // The API server only validates names of one or two parts.
        return Errors::new();
    }
    let invalid = |detail| Errors::from([FieldError::invalid(field, quoted(""), detail)]);
    let mut errors = match domain {
        "" => invalid("the domain must not be empty"),
        domain => driver_name(field, domain),
    };
    errors.extend(match identifier {
        "" => invalid("the name must not be empty"),
        identifier => c_identifier(field, identifier),
    });
    errors
}

/// Validates a qualified name that must have a domain.
pub(super) fn fully_qualified_name(field: &str, name: &str) -> Errors {
    let mut errors = qualified_name(field, name);
    let detail = "a fully qualified name must be a domain and a name separated by a slash";
    errors.push_if(!name.contains('/'), || FieldError::invalid(field, quoted(name), detail));
    errors
}

fn c_identifier(field: &str, name: &str) -> Errors {
    let mut errors = Errors::new();
    errors.push_if(name.len() > MAX_IDENTIFIER, || FieldError::too_long(field, MAX_IDENTIFIER));
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.chars().all(is_word) || !name.starts_with(|c: char| is_word(c) && !c.is_ascii_digit()) {
        let detail = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
            alphanumeric characters or '_'";
        errors.push(FieldError::invalid(field, quoted(name), detail));
    }
    errors
}

/// Validates a UID: 32 lower-case hexadecimal digits in five groups.
pub(super) fn uid(field: &str, uid: &str) -> Option<FieldError> {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_uid = uid.split('-').map(str::len).eq(GROUPS) && uid.split('-').flat_map(str::bytes).all(is_digit);
    let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
        hexadecimal characters";
    (!is_uid).then(|| FieldError::invalid(field, quoted(uid), detail))
}

/// The path of an entry of a map.
pub(super) fn at_key(field: &str, key: &str) -> String {
    if key.len() <= MAX_KEY {
        return format!("{field}[{key}]");
    }
    // Truncation can split a character, whose bytes are then replaced by U+FFFD.
    let rest = MAX_KEY - "...".len();
    let head = key.as_bytes().iter().take(rest.div_ceil(2)).copied();
    let tail = key.as_bytes().iter().skip(key.len() - rest / 2).copied();
    let bytes: Vec<u8> = head.chain(*b"...").chain(tail).collect();
    format!("{field}[{}]", String::from_utf8_lossy(&bytes))
}
