//! The form in which a client gets objects of a kind.

use crate::http::negotiate::Accepted;

/// The part of its object that a table row includes (AP-90).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Include {
    Metadata,
    None,
    Object,
}

/// The form of a document. In the same form, the same state of an object has the same document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    /// The addresses of the kind as it is stored and as it is served.
    pub(super) kinds: [usize; 2],
    /// What the client accepts.
    pub(super) accepted: Accepted,
    /// What the rows of a table include.
    pub(super) include: Include,
    /// Whether a table begins with its columns.
    pub(super) has_columns: bool,
    /// When a table was made, because its rows tell ages. In seconds.
    pub(super) at: i64,
}
