//! May they? Every check of a request must pass; for each, one allowed subresource is enough (KA-54).

use policy::kubelet_api::{Check, KubeletRequest};
use policy::{Attributes, User};
use portcullis_client::rbac::LocalRbac;
use portcullis_client::review::{Opinion, ReviewError, Reviews};
use portcullis_policy as policy;

/// Who is asked.
#[derive(Clone)]
pub enum Member {
    /// Nobody: whoever is known may do everything (KA-51).
    AlwaysAllow,
    /// The roles and bindings of the cluster, followed. No review is sent for what they allow.
    Rbac(LocalRbac),
    /// The API server, by SubjectAccessReviews (KA-52).
    Webhook(Reviews),
}

impl Member {
    fn name(&self) -> &'static str {
        match self {
            Self::AlwaysAllow => "AlwaysAllow",
            Self::Rbac(_) => "RBAC",
            Self::Webhook(_) => "Webhook",
        }
    }
}

/// The members, in the order in which they are asked. Without any, nothing is allowed.
#[derive(Clone, Default)]
pub struct Authorization {
    members: Vec<Member>,
}

/// The proof that a request may go to the kubelet: only this module makes one.
#[derive(Debug)]
pub(super) struct Granted {
    /// By which verb and subresource; the last, where several were needed.
    pub(super) verb: &'static str,
    pub(super) subresource: &'static str,
    /// Who said so.
    pub(super) by: &'static str,
}

/// No such proof.
pub(super) enum Refused {
    /// Nobody allows it.
    Forbidden(Missing),
    /// Somebody cannot be asked. Nothing further is tried (KA-54, KA-56).
    Failed(Missing, AuthorizationError),
}

/// What was not allowed.
pub(super) struct Missing {
    pub(super) verb: &'static str,
    pub(super) tried: &'static [&'static str],
    /// What the caller is told (KA-58).
    pub(super) body: String,
}

impl Missing {
    fn of(check: &Check<'_>, body: String) -> Self {
        Self { verb: check.verb, tried: check.subresources, body }
    }
}

/// Why there is no decision.
#[derive(Debug, thiserror::Error)]
pub(super) enum AuthorizationError {
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error("roles and bindings are not known, or were not heard of for too long")]
    NotCurrent,
}

impl Authorization {
    /// Asks these, in this order.
    pub fn new(members: Vec<Member>) -> Self {
        Self { members }
    }

    /// Decides about a request to the kubelet of this node.
    pub(super) async fn authorize(
        &self,
        request: &KubeletRequest<'_>,
        user: &User,
        node_name: &str,
    ) -> Result<Granted, Refused> {
        let mut granted = None;
        for check in request.checks() {
            granted = Some(self.pass(check, user, node_name).await?);
        }
        // KA-59
        let nothing = || Missing { verb: request.verb(), tried: &[], body: "Forbidden\n".to_owned() };
        granted.ok_or_else(|| Refused::Forbidden(nothing()))
    }

    async fn pass(&self, check: Check<'_>, user: &User, node_name: &str) -> Result<Granted, Refused> {
        for (attributes, &subresource) in check.attributes(user, node_name).zip(check.subresources) {
            match self.decide(&attributes).await {
                Ok(Some(by)) => return Ok(Granted { verb: check.verb, subresource, by }),
                Ok(None) => {}
                Err(error) => {
                    let missing = Missing::of(&check, check.failed(&user.name, subresource));
                    return Err(Refused::Failed(missing, error));
                }
            }
        }
        Err(Refused::Forbidden(Missing::of(&check, check.forbidden(&user.name))))
    }

    /// Who allows this, if anybody does. Deny and no opinion are alike (KA-54).
    async fn decide(&self, attributes: &Attributes<'_>) -> Result<Option<&'static str>, AuthorizationError> {
        let (mut is_blind, mut is_answered) = (false, false);
        for member in &self.members {
            let allows = match member {
                Member::AlwaysAllow => true,
                Member::Rbac(rbac) => match rbac.authorize(attributes) {
                    Some(decision) => decision.is_allow(),
                    None => {
                        is_blind = true;
                        false
                    }
                },
                Member::Webhook(reviews) => {
                    // The API server's answer counts in the place of what cannot be known here.
                    is_answered = true;
                    reviews.access(attributes).await? == Opinion::Allow
                }
            };
            if allows {
                return Ok(Some(member.name()));
            }
        }
        if is_blind && !is_answered { Err(AuthorizationError::NotCurrent) } else { Ok(None) }
    }
}
