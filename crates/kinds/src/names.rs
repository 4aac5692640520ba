//! What names may look like (AP-33). Each function says what is wrong, one text per rule that is broken; no text means
//! that the name is fine.

use std::borrow::Cow;

use crate::resource::NameRule;

/// The longest DNS label and subdomain, in bytes.
pub use portcullis_policy::selector::syntax::{MAX_LABEL, MAX_SUBDOMAIN};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc')";

impl NameRule {
    /// What is wrong with a name (AP-33).
    pub fn errors(self, name: &str) -> Vec<Cow<'static, str>> {
        match self {
            Self::Label => label_errors(name),
            Self::PathSegment => path_segment_errors(name),
            Self::Subdomain => subdomain_errors(name),
        }
    }

    /// What is wrong with the beginning of a name, after which a generated end comes (AP-32). It may end in `-`.
    pub fn prefix_errors(self, prefix: &str) -> Vec<Cow<'static, str>> {
        match self {
            Self::Label => label_errors(&without_dash(prefix)),
            Self::PathSegment => segment_character_errors(prefix),
            Self::Subdomain => subdomain_errors(&without_dash(prefix)),
        }
    }
}

/// The prefix with something at its end that a name may end in.
fn without_dash(prefix: &str) -> Cow<'_, str> {
    let Some(rest) = prefix.strip_suffix('-') else { return Cow::Borrowed(prefix) };
    let mut chars = rest.chars();
    match chars.next_back() {
        Some(_) => Cow::Owned(format!("{}a", chars.as_str())),
        None => Cow::Borrowed(prefix),
    }
}

/// What is wrong with a DNS label: at most 63 small letters, digits and dashes.
pub fn label_errors(name: &str) -> Vec<Cow<'static, str>> {
    let mut errors = Vec::new();
    if name.len() > MAX_LABEL {
        errors.push(Cow::Owned(format!("must be no more than {MAX_LABEL} bytes")));
    }
    if !is_label(name) {
        let has_dots = name.split('.').all(is_label);
        errors.push(Cow::Borrowed(if has_dots { "must not contain dots" } else { LABEL }));
    }
    errors
}

/// What is wrong with a DNS subdomain: labels with dots between them, of any length, 253 characters in all.
pub fn subdomain_errors(name: &str) -> Vec<Cow<'static, str>> {
    let mut errors = Vec::new();
    if name.len() > MAX_SUBDOMAIN {
        errors.push(Cow::Owned(format!("must be no more than {MAX_SUBDOMAIN} bytes")));
    }
    if !name.split('.').all(is_label) {
        errors.push(Cow::Borrowed(SUBDOMAIN));
    }
    errors
}

/// What is wrong with a segment of a path (RB-70).
pub fn path_segment_errors(name: &str) -> Vec<Cow<'static, str>> {
    match name {
        "." => vec![Cow::Borrowed("may not be '.'")],
        ".." => vec![Cow::Borrowed("may not be '..'")],
        name => segment_character_errors(name),
    }
}

fn segment_character_errors(name: &str) -> Vec<Cow<'static, str>> {
    [('/', "may not contain '/'"), ('%', "may not contain '%'")]
        .into_iter()
        .filter(|(character, _)| name.contains(*character))
        .map(|(_, error)| Cow::Borrowed(error))
        .collect()
}

/// Whether it has the characters of a DNS label; the length is not looked at.
fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.bytes().all(is_inner)
}
