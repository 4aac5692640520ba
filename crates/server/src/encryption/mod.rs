//! Encryption at rest of a server: the file of `--encryption-provider-config`, and its reload (ET-50, ET-51).
//!
//! The ciphers and the calls of KMS plug-ins are in [`portcullis_store::encryption`].

mod configuration;
mod reload;

pub use self::configuration::{EncryptionError, read};
pub use self::reload::{EncryptionConfig, Reloader};
