//! The signals that mean stop.

use tokio::signal::unix::{SignalKind, signal};

/// Ends when the process is told to stop. Without handlers it never does: signals then end the process at once, and whoever
/// waits for this can bear that.
pub(crate) async fn told() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
