//! Stop signals.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The signals that tell a program to stop: SIGTERM and SIGINT. A program that handles them before it says that it is ready
/// stops in order whenever it is told to; a signal without a handler kills it.
#[derive(Debug)]
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Handles the signals from now on. One that arrives before somebody waits for it is not lost.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub(crate) fn handle() -> Result<Self, Failure> {
        let install = |kind| {
            signal(kind)
                .map_err(|error| Failure::unreachable(format_args!("cannot handle stop signals: {error}")))
        };
        Ok(Self {
            terminate: install(SignalKind::terminate())?,
            interrupt: install(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
