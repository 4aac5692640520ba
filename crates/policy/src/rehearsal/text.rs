//! Texts of events, as long as they are kept.

/// The maximum length of a text that is kept. In bytes.
const KEPT: usize = 253;

/// The beginning of a text that is too long; all of another one.
pub(super) fn cut(text: &str) -> String {
    match text.get(..text.floor_char_boundary(KEPT)) {
        Some(start) if start.len() < text.len() => format!("{start}..."),
        _ => text.to_owned(),
    }
}
