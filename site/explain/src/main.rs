//! Reads a question from the standard input, and writes the answer to the standard output.
//!
//! `site/explain.js` runs it once for each question, as WebAssembly (`wasm32-wasip1`).

use std::io::{Read, Write};
use std::process::ExitCode;

use portcullis_explain_page::{answer, unreadable};

fn main() -> ExitCode {
    let mut question = String::new();
    let answer = match std::io::stdin().read_to_string(&mut question) {
        Ok(_) => answer(&question),
        Err(error) => unreadable(&error.to_string()),
    };
    match std::io::stdout().write_all(answer.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
