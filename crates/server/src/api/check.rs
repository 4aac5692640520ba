//! The health checks of `/livez` and `/readyz`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A single health check.
pub struct Check {
    /// The name of the check in the path and in the list.
    pub name: &'static str,
    /// Whether a server that fails the check should be restarted. If not, it is only taken out of service.
    pub is_vital: bool,
    /// Runs the check, and returns an error message on failure.
    pub run: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl Check {
    /// Creates the check that succeeds whenever the server can answer at all.
    pub fn ping() -> Self {
        Self { name: "ping", is_vital: true, run: Box::new(|| Ok(())) }
    }

    /// Creates the check of something that is done before the server answers, under the name that it has in
    /// kube-apiserver.
    pub(crate) fn done_at_start(name: &'static str) -> Self {
        Self { name, is_vital: true, run: Box::new(|| Ok(())) }
    }

    /// Creates the check that fails once the server is shutting down.
    pub(crate) fn shutdown(is_shutting_down: Arc<AtomicBool>) -> Self {
        let run = move || match is_shutting_down.load(Ordering::Relaxed) {
            true => Err("the server is about to stop".to_owned()),
            false => Ok(()),
        };
        Self { name: "shutdown", is_vital: false, run: Box::new(run) }
    }
}
