//! The PEM blocks of a request with evidence (AT-50 to AT-53).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::csr::{Csr, CsrError};
use crate::hash::sha256;
use crate::pem;

/// The largest request with evidence. Bytes of PEM. So evidence has fewer than 192 KiB (AT-51).
pub const MAX_PEM_BYTES: usize = 256 * 1024;
/// The longest name of a provider, in bytes.
const MAX_PROVIDER_BYTES: usize = 64;

const REQUEST: &str = "CERTIFICATE REQUEST";
const PROVIDER: &str = "KUBELET AUTHENTICATOR ATTESTATION PROVIDER";
const DATA: &str = "KUBELET AUTHENTICATOR ATTESTATION DATA";
/// The label of evidence in the proposal's example (AT-52).
const SHORT_DATA: &str = "ATTESTATION DATA";

/// Which labels are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// Those of AT-50.
    #[default]
    Exact,
    /// Also `ATTESTATION DATA` (AT-52, `compatLabels`).
    Compatible,
}

/// A certificate request whose signature is verified, and the evidence that came with it, which is not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttestedRequest {
    /// The request.
    pub csr: Csr,
    /// The SHA-256 digest of the request in DER: `csrDigest` (AT-53).
    pub digest: [u8; 32],
    /// The evidence; none if the request consists of the first block alone.
    pub evidence: Option<Evidence>,
}

/// Evidence as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The provider, whose name is valid.
    pub provider: String,
    /// The evidence, in the provider's format.
    pub data: Vec<u8>,
}

/// A request with evidence that is malformed (`MalformedAttestation`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceError {
    /// The PKCS#10 request.
    #[error(transparent)]
    Csr(#[from] CsrError),
    /// The request and the evidence are too large.
    #[error("the request with its evidence is larger than {MAX_PEM_BYTES} bytes")]
    TooLarge,
    /// A line that is not part of a PEM block, a header, or a block without its end.
    #[error("line {0}: not part of a PEM block without headers")]
    Line(usize),
    /// A block of another type, at the wrong place, twice, or missing.
    #[error("PEM block {number} must be {expected}, not {found}")]
    Label {
        /// The number of the block, from 1.
        number: usize,
        /// The label that it must have.
        expected: &'static str,
        /// The label that it has; `nothing` if it is missing.
        found: String,
    },
    /// Further blocks.
    #[error("a PEM block follows the evidence")]
    Trailing,
    /// The contents of a block are not base64.
    #[error("PEM block {0} is not base64")]
    Base64(usize),
    /// The name of the provider is invalid.
    #[error("the name of the attestation provider must be 1 to {MAX_PROVIDER_BYTES} of a-z, 0-9 and -")]
    Provider,
    /// Other readers would find another request.
    #[error("the first PEM block is read in different ways")]
    Ambiguous,
}

/// Returns whether this can be the name of a provider (AT-51).
pub fn is_provider_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_PROVIDER_BYTES).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Reads a request with evidence, and verifies the signature of the request. Strict: three blocks in order, or only the
/// first one; no headers, and nothing but white space around them (AT-51).
///
/// # Errors
/// See [`EvidenceError`].
pub fn read(text: &[u8], labels: Labels) -> Result<AttestedRequest, EvidenceError> {
    if text.len() > MAX_PEM_BYTES {
        return Err(EvidenceError::TooLarge);
    }
    let mut blocks = Blocks { text, position: 0, line: 0, count: 0 };
    let request = blocks.expect(REQUEST, |label| label == REQUEST.as_bytes())?;
    // The API server finds the same request in the same bytes (NR-99).
    let first = text.get(..blocks.position).unwrap_or_default();
    if pem::first(text).is_none_or(|block| block.label != REQUEST || block.der != request) {
        return Err(EvidenceError::Ambiguous);
    }
    let csr = Csr::from_pem(first)?;
    let digest = sha256(&request);
    if blocks.is_at_end() {
        return Ok(AttestedRequest { csr, digest, evidence: None });
    }
    let provider = blocks.expect(PROVIDER, |label| label == PROVIDER.as_bytes())?;
    let provider = String::from_utf8(provider).ok().filter(|name| is_provider_name(name));
    let provider = provider.ok_or(EvidenceError::Provider)?;
    let data = blocks.expect(DATA, |label| {
        label == DATA.as_bytes() || (labels == Labels::Compatible && label == SHORT_DATA.as_bytes())
    })?;
    if !blocks.is_at_end() {
        return Err(EvidenceError::Trailing);
    }
    Ok(AttestedRequest { csr, digest, evidence: Some(Evidence { provider, data }) })
}

/// Writes evidence behind a request in PEM form (AT-50).
pub fn write(request_pem: &str, evidence: &Evidence) -> String {
    let provider = pem::encode(PROVIDER, evidence.provider.as_bytes());
    let data = pem::encode(DATA, &evidence.data);
    format!("{}\n{provider}{data}", request_pem.trim_end())
}

/// A reader of PEM blocks, line by line.
struct Blocks<'a> {
    text: &'a [u8],
    /// Where the next line begins.
    position: usize,
    /// The number of the line that was read last, from 1.
    line: usize,
    /// How many blocks were read.
    count: usize,
}

impl<'a> Blocks<'a> {
    /// The next line without white space around it; none at the end of the text.
    fn line(&mut self) -> Option<&'a [u8]> {
        let rest = self.text.get(self.position..).filter(|rest| !rest.is_empty())?;
        let line = rest.split_inclusive(|byte| *byte == b'\n').next()?;
        self.position = self.position.saturating_add(line.len());
        self.line = self.line.saturating_add(1);
        Some(line.trim_ascii())
    }

    /// Whether only white space is left.
    fn is_at_end(&self) -> bool {
        self.text.get(self.position..).unwrap_or_default().trim_ascii().is_empty()
    }

    /// Reads the next block, which must have a label that is accepted, and returns its contents.
    fn expect(
        &mut self,
        expected: &'static str,
        accepts: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<u8>, EvidenceError> {
        self.count = self.count.saturating_add(1);
        let number = self.count;
        let found = |found: &[u8]| EvidenceError::Label {
            number,
            expected,
            found: String::from_utf8_lossy(found).into_owned(),
        };
        let begin = loop {
            match self.line() {
                None => return Err(found(b"nothing")),
                Some(b"") => {}
                Some(line) => break line,
            }
        };
        let label = begin.strip_prefix(b"-----BEGIN ").and_then(|rest| rest.strip_suffix(b"-----"));
        let label = label.ok_or(EvidenceError::Line(self.line))?;
        if !accepts(label) {
            return Err(found(label));
        }
        let mut encoded = Vec::new();
        loop {
            let line = self.line().ok_or(EvidenceError::Line(self.line))?;
            if let Some(end) = line.strip_prefix(b"-----END ").and_then(|rest| rest.strip_suffix(b"-----")) {
                if end != label {
                    return Err(EvidenceError::Line(self.line));
                }
                return STANDARD.decode(&encoded).map_err(|_| EvidenceError::Base64(number));
            }
            // A header has a colon, and the beginning of another block has dashes.
            if line.iter().any(|byte| !(byte.is_ascii_alphanumeric() || b"+/=".contains(byte))) {
                return Err(EvidenceError::Line(self.line));
            }
            encoded.extend_from_slice(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{KeyPair, Request};

    fn request() -> String {
        let request = Request { common_name: "system:node:n".into(), ..Request::default() };
        request.to_pem(&KeyPair::generate().unwrap()).unwrap()
    }

    fn evidence() -> Evidence {
        Evidence { provider: "tpm".into(), data: b"evidence".to_vec() }
    }

    #[test]
    fn what_is_written_is_read_at_50() {
        let request = request();
        let text = write(&request, &evidence());
        let read_back = read(text.as_bytes(), Labels::Exact).unwrap();
        assert_eq!(read_back.evidence, Some(evidence()));
        assert_eq!(read_back.digest, sha256(&pem::first(request.as_bytes()).unwrap().der));
        assert_eq!(read_back.csr.subject().common_name().unwrap(), "system:node:n");
        assert!(text.lines().all(|line| line.len() <= 64));
        // A request without evidence says so.
        let bare = read(request.as_bytes(), Labels::Exact).unwrap();
        assert_eq!((bare.evidence, bare.digest), (None, read_back.digest));
        // Kubernetes reads the first block, and nothing of the rest.
        assert_eq!(Csr::from_pem(text.as_bytes()).unwrap().public_key_der(), read_back.csr.public_key_der());
    }

    #[test]
    fn anything_but_three_blocks_in_order_is_malformed_at_51() {
        let request = request();
        let good = write(&request, &evidence());
        let provider = pem::encode(PROVIDER, b"tpm");
        let data = pem::encode(DATA, b"evidence");
        let short = pem::encode(SHORT_DATA, b"evidence");
        let spaced = format!("\n \n{request}\r\n\t\n{provider}\n{data}\n\n");
        assert!(read(spaced.as_bytes(), Labels::Exact).unwrap().evidence.is_some());
        let short_label = format!("{request}{provider}{short}");
        assert!(read(short_label.as_bytes(), Labels::Compatible).unwrap().evidence.is_some());
        let headers = good.replace("PROVIDER-----\n", "PROVIDER-----\nProc-Type: 4\n\n");
        let long_name = pem::encode(PROVIDER, "a".repeat(65).as_bytes());
        for (what, text) in [
            ("the short label", short_label.clone()),
            ("no evidence", format!("{request}{provider}")),
            ("no provider", format!("{request}{data}")),
            ("another order", format!("{request}{data}{provider}")),
            ("the evidence first", format!("{provider}{data}{request}")),
            ("the provider twice", format!("{request}{provider}{provider}{data}")),
            ("the evidence twice", format!("{good}{data}")),
            ("another request behind", format!("{good}{request}")),
            ("another request in front", format!("{request}{good}")),
            ("an unknown label", format!("{good}{}", pem::encode("X", b"x"))),
            ("text in front", format!("x\n{good}")),
            ("text between", good.replace("-----BEGIN KUBELET", "x\n-----BEGIN KUBELET")),
            ("text behind", format!("{good}x")),
            ("headers", headers),
            ("a bad name", format!("{request}{}{data}", pem::encode(PROVIDER, b"TPM"))),
            ("an empty name", format!("{request}{}{data}", pem::encode(PROVIDER, b""))),
            ("a long name", format!("{request}{long_name}{data}")),
            ("no base64", good.replace(&STANDARD.encode("evidence"), "ZXZpZGVuY2U")),
            ("other bits at the end", good.replace(&STANDARD.encode("tpm"), "dHBt====")),
            ("another end", good.replace("END KUBELET AUTHENTICATOR ATTESTATION PROVIDER", "END X")),
            ("no end", good.trim_end().trim_end_matches('-').to_owned()),
            ("nothing", String::new()),
        ] {
            assert!(read(text.as_bytes(), Labels::Exact).is_err(), "{what}");
        }
        let large = write(&request, &Evidence { data: vec![0; 192 * 1024], ..evidence() });
        assert_eq!(read(large.as_bytes(), Labels::Exact), Err(EvidenceError::TooLarge));
        let largest = write(&request, &Evidence { data: vec![0; 180 * 1024], ..evidence() });
        assert_eq!(read(largest.as_bytes(), Labels::Exact).map(|r| r.evidence.is_some()), Ok(true));
    }

    #[test]
    fn a_first_block_that_others_read_differently_is_refused_at_51_nr_99() {
        // Go takes this line for the end of the headers of a block without data.
        let request = request();
        for text in [
            format!("-----BEGIN X-----\n{request}"),
            request.replace("-----BEGIN CERTIFICATE REQUEST-----", "-----BEGIN CERTIFICATE REQUEST-----x"),
        ] {
            assert!(read(text.as_bytes(), Labels::Exact).is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_evidence_comes_back_at_50(data in proptest::collection::vec(any::<u8>(), 0..500), name in "[a-z0-9-]{1,64}") {
            let evidence = Evidence { provider: name, data };
            let text = write(&request(), &evidence);
            prop_assert_eq!(read(text.as_bytes(), Labels::Exact).unwrap().evidence, Some(evidence));
        }

        #[test]
        fn any_bytes_are_survived_at_195(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&text, Labels::Compatible);
        }
    }
}
