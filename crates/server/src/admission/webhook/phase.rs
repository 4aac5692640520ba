//! The two phases of admission.

/// When a webhook is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before validation: it may change the object.
    Mutating,
    /// After validation: it may only refuse.
    Validating,
}

impl Phase {
    /// The name in metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Mutating => "admit",
            Self::Validating => "validating",
        }
    }
}
