//! Proves who a machine is: keys, certificates, certificate requests, tokens, and the TLS handshake.
//!
//! This crate never reads a file, a socket or the clock: bytes and the time are arguments. Its only source of randomness is
//! `aws-lc-rs`, for keys, serial numbers and signatures. A proof is a type that only one module can make: an [`Identity`] is
//! a verified certificate chain, a [`Csr`] is a request whose signature was verified. Only [`tls`] uses the TLS library, and
//! only [`jwt`] the token library.

pub mod bootstrap;
pub mod ca;
mod ca_error;
pub mod cert;
pub mod csr;
mod der;
pub mod evidence;
mod hash;
mod issue;
pub mod issued;
pub mod jwks;
pub mod jwt;
pub mod key;
pub mod name;
pub mod pair;
pub mod pem;
mod random;
pub mod request;
pub mod shown;
mod signature;
pub mod tls;
pub mod tpm;
mod uri;
pub mod usage;

pub use ca::{AttestedUsage, CertificateAuthority};
pub use cert::{CaBundle, Identity, UnverifiedCertificate};
pub use csr::Csr;
pub use hash::{hmac_sha256, sha256, sha512_256};
pub use issued::IssuedCertificate;
pub use key::KeyPair;
pub use name::Subject;
pub use pair::Pair;
pub use random::random_bytes;
pub use request::Request;
pub use rustls_pki_types::{CertificateDer, PrivateKeyDer};
pub use signature::verify as verify_signature;

/// The programs of the README are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
