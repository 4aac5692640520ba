//! Validation of names: DNS labels and subdomains, names that are one segment of a path, keys and values of
//! labels, keys of ConfigMaps, and versions (AP-33, AP-73, AP-132, NB-4, WH-72).
//!
//! A function that ends in `_errors` lists what is wrong, one text for each rule that is broken, in the words and the
//! order of the API server; an empty list means that the name is fine. A function that begins with `is_` only says
//! whether it is. Whether a name is taken, or fits its object, is not looked at here.

use std::borrow::Cow;

/// The longest DNS label, name part of a label key, and label value, in bytes.
pub const MAX_LABEL: usize = 63;
/// The longest DNS subdomain, prefix of a label key, and ConfigMap key, in bytes.
pub const MAX_SUBDOMAIN: usize = 253;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc')";
const RFC_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
/// Without the bracket that ends it.
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com'";
const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
    for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The validation errors of a text, one entry for each rule that it breaks.
pub type Faults = Vec<Cow<'static, str>>;

/// The rule for the names of objects (AP-33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS label, at most 63 characters.
    Label,
    /// A segment of a path (RB-70).
    PathSegment,
    /// A DNS subdomain, at most 253 characters.
    Subdomain,
}

impl NameRule {
    /// Validates a name (AP-33).
    pub fn errors(self, name: &str) -> Faults {
        match self {
            Self::Label => label_errors(name),
            Self::PathSegment => path_segment_errors(name),
            Self::Subdomain => subdomain_errors(name),
        }
    }

    /// Validates a name prefix for a generated suffix (AP-32). It may end in `-`.
    pub fn prefix_errors(self, prefix: &str) -> Faults {
        match self {
            Self::Label => label_errors(&without_dash(prefix)),
            Self::PathSegment => segment_character_errors(prefix),
            Self::Subdomain => subdomain_errors(&without_dash(prefix)),
        }
    }
}

/// Masks a trailing `-` of the prefix, so that it ends in a character that is valid at the end of a name.
fn without_dash(prefix: &str) -> Cow<'_, str> {
    let Some(rest) = prefix.strip_suffix('-') else { return Cow::Borrowed(prefix) };
    let mut chars = rest.chars();
    match chars.next_back() {
        Some(_) => Cow::Owned(format!("{}a", chars.as_str())),
        None => Cow::Borrowed(prefix),
    }
}

/// Whether the text is a DNS label: 1 to 63 lower-case letters, digits and dashes, no dash at either end. The names of
/// namespaces are such.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && is_label(text)
}

/// Whether the text is a DNS subdomain: labels of any length with dots between them, 253 bytes in all. The names of
/// most objects are such, also those of nodes (NB-4).
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN && is_subdomain(text)
}

/// Whether the text is a version of an API, such as `v1` or `v2beta3`.
pub fn is_version(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('v') else { return false };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    match rest.find(|c: char| !c.is_ascii_digit()) {
        None => digits(rest),
        Some(at) => {
            let (major, stage) = rest.split_at_checked(at).unwrap_or_default();
            let minor = stage.strip_prefix("alpha").or_else(|| stage.strip_prefix("beta"));
            digits(major) && minor.is_some_and(digits)
        }
    }
}

/// Validates a DNS label, as [`is_dns_label`] has it.
pub fn label_errors(name: &str) -> Faults {
    let mut errors = Vec::new();
    if name.len() > MAX_LABEL {
        errors.push(too_long(MAX_LABEL));
    }
    if !is_label(name) {
        errors.push(Cow::Borrowed(if is_subdomain(name) { "must not contain dots" } else { LABEL }));
    }
    errors
}

/// Validates a DNS label that begins with a letter.
pub fn rfc1035_label_errors(name: &str) -> Faults {
    let mut errors = Vec::new();
    if name.len() > MAX_LABEL {
        errors.push(too_long(MAX_LABEL));
    }
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(Cow::Borrowed(RFC_1035));
    }
    errors
}

/// Validates a DNS subdomain, as [`is_dns_subdomain`] has it.
pub fn subdomain_errors(name: &str) -> Faults {
    let mut errors = Vec::new();
    if name.len() > MAX_SUBDOMAIN {
        errors.push(too_long(MAX_SUBDOMAIN));
    }
    if !is_subdomain(name) {
        errors.push(Cow::Owned(format!("{SUBDOMAIN})")));
    }
    errors
}

/// Validates a name that must be a path segment (RB-70).
pub fn path_segment_errors(name: &str) -> Faults {
    match name {
        "." => vec![Cow::Borrowed("may not be '.'")],
        ".." => vec![Cow::Borrowed("may not be '..'")],
        name => segment_character_errors(name),
    }
}

fn segment_character_errors(name: &str) -> Faults {
    [('/', "may not contain '/'"), ('%', "may not contain '%'")]
        .into_iter()
        .filter(|(character, _)| name.contains(*character))
        .map(|(_, error)| Cow::Borrowed(error))
        .collect()
}

/// Validates a label key or another qualified name: `name`, or `prefix/name` with a DNS subdomain as the
/// prefix (AP-73, WH-72).
pub fn label_key_errors(key: &str) -> Faults {
    let mut errors = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, rest)) if rest.contains('/') => {
            return vec![Cow::Owned(format!(
                "a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ))];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push(Cow::Borrowed("prefix part must be non-empty"));
            }
            if prefix.len() > MAX_SUBDOMAIN {
                errors.push(Cow::Owned(format!("prefix part {}", too_long(MAX_SUBDOMAIN))));
            }
            if !prefix.is_empty() && !is_subdomain(prefix) {
                errors.push(Cow::Owned(format!(
                    "prefix part {SUBDOMAIN}, regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                )));
            }
            name
        }
    };
    if name.is_empty() {
        errors.push(Cow::Borrowed("name part must be non-empty"));
    }
    if name.len() > MAX_LABEL {
        errors.push(Cow::Owned(format!("name part {}", too_long(MAX_LABEL))));
    }
    if !is_name(name) {
        errors.push(Cow::Owned(format!("name part {NAME}")));
    }
    errors
}

/// Validates a label value. The empty value is fine (AP-73).
pub fn label_value_errors(value: &str) -> Faults {
    let mut errors = Vec::new();
    if value.len() > MAX_LABEL {
        errors.push(too_long(MAX_LABEL));
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(Cow::Borrowed(VALUE));
    }
    errors
}

/// Validates a key of a ConfigMap or a Secret (AP-132).
pub fn config_map_key_errors(key: &str) -> Faults {
    let mut errors = Vec::new();
    if key.len() > MAX_SUBDOMAIN {
        errors.push(too_long(MAX_SUBDOMAIN));
    }
    if key.is_empty() || !key.bytes().all(is_name_byte) {
        errors.push(Cow::Borrowed("a valid key must consist of alphanumeric characters, '-', '_' or '.'"));
    }
    match key {
        "." => errors.push(Cow::Borrowed("must not be '.'")),
        ".." => errors.push(Cow::Borrowed("must not be '..'")),
        key if key.starts_with("..") => errors.push(Cow::Borrowed("must not start with '..'")),
        _ => {}
    }
    errors
}

fn too_long(limit: usize) -> Cow<'static, str> {
    Cow::Owned(format!("must be no more than {limit} bytes"))
}

/// Whether the text has the form of a DNS label; its length is not looked at.
fn is_label(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.bytes().all(is_inner)
}

/// Whether the text has the form of a DNS subdomain; its length is not looked at.
fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Whether the text has the form of the name part of a label key; its length is not looked at.
fn is_name(text: &str) -> bool {
    let alphanumeric_ends = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    alphanumeric_ends(text) && text.bytes().all(is_name_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ap_73_label_keys_have_an_optional_prefix_and_a_name() {
        let long_name = "a".repeat(63);
        let long_prefix = format!("{}/a", vec!["a".repeat(50); 5].join(".").get(..253).unwrap());
        for key in ["a", "A.b_c-1", "example.com/a", "a/b", "1", &long_name, &long_prefix] {
            assert!(label_key_errors(key).is_empty(), "{key}");
        }
        let too_long = "a".repeat(64);
        let bad_prefix = format!("{}a/a", long_prefix.trim_end_matches("/a"));
        for key in ["-a", "a-", "a b", "é", "/a", "A.com/a", "a..b/c", "a/b/c", "a\0", &too_long, &bad_prefix]
        {
            assert_eq!(label_key_errors(key).len(), 1, "{key}");
        }
    }

    #[test]
    fn wh_72_an_empty_key_has_two_faults() {
        assert_eq!(label_key_errors("").len(), 2);
        assert_eq!(label_key_errors("a.b/").len(), 2);
    }

    #[test]
    fn ap_73_label_values_may_be_empty() {
        for value in ["", "a", "A_b.c-1", &"a".repeat(63)] {
            assert!(label_value_errors(value).is_empty(), "{value}");
        }
        for value in [" ", "a b", "-a", "a.", "é", "a/b", &"a".repeat(64)] {
            assert_eq!(label_value_errors(value).len(), 1, "{value}");
        }
    }

    #[test]
    fn node_names_are_lower_case_subdomains_nb_4() {
        let long = format!("{}.{}", "a".repeat(126), "b".repeat(126));
        for name in ["a", "worker-0", "ip-10-0-0-1.ec2.internal", "0", long.as_str()] {
            assert!(is_dns_subdomain(name), "{name}");
        }
        let longer = format!("{long}c");
        for name in
            ["", "A", "a_b", "-a", "a-", "a..b", "a.", ".a", "a b", "ä", longer.as_str(), "a/b", "a:b"]
        {
            assert!(!is_dns_subdomain(name), "{name}");
        }
    }

    #[test]
    fn labels_are_subdomains_without_dots_of_at_most_63_bytes() {
        let (longest, longer) = ("a".repeat(63), "a".repeat(64));
        for text in ["a", "0", "a-b", longest.as_str()] {
            assert!(is_dns_label(text) && is_dns_subdomain(text), "{text}");
            assert!(label_errors(text).is_empty() && subdomain_errors(text).is_empty(), "{text}");
        }
        for text in ["", "-a", "a-", "A", "a_b", "a.b", "a..b", "b..c", "a/b", longer.as_str()] {
            assert!(!is_dns_label(text), "{text}");
            assert_eq!(label_errors(text).len(), 1, "{text}");
            assert_eq!(subdomain_errors(text).is_empty(), is_dns_subdomain(text), "{text}");
        }
        assert_eq!(label_errors("a.b"), ["must not contain dots"]);
    }

    #[test]
    fn every_fault_counts_as_kubernetes_counts_it() {
        let long = "a".repeat(64);
        assert_eq!(label_errors(&long).len(), 1);
        assert_eq!(label_errors(&format!("{long}_")).len(), 2);
        assert_eq!(label_errors("").len(), 1);
        assert_eq!(label_key_errors("").len(), 2, "empty, and not a name");
        assert_eq!(label_key_errors("/a").len(), 1);
        assert_eq!(label_key_errors("a b").len(), 1);
        assert_eq!(label_key_errors("A/B").len(), 1);
        assert_eq!(label_key_errors("a/b/c").len(), 1);
    }

    #[test]
    fn versions_are_told_from_groups() {
        for text in ["v1", "v12", "v1alpha1", "v2beta3"] {
            assert!(is_version(text), "{text}");
        }
        for text in ["", "v", "1", "apps", "v1alpha", "v1gamma1", "vbeta1", "v1beta1x", "V1"] {
            assert!(!is_version(text), "{text}");
        }
    }

    #[test]
    fn ap_132_keys_of_config_maps_are_file_names() {
        for key in ["a", "A.b_c-1", ".a", "-", "a..b", &"a".repeat(253)] {
            assert!(config_map_key_errors(key).is_empty(), "{key}");
        }
        for key in ["", ".", "..", "..a", "a b", "a/b", "é", &"a".repeat(254)] {
            assert_eq!(config_map_key_errors(key).len(), 1, "{key}");
        }
    }
}
