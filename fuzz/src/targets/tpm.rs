//! What a TPM answers to the client of a node.

use portcullis_testkit::fake_tpm::FakeTpm;
use portcullis_tpm::{
    Address, AttestationKey, AttestationParent, CreatedKey, Creation, EndorsementKind, KeyOptions, Pcrs,
    Signature, Tpm, TpmError, Wrapped, split_certificates,
};

pub(super) const RESPONSE: &[&str] =
    &["\u{0}\u{0}", "\u{0}\u{0}\u{0}\u{1}", "\u{0}\u{b}", "\u{0}\u{10}", "\u{0}\u{18}\u{0}\u{b}", "0"];

/// The tag, the size and the code of a response.
const HEADER_BYTES: usize = 10;

/// The first byte says what is done, the rest is what the TPM answers, response by response.
pub(super) fn responses(input: &[u8]) -> bool {
    let Some((operation, responses)) = input.split_first() else { return false };
    structures(responses);
    let fake = FakeTpm::answering(split(responses));
    let tpm = Tpm::at(fake.connection().parse::<Address>().expect("the address of a socket"));
    run(*operation, &tpm).is_ok()
}

/// Structures that come from a TPM or from a file of the node.
fn structures(bytes: &[u8]) {
    if let Ok(wrapped) = Wrapped::from_bytes(bytes) {
        assert_eq!(wrapped.to_bytes(), bytes, "what was read is written again");
    }
    if let Ok(creation) = Creation::from_bytes(bytes) {
        assert_eq!(creation.to_bytes().as_deref(), Ok(bytes), "what was read is written again");
    }
    if let Ok(certificates) = split_certificates(bytes) {
        assert!(certificates.len() <= 16, "a chain is bounded");
    }
    if let Ok(signature) = Signature::parse(bytes) {
        assert!(signature.der().len() <= 102, "two numbers of a curve");
    }
}

/// Splits responses by their sizes. The last one has what is left.
fn split(mut responses: &[u8]) -> Vec<Vec<u8>> {
    let mut split = Vec::new();
    while !responses.is_empty() {
        let size = responses.get(2..6).and_then(|size| size.try_into().ok()).map_or(0, u32::from_be_bytes);
        let size = usize::try_from(size).unwrap_or(usize::MAX).max(HEADER_BYTES);
        let (response, rest) = responses.split_at_checked(size).unwrap_or((responses, &[]));
        // A busy TPM is asked again after a pause, which is time without work.
        if !matches!(response, [_, _, _, _, _, _, _, _, 9, ..]) {
            split.push(response.to_vec());
        }
        responses = rest;
    }
    split
}

fn run(operation: u8, tpm: &Tpm) -> Result<(), TpmError> {
    let blob = || Wrapped::from_bytes(&[0, 1, 1, 0, 1, 1]).expect("two structures");
    let ak = || AttestationKey { wrapped: blob(), parent: AttestationParent::StorageRoot };
    let key = || {
        let creation = Creation::from_bytes(&[0; 12]).expect("three structures");
        CreatedKey { wrapped: blob(), bound_to: None, creation }
    };
    let pcrs = Pcrs::new(&[0, 7])?;
    match operation {
        b'a' => tpm.random(8).map(|bytes| assert_eq!(bytes.len(), 8)),
        b'b' => tpm.clock().map(drop),
        b'c' => tpm.properties().map(drop),
        b'd' => tpm.endorsement_key().map(drop),
        b'e' => tpm.certificate_chain().map(|chain| assert!(chain.len() <= 16, "a chain is bounded")),
        b'f' => tpm.pcr_values(pcrs).map(|values| assert_eq!(values.len(), 2)),
        b'g' => {
            tpm.create_attestation_key(AttestationParent::EndorsementKey(EndorsementKind::Rsa2048)).map(drop)
        }
        b'h' => {
            tpm.create_key(KeyOptions { bound_to: Some(pcrs), outside_info: &[], pcrs: Some(pcrs) }).map(drop)
        }
        b'i' => tpm.sign_digest(&blob(), Some(pcrs), &[1; 32]).map(drop),
        b'j' => tpm.certify(&key(), &ak(), &[1; 32]).map(drop),
        b'k' => tpm.certify_creation(&key(), &ak(), &[1; 32]).map(drop),
        b'l' => tpm.quote(pcrs, &ak(), &[1; 32]).map(drop),
        b'm' => tpm.unseal(&blob(), Some(pcrs)).map(drop),
        _ => tpm.activate_credential(EndorsementKind::Rsa2048, &ak(), &[0, 0], &[0, 0]).map(drop),
    }
}
