//! The outcomes and the reason codes: every evaluation ends in exactly one of each (NB-60, NB-61).

use std::fmt;

/// The outcome for a request (NB-60).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Approved: all rules hold.
    Approve,
    /// Left pending: a rule failed permanently, but another approver may decide.
    Hold,
    /// Retried: a rule could not be evaluated, or may soon hold.
    Retry,
    /// Denied.
    Deny,
}

impl Outcome {
    /// The name in annotations, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Hold => "hold",
            Self::Retry => "retry",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Defines the enum of reasons, their codes, and the list of all.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The reason of a decision. Users see the names, so they never change.
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
    /// Two different Machines have the node's name (NB-90).
    AmbiguousMachine,
    /// The name is not a valid node name (NB-87).
    BadNodeName,
    /// Approval of client certificates is disabled (NB-81).
    ClientApprovalDisabled,
    /// All checks of the client path passed (NB-96).
    ClientApproved,
    /// A node renews its own client certificate, which this approver does not handle (NB-84).
    ClientRenewal,
    /// The common name is not the requester's user name (NB-105).
    CommonNameMismatch,
    /// Another key is requested for the same name (NB-75a).
    ContestedIdentity,
    /// The current certificate and the node's egress addresses cover the requested names (NB-119).
    EgressApproved,
    /// The request contains an extension that no kubelet requests (NB-108).
    ForbiddenExtension,
    /// A subject alternative name that no node may have (NB-107).
    ForbiddenSAN,
    /// Another key already has a certificate for this node (NB-94).
    IdentityAlreadyGranted,
    /// The Machine has no addresses yet (NB-117).
    MachineAddressesPending,
    /// The Machine already has its node (NB-91).
    MachineHasNode,
    /// Machines could not be read.
    MachineLookupFailed,
    /// No Machine has the node's name (NB-89).
    MachineNotFound,
    /// The Machine is being deleted, or failed (NB-92).
    MachineNotLive,
    /// A Machine that may have the name exists but cannot be decoded (NB-89).
    MachineUnreadable,
    /// Not a single PKCS#10 request that is signed with its own, acceptable key (NB-82).
    MalformedRequest,
    /// The network type of the cluster could not be read (NB-119).
    NetworkTypeUnknown,
    /// No path authorizes the requested names (NB-109).
    NoAuthorizationPath,
    /// A Node of that name already exists (NB-88).
    NodeAlreadyExists,
    /// The Node could not be read (NB-88).
    NodeLookupFailed,
    /// No Machine refers to the node yet (NB-114).
    NodeRefPending,
    /// The requester is not a node (NB-102).
    NotANodeRequest,
    /// A check could not be evaluated; never approves.
    NotEvaluated,
    /// The request is not that of a kubelet (NB-83).
    NotKubeletClient,
    /// Too far from the time at which the Machine was created (NB-93).
    OutsideMachineWindow,
    /// Too many requests are pending (NB-72 to NB-74).
    PendingLimit,
    /// The Machine does not have a requested name (NB-117).
    SANNotOwned,
    /// The Machine has every requested name (NB-115, NB-116).
    ServingApproved,
    /// The kubelet's current certificate has the same names (NB-112).
    ServingRenewed,
    /// A newer request for the same name is pending (NB-75).
    Superseded,
    /// The organization is not the nodes' group alone (NB-106).
    WrongOrganization,
    /// The requester is not a bootstrap user (NB-85).
    WrongRequester,
    /// The requester does not have the required groups (NB-86, NB-103).
    WrongRequesterGroups,
    /// The usages are not those of a serving certificate (NB-104).
    WrongUsages,
}

impl Reason {
    /// The outcome of a check that fails for this reason, before the deny mode is applied.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::ClientApproved | Self::ServingApproved | Self::ServingRenewed | Self::EgressApproved => {
                Outcome::Approve
            }
            Self::MachineAddressesPending
            | Self::MachineLookupFailed
            | Self::MachineNotFound
            | Self::MachineUnreadable
            | Self::NetworkTypeUnknown
            | Self::NoAuthorizationPath
            | Self::NodeLookupFailed
            | Self::NodeRefPending
            | Self::SANNotOwned => Outcome::Retry,
            _ => Outcome::Hold,
        }
    }

    /// Returns whether the request is one that no legitimate kubelet sends. The configuration can have such requests
    /// denied (NB-60).
    pub fn is_forged(self) -> bool {
        matches!(
            self,
            Self::NotKubeletClient
                | Self::WrongRequester
                | Self::WrongRequesterGroups
                | Self::BadNodeName
                | Self::WrongUsages
                | Self::CommonNameMismatch
                | Self::WrongOrganization
                | Self::ForbiddenSAN
                | Self::ForbiddenExtension
        )
    }

    /// Returns whether the missing data usually arrives soon, so that the request is retried within 15 seconds (NB-63).
    pub fn comes_soon(self) -> bool {
        matches!(self, Self::MachineNotFound | Self::MachineAddressesPending | Self::NodeRefPending)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
