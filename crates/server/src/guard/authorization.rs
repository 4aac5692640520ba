//! Authorization of requests to a kubelet. Every check of a request must pass; for each check one allowed subresource
//! is enough (KA-54).

use policy::kubelet_api::{Check, KubeletRequest};
use policy::{Attributes, User};
use portcullis_client::rbac::LocalRbac;
use portcullis_client::review::{ReviewError, Reviews};

/// An authorizer.
#[derive(Clone)]
pub enum Member {
    /// No checks: every authenticated user is allowed everything (KA-51).
    AlwaysAllow,
    /// The watched roles and bindings of the cluster. What they allow needs no review.
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

/// The authorizers, in order. Without any, nothing is allowed.
#[derive(Clone, Default)]
pub struct Authorization {
    members: Vec<Member>,
}

/// Proof that a request may be forwarded to the kubelet. Only this module can make one.
#[derive(Debug)]
pub(super) struct Granted {
    /// The allowed verb and subresource; the last ones if several were needed.
    pub(super) verb: &'static str,
    pub(super) subresource: &'static str,
    /// The authorizer that allowed it.
    pub(super) by: &'static str,
}

/// The request was not authorized.
pub(super) enum Refused {
    /// No authorizer allows it.
    Forbidden(Missing),
    /// An authorizer failed. No further check is made (KA-54, KA-56).
    Failed(Missing, AuthorizationError),
}

/// The permission that was missing.
pub(super) struct Missing {
    pub(super) verb: &'static str,
    pub(super) tried: &'static [&'static str],
    /// The message for the caller (KA-58).
    pub(super) body: String,
}

impl Missing {
    fn of(check: &Check<'_>, body: String) -> Self {
        Self { verb: check.verb, tried: check.subresources, body }
    }
}

/// An error that prevents a decision.
#[derive(Debug, thiserror::Error)]
pub(super) enum AuthorizationError {
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error("roles and bindings are not known, or were not heard of for too long")]
    NotCurrent,
}

impl Authorization {
    /// Creates an authorization that calls these authorizers in order.
    pub fn new(members: Vec<Member>) -> Self {
        Self { members }
    }

    /// Authorizes a request to the kubelet of this node.
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

    /// Returns the authorizer that allows this, if any. Deny and no opinion are alike (KA-54, KA-55).
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
                    // The API server's answer replaces what cannot be decided locally.
                    is_answered = true;
                    reviews.access(attributes).await?.is_allow()
                }
            };
            if allows {
                return Ok(Some(member.name()));
            }
        }
        if is_blind && !is_answered { Err(AuthorizationError::NotCurrent) } else { Ok(None) }
    }
}
