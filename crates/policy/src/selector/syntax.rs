//! What a label key and a label value may look like (AP-73, WH-72). Each function lists what is wrong, in the words
//! and the order in which the API server reports it; an empty list means that the text is fine.

const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
    for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// The longest name part of a label key, and the longest label value, in bytes.
pub const MAX_LABEL: usize = 63;
/// The longest prefix of a label key, in bytes.
pub const MAX_SUBDOMAIN: usize = 253;

/// What is wrong with a label key: `name`, or `prefix/name` with a DNS subdomain as the prefix.
pub fn label_key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            }
            if prefix.len() > MAX_SUBDOMAIN {
                errors.push(format!("prefix part must be no more than {MAX_SUBDOMAIN} bytes"));
            }
            if !prefix.is_empty() && !is_subdomain(prefix) {
                errors.push(format!("prefix part {SUBDOMAIN}"));
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    }
    if name.len() > MAX_LABEL {
        errors.push(format!("name part must be no more than {MAX_LABEL} bytes"));
    }
    if !is_name(name) {
        errors.push(format!("name part {NAME}"));
    }
    errors
}

/// What is wrong with a label value. The empty value is fine.
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > MAX_LABEL {
        errors.push(format!("must be no more than {MAX_LABEL} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(VALUE.to_owned());
    }
    errors
}

fn is_name(text: &str) -> bool {
    let alphanumeric_ends = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    alphanumeric_ends(text)
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Whether the text is a DNS-1123 subdomain; its length is not looked at.
pub(crate) fn is_subdomain(text: &str) -> bool {
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.split('.').all(|label| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|&b| lower(b))
            && bytes.last().is_some_and(|&b| lower(b))
            && bytes.iter().all(|&b| lower(b) || b == b'-')
    })
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
}
