//! The authenticated caller of a request.
//!
//! A [`Caller`] is the proof that an authenticator has vouched for somebody: only authenticators can make one.

use std::sync::Arc;

use policy::User;
use policy::identity::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED};

/// AN-3, AN-45, AN-88
pub(super) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The authenticated user, and the user to act as, if impersonation was authorized.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(super) user: Arc<User>,
    /// The user who impersonates.
    pub(super) original: Option<Arc<User>>,
    /// The warning for the client about its credentials.
    pub(super) warning: Option<&'static str>,
    /// The audit annotations about the credentials.
    pub(super) annotations: Vec<(&'static str, String)>,
}

impl Caller {
    pub(super) fn of(user: Arc<User>) -> Self {
        Self { user, original: None, warning: None, annotations: Vec::new() }
    }

    /// Returns the effective user of the request.
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Returns the authenticated user, which differs from the effective one only with impersonation.
    pub fn original(&self) -> &Arc<User> {
        self.original.as_ref().unwrap_or(&self.user)
    }

    /// The warning for the client about its credentials.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        self.warning
    }

    /// The audit annotations about the credentials, by key.
    pub(crate) fn annotations(&self) -> &[(&'static str, String)] {
        &self.annotations
    }
}

/// AN-12
pub(super) fn join_authenticated(user: &mut User) {
    if user.name != ANONYMOUS && !user.in_group(AUTHENTICATED) && !user.in_group(UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
}

/// Returns whether the request is anonymous (AN-22).
pub fn is_anonymous(user: &User) -> bool {
    user.name == ANONYMOUS || user.in_group(UNAUTHENTICATED)
}
