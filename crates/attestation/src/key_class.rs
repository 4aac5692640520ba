//! How well a key is protected.

use std::fmt;

/// How well a key is protected, as far as verification shows (AT-117). Higher is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyClass {
    /// A software key. No TPM says anything about it.
    K0,
    /// A software key that was loaded into the TPM: the TPM had it once, and so may others.
    K1,
    /// A key that the TPM generated, and that cannot leave it.
    K2,
    /// As K2, and the TPM uses the key only while its PCRs have the expected values.
    K3,
}

impl KeyClass {
    /// Every class, the lowest first.
    pub const ALL: [Self; 4] = [Self::K0, Self::K1, Self::K2, Self::K3];

    /// Reads the name of a class, such as `K2`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.to_string() == name)
    }
}

impl fmt::Display for KeyClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
