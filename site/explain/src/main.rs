//! Explains a decision in the browser: the program behind `docs/explain-in-browser.md`.
//!
//! `site/explain.js` runs it once for each question, as WebAssembly (`wasm32-wasip1`). It reads a question from the standard input
//! and writes the answer to the standard output, both JSON. It opens no file and no connection, and keeps nothing.

mod answer;
mod objects;

use std::io::{Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut question = String::new();
    let answer = match std::io::stdin().read_to_string(&mut question) {
        Ok(_) => answer::to(&question),
        Err(error) => Err(format!("the question cannot be read: {error}")),
    };
    match std::io::stdout().write_all(answer::written(&answer).as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
