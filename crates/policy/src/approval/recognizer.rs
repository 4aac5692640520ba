//! Requests that are approved when their requester may have them without being asked (CS-80 to CS-84, NR-108).

use super::{Asked, Signer};
use crate::Attributes;
use crate::request::{ResourceRequest, User};

/// A kind of request that is recognized, in the order of the checks (CS-81).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recognizer {
    /// A node requests a certificate for itself.
    SelfNodeClient,
    /// A user requests a certificate for a node.
    NodeClient,
}

impl Recognizer {
    /// The recognizers that match a request of this user to this signer, in order.
    pub fn of(signer: Option<Signer>, username: &str, asked: &Asked<'_>) -> impl Iterator<Item = Self> {
        let kubelet = Signer::KubeApiserverClientKubelet;
        let is_kubelet_client = signer == Some(kubelet) && kubelet.check(asked).is_ok();
        let is_self = username == asked.common_name;
        [Self::SelfNodeClient, Self::NodeClient]
            .into_iter()
            .filter(move |recognizer| is_kubelet_client && (is_self || *recognizer == Self::NodeClient))
    }

    /// The attributes of the access check that decides: whether the requester may create this subresource.
    pub fn question(self, requester: &User) -> Attributes<'_> {
        let resource = ResourceRequest {
            group: "certificates.k8s.io",
            version: "*",
            resource: "certificatesigningrequests",
            subresource: match self {
                Self::SelfNodeClient => "selfnodeclient",
                Self::NodeClient => "nodeclient",
            },
            ..ResourceRequest::default()
        };
        Attributes { user: requester, verb: "create", path: "", resource: Some(resource) }
    }

    /// The message of the approval.
    pub const fn message(self) -> &'static str {
        match self {
            Self::SelfNodeClient => {
                "Auto approving self kubelet client certificate after SubjectAccessReview."
            }
            Self::NodeClient => "Auto approving kubelet client certificate after SubjectAccessReview.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_oneself_is_tried_both_ways_cs_81_cs_83() {
        let asked = Asked {
            common_name: "system:node:n1",
            organizations: &["system:nodes"],
            usages: &["client auth", "digital signature"],
            ..Asked::default()
        };
        let of = |signer, user, asked| Recognizer::of(signer, user, asked).collect::<Vec<_>>();
        let kubelet = Some(Signer::KubeApiserverClientKubelet);
        let both = [Recognizer::SelfNodeClient, Recognizer::NodeClient];
        assert_eq!(of(kubelet, "system:node:n1", &asked), both);
        assert_eq!(of(kubelet, "system:node:n2", &asked), [Recognizer::NodeClient]);
        assert_eq!(of(Some(Signer::KubeApiserverClient), "system:node:n1", &asked), []);
        assert_eq!(of(None, "system:node:n1", &asked), []);
        let with_name = Asked { dns_names: 1, ..asked };
        assert_eq!(of(kubelet, "system:node:n1", &with_name), []);
    }
}
