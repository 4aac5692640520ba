//! Explains a decision in the browser: what the program behind `docs/explain-in-browser.md` does with a question.
//!
//! It opens no file and no connection, and keeps nothing.

mod answer;
mod objects;

/// Answers a question, JSON as the page sends it, with JSON as the page reads it: the answer, or an object with the one field `error`.
/// A pure function, which does not panic, whatever the text is.
pub fn answer(question: &str) -> String {
    answer::written(&answer::to(question))
}

/// The answer if no question can be read.
pub fn no_question(why: &str) -> String {
    answer::written(&Err(format!("the question cannot be read: {why}")))
}
