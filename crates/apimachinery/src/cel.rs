//! The names of fields in CEL, the language of expressions.

use std::borrow::Cow;

/// The words that CEL reserves: no field and no variable of an expression has one of these names.
pub const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The escapes of characters that names in CEL cannot contain.
const ESCAPES: [(&str, &str); 4] =
    [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

/// The name by which expressions read a field, as Kubernetes escapes it; none for a field that expressions cannot read.
pub fn escaped(name: &str) -> Option<Cow<'_, str>> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__").into());
    }
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/');
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.bytes().all(is_part) {
        return None;
    }
    if !ESCAPES.iter().any(|(from, _)| name.contains(from)) {
        return Some(name.into());
    }
    Some(ESCAPES.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the documentation of Kubernetes.
    #[test]
    fn names_are_escaped_as_kubernetes_does() {
        for (name, expected) in [
            ("namespace", Some("__namespace__")),
            ("x-prop", Some("x__dash__prop")),
            ("redact__d", Some("redact__underscores__d")),
            ("string", Some("string")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("", None),
            ("1a", None),
            ("a b", None),
            ("ä", None),
        ] {
            assert_eq!(escaped(name).as_deref(), expected, "{name}");
        }
    }
}
