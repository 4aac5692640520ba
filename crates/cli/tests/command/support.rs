//! Running the binary.

use std::ffi::OsStr;
use std::path::Path;

use portcullis_testkit::program;
pub(crate) use portcullis_testkit::tool::Finished;

/// Runs the command without input.
pub(crate) fn portcullis<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Finished {
    with_input(arguments, b"")
}

/// Runs the command with so much on standard input.
pub(crate) fn with_input<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>, input: &[u8]) -> Finished {
    Finished::with_input(&mut program!().command(arguments), input)
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The arguments of a line, split at spaces.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
