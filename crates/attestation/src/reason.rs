//! The reason codes of refusals.

use std::fmt;

/// Defines the enum of reasons, their codes, and the list of all.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The reason of a refusal. Users see the names, so they never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The code in conditions, events and metrics.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

reasons! {
    /// The TPM did not open the secret: the attestation key is not in the TPM with the endorsement key (AT-119.8).
    ActivationFailed,
    /// The attestation key is not a restricted signing key that cannot leave its TPM (AT-119.7).
    AkTemplate,
    /// A statement is of another type, is not signed by the attestation key, or is for another challenge or request
    /// (AT-119.9).
    AttestInvalid,
    /// The statement that the key was created is about other data or another key, or is missing (AT-119.13).
    CreationInvalid,
    /// The certificate of the endorsement key is malformed, expired, or not for an endorsement key (AT-119.2).
    EkCertInvalid,
    /// No chain leads from the certificate of the endorsement key to a trusted root (AT-119.3).
    EkChainUntrusted,
    /// The certificate is for another endorsement key (AT-119.4).
    EkMismatch,
    /// The endorsement key does not belong to this machine (AT-119.6).
    EkNotForMachine,
    /// The endorsement key is not a restricted decryption key that cannot leave its TPM (AT-119.5).
    EkTemplate,
    /// The key in the certificate request is not protected well enough (AT-119.11).
    KeyClassTooLow,
    /// The key in the certificate request is not the key that the TPM certified (AT-119.10).
    KeyNotBound,
    /// The key is not bound to the expected PCRs (AT-119.12).
    KeyPolicy,
    /// The PCRs do not have the expected values, or are not those of the policy (AT-119.14).
    PcrPolicy,
    /// The TPM was reset less often than before (AT-119.15).
    TpmClock,
    /// A structure of the TPM is malformed or of an unsupported kind (AT-119.1).
    TpmMalformed,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
