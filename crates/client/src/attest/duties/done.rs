//! How far a duty is carried out.

/// Whether a duty is carried out as far as it can be.
pub(super) enum Done {
    Yes,
    /// It waits for something that may come at any time.
    NotYet,
}
