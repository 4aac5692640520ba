//! For whom a token vouches.

use std::sync::Arc;

use policy::User;

use super::caller::Caller;

/// Remarks on a credential that was accepted.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    /// For the client.
    pub(super) warning: Option<&'static str>,
    /// For the audit log.
    pub(super) annotations: Vec<(&'static str, String)>,
}

/// The user of a token, and the accepted ones of the requested audiences.
#[derive(Debug)]
pub(super) struct Vouched {
    user: Arc<User>,
    audiences: Vec<String>,
    notes: Notes,
}

impl Vouched {
    pub(super) fn new(user: Arc<User>, audiences: Vec<String>, notes: Notes) -> Self {
        Self { user, audiences, notes }
    }

    pub(super) fn into_caller(self) -> Caller {
        let Notes { warning, annotations } = self.notes;
        Caller { warning, annotations, ..Caller::of(self.user) }
    }

    pub(super) fn into_parts(self) -> (Arc<User>, Vec<String>) {
        (self.user, self.audiences)
    }
}

/// Returns the wanted audiences that are in the list, in the order of the wanted ones.
pub(super) fn shared(these: &[String], wanted: &[String]) -> Vec<String> {
    wanted.iter().filter(|audience| these.contains(audience)).cloned().collect()
}
