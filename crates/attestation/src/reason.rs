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
    /// The answer to the challenge is not that of the enrolled machine (AT-104).
    AnswerInvalid,
    /// A statement is of another type, is not signed by the attestation key, or is for another challenge or request
    /// (AT-119.9).
    AttestInvalid,
    /// The cluster does not trust this attestor, or the signer is that of another one (AT-60).
    AttestorNotAuthorized,
    /// The Machine has no bootstrap data yet (AT-63). It may have soon.
    BootstrapNotReady,
    /// The challenge has expired, or is not one for this request (AT-103).
    ChallengeInvalid,
    /// The challenge of this request was answered by another request, or has expired (AT-101).
    ChallengeSuperseded,
    /// The common name is not that of the requester, or of the machine that the provider names (AT-67).
    CommonNameMismatch,
    /// The statement that the key was created is about other data or another key, or is missing (AT-119.13).
    CreationInvalid,
    /// The certificate of the endorsement key is malformed, expired, or not for an endorsement key (AT-119.2).
    EkCertInvalid,
    /// No chain leads from the certificate of the endorsement key to a trusted root (AT-119.3).
    EkChainUntrusted,
    /// Another Machine has the same TPM, enrolled key or document (AT-152).
    EkInUse,
    /// The certificate is for another endorsement key (AT-119.4).
    EkMismatch,
    /// The endorsement key does not belong to this machine (AT-119.6).
    EkNotForMachine,
    /// The endorsement key is not a restricted decryption key that cannot leave its TPM (AT-119.5).
    EkTemplate,
    /// The one-time secret of the machine was already used (AT-104).
    EnrolmentUsed,
    /// The evidence is for another certificate request (AT-53).
    EvidenceNotForThisRequest,
    /// The evidence was already used by another request (AT-156).
    EvidenceReplayed,
    /// The evidence was made long before or after the request (AT-156).
    EvidenceStale,
    /// The request contains an extension that no kubelet requests (AT-66).
    ForbiddenExtension,
    /// An administrator has revoked the identity of the machine (AT-153).
    IdentityRevoked,
    /// The key in the certificate request is not protected well enough (AT-119.11).
    KeyClassTooLow,
    /// The key in the certificate request is not the key that the TPM certified (AT-119.10).
    KeyNotBound,
    /// The key is not bound to the expected PCRs (AT-119.12).
    KeyPolicy,
    /// There is no Machine for the node (AT-62).
    MachineNotFound,
    /// The request or its evidence is malformed (AT-61).
    MalformedAttestation,
    /// A check could not be evaluated; never verifies (AT-70).
    NotEvaluated,
    /// The node did not prove its machine, or asks with another certificate than it got for that (AT-174).
    NotAttested,
    /// The machine is not enrolled with this attestor (AT-100).
    NotEnrolled,
    /// The request has alternative names, which no client certificate of a kubelet has (AT-69).
    NotKubeletClient,
    /// The PCRs do not have the expected values, or are not those of the policy (AT-119.14).
    PcrPolicy,
    /// The provider ID of the request is not that of the Machine (AT-62).
    ProviderIDMismatch,
    /// The attestor failed, or took too long (AT-71).
    ProviderFailed,
    /// The identity record cannot be read or written (AT-154).
    RecordUnavailable,
    /// The attestor issues no certificate to a node that has one (AT-92).
    RotationNotSupported,
    /// The attestor proves no serving certificates (AT-92).
    ServingNotSupported,
    /// Another device than at the first time proved the identity of the machine (AT-151).
    TofuMismatch,
    /// The machine got too many certificates in a short time (AT-156).
    TooManyCertificates,
    /// The TPM was reset less often than before (AT-119.15).
    TpmClock,
    /// A structure of the TPM is malformed or of an unsupported kind (AT-119.1).
    TpmMalformed,
    /// The evidence has a version that is not known (AT-160).
    UnsupportedAttestationVersion,
    /// The organization is not the nodes' group alone (AT-68).
    WrongOrganization,
    /// The requester does not have the required groups (AT-64).
    WrongRequesterGroups,
    /// The usages are not those of a client certificate of a kubelet (AT-65).
    WrongUsages,
}

impl Reason {
    /// Returns whether the refusal may pass by itself, so that the request stays pending (AT-35, AT-70).
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::BootstrapNotReady
                | Self::MachineNotFound
                | Self::NotEvaluated
                | Self::ProviderFailed
                | Self::RecordUnavailable
                | Self::TooManyCertificates
        )
    }

    /// Returns whether a node that is refused for this reason can succeed with a new request (AT-35).
    pub fn may_ask_again(self) -> bool {
        self.is_transient()
            || matches!(
                self,
                Self::ChallengeInvalid
                    | Self::ChallengeSuperseded
                    | Self::EvidenceStale
                    | Self::UnsupportedAttestationVersion
            )
    }

    /// Reads a code.
    pub fn named(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == code)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
