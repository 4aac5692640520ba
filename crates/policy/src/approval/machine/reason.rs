//! The reason codes: every evaluation ends in exactly one (NB-61).

use std::fmt;

use super::check::Outcome;

/// Makes the enum of reasons, their codes, and the list of all.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Why a request was decided as it was. The names are what users see, and never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The code, as conditions, events and metrics carry it.
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
    /// No node can be called so (NB-87).
    BadNodeName,
    /// Approval of client certificates is switched off (NB-81).
    ClientApprovalDisabled,
    /// All checks of the client path passed (NB-96).
    ClientApproved,
    /// A node asks for its own next certificate: not for this approver to approve (NB-84).
    ClientRenewal,
    /// The common name is not the user that asks (NB-105).
    CommonNameMismatch,
    /// The current certificate and the node's egress addresses cover what is asked (NB-119).
    EgressApproved,
    /// An extension is requested that no kubelet requests (NB-108).
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
    /// Not one PKCS#10 request with a sound key, signed by it (NB-82).
    MalformedRequest,
    /// The network type of the cluster could not be read (NB-119).
    NetworkTypeUnknown,
    /// No path authorizes the names that are asked for (NB-109).
    NoAuthorizationPath,
    /// There is a Node of that name already (NB-88).
    NodeAlreadyExists,
    /// The Node could not be read (NB-88).
    NodeLookupFailed,
    /// No Machine refers to the node yet (NB-114).
    NodeRefPending,
    /// The user that asks is not a node (NB-102).
    NotANodeRequest,
    /// A check could not be carried out; never a yes.
    NotEvaluated,
    /// Not what a kubelet asks for (NB-83).
    NotKubeletClient,
    /// Too far from the time at which the Machine was created (NB-93).
    OutsideMachineWindow,
    /// Too many requests wait (NB-72 to NB-74).
    PendingLimit,
    /// A name that is asked for is not the Machine's (NB-117).
    SANNotOwned,
    /// The Machine has every name that is asked for (NB-115, NB-116).
    ServingApproved,
    /// The kubelet's current certificate has the same names (NB-112).
    ServingRenewed,
    /// A newer request for the same name waits (NB-75).
    Superseded,
    /// The organization is not the nodes' group alone (NB-106).
    WrongOrganization,
    /// Not the bootstrap user (NB-85).
    WrongRequester,
    /// The groups of the user are not those that it must have (NB-86, NB-103).
    WrongRequesterGroups,
    /// Other usages than a serving certificate's (NB-104).
    WrongUsages,
}

impl Reason {
    /// What follows when a check fails for this reason, before the deny mode is looked at.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::ClientApproved | Self::ServingApproved | Self::ServingRenewed | Self::EgressApproved => {
                Outcome::Approve
            }
            Self::MachineAddressesPending
            | Self::MachineLookupFailed
            | Self::MachineNotFound
            | Self::NetworkTypeUnknown
            | Self::NoAuthorizationPath
            | Self::NodeLookupFailed
            | Self::NodeRefPending
            | Self::SANNotOwned => Outcome::Retry,
            _ => Outcome::Hold,
        }
    }

    /// Whether the request is one that no honest kubelet makes; such a request is denied where the configuration
    /// says so (NB-60).
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

    /// Whether what is missing usually comes soon, so that it is looked at again within 15 seconds (NB-63).
    pub fn comes_soon(self) -> bool {
        matches!(self, Self::MachineNotFound | Self::MachineAddressesPending | Self::NodeRefPending)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
