//! Text in double quotes as Kubernetes prints it in messages.

use std::fmt::{self, Write};

/// A string that prints in double quotes with the escapes of Go's `%q`.
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

/// Strings that print as Go's `%q` prints a list: `["a" "b"]`.
pub(super) struct QuotedList<'a>(pub(super) &'a [String]);

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

/// Whether a character beyond ASCII can be shown as it is: no control character and no space.
fn is_printable(c: char) -> bool {
    c.is_alphanumeric() || (!c.is_control() && !c.is_whitespace() && c.escape_debug().len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_escape_what_go_escapes() {
        // The right-hand sides are the examples of Go's documentation of strconv.Quote and of its escapes.
        assert_eq!(Quoted("Hello, 世界").to_string(), "\"Hello, 世界\"");
        assert_eq!(Quoted("\"Fran & Freddie's Diner\t☺\"").to_string(), r#""\"Fran & Freddie's Diner\t☺\"""#);
        assert_eq!(Quoted("\x00\x7f\u{feff}").to_string(), r#""\x00\x7f\ufeff""#);
        assert_eq!(QuotedList(&["a".to_owned(), "b c".to_owned()]).to_string(), r#"["a" "b c"]"#);
        assert_eq!(QuotedList(&[]).to_string(), "[]");
    }
}
