//! PEM: text armour around DER.
//!
//! Reading follows what Go does, because Go is what kubelets and kube-apiserver read PEM with: text before a block is
//! skipped, a malformed block is skipped, header lines inside a block are skipped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// One PEM block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What the block says it holds, such as `CERTIFICATE`.
    pub label: String,
    /// The bytes inside.
    pub der: Vec<u8>,
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
    let mut lines = text.split(|b| *b == b'\n');
    while let Some(line) = lines.next() {
        let Some(label) = marker(line, "-----BEGIN ") else { continue };
        // A block that does not close is not a block; what follows its first line is looked at again.
        let mut ahead = lines.clone();
        if let Some(der) = body(&mut ahead, label) {
            blocks.push(Block { label: label.to_owned(), der });
            lines = ahead;
        }
    }
    blocks
}

/// The first block of a text.
pub fn first(text: &[u8]) -> Option<Block> {
    blocks(text).into_iter().next()
}

/// The label of a line such as `-----BEGIN CERTIFICATE-----`.
fn marker<'a>(line: &'a [u8], prefix: &str) -> Option<&'a str> {
    std::str::from_utf8(line).ok()?.trim_end().strip_prefix(prefix)?.strip_suffix("-----")
}

fn body<'a>(lines: &mut impl Iterator<Item = &'a [u8]>, label: &str) -> Option<Vec<u8>> {
    let mut encoded = Vec::new();
    let mut in_headers = true;
    for line in lines {
        if let Some(end) = marker(line, "-----END ") {
            return (end == label).then(|| STANDARD.decode(&encoded).ok()).flatten();
        }
        // `Proc-Type: ...` and the like stand before the data.
        if in_headers && line.contains(&b':') {
            continue;
        }
        in_headers &= line.trim_ascii().is_empty();
        encoded.extend(line.iter().filter(|b| !matches!(b, b' ' | b'\t' | b'\r')));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_around_and_malformed_blocks_are_skipped() {
        let good = encode("X", b"hello");
        let text = format!("junk\n-----BEGIN Y-----\n!!!\n-----END Y-----\n\n{good}tail");
        assert_eq!(first(text.as_bytes()), Some(Block { label: "X".into(), der: b"hello".to_vec() }));
        assert_eq!(first(b"-----BEGIN X-----\naGVsbG8=\n"), None);
        assert_eq!(first(b"-----BEGIN X-----\naGVsbG8=\n-----END Y-----\n"), None);
        let headers = b"-----BEGIN X-----\nProc-Type: 4\nA: b\n\naGVs\r\nbG8=\n-----END X-----";
        assert_eq!(first(headers).map(|b| b.der), Some(b"hello".to_vec()));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(der in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(blocks(encode("THING", &der).repeat(2).as_bytes()), vec![Block { label: "THING".into(), der: der.clone() }; 2]);
        }

        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = blocks(&text);
        }
    }
}
