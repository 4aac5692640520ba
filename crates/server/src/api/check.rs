//! The health checks of `/healthz`, `/livez` and `/readyz`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::route::Probe;

/// A single health check.
pub struct Check {
    /// The name of the check in the path and in the list.
    pub name: &'static str,
    /// The endpoints that have the check: [`Check::VITAL`], [`Check::HEALTH`] or [`Check::READINESS`].
    pub endpoints: &'static [Probe],
    /// Runs the check, and returns an error message on failure.
    pub run: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl Check {
    /// All endpoints: a server that fails the check should be restarted.
    pub const VITAL: &'static [Probe] = &[Probe::Healthz, Probe::Livez, Probe::Readyz];
    /// All endpoints but `/livez`: the server is not well, and a restart would not help.
    pub const HEALTH: &'static [Probe] = &[Probe::Healthz, Probe::Readyz];
    /// `/readyz` alone: the server is well, and is only taken out of service.
    pub const READINESS: &'static [Probe] = &[Probe::Readyz];

    /// Creates the check that succeeds whenever the server can answer at all.
    pub fn ping() -> Self {
        Self { name: "ping", endpoints: Self::VITAL, run: Box::new(|| Ok(())) }
    }

    /// Creates the check of something that was done at the start, under the name that it has in kube-apiserver.
    pub(crate) fn done_at_start(name: &'static str) -> Self {
        Self { name, endpoints: Self::VITAL, run: Box::new(|| Ok(())) }
    }

    /// Creates the check of something that the start has still to do, with the reason that kube-apiserver gives. A restart
    /// would only do it again (ET-5).
    pub(crate) fn not_done_yet(name: &'static str, reason: &'static str) -> Self {
        Self { name, endpoints: Self::HEALTH, run: Box::new(|| Err(reason.to_owned())) }
    }

    /// Creates the check that fails once the server is shutting down.
    pub(crate) fn shutdown(is_shutting_down: Arc<AtomicBool>) -> Self {
        let run = move || match is_shutting_down.load(Ordering::Relaxed) {
            true => Err("the server is about to stop".to_owned()),
            false => Ok(()),
        };
        Self { name: "shutdown", endpoints: Self::READINESS, run: Box::new(run) }
    }
}
