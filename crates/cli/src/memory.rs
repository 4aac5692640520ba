//! How memory is asked for from the system.

/// Gives large pages up, which the decision engine is built for: what holds many small things for a long time, as
/// connections are, is better off without. Where that cannot be done, the process is larger.
pub(crate) fn keep_small() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "large pages stay in use");
    }
}
