//! Selects the requests that are evaluated (NB-50 to NB-52).

use super::config::Config;
use super::request::Request;
use crate::approval::Signer;
use crate::identity::NODES_GROUP;

/// The signer of kubelets' client certificates.
pub const KUBE_APISERVER_CLIENT_KUBELET: &str = Signer::KubeApiserverClientKubelet.name();
/// The signer of kubelets' serving certificates.
pub const KUBELET_SERVING: &str = Signer::KubeletServing.name();

/// The set of checks, which depends on the signer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignerPath {
    /// A client certificate: the identity of a node.
    Client,
    /// A serving certificate.
    Serving,
}

impl SignerPath {
    /// Returns the path of a signer; `None` for signers that the approver does not handle (NB-50).
    pub fn of(signer_name: &str) -> Option<Self> {
        match Signer::named(signer_name)? {
            Signer::KubeApiserverClientKubelet => Some(Self::Client),
            Signer::KubeletServing => Some(Self::Serving),
            _ => None,
        }
    }
}

/// Whether a request is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    /// Yes, on this path.
    Evaluate(SignerPath),
    /// No.
    Ignored(Ignored),
}

/// Why a request is not evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// It is for another signer (NB-50).
    ForeignSigner,
    /// A serving certificate that was not requested by a node (NB-51).
    NotByANode,
    /// A client certificate that was not requested by a bootstrap user (NB-51).
    NotByABootstrapUser,
    /// It is approved, denied, failed or issued (NB-52).
    Decided,
}

impl Ignored {
    /// A sentence for the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ForeignSigner => "it is for another signer",
            Self::NotByANode => "it is not by a member of system:nodes",
            Self::NotByABootstrapUser => "it is not by a bootstrap user",
            Self::Decided => "it is decided already",
        }
    }
}

/// Decides whether a request is evaluated (NB-50 to NB-52). The signer is checked first.
pub fn intake(request: &Request, config: &Config) -> Intake {
    let Some(path) = SignerPath::of(&request.signer_name) else {
        return Intake::Ignored(Ignored::ForeignSigner);
    };
    match path {
        SignerPath::Serving if !request.groups.iter().any(|group| group == NODES_GROUP) => {
            Intake::Ignored(Ignored::NotByANode)
        }
        SignerPath::Client if !is_bootstrap_user(&request.username, config) => {
            Intake::Ignored(Ignored::NotByABootstrapUser)
        }
        _ if !request.is_pending() => Intake::Ignored(Ignored::Decided),
        _ => Intake::Evaluate(path),
    }
}

/// Returns whether the user is one that may bootstrap nodes, byte for byte (NB-85).
pub(super) fn is_bootstrap_user(username: &str, config: &Config) -> bool {
    config.bootstrap_users.iter().any(|user| user.to_string() == username)
}
