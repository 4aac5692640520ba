//! What an operator asks of TPMs, and what is known about a machine.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_pki::tpm::endorsement::Roots;

use crate::key_class::KeyClass;
use crate::seen_clock::SeenClock;

/// What an operator asks of TPMs.
#[derive(Debug)]
pub struct Policy {
    /// Which endorsement keys are trusted.
    pub trust: Trust,
    /// The lowest class of keys that get a certificate: K1, K2 or K3. K0 is taken for K1.
    pub minimum: KeyClass,
    /// The digest of the PCR policy that keys of class K3 have; empty if there is none.
    pub key_policy: Vec<u8>,
    /// Whether the TPM must state that it created the key.
    pub requires_creation: bool,
    /// What is asked of the PCRs.
    pub pcrs: PcrPolicy,
}

/// Which endorsement keys are trusted (AT-112).
#[derive(Debug)]
pub enum Trust {
    /// Those with a certificate of these authorities (`cert`).
    Certificate(Roots),
    /// Those that are listed for the machine (`hash`).
    Digest,
    /// Those with a certificate that are also listed (`cert-and-hash`).
    CertificateAndDigest(Roots),
    /// The one that the platform reports for the machine (`platform`).
    Platform,
}

impl Trust {
    /// The authorities, if a certificate is needed.
    pub(super) fn roots(&self) -> Option<&Roots> {
        match self {
            Self::Certificate(roots) | Self::CertificateAndDigest(roots) => Some(roots),
            Self::Digest | Self::Platform => None,
        }
    }
}

/// What is asked of the PCRs (AT-119.14).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PcrPolicy {
    /// Whether a quote is needed, and its values must be accepted ones.
    pub mode: PcrMode,
    /// The PCRs of the SHA-256 bank that a quote must have.
    pub selection: BTreeSet<u32>,
    /// The accepted values.
    pub accepted: Accepted,
}

/// Whether PCRs are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PcrMode {
    /// They are not. A quote is verified nevertheless if there is one.
    #[default]
    None,
    /// Their values are reported.
    Record,
    /// Their values must be accepted ones.
    Enforce,
}

/// Accepted values of PCRs: of each PCR, or of all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The accepted values of each PCR. A PCR without an entry has none.
    pub values: BTreeMap<u32, BTreeSet<Vec<u8>>>,
    /// The accepted digests of all values of the selection.
    pub composites: BTreeSet<Vec<u8>>,
}

/// What is known about the machine that the node claims to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The digests of the endorsement keys that are listed for it.
    pub listed: BTreeSet<[u8; 32]>,
    /// The digest of the endorsement key that the platform reports for it.
    pub platform: Option<[u8; 32]>,
    /// The clock of its TPM, as it was seen last.
    pub clock: Option<SeenClock>,
}
