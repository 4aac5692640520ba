//! The limit of open files and connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one: shells allow 1,024 open files, and a server needs one for each connection. If
/// that fails, the server continues with the current limit.
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => tracing::debug!(from = current, to = maximum, "raised the limit of open files"),
        Err(error) => {
            tracing::warn!(%error, limit = current, "cannot raise the limit of open files, and so of connections");
        }
    }
}
