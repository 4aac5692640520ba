//! SHA-2 hashes and HMAC.

use aws_lc_rs::digest::{SHA256, SHA512_256, digest};
use aws_lc_rs::hmac;

/// The SHA-256 hash of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA256, bytes).as_ref().try_into().unwrap_or_default()
}

/// The SHA-512/256 hash of some bytes.
pub fn sha512_256(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA512_256, bytes).as_ref().try_into().unwrap_or_default()
}

/// The HMAC-SHA256 of the concatenated parts.
pub fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    context.sign().as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_keyed_hash_is_that_of_the_standard() {
        // RFC 4231, test case 2.
        let hash = super::hmac_sha256(b"Jefe", &[b"what do ya want ", b"for nothing?"]);
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn a_hash_is_that_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        let hex: String = super::sha256(b"abc").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
