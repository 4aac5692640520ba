//! Text in messages of Kubernetes: in double quotes, as Go's `%q` and `strconv.Quote` write it, and without what HTML
//! would read (AC-53, AC-57). Text for a terminal.
//!
//! Between quotes Go prints as they are: letters, marks, numbers, punctuation, symbols and the space of ASCII. Anything else is
//! written by a short escape or by its number.

use std::fmt::{self, Write as _};

/// A text that prints in double quotes with the escapes of Go's `%q`.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\x07' => f.write_str("\\a")?,
                '\x08' => f.write_str("\\b")?,
                '\t' => f.write_str("\\t")?,
                '\n' => f.write_str("\\n")?,
                '\x0b' => f.write_str("\\v")?,
                '\x0c' => f.write_str("\\f")?,
                '\r' => f.write_str("\\r")?,
                ' '..='~' => f.write_char(c)?,
                c if c.is_ascii() => write!(f, "\\x{:02x}", u32::from(c))?,
                c if is_printable(c) => f.write_char(c)?,
                c if u32::from(c) <= 0xffff => write!(f, "\\u{:04x}", u32::from(c))?,
                c => write!(f, "\\U{:08x}", u32::from(c))?,
            }
        }
        f.write_char('"')
    }
}

/// Texts that print as Go's `%q` prints a list: `["a" "b"]`.
#[derive(Clone, Copy, Debug)]
pub struct QuotedList<'a>(pub &'a [String]);

impl fmt::Display for QuotedList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (i, text) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_char(' ')?;
            }
            write!(f, "{}", Quoted(text))?;
        }
        f.write_char(']')
    }
}

/// A text in double quotes, with the escapes of Go's `%q`.
pub fn quoted(text: &str) -> String {
    Quoted(text).to_string()
}

/// A text that comes from outside, for a terminal: on one line, without control characters.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { '\u{fffd}' } else { c })
        .collect()
}

/// Replaces `&`, `<` and `>` by entities (AC-53, AC-57).
pub fn sanitized(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Whether Go shows a character beyond ASCII as it is. Rust's debug form escapes the same ones, and marks besides
/// unless they follow another character.
fn is_printable(c: char) -> bool {
    format!("a{c}").escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_follows_the_documented_escapes_ac_57() {
        // The examples of Go's documentation of strconv.Quote, and its escapes by number.
        assert_eq!(quoted("Hello, 世界"), "\"Hello, 世界\"");
        assert_eq!(quoted("\"Fran & Freddie's Diner\t☺\""), r#""\"Fran & Freddie's Diner\t☺\"""#);
        assert_eq!(quoted("\x07\x08\x0c\n\r\t\x0b\\"), r#""\a\b\f\n\r\t\v\\""#);
        assert_eq!(quoted("\x00\x1b\x7f\u{feff}"), r#""\x00\x1b\x7f\ufeff""#);
        assert_eq!(
            quoted("\u{85}\u{a0}\u{200b}\u{2028}\u{e0001}"),
            r#""\u0085\u00a0\u200b\u2028\U000e0001""#
        );
        assert_eq!(QuotedList(&["a".to_owned(), "b c".to_owned()]).to_string(), r#"["a" "b c"]"#);
        assert_eq!(QuotedList(&[]).to_string(), "[]");
    }

    #[test]
    fn ac_57_what_html_would_read_becomes_entities() {
        assert_eq!(sanitized("<a href=\"&amp;\">"), "&lt;a href=\"&amp;amp;\"&gt;");
    }

    #[test]
    fn marks_are_printed_as_strconv_is_print_has_it() {
        // A combining accent, alone and after a letter, and a vowel sign of Devanagari.
        for text in ["\u{301}", "e\u{301}", "\u{915}\u{941}"] {
            assert_eq!(quoted(text), format!("\"{text}\""));
        }
    }
}
