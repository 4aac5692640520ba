//! Proves who a machine is: keys, certificates, certificate requests, and the handshake that shows possession.
//!
//! There is no clock, no file and no socket in this crate: bytes come in, time is an argument, proofs go out. A proof
//! is a type that one module alone can make: an [`Identity`] is a verified chain, a
//! [`Csr`] is a request whose signature was checked. Only [`tls`] names the TLS library,
//! only [`jwt`] the one for tokens.

pub mod bootstrap;
pub mod ca;
pub mod cert;
pub mod csr;
mod der;
mod issue;
pub mod jwt;
pub mod key;
pub mod name;
pub mod pair;
pub mod pem;
pub mod request;
pub mod shown;
mod signature;
pub mod tls;
mod uri;
pub mod usage;

use aws_lc_rs::digest::{SHA256, SHA512_256, digest};
use aws_lc_rs::hmac;

pub use ca::CertificateAuthority;
pub use cert::{CaBundle, Identity, UnverifiedCertificate};
pub use csr::Csr;
pub use key::KeyPair;
pub use name::Subject;
pub use pair::Pair;
pub use request::Request;
pub use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// The SHA-256 hash of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.iter_mut().zip(digest(&SHA256, bytes).as_ref()).for_each(|(to, from)| *to = *from);
    hash
}

/// The SHA-512/256 hash of some bytes.
pub fn sha512_256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.iter_mut().zip(digest(&SHA512_256, bytes).as_ref()).for_each(|(to, from)| *to = *from);
    hash
}

/// The HMAC-SHA256 of some bytes, given in parts that follow each other without a boundary.
pub fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    let mut hash = [0; 32];
    hash.iter_mut().zip(context.sign().as_ref()).for_each(|(to, from)| *to = *from);
    hash
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
