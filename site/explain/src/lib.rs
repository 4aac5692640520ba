//! Answers the questions of the page `docs/explain-in-browser.md`, which runs this in the browser.
//!
//! It opens no file and no connection, and keeps nothing.

mod answer;
mod objects;

/// Answers a question. Both are JSON; an answer that is an error is an object with the one field `error`.
///
/// A pure function: it does not panic, whatever the text is.
pub fn answer(question: &str) -> String {
    answer::written(&answer::to(question))
}

/// The answer when the question cannot be read from its source: JSON with the field `error`.
pub fn unreadable(why: &str) -> String {
    answer::written(&Err(format!("the question cannot be read: {why}")))
}
