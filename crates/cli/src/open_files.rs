//! How many files and connections the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one: a shell allows 1,024 open files, and a server has one for each connection.
/// Where that cannot be done, the server goes on with what it has.
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
