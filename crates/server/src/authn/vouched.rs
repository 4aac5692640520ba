//! For whom a token vouches.

use std::sync::Arc;

use policy::User;

use super::caller::Caller;

/// The user of a token, and the accepted ones of the requested audiences.
#[derive(Debug)]
pub(super) struct Vouched {
    user: Arc<User>,
    audiences: Vec<String>,
    warning: Option<&'static str>,
}

impl Vouched {
    pub(super) fn new(user: Arc<User>, audiences: Vec<String>, warning: Option<&'static str>) -> Self {
        Self { user, audiences, warning }
    }

    pub(super) fn into_caller(self) -> Caller {
        Caller { warning: self.warning, ..Caller::of(self.user) }
    }

    pub(super) fn into_parts(self) -> (Arc<User>, Vec<String>) {
        (self.user, self.audiences)
    }
}

/// Returns the wanted audiences that are in the list, in the order of the wanted ones.
pub(super) fn shared(these: &[String], wanted: &[String]) -> Vec<String> {
    wanted.iter().filter(|audience| these.contains(audience)).cloned().collect()
}
