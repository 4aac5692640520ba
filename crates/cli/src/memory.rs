//! Memory settings.

/// Disables huge pages, which only the decision engine benefits from: programs with many small long-lived allocations,
/// such as connections, use less memory without them. If that fails, the process is larger.
pub(crate) fn keep_small() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "cannot disable huge pages");
    }
}
