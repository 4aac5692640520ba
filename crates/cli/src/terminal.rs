//! Text that comes from outside, for a terminal.

/// Returns a text on one line, without control characters.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { '\u{fffd}' } else { c })
        .collect()
}
