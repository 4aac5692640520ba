//! The audit settings of one request, which follow from the policy.

use super::level::{Level, Stages};

/// The API version of policies and events.
pub(super) const API_VERSION: &str = "audit.k8s.io/v1";

/// The parts of one request that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The level.
    pub level: Level,
    /// The stages that are not logged.
    pub omitted: Stages,
    /// Whether `managedFields` are removed from objects.
    pub omits_managed_fields: bool,
    /// Whether messages that may quote a body are left out.
    pub omits_messages: bool,
}

impl Wanted {
    /// Nothing, for requests that match no rule.
    pub const NOTHING: Self = Self {
        level: Level::None,
        omitted: Stages::NONE,
        omits_managed_fields: false,
        omits_messages: false,
    };
}
