//! PEM: reading and writing.
//!
//! Reading finds the same blocks as Go, with which kubelets and kube-apiserver read PEM: a reader that finds another first
//! block checks one request and lets another one pass (NR-99). Text around blocks, malformed blocks and headers are skipped
//! (CS-17). Reading is one pass, in linear time.

use std::ops::ControlFlow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD, STANDARD};
use rustls_pki_types::CertificateDer;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// Base64 as Go reads it: unused bits at the end may be set.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));

/// One PEM block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The label, such as `CERTIFICATE`.
    pub label: String,
    /// The bytes inside.
    pub der: Vec<u8>,
    /// Whether headers such as `Proc-Type: ...` precede them.
    pub has_headers: bool,
}

/// The text of one block, in lines of 64 characters.
pub fn encode(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for (i, c) in body.chars().enumerate() {
        if i > 0 && i % 64 == 0 {
            text.push('\n');
        }
        text.push(c);
    }
    if !body.is_empty() {
        text.push('\n');
    }
    text.push_str("-----END ");
    text.push_str(label);
    text.push_str("-----\n");
    text
}

/// All blocks of a text.
pub fn blocks(text: &[u8]) -> Vec<Block> {
    let mut blocks = Vec::new();
    scan(text, |block, _| {
        blocks.push(block);
        ControlFlow::Continue(())
    });
    blocks
}

/// The certificates of a text. Blocks of other kinds are skipped.
pub(crate) fn certificates(text: &[u8]) -> impl Iterator<Item = CertificateDer<'static>> {
    let blocks = blocks(text).into_iter().filter(|block| block.label == "CERTIFICATE");
    blocks.map(|block| CertificateDer::from(block.der))
}

/// The first block of a text.
pub fn first(text: &[u8]) -> Option<Block> {
    first_and_rest(text).map(|(block, _)| block)
}

/// The first block of a text, and what follows it.
pub fn first_and_rest(text: &[u8]) -> Option<(Block, &[u8])> {
    let mut first = None;
    scan(text, |block, end| {
        first = Some((block, text.get(end..).unwrap_or_default()));
        ControlFlow::Break(())
    });
    first
}

/// Calls a function for each block, with the offset of its end.
fn scan(text: &[u8], mut found: impl FnMut(Block, usize) -> ControlFlow<()>) {
    let mut open: Option<Open<'_>> = None;
    let mut position = 0;
    for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        position += line.len();
        // A line precedes the end of a block.
        let end = line.strip_prefix(END).filter(|_| number > 0);
        if let Some(label) = end
            && let Some(block) = open.take().and_then(|block| block.close(label))
            && found(block, position).is_break()
        {
            return;
        }
        let line = end.unwrap_or(line);
        if contains(line, BEGIN) {
            // The last beginning counts: a block that is still open never ends.
            open = Open::at(line);
        } else if let (None, Some(block)) = (end, &mut open) {
            block.take(line);
        }
    }
}

/// A line without its end and the blanks before that. A carriage return is part of the end of a line, not of the text.
fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line));
    let blanks = line.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    line.get(..line.len().saturating_sub(blanks)).unwrap_or_default()
}

fn contains(line: &[u8], word: &[u8]) -> bool {
    line.windows(word.len()).any(|window| window == word)
}

/// A block whose end has not been seen.
struct Open<'a> {
    label: &'a [u8],
    /// Whether there was a line such as `Proc-Type: ...`.
    has_headers: bool,
    /// Whether headers may still follow.
    in_headers: bool,
    encoded: Vec<u8>,
}

impl<'a> Open<'a> {
    /// The block that begins with this line.
    fn at(line: &'a [u8]) -> Option<Self> {
        let label = line.strip_prefix(BEGIN)?;
        if contains(label, BEGIN) {
            return None;
        }
        let label = trimmed(label).strip_suffix(DASHES)?;
        // The end of such a block would be taken for a header.
        if label.contains(&b':') {
            return None;
        }
        Some(Self { label, has_headers: false, in_headers: true, encoded: Vec::new() })
    }

    /// Takes one line between the first and the last one.
    fn take(&mut self, line: &[u8]) {
        let line = trimmed(line);
        if self.in_headers && line.contains(&b':') {
            self.has_headers = true;
            return;
        }
        self.in_headers = false;
        self.encoded.extend(line.iter().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\r')));
    }

    /// The block, if its last line has the label of its first line. A line that is not a header ends the headers.
    fn close(self, end: &[u8]) -> Option<Block> {
        if trimmed(end).strip_suffix(DASHES)? != self.label || (self.has_headers && self.in_headers) {
            return None;
        }
        let der = LENIENT.decode(&self.encoded).ok()?;
        Some(Block {
            label: String::from_utf8_lossy(self.label).into_owned(),
            der,
            has_headers: self.has_headers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_around_and_malformed_blocks_are_skipped() {
        let good = encode("X", b"hello");
        let text = format!("junk\n-----BEGIN Y-----\n!!!\n-----END Y-----\n\n{good}tail");
        assert_eq!(
            first(text.as_bytes()),
            Some(Block { label: "X".into(), der: b"hello".to_vec(), has_headers: false })
        );
        assert_eq!(first(b"-----BEGIN X-----\naGVsbG8=\n"), None);
        assert_eq!(first(b"-----BEGIN X-----\naGVsbG8=\n-----END Y-----\n"), None);
        let headers = b"-----BEGIN X-----\nProc-Type: 4\nA: b\n\naGVs\r\nbG8=\n-----END X-----";
        assert_eq!(first(headers).map(|b| b.der), Some(b"hello".to_vec()));
    }

    fn found(text: &[u8]) -> Vec<(String, Vec<u8>)> {
        blocks(text).into_iter().map(|block| (block.label, block.der)).collect()
    }

    #[test]
    fn cs_17_a_beginning_that_is_followed_by_another_one_is_text() {
        let one = vec![("X".to_owned(), b"hello".to_vec())];
        assert_eq!(found(b"-----BEGIN Y-----\n-----BEGIN X-----\naGVsbG8=\n-----END X-----\n"), one);
        assert_eq!(found(b"-----BEGIN X-----\naGVs\n-----BEGIN X-----\naGVsbG8=\n-----END X-----"), one);
        assert_eq!(found(b"-----BEGIN X-----\na: -----BEGIN \n\naGVsbG8=\n-----END X-----"), []);
        assert_eq!(found(b"-----BEGIN X-----\n-----BEGIN a: b\naGVsbG8=\n-----END X-----"), []);
        assert_eq!(found(b" -----BEGIN X-----\naGVsbG8=\n-----END X-----"), []);
    }

    #[test]
    fn nr_99_what_go_takes_for_a_block_is_one_whatever_it_looks_like() {
        // Left-over bits at the end of the data.
        assert_eq!(
            found(b"-----BEGIN X-----\naGVsbG9=\n-----END X-----"),
            [("X".to_owned(), b"hello".to_vec())]
        );
        // No data, and a label that is no text.
        assert_eq!(found(b"-----BEGIN X-----\n-----END X-----"), [("X".to_owned(), Vec::new())]);
        let label = found(b"-----BEGIN \xff-----\naGVsbG8=\n-----END \xff-----");
        assert_eq!(label, [("\u{fffd}".to_owned(), b"hello".to_vec())]);
    }

    #[test]
    fn nr_99_what_go_passes_over_is_no_block() {
        for text in [
            // Header lines after a line that is none, and headers that nothing ends.
            &b"-----BEGIN X-----\n\nA: b\naGVsbG8=\n-----END X-----"[..],
            b"-----BEGIN X-----\nA: b\n-----END X-----",
            // A carriage return that ends no line.
            b"-----BEGIN X-----\naGVsbG8=\n-----END X-----\r",
            b"-----BEGIN X-----\r \naGVsbG8=\n-----END X-----\n",
            b"-----BEGIN X-----\x0b\naGVsbG8=\n-----END X-----\n",
            b"-----BEGIN X-----\naGVsbG8=\n-----END X----- y",
            b"-----BEGIN X-----\naGVsbG8\n-----END X-----",
        ] {
            assert_eq!(found(text), [], "{}", text.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(der in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(blocks(encode("THING", &der).repeat(2).as_bytes()), vec![Block { label: "THING".into(), der: der.clone(), has_headers: false }; 2]);
        }

        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = blocks(&text);
        }
    }
}
