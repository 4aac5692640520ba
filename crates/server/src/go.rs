//! Text as Go prints it, where clients have come to see it.

use std::fmt::Write as _;

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

/// A duration as Go's `time.ParseDuration` reads it, in nanoseconds: numbers with units, such as `1m30s` or `1.5h`.
/// Nothing for any other text, and for more than Go can hold.
pub(crate) fn duration(text: &str) -> Option<i128> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(end)?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(end)?;
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { i128::from(whole.parse::<u64>().ok()?) };
        total = total.checked_add(whole.checked_mul(unit)?)?;
        // Digits beyond these are less than a nanosecond.
        let mut scale = unit;
        for digit in fraction.bytes().take(18) {
            scale /= 10;
            total = total.checked_add(i128::from(digit - b'0').checked_mul(scale)?)?;
        }
        rest = next;
    }
    let limit = i128::from(i64::MAX) + i128::from(is_negative);
    (total <= limit).then_some(if is_negative { -total } else { total })
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

    #[test]
    fn durations_are_read_as_go_reads_them() {
        // The examples of Go's time.ParseDuration.
        let second = 1_000_000_000;
        for (text, nanoseconds) in [
            ("0", 0),
            ("5s", 5 * second),
            ("1478s", 1478 * second),
            ("-5s", -5 * second),
            ("+5s", 5 * second),
            ("5.6s", 5_600_000_000),
            ("5.s", 5 * second),
            (".5s", second / 2),
            ("10ns", 10),
            ("12µs", 12_000),
            ("3h30m", 12_600 * second),
            ("10.5s4m", 250_500_000_000),
            ("-2m3.4s", -123_400_000_000),
        ] {
            assert_eq!(duration(text), Some(nanoseconds), "{text}");
        }
        for text in ["", "3", "-", "s", ".", "-.", ".s", "+.s", "1d", "5 s", "9223372036854775810ns"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
