//! Text as Go prints it, where clients have come to see it.

use std::fmt::Write as _;

pub(crate) use portcullis_policy::time::duration;

/// A string in double quotes, as Go's `%q` writes it (AC-57).
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            // What does not print is written by number. Every character that Rust escapes in a debug text is one
            // of these, beside the ones above and the single quote.
            c if c != '\'' && c.escape_debug().len() > 1 => {
                let code = u32::from(c);
                let _ = match code {
                    0..=0x7f => write!(out, "\\x{code:02x}"),
                    0x80..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `&`, `<` and `>` as entities (AC-53, AC-57).
pub(crate) fn sanitized(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_follows_the_documented_escapes_ac_57() {
        // From the documentation of Go's strconv.Quote, and its escapes by number.
        assert_eq!(quoted("\"Fran & Freddie's Diner\t☺\""), r#""\"Fran & Freddie's Diner\t☺\"""#);
        assert_eq!(quoted("\x07\x08\x0c\n\r\t\x0b\\"), r#""\a\b\f\n\r\t\v\\""#);
        assert_eq!(quoted("\x00\x1b\x7f"), r#""\x00\x1b\x7f""#);
        assert_eq!(quoted("\u{85}\u{200b}\u{e0001}"), r#""\u0085\u200b\U000e0001""#);
    }
}
