//! Whether a caller may impersonate: the same authorizers are asked as for any request.

use policy::Attributes;

use super::{Authorization, forbidden};
use crate::authn::impersonation::Authorizer;
use crate::http::status::Status;

impl Authorizer for Authorization {
    async fn allow(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let outcome = self.ask(attributes).await;
        if outcome.is_allow() {
            return Ok(());
        }
        let reason = outcome.reason(attributes);
        // AN-150
        let reason = match outcome.error {
            Some(error) => format!("{error}: {reason}"),
            None => reason,
        };
        Err(forbidden(attributes, &reason))
    }

    fn refusal(attributes: &Attributes<'_>, reason: &str) -> Status {
        forbidden(attributes, reason)
    }
}
