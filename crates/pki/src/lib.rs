//! Proves who a machine is: keys, certificates, certificate requests, and the handshake that shows possession.
//!
//! There is no clock, no file and no socket in this crate: bytes come in, time is an argument, proofs go out. A proof
//! is a type that one module alone can make: an [`Identity`] is a verified chain, a
//! [`Csr`] is a request whose signature was checked. Only [`tls`] names the TLS library.

pub mod ca;
pub mod cert;
pub mod csr;
mod der;
pub mod key;
pub mod name;
pub mod pem;
pub mod tls;

pub use ca::CertificateAuthority;
pub use cert::{CaBundle, Identity, UnverifiedCertificate};
pub use csr::Csr;
pub use key::KeyPair;
pub use name::Subject;
pub use rustls_pki_types::{CertificateDer, PrivateKeyDer};
