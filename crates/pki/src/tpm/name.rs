//! Names of objects in a TPM.

use std::fmt;

use super::hash::HashAlgorithm;

/// The name of an object: the number of a hash function, and the hash of the object's public area. It identifies a key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    /// The name of an object with this public area (TPMT_PUBLIC).
    pub(super) fn of(hash: HashAlgorithm, public_area: &[u8]) -> Self {
        let mut name = hash.id().to_be_bytes().to_vec();
        name.extend(hash.digest(&[public_area]));
        Self(name)
    }

    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Name {
    /// In hexadecimal digits, as `tpm2_readpublic` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}
